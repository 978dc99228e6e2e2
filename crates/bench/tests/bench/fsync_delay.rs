//! The delay applies to the syncs of every durable system.

use crate::support::{cells, home, run};

#[test]
fn commits_wait_and_reads_do_not() {
    const DELAY: f64 = 20_000.0;
    let home = home();
    let words = [
        "kv",
        "--start-peers=porpoise,mariadb,postgres",
        "--fsync-delay",
        "20ms",
        "--ops",
        "update,select",
        "--clients",
        "1",
        "--rows",
        "200",
        "--runs",
        "1",
        "--time",
        "400ms",
        "--warm-up",
        "50ms",
        "--quick",
        "--json",
        "a.json",
    ];
    let text = run(home.path(), &words);
    assert!(
        text.contains("20000 us"),
        "the report lacks the delay\n{text}"
    );
    let cells = cells(&home.path().join("a.json"));
    assert_eq!(cells.len(), 2 * 6);
    for (_, operation, system, cell) in cells {
        let run = &cell["runs"][0];
        let median = run["latency"]["p50"].as_f64().unwrap();
        let what = format!("{system} {operation}: {median} us");
        if operation == "SELECT" {
            assert!(median < DELAY, "{what}");
        } else {
            assert!(median >= DELAY * 0.98, "{what}");
        }
    }
}
