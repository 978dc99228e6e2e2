//! Tests of [`super`] on a map in memory.

use super::*;
use crate::error::Kind;
use crate::experiments::BenchOptions;
use crate::load::Shape;
use crate::machine::Machine;
use crate::matrix::Effort;
use crate::progress::Progress;
use std::sync::Mutex;
use std::time::Duration;

struct Map(Mutex<Vec<Vec<u8>>>);

impl Store for Map {
    fn name(&self) -> &str {
        "map"
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(&self.0))
    }
}

impl Worker for &Mutex<Vec<Vec<u8>>> {
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String> {
        let map = self.lock().unwrap();
        for (n, key) in keys.iter().enumerate() {
            visit(n, map.get(*key as usize).map(Vec::as_slice));
        }
        Ok(())
    }

    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        self.lock().unwrap()[key as usize] = value.to_vec();
        Ok(())
    }

    fn scan(&mut self, from: u64, count: usize, visit: &mut ScanVisitor<'_>) -> Result<(), String> {
        let map = self.lock().unwrap();
        let rows = (from..).zip(map.iter().skip(from as usize));
        rows.take(count).for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn modify(&mut self, key: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), String> {
        change(&mut self.lock().unwrap()[key as usize]);
        Ok(())
    }
}

fn bench() -> Bench {
    let options = BenchOptions {
        effort: Effort {
            rounds: 2,
            warm_up: Duration::from_millis(2),
            time: Duration::from_millis(100),
            count_futexes: None,
            pace: crate::load::Pace::default(),
        },
        clients: Vec::new(),
        shape: Shape::ThreadEach,
        operations: Vec::new(),
        keys: Vec::new(),
        scripts: Vec::new(),
        rows: 500,
        memcached: Default::default(),
        native: NativeOptions {
            durabilities: vec![Durability::Memory],
            ..NativeOptions::default()
        },
        seed: 1,
        is_quick: true,
    };
    let home = tempfile::tempdir().unwrap();
    let machine = Machine::describe(home.path(), "porpoise bench native", 0).unwrap();
    Bench::new(Vec::new(), &[], options, Progress::quiet(), machine)
}

fn open(setup: &Setup<'_>) -> Result<Vec<Box<dyn Store>>, String> {
    let rows = (0..setup.rows).map(setup.value).collect();
    Ok(vec![Box::new(Map(Mutex::new(rows)))])
}

fn run(bench: &mut Bench, open: &Open) -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    with_stores(bench, open, home.path())
}

#[test]
fn every_operation_by_one_and_two_threads() {
    let mut bench = bench();
    run(&mut bench, &open).unwrap();
    let cells = &bench.report.experiments[0].cells;
    assert_eq!(cells.len(), 12);
    for cell in cells {
        assert_eq!(cell.failure(), None);
        assert_eq!(cell.runs.len(), 2);
        assert!(cell.runs.iter().all(|run| run.requests > 0), "{cell:?}");
    }
    assert_eq!((cells[0].size, cells[1].size, cells[0].units), (1, 2, 50));
}

#[test]
fn a_wrong_value_ends_it_and_is_kept() {
    let swapped = |setup: &Setup<'_>| {
        let rows = (0..setup.rows).map(|n| (setup.value)(n ^ 1)).collect();
        let store: Box<dyn Store> = Box::new(Map(Mutex::new(rows)));
        Ok(vec![store])
    };
    let mut bench = bench();
    let error = run(&mut bench, &swapped).unwrap_err();
    assert_eq!(error.kind, Kind::Wrong);
    assert!(error.message.starts_with("map: "), "{error}");
    let cells = &bench.report.experiments[0].cells;
    assert!(cells[0].failure().is_some());
}

struct Inserted(&'static str, Mutex<std::collections::HashSet<u64>>);

impl Store for Inserted {
    fn name(&self) -> &str {
        self.0
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(&self.1))
    }

    fn offers(&self, work: Work) -> bool {
        work == Work::Insert
    }
}

impl Worker for &Mutex<std::collections::HashSet<u64>> {
    fn read(&mut self, _: &[u64], _: &mut Visitor<'_>) -> Result<(), String> {
        Err("not to be read".to_owned())
    }

    fn update(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
        Err("not to be updated".to_owned())
    }

    fn insert(&mut self, key: u64, _: &[u8]) -> Result<(), String> {
        let is_new = self.lock().unwrap().insert(key);
        is_new.then_some(()).ok_or_else(|| format!("{key} twice"))
    }
}

#[test]
fn inserts_use_new_keys_and_are_compared_with_the_plain_table() {
    let open = |setup: &Setup<'_>| {
        let mut stores = open(setup)?;
        for name in ["plain", "one", "two"] {
            stores.push(Box::new(Inserted(name, Mutex::default())));
        }
        Ok(stores)
    };
    let mut bench = bench();
    run(&mut bench, &open).unwrap();
    let experiment = &bench.report.experiments[0];
    assert_eq!(experiment.cells.len(), 12 + 6);
    for cell in &experiment.cells {
        assert_eq!(cell.failure(), None, "{cell:?}");
    }
    let of = |a: &str| (a.to_owned(), "plain".to_owned());
    assert_eq!(experiment.pairs, [of("one"), of("two")]);
}

/// A map that takes back the first change after a row was read.
struct Forgetful(Mutex<Vec<Vec<u8>>>);

impl Store for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }

    fn offers(&self, work: Work) -> bool {
        work == Work::Modify
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(OneLost(&self.0, false)))
    }
}

struct OneLost<'a>(&'a Mutex<Vec<Vec<u8>>>, bool);

impl Worker for OneLost<'_> {
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String> {
        (&mut &*self.0).read(keys, visit)
    }

    fn update(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
        Err("not to be updated".to_owned())
    }

    fn modify(&mut self, key: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), String> {
        if !std::mem::replace(&mut self.1, true) {
            change(&mut self.0.lock().unwrap()[key as usize].clone());
            return Ok(());
        }
        (&mut &*self.0).modify(key, change)
    }
}

#[test]
fn a_lost_change_is_noticed_and_calls_can_be_counted() {
    let mut bench = bench();
    bench.options.native.calls = Some(50);
    bench.options.native.works = vec![Work::Modify];
    run(&mut bench, &open).unwrap();
    let cells = &bench.report.experiments[0].cells;
    assert_eq!(cells.len(), 2);
    let requests = cells.iter().map(|cell| cell.runs[0].requests);
    assert_eq!(requests.collect::<Vec<_>>(), [50, 100]);
    let forgetful = |setup: &Setup<'_>| {
        let rows = (0..setup.rows).map(setup.value).collect();
        let store: Box<dyn Store> = Box::new(Forgetful(Mutex::new(rows)));
        Ok(vec![store])
    };
    let error = run(&mut bench, &forgetful).unwrap_err();
    assert_eq!(error.kind, Kind::Wrong);
    assert!(error.message.contains("50 times"), "{error}");
    assert!(error.message.contains("counts 49"), "{error}");
}

#[test]
fn memory_and_start_times_are_reported() {
    let memory = Memory {
        rows: 10,
        grown: 2000,
        parts: vec![("keys and values", 1100), ("index", 250)],
    };
    assert_eq!(
        memory_note("map", &memory),
        "map: 200.0 bytes a row in memory: keys and values 110.0, index 25.0, \
         allocator and the rest 65.0"
    );
    let reused = Memory {
        grown: 30,
        ..memory
    };
    assert_eq!(
        memory_note("map", &reused),
        "map: bytes a row that were requested from the allocator: keys and values 110.0, index 25.0"
    );
    struct Slow(Map);
    impl Store for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
            self.0.worker()
        }
        fn starts(&mut self) -> Result<Vec<Start>, String> {
            Ok(vec![Start {
                from: "a heap".to_owned(),
                seconds: 1.5,
                is_after_kill: true,
            }])
        }
    }
    let slow = |setup: &Setup<'_>| {
        let rows = (0..setup.rows).map(setup.value).collect();
        let store: Box<dyn Store> = Box::new(Slow(Map(Mutex::new(rows))));
        Ok(vec![store])
    };
    let mut bench = bench();
    bench.options.native.calls = Some(1);
    run(&mut bench, &slow).unwrap();
    bench.options.native.times_starts = true;
    run(&mut bench, &slow).unwrap();
    let notes = |n: usize| &bench.report.experiments[n].notes;
    assert_eq!(notes(0), &[] as &[String]);
    assert_eq!(notes(1), &["slow: start from a heap: 1.50 s"]);
}
