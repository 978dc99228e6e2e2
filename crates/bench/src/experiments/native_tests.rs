//! Tests of [`super`] on a map in memory.

use super::*;
use crate::experiments::Choice;
use crate::load::Shape;
use crate::machine::Machine;
use crate::matrix::Effort;
use crate::progress::Progress;
use std::sync::Mutex;

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
}

fn bench() -> Bench {
    let choice = Choice {
        effort: Effort {
            rounds: 2,
            warm_up: Duration::from_millis(2),
            time: Duration::from_millis(100),
            count_futexes: None,
        },
        clients: Vec::new(),
        shape: Shape::ThreadEach,
        operations: Vec::new(),
        rows: 500,
        memcached: Default::default(),
        seed: 1,
        is_quick: true,
    };
    let home = tempfile::tempdir().unwrap();
    let machine = Machine::look(home.path(), "porpoise bench native", 0).unwrap();
    Bench::new(Vec::new(), &[], choice, Progress::quiet(), machine)
}

fn open(setup: &Setup<'_>) -> Result<Vec<Box<dyn Store>>, String> {
    let rows = (0..setup.rows).map(setup.value).collect();
    Ok(vec![Box::new(Map(Mutex::new(rows)))])
}

#[test]
fn every_operation_by_one_and_two_threads() {
    let mut bench = bench();
    native(&mut bench, &open, "/".as_ref(), Durability::Memory).unwrap();
    let cells = &bench.report.experiments[0].cells;
    assert_eq!(cells.len(), 8);
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
    let error = native(&mut bench, &swapped, "/".as_ref(), Durability::Memory).unwrap_err();
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

    fn takes_inserts(&self) -> bool {
        true
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
fn inserts_are_of_new_keys_and_compared_with_the_plain_table() {
    let open = |setup: &Setup<'_>| {
        let mut stores = open(setup)?;
        for name in ["plain", "one", "two"] {
            stores.push(Box::new(Inserted(name, Mutex::default())));
        }
        Ok(stores)
    };
    let mut bench = bench();
    native(&mut bench, &open, "/".as_ref(), Durability::Memory).unwrap();
    let experiment = &bench.report.experiments[0];
    assert_eq!(experiment.cells.len(), 8 + 6);
    for cell in &experiment.cells {
        assert_eq!(cell.failure(), None, "{cell:?}");
    }
    let of = |a: &str| (a.to_owned(), "plain".to_owned());
    assert_eq!(experiment.pairs, [of("one"), of("two")]);
}
