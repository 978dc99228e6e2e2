//! Every experiment from end to end on small tables: no run fails, and the
//! results can be written in every form.

use crate::support::start;
use porpoise_bench::experiments::kv::Operation;
use porpoise_bench::experiments::{
    Bench, BenchOptions, dump, fk, inserts, kv_runs, mget, programs,
};
use porpoise_bench::load::Shape;
use porpoise_bench::machine::Machine;
use porpoise_bench::matrix::Effort;
use porpoise_bench::output;
use porpoise_bench::peers::Peer;
use porpoise_bench::progress::Progress;
use std::time::Duration;

#[test]
fn all_of_them_on_small_tables() {
    let (mariadb, memcached) = (start(Peer::Mariadb, None), start(Peer::Memcached, None));
    let targets = vec![
        mariadb.started.target.clone(),
        memcached.started.target.clone(),
    ];
    let options = BenchOptions {
        effort: Effort {
            rounds: 2,
            warm_up: Duration::from_millis(10),
            time: Duration::from_millis(400),
            count_futexes: None,
            pace: porpoise_bench::load::Pace::default(),
        },
        clients: Vec::new(),
        shape: Shape::ThreadEach,
        operations: Vec::new(),
        keys: Vec::new(),
        scripts: Vec::new(),
        rows: 1000,
        memcached: Default::default(),
        native: Default::default(),
        seed: 1,
        is_quick: true,
    };
    let machine = Machine::describe(mariadb.home.path(), "porpoise bench all", 0).unwrap();
    let mut bench = Bench::new(targets, &[], options, Progress::quiet(), machine);
    let operations = [
        Operation::Select,
        Operation::Insert,
        Operation::Update,
        Operation::Delete,
    ];
    kv_runs::kv(&mut bench, "kv", &[1, 4], &operations).unwrap();
    mget::mget(&mut bench).unwrap();
    fk::fk(&mut bench, Some(20)).unwrap();
    // The rows that each connection inserts end a run, so its time is reset.
    bench.options.effort.time = Duration::from_millis(400);
    inserts::autoinc(&mut bench).unwrap();
    inserts::blob(&mut bench).unwrap();
    kv_runs::connections(&mut bench, &[8]).unwrap();
    programs::programs(&mut bench).unwrap();
    dump::dump(&mut bench, mariadb.home.path(), Some(1)).unwrap();
    let report = &bench.report;
    let names: Vec<&str> = report.experiments.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "kv",
            "mget",
            "fk",
            "autoinc",
            "blob",
            "connections",
            "programs",
            "dump"
        ]
    );
    for experiment in &report.experiments {
        assert!(experiment.notes.is_empty(), "{:?}", experiment.notes);
        assert!(!experiment.cells.is_empty());
        for cell in &experiment.cells {
            let what = format!("{} {} {}", experiment.name, cell.operation, cell.system);
            assert_eq!(cell.failure(), None, "{what}");
            assert_eq!(cell.runs.len(), 2, "{what}");
            assert!(cell.runs.iter().all(|run| run.requests > 0), "{what}");
        }
    }
    let inserted: Vec<u64> = report.experiments[2].cells[0]
        .runs
        .iter()
        .map(|r| r.requests)
        .collect();
    assert_eq!(inserted, [160, 160], "8 connections, 20 rows each");
    assert!(
        report.systems[0].settings.contains("durability setting 0"),
        "{:?}",
        report.systems
    );
    let text = output::text::render(report);
    assert!(
        text.contains("us x keys"),
        "the line through the latencies\n{text}"
    );
    assert!(output::to_json(report).unwrap().contains("\"connections\""));
    assert!(output::csv::render(report).lines().count() > 50);
    assert!(output::html::render(std::slice::from_ref(report)).contains("</html>"));
}
