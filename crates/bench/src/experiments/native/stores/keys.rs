//! A space of the engine without the row layer: keys of eight bytes, and values. Inserts
//! go to a second space, which begins empty in each run.

use super::super::{Memory, ScanVisitor, Setup, Start, Store, Visitor, Work, Worker};
use super::{FILL, LOCK_WAIT, config, error_text};
use crate::value;
use porpoise_base::disk;
use porpoise_kv::{
    Check, Engine, Error, Key, LockMode, LockRequest, Read, ScanRange, SpaceDurability, SpaceId,
    SpaceSpec, TxnOptions, Wait,
};
use porpoise_server::config::{Config, DurabilityChoice, table};
use porpoise_server::engine;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of log after the checkpoint when a start from the log is measured: three quarters
/// of the size that triggers the next checkpoint.
const LOG: u64 = 192 << 20;

/// Number of rows that are read after a start.
const LOOKED_AT: u64 = 10_000;

/// The engine, filled.
pub(super) struct Keys {
    engine: Arc<dyn Engine>,
    config: Config,
    space: SpaceId,
    rows: u64,
    memory: Memory,
    /// The space that takes inserts.
    fresh: AtomicU64,
    /// Bytes of log after the checkpoint for a start.
    log: u64,
}

/// Resident bytes of this process, 0 if the kernel does not report them.
fn resident() -> u64 {
    crate::procfs::resident(std::process::id()).unwrap_or(0)
}

fn spec() -> SpaceSpec {
    SpaceSpec {
        group: 1,
        partition: 0,
        durability: SpaceDurability::Server,
        point_lookups: true,
    }
}

fn new_space(engine: &dyn Engine) -> Result<SpaceId, String> {
    let spaces = engine.create_spaces(&[spec()]).map_err(error_text)?;
    spaces
        .first()
        .copied()
        .ok_or_else(|| "no space was made".to_owned())
}

fn fill(
    engine: &dyn Engine,
    space: SpaceId,
    keys: std::ops::Range<u64>,
    value: &dyn Fn(u64) -> Vec<u8>,
) -> Result<u64, Error> {
    let mut bytes = 0;
    let mut txn = engine.begin(TxnOptions::default())?;
    for n in keys {
        let (key, value) = (n.to_be_bytes(), value(n));
        txn.put_new(Key::new(space, &key), &value, Check::FirstCommitter)?;
        bytes += (key.len() + value.len()) as u64;
    }
    txn.commit()?;
    Ok(bytes)
}

impl Keys {
    pub(super) fn open(setup: &Setup<'_>) -> Result<Keys, String> {
        let config = config(setup, "engine")?;
        let (engine, measure) = engine::open_measured(&config, disk::real()).map_err(error_text)?;
        let space = new_space(&*engine)?;
        let before = resident();
        let mut bytes = 0;
        for from in (0..setup.rows).step_by(FILL as usize) {
            let keys = from..setup.rows.min(from + FILL);
            bytes += fill(&*engine, space, keys, setup.value).map_err(error_text)?;
        }
        let grown = resident().saturating_sub(before);
        let parts = measure();
        let memory = Memory {
            rows: setup.rows,
            grown,
            parts: vec![
                ("keys and values", bytes),
                ("heads of records", parts.record_heads),
                ("heads of versions", parts.version_heads),
                ("index", parts.index),
            ],
        };
        let fresh = AtomicU64::new(new_space(&*engine)?.0);
        Ok(Keys {
            engine,
            config,
            space,
            rows: setup.rows,
            memory,
            fresh,
            log: LOG,
        })
    }

    /// Closes the engine, and opens its files again.
    fn start(&mut self) -> Result<f64, String> {
        // The old engine's memory is freed first, as by the stop of a process.
        self.engine = empty()?;
        let began = Instant::now();
        self.engine = engine::open(&self.config, disk::real()).map_err(error_text)?;
        let seconds = began.elapsed().as_secs_f64();
        self.verify()?;
        Ok(seconds)
    }

    /// Checks that all keys exist, and some of the values.
    fn verify(&self) -> Result<(), String> {
        let found = self.engine.approximate_keys(&[self.space]);
        if found != Some(self.rows) {
            return Err(format!("{} rows were kept as {found:?}", self.rows));
        }
        let mut worker = self.worker()?;
        let (step, mut wrong) = (self.rows.div_ceil(LOOKED_AT).max(1), 0);
        for key in (0..self.rows).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            worker.read(&[key], &mut |_, found| {
                let is_whole = found.is_some_and(|v| value::read(v, key, value::USUAL).is_some());
                wrong += u64::from(!is_whole);
            })?;
        }
        match wrong {
            0 => Ok(()),
            _ => Err(format!("{wrong} rows were wrong after a start")),
        }
    }

    /// Updates rows until the log has the size for a start from the log.
    fn write_log(&self) -> Result<(), String> {
        let written = || {
            let stats = self.engine.stats();
            let found = stats.iter().find(|s| s.name == "log_bytes_total");
            found.map_or(0, |stat| stat.value)
        };
        let (before, mut text) = (written(), Vec::new());
        // Keys at random: those of a cycle of few would be written once by each transaction.
        let mut random = fastrand::Rng::with_seed(11);
        while written() - before < self.log {
            let mut txn = self
                .engine
                .begin(TxnOptions::default())
                .map_err(error_text)?;
            for _ in 0..FILL {
                let key = random.u64(0..self.rows.max(1));
                value::write(&mut text, key, 1, value::USUAL);
                let bytes = key.to_be_bytes();
                txn.put(Key::new(self.space, &bytes), &text, Check::Blind)
                    .map_err(error_text)?;
            }
            let commit = txn.commit().map_err(error_text)?;
            self.engine
                .wait_durable(commit.position)
                .map_err(error_text)?;
        }
        Ok(())
    }
}

/// An empty engine.
fn empty() -> Result<Arc<dyn Engine>, String> {
    let mut config = table::defaults();
    config.durability = DurabilityChoice::Memory;
    engine::open(&config, disk::real()).map_err(error_text)
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The directory is removed with it, so that a failure to close loses nothing.
        let _ = self.engine.shutdown();
    }
}

impl Store for Keys {
    fn name(&self) -> &str {
        "the engine alone"
    }

    fn offers(&self, _: Work) -> bool {
        true
    }

    fn begin(&self, work: Work) -> Result<(), String> {
        if work == Work::Insert {
            let old = SpaceId(self.fresh.load(Ordering::Relaxed));
            self.engine.drop_spaces(&[old]).map_err(error_text)?;
            let new = new_space(&*self.engine)?;
            self.fresh.store(new.0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(KeyWorker {
            of: self,
            fresh: SpaceId(self.fresh.load(Ordering::Relaxed)),
            options: TxnOptions::default(),
            reader: self
                .engine
                .begin(TxnOptions::default())
                .map_err(error_text)?,
        }))
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.memory.clone())
    }

    fn starts(&mut self) -> Result<Vec<Start>, String> {
        if self.config.durability == DurabilityChoice::Memory {
            return Ok(Vec::new());
        }
        let named = |from: &str, seconds, is_after_kill| Start {
            from: from.to_owned(),
            seconds,
            is_after_kill,
        };
        let inserted = SpaceId(self.fresh.load(Ordering::Relaxed));
        self.engine.drop_spaces(&[inserted]).map_err(error_text)?;
        self.engine.shutdown().map_err(error_text)?;
        let from_checkpoint = self.start()?;
        self.write_log()?;
        // Closed without a last checkpoint, as by a kill.
        let with_log = self.start()?;
        let log = format!("a checkpoint and {} MB of log", self.log >> 20);
        Ok(vec![
            named("a checkpoint", from_checkpoint, false),
            named(&log, with_log, true),
        ])
    }
}

struct KeyWorker<'a> {
    of: &'a Keys,
    fresh: SpaceId,
    /// Options of a session, which begins all its transactions with them.
    options: TxnOptions,
    reader: Box<dyn porpoise_kv::Txn>,
}

impl KeyWorker<'_> {
    fn try_read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), Error> {
        self.reader.refresh()?;
        if let [key] = keys {
            let key = key.to_be_bytes();
            let key = Key::new(self.of.space, &key);
            self.reader.get(Read::SNAPSHOT, &[key], visit)?;
        } else {
            let encoded: Vec<[u8; 8]> = keys.iter().map(|key| key.to_be_bytes()).collect();
            let encoded: Vec<Key<'_>> = encoded
                .iter()
                .map(|key| Key::new(self.of.space, key))
                .collect();
            self.reader.get(Read::SNAPSHOT, &encoded, visit)?;
        }
        self.of.engine.wait_durable(self.reader.seen())
    }

    fn try_scan(
        &mut self,
        from: u64,
        count: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<(), Error> {
        self.reader.refresh()?;
        let range = ScanRange {
            space: self.of.space,
            start: &from.to_be_bytes(),
            end: None,
            reverse: false,
        };
        self.reader
            .scan(Read::SNAPSHOT, &[range], count, &mut |_, key, value| {
                if let Some(key) = key.first_chunk() {
                    visit(u64::from_be_bytes(*key), value);
                }
                ControlFlow::Continue(())
            })?;
        self.of.engine.wait_durable(self.reader.seen())
    }

    /// Locks a row, and applies `change` to its value. Returns false if there is no
    /// such row.
    fn try_change(
        &mut self,
        key: u64,
        change: impl FnOnce(&mut dyn porpoise_kv::Txn, Key<'_>, Vec<u8>) -> Result<(), Error>,
        wants_old: bool,
    ) -> Result<bool, Error> {
        let bytes = key.to_be_bytes();
        let key = Key::new(self.of.space, &bytes);
        let mut txn = self.of.engine.begin(self.options.clone())?;
        let request = LockRequest {
            key,
            mode: LockMode::Update,
        };
        let wait = Wait::Until(Instant::now() + LOCK_WAIT);
        let (mut is_there, mut old) = (false, Vec::new());
        txn.lock(&[request], wait, &mut |_, found| {
            is_there = found.value.is_some();
            if let (true, Some(value)) = (wants_old, found.value) {
                old.extend_from_slice(value);
            }
        })?;
        if !is_there {
            return Ok(false);
        }
        change(&mut *txn, key, old)?;
        let commit = txn.commit()?;
        self.of.engine.wait_durable(commit.position)?;
        Ok(true)
    }

    fn try_insert(&mut self, key: u64, value: &[u8]) -> Result<(), Error> {
        let mut txn = self.of.engine.begin(self.options.clone())?;
        let key = key.to_be_bytes();
        txn.put_new(Key::new(self.fresh, &key), value, Check::FirstCommitter)?;
        let commit = txn.commit()?;
        self.of.engine.wait_durable(commit.position)
    }
}

impl Worker for KeyWorker<'_> {
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String> {
        self.try_read(keys, visit).map_err(error_text)
    }

    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        let put = |txn: &mut dyn porpoise_kv::Txn, key: Key<'_>, _: Vec<u8>| {
            txn.put(key, value, Check::Locked)
        };
        let done = self.try_change(key, put, false).map_err(error_text)?;
        done.then_some(()).ok_or_else(|| super::no_row(key))
    }

    fn scan(&mut self, from: u64, count: usize, visit: &mut ScanVisitor<'_>) -> Result<(), String> {
        self.try_scan(from, count, visit).map_err(error_text)
    }

    fn modify(&mut self, key: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), String> {
        let put = |txn: &mut dyn porpoise_kv::Txn, key: Key<'_>, mut value: Vec<u8>| {
            change(&mut value);
            txn.put(key, &value, Check::Locked)
        };
        let done = self.try_change(key, put, true).map_err(error_text)?;
        done.then_some(()).ok_or_else(|| super::no_row(key))
    }

    fn insert(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        self.try_insert(key, value).map_err(error_text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::NativeOptions;
    use super::*;
    use crate::peers::Durability;

    #[test]
    fn memory_is_accounted_and_rows_survive_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let setup = Setup {
            rows: 3000,
            durability: Durability::Interval,
            directory: home.path(),
            value: &|key| {
                let mut text = Vec::new();
                value::write(&mut text, key, 0, value::USUAL);
                text
            },
            options: &NativeOptions::default(),
        };
        let mut keys = Keys::open(&setup).unwrap();
        let memory = keys.memory().unwrap();
        assert_eq!(memory.rows, 3000);
        assert_eq!(memory.parts[0], ("keys and values", 3000 * 108));
        assert!(memory.parts.iter().all(|(_, bytes)| *bytes >= 3000 * 8));
        keys.worker()
            .unwrap()
            .insert(9, b"in the other space")
            .unwrap();
        keys.begin(Work::Insert).unwrap();
        keys.worker().unwrap().insert(9, b"and once more").unwrap();
        keys.log = 1 << 20;
        let starts = keys.starts().unwrap();
        assert_eq!(starts.len(), 2);
        assert!(starts.iter().all(|start| start.seconds > 0.0));
    }
}
