//! `bench analytics` from end to end on a small table: every question is
//! understood, and two ways to ask it agree.

use crate::support::start;
use porpoise_bench::experiments::{Bench, BenchOptions, analytics};
use porpoise_bench::load::Shape;
use porpoise_bench::machine::Machine;
use porpoise_bench::matrix::Effort;
use porpoise_bench::peers::Peer;
use porpoise_bench::progress::Progress;
use std::time::Duration;

#[test]
fn every_question_is_answered_alike() {
    let mariadb = start(Peer::Mariadb, None);
    let mut again = mariadb.started.target.clone();
    again.name = "again".to_owned();
    again.database = "again".to_owned();
    let targets = vec![mariadb.started.target.clone(), again];
    let options = BenchOptions {
        effort: Effort {
            rounds: 2,
            warm_up: Duration::ZERO,
            time: Duration::ZERO,
            count_futexes: None,
            pace: porpoise_bench::load::Pace::default(),
        },
        clients: Vec::new(),
        shape: Shape::ThreadEach,
        operations: Vec::new(),
        keys: Vec::new(),
        scripts: Vec::new(),
        rows: 2000,
        memcached: Default::default(),
        native: Default::default(),
        seed: 1,
        is_quick: true,
    };
    let machine = Machine::describe(mariadb.home.path(), "porpoise bench analytics", 0).unwrap();
    let mut bench = Bench::new(targets, &[], options, Progress::quiet(), machine);
    analytics::analytics(&mut bench).unwrap();
    let [experiment] = bench.report.experiments.as_slice() else {
        panic!("one experiment");
    };
    for cell in &experiment.cells {
        let what = format!("{} {}", cell.operation, cell.system);
        assert_eq!(cell.failure(), None, "{what}");
        assert_eq!(cell.runs.len(), 2, "{what}");
    }
    let named = |note: &&String| note.contains("MariaDB") && note.contains("again");
    let medians = experiment.notes.iter().filter(named).count();
    assert_eq!(medians * 2, experiment.cells.len());
}
