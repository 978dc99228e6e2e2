//! `bench memcached`: every operation in every dialect, one by one and
//! pipelined, on every kind of table and on memcached.

use crate::support::{cells, home, report, run};

const SYSTEMS: [&str; 4] = [
    "Porpoise default table",
    "Porpoise one column",
    "Porpoise four columns",
    "memcached",
];

fn measure(words: &str) -> Vec<(String, String, String, serde_json::Value)> {
    let home = home();
    let usual = "memcached --start-peers=porpoise,memcached --durability memory --runs 1 \
                 --warm-up 5ms --rows 300 --json a.json";
    let words: Vec<&str> = usual.split(' ').chain(words.split(' ')).collect();
    let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
    let text = run(home.path(), &words);
    assert!(text.contains("The memcached listener beside memcached"));
    let file = home.path().join("a.json");
    let whole = report(&file);
    let notes = &whole["experiments"][0]["notes"];
    assert_eq!(notes.as_array().unwrap().len(), 0, "{notes}");
    let cells = cells(&file);
    for (_, operation, system, cell) in &cells {
        let run = &cell["runs"][0];
        let what = format!("{operation}, {system}");
        assert_eq!(run["failure"], serde_json::Value::Null, "{what}");
        assert!(run["requests"].as_u64().unwrap() > 0, "{what}");
    }
    cells
}

#[test]
fn all_operations_dialects_depths_and_tables() {
    let cells = measure(
        "--time 60ms --clients 3 --shape 2 --ops get,set,incr,delete,mget \
         --protocol ascii,meta,binary --pipeline 1,16",
    );
    let shape = "2 threads multiplexing";
    for dialect in ["ascii", "meta", "binary"] {
        let mut wanted = Vec::new();
        for keys in [2, 10, 50, 200] {
            wanted.push(format!("get of {keys} keys, {dialect}, {shape}"));
        }
        for operation in ["get", "set", "incr", "delete"] {
            wanted.push(format!("{operation}, {dialect}, {shape}"));
            wanted.push(format!("{operation}, {dialect}, 16 deep, {shape}"));
        }
        for operation in wanted {
            for system in SYSTEMS {
                let is_there = cells
                    .iter()
                    .any(|(_, o, s, _)| *o == operation && s == system);
                // Several columns are not one number to count.
                let can = !operation.starts_with("incr") || system != "Porpoise four columns";
                assert_eq!(is_there, can, "{operation}, {system}");
            }
        }
    }
}

#[test]
fn quick_measurements_cover_the_usual_operations() {
    let cells = measure("--quick --time 60ms");
    assert_eq!(cells.len(), 9 * SYSTEMS.len());
    let has = |operation: &str| cells.iter().any(|(_, o, ..)| o == operation);
    assert!(has("get, ascii") && has("set, ascii") && has("get of 50 keys, ascii"));
    assert!(has("get, meta") && has("get, binary") && has("get, ascii, 16 deep"));
}
