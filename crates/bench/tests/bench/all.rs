//! Every experiment with every system that can be started, on small tables.

use crate::support::{cells, home, report, run};

#[test]
fn all_of_them_with_all_peers() {
    let home = home();
    let text = run(
        home.path(),
        &[
            "all",
            "--quick",
            "--start-peers=porpoise,mariadb,postgres,memcached,noop",
            "--rows",
            "600",
            "--clients",
            "4",
            "--runs",
            "1",
            "--time",
            "300ms",
            "--warm-up",
            "5ms",
            "--json",
            "a.json",
            "--csv",
            "a.csv",
            "--html",
            "a.html",
        ],
    );
    for line in [
        "machine    ",
        "disk       ",
        "system     Porpoise: ",
        "us x keys",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
    let header = text.find("machine    ").unwrap();
    let published = text.find("Average Throughput = ").unwrap();
    assert!(header < published, "the machine comes first");
    let file = home.path().join("a.json");
    let whole = report(&file);
    assert_eq!(whole["failure"], serde_json::Value::Null);
    for experiment in whole["experiments"].as_array().unwrap() {
        let notes = experiment["notes"].as_array().unwrap();
        let left_out = |n: &&serde_json::Value| n.to_string().contains("left out");
        assert_eq!(notes.iter().find(left_out), None, "a system was left out");
    }
    let cells = cells(&file);
    for (experiment, operation, system, cell) in &cells {
        let run = &cell["runs"][0];
        let what = format!("{experiment}, {operation}, {system}");
        assert_eq!(run["failure"], serde_json::Value::Null, "{what}");
        assert!(run["requests"].as_u64().unwrap() > 0, "{what}");
    }
    for name in [
        "kv",
        "mget",
        "fk",
        "autoinc",
        "blob",
        "connections",
        "native",
        "dump",
    ] {
        assert!(cells.iter().any(|(e, ..)| e == name), "{name}");
    }
    for name in [
        "Porpoise text",
        "Porpoise prepared",
        "Porpoise memcached",
        "MariaDB prepared",
        "PostgreSQL",
        "memcached",
        "no-op",
        "Porpoise, prefetch 256",
        "MariaDB, VARBINARY",
        "the engine alone",
    ] {
        assert!(cells.iter().any(|(_, _, s, _)| s == name), "{name}");
    }
    let lines = std::fs::read_to_string(home.path().join("a.csv")).unwrap();
    assert_eq!(
        lines.lines().count(),
        cells.len() + 1,
        "a line for each run"
    );
    merged(home.path());
}

/// Two files make one page with a facet for each machine.
fn merged(home: &std::path::Path) {
    let text = std::fs::read_to_string(home.join("a.json")).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    other["machine"]["host"] = "elsewhere".into();
    std::fs::write(home.join("b.json"), other.to_string()).unwrap();
    run(home, &["report", "a.json", "b.json", "--html", "both.html"]);
    let page = std::fs::read_to_string(home.join("both.html")).unwrap();
    assert!(page.contains("SELECT, elsewhere"));
    assert!(page.matches("<svg").count() > 40);
}

#[test]
fn kv_with_every_layout_of_postgresql() {
    let home = home();
    let words = [
        "kv",
        "--start-peers=postgres",
        "--rows",
        "300",
        "--runs",
        "1",
        "--time",
        "300ms",
        "--warm-up",
        "5ms",
        "--clients",
        "2",
        "--json",
        "a.json",
    ];
    run(home.path(), &words);
    let cells = cells(&home.path().join("a.json"));
    let names: Vec<&str> = cells.iter().map(|(_, _, s, _)| s.as_str()).collect();
    let each = ["PostgreSQL", "PostgreSQL hstore", "PostgreSQL jsonb"];
    assert_eq!(names, each.repeat(4));
}
