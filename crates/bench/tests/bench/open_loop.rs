//! A fixed rate, several generator processes and pinned processors, and the history of results.

use crate::support::{bench, cells, home, last_line, processor, report, run};

#[test]
fn requests_are_due_at_a_rate_and_generators_share_the_connections() {
    const RATE: f64 = 400.0;
    for shape in ["thread", "2"] {
        let home = home();
        let pin = format!("server={0},generator={0}", processor());
        let words = "kv --start-peers=porpoise,noop --durability memory --runs 1 --rows 500 --clients 5 \
                     --ops select,insert,delete --warm-up 50ms --time 1s --rate 400 --generators 2 \
                     --json a.json --csv a.csv --html a.html --shape";
        let words = words.split(' ').filter(|w| !w.is_empty());
        let words: Vec<&str> = words.chain([shape, "--pin", pin.as_str()]).collect();
        let text = run(home.path(), &words);
        assert!(text.contains("pinned     servers to "), "{text}");
        assert!(text.contains("rate 400: "), "{text}");
        assert!(text.contains("event loops "), "{text}");
        let file = home.path().join("a.json");
        let pinning = &report(&file)["machine"]["pinning"];
        assert!(pinning.as_str().unwrap().contains("generator to"));
        let cells = cells(&file);
        // SELECT by text, prepared, memcached and noop; INSERT and DELETE without the last.
        assert_eq!(cells.len(), 4 + 3 + 3);
        for (_, operation, system, cell) in &cells {
            let run = &cell["runs"][0];
            let what = format!("{operation}, {system}, {shape}: {run}");
            // Both processes draw keys from the same counters: no row is inserted or deleted twice.
            assert!(run["failure"].is_null(), "{what}");
            assert_eq!(run["open_loop"]["rate"], RATE, "{what}");
            let seconds = run["seconds"].as_f64().unwrap();
            let answered = run["requests"].as_f64().unwrap();
            let unanswered = run["open_loop"]["unanswered"].as_f64().unwrap();
            // What was due came, or is told to be missing; what was due in the warm-up may be added.
            assert!(
                answered + unanswered >= RATE * seconds * 0.98 - 2.0,
                "{what}"
            );
            // A stall before the measured time adds requests; without a rate there are far more.
            assert!(answered <= RATE * 30.0, "{what}");
        }
        let lines = std::fs::read_to_string(home.path().join("a.csv")).unwrap();
        let (rate, p999) = (",400.0000,", "p999_us");
        assert!(lines.contains(rate) && lines.contains(p999), "{lines}");
        let page = std::fs::read_to_string(home.path().join("a.html")).unwrap();
        assert!(page.contains("p99.99") && page.contains("rate 400: "));
    }
}

#[test]
fn results_in_a_directory_are_dated_and_make_a_history() {
    let home = home();
    let kept = home.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let words = "kv --start-peers=noop --ops select --clients 2 --runs 1 --warm-up 5ms --time 50ms \
                 --json kept";
    let words: Vec<&str> = words.split_whitespace().collect();
    run(home.path(), &words);
    let files = std::fs::read_dir(&kept).unwrap();
    let names: Vec<String> = files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].starts_with("20") && names[0].ends_with("-kv.json"));
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report-1.json");
    let file = format!("kept/{}", names[0]);
    run(
        home.path(),
        &[
            "report",
            "--history",
            &file,
            fixture,
            "--html",
            "history.html",
        ],
    );
    let page = std::fs::read_to_string(home.path().join("history.html")).unwrap();
    for part in [
        "<h2>memcached GET</h2>",
        "<h2>SELECT by key</h2>",
        "floor 2.50",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn unknown_budgets_and_processors_are_refused() {
    let home = home();
    for (words, part) in [
        (&["budgets", "--only", "poetry"][..], "--only"),
        (&["budgets", "--pin", "server=1023"][..], "1023"),
        (
            &["kv", "mysql://127.0.0.1:1", "--pin", "server=0"][..],
            "server=",
        ),
        (
            &["kv", "--start-peers=noop", "--pin", "server=1023"][..],
            "1023",
        ),
        (&["sysbench", "--start-peers", "--rate", "5"][..], "--rate"),
    ] {
        let output = bench(home.path(), words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(last_line(&output).contains(part), "{}", last_line(&output));
    }
}
