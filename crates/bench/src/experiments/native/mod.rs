//! `bench native`: operations on rows and on the engine in this process, without protocols and
//! network.
//!
//! The stores ([`stores`]) are opened by the server's own functions. Measured are
//! the rate of calls to their workers, over numbers of threads
//! ([`drive`]), the memory of their rows, and the duration of a start.
//!
//! 1. Reads are verified as everywhere: a value contains its key and version.
//! 2. Each call is one transaction, and returns when its commit is as durable
//!    as requested.
//! 3. The processor time is that of the whole process in the measured
//!    time: the calling threads, and those of the log.

mod drive;
mod stores;
mod work;

use super::Bench;
use crate::error::Error;
use crate::matrix::{Measured, run_rounds};
use crate::peers::Durability;
use crate::report::{Cell, Experiment, Measure};
use crate::value;
use drive::Plan;
use std::path::Path;
use std::sync::atomic::AtomicU64;
pub use work::{NativeOptions, Work};

type Result<T, E = Error> = std::result::Result<T, E>;

/// Options of the stores.
pub struct Setup<'a> {
    /// Rows, with keys from 0.
    pub rows: u64,
    /// Durability of their commits.
    pub durability: Durability,
    /// Directory for their files.
    pub directory: &'a Path,
    /// The initial value of a row.
    pub value: &'a (dyn Fn(u64) -> Vec<u8> + Sync),
    /// Planned operations: stores without one are not opened.
    pub options: &'a NativeOptions,
}

/// Receives the value of the n-th requested key; `None` if it does not exist.
pub type Visitor<'v> = dyn FnMut(usize, Option<&[u8]>) + 'v;

/// Receives a row of a scan: its key and value.
pub type ScanVisitor<'v> = dyn FnMut(u64, &[u8]) + 'v;

/// Memory of a store's rows, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Number of inserted rows.
    pub rows: u64,
    /// Growth of the process while they were inserted.
    pub grown: u64,
    /// Known parts of the memory, with a description of each. The rest is overhead of the allocator
    /// and of the store.
    pub parts: Vec<(&'static str, u64)>,
}

/// Duration of a store's start.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The files from which it starts.
    pub from: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Whether it was not shut down before.
    pub is_after_kill: bool,
}

/// A store in this process, filled.
pub trait Store: Sync {
    /// Name in reports.
    fn name(&self) -> &str;

    /// Whether its workers support an operation.
    fn offers(&self, work: Work) -> bool {
        work != Work::Insert
    }

    /// Prepares a run, outside of the measured time.
    ///
    /// # Errors
    /// A message that says what failed.
    fn begin(&self, work: Work) -> Result<(), String> {
        let _ = work;
        Ok(())
    }

    /// A thread's handle.
    ///
    /// # Errors
    /// A message that says what failed.
    fn worker(&self) -> Result<Box<dyn Worker + '_>, String>;

    /// Memory of its rows after the insertion; `None` if it was not measured.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Stops and starts it again, once for each kind of start. Called
    /// last.
    ///
    /// # Errors
    /// A message that says what failed.
    fn starts(&mut self) -> Result<Vec<Start>, String> {
        Ok(Vec::new())
    }
}

/// One thread's handle of a store; each call is a transaction. An operation that the store
/// does not offer is refused.
pub trait Worker {
    /// Reads the values of keys in one batch.
    ///
    /// # Errors
    /// A message that says what failed.
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String>;

    /// Replaces the value of an existing key.
    ///
    /// # Errors
    /// A message that says what failed.
    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String>;

    /// Shows at most `count` rows from a key on, in the order of keys.
    ///
    /// # Errors
    /// A message that says what failed.
    fn scan(&mut self, from: u64, count: usize, visit: &mut ScanVisitor<'_>) -> Result<(), String> {
        let _ = (from, count, visit);
        Err("this store is not scanned".to_owned())
    }

    /// Changes the value of a key that no other thread changes meanwhile.
    ///
    /// # Errors
    /// A message that says what failed.
    fn modify(&mut self, key: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), String> {
        let _ = (key, change);
        Err("this store's rows are not read and changed in one call".to_owned())
    }

    /// Inserts a row with a new key.
    ///
    /// # Errors
    /// A message that says what failed.
    fn insert(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        let _ = (key, value);
        Err("this store takes no inserts".to_owned())
    }
}

/// Opens and fills stores; tests have some of their own.
type Open = dyn Fn(&Setup<'_>) -> Result<Vec<Box<dyn Store>>, String>;

/// `bench native`, with one durability after the other.
///
/// # Errors
/// A wrong answer, or the stores could not be opened.
pub fn native(bench: &mut Bench, directory: &Path) -> Result<()> {
    with_stores(bench, &stores::open, directory)
}

fn with_stores(bench: &mut Bench, open: &Open, directory: &Path) -> Result<()> {
    let options = bench.options.native.clone();
    for durability in &options.durabilities {
        let path = directory.join(format!("native-{}", durability.word()));
        std::fs::create_dir_all(&path)?;
        with_durability(bench, open, &path, *durability, &options)?;
    }
    Ok(())
}

fn with_durability(
    bench: &mut Bench,
    open: &Open,
    directory: &Path,
    durability: Durability,
    options: &NativeOptions,
) -> Result<()> {
    let word = durability.word();
    let title = format!("native: in this process, durability {word}");
    bench.progress.begin(&title);
    let rows = bench.rows(if bench.options.is_quick {
        160_000
    } else {
        1_000_000
    });
    bench
        .progress
        .say(&format!("   filling stores ({rows} rows)"));
    let mut stores = open(&Setup {
        rows,
        durability,
        directory,
        value: &|key| {
            let mut text = Vec::new();
            value::write(&mut text, key, 0, value::USUAL);
            text
        },
        options,
    })
    .map_err(|reason| Error::failed(reason).during("native"))?;
    let threads = bench.clients(&[1, 2]);
    let cell_keys = cell_keys(&stores, &threads, options);
    let mut experiment = describe(rows, durability, &stores, &cell_keys);
    experiment.notes.extend(memory_notes(&stores));
    experiment.measures.extend(memory_measures(&stores));
    let mut done = rounds(bench, &stores, &cell_keys, rows, &mut experiment.cells);
    experiment.measures.extend(read_measures(&experiment.cells));
    if options.times_starts && done.is_ok() {
        match starts(&mut stores) {
            Ok(found) => {
                experiment.notes.extend(found.iter().map(start_note));
                experiment
                    .measures
                    .extend(found.iter().map(|found| start_measure(found, rows)));
            }
            Err(reason) => done = Err(Error::failed(reason).during("native")),
        }
    }
    drop(stores);
    bench.keep(experiment);
    done
}

/// Key of a cell of the report.
struct CellKey {
    work: Work,
    threads: usize,
    /// Position of the store.
    store: usize,
}

/// All cells, in the order of reports.
fn cell_keys(
    stores: &[Box<dyn Store>],
    threads: &[usize],
    options: &NativeOptions,
) -> Vec<CellKey> {
    let mut cell_keys = Vec::new();
    for work in Work::ALL.into_iter().filter(|work| options.has(*work)) {
        for threads in threads {
            let offering = stores.iter().enumerate().filter(|(_, s)| s.offers(work));
            cell_keys.extend(offering.map(|(store, _)| CellKey {
                work,
                threads: *threads,
                store,
            }));
        }
    }
    cell_keys
}

/// A line for each store whose memory is known.
fn memory_notes(stores: &[Box<dyn Store>]) -> Vec<String> {
    let known = stores.iter().filter_map(|s| Some((s.name(), s.memory()?)));
    known
        .map(|(name, memory)| memory_note(name, &memory))
        .collect()
}

fn memory_note(name: &str, memory: &Memory) -> String {
    let rows = memory.rows.max(1) as f64;
    let each = |bytes: u64| format!("{:.1}", bytes as f64 / rows);
    let known: u64 = memory.parts.iter().map(|(_, bytes)| bytes).sum();
    let parts = memory.parts.iter();
    let mut parts: Vec<String> = parts
        .map(|(part, n)| format!("{part} {}", each(*n)))
        .collect();
    if memory.grown <= known {
        // The store reused memory of another one: its total is unknown.
        let parts = parts.join(", ");
        return format!("{name}: bytes a row that were requested from the allocator: {parts}");
    }
    parts.push(format!(
        "allocator and the rest {}",
        each(memory.grown - known)
    ));
    let (whole, parts) = (each(memory.grown), parts.join(", "));
    format!("{name}: {whole} bytes a row in memory: {parts}")
}

/// The memory of a row of each store that measures it.
fn memory_measures(stores: &[Box<dyn Store>]) -> Vec<Measure> {
    let known = stores.iter().filter_map(|s| Some((s.name(), s.memory()?)));
    let known = known.filter(|(_, memory)| {
        // Otherwise it reused memory of another store.
        memory.grown > memory.parts.iter().map(|(_, bytes)| bytes).sum()
    });
    known
        .map(|(name, memory)| Measure {
            name: format!("{name}: memory of a row"),
            value: memory.grown as f64 / memory.rows.max(1) as f64,
            unit: "bytes".to_owned(),
        })
        .collect()
}

/// Rows that one thread reads in batches.
fn read_measures(cells: &[Cell]) -> Vec<Measure> {
    let name = Work::ReadMany.name();
    let reads = cells.iter().filter(|c| c.operation == name && c.size == 1);
    let measure = |cell: &Cell| {
        Some(Measure {
            name: format!("{}: rows read in batches", cell.system),
            value: cell.throughput()?.mean * cell.units as f64,
            unit: "rows/s".to_owned(),
        })
    };
    reads.filter_map(measure).collect()
}

/// Each way in which each store starts, by the store's name.
fn starts(stores: &mut [Box<dyn Store>]) -> Result<Vec<(String, Start)>, String> {
    let mut found = Vec::new();
    for store in stores {
        let of_store = store.starts()?;
        found.extend(
            of_store
                .into_iter()
                .map(|start| (store.name().to_owned(), start)),
        );
    }
    Ok(found)
}

fn start_note((name, start): &(String, Start)) -> String {
    let Start { from, seconds, .. } = start;
    format!("{name}: start from {from}: {seconds:.2} s")
}

fn start_measure((name, start): &(String, Start), rows: u64) -> Measure {
    let from = if start.is_after_kill {
        "start after a kill".to_owned()
    } else {
        format!("start from a checkpoint of {rows} rows")
    };
    Measure {
        name: format!("{name}: {from}"),
        value: start.seconds,
        unit: "s".to_owned(),
    }
}

fn describe(
    rows: u64,
    durability: Durability,
    stores: &[Box<dyn Store>],
    cell_keys: &[CellKey],
) -> Experiment {
    let cell = |cell_key: &CellKey| {
        Some(Cell {
            operation: cell_key.work.name().to_owned(),
            size: cell_key.threads as u64,
            system: stores.get(cell_key.store)?.name().to_owned(),
            client: format!("{} threads in this process", cell_key.threads),
            units: cell_key.work.rows() as u64,
            runs: Vec::new(),
        })
    };
    let cells = cell_keys.iter().filter_map(cell).collect();
    let named = |is_read: bool| {
        let alike = stores
            .iter()
            .filter(move |s| s.offers(Work::ReadOne) == is_read);
        alike.map(|s| s.name().to_owned()).collect::<Vec<_>>()
    };
    let (others, inserted) = (named(true), named(false));
    let pairs = others
        .windows(2)
        .filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())));
    let plain = inserted.first();
    let beside_plain = inserted.iter().skip(1);
    let pairs = pairs.chain(beside_plain.filter_map(|s| Some((s.clone(), plain?.clone()))));
    let word = durability.word();
    Experiment {
        cells,
        pairs: pairs.collect(),
        ..Experiment::new(
            "native",
            format!("In process, without network, durability {word}"),
            format!(
                "{rows} rows with an integer key and a value of {} bytes; each call is a transaction, \
                 durability {word}. Every value read is verified. The processor time is that of \
                 this process, log threads too.",
                value::USUAL,
            ),
            "threads",
        )
    }
}

/// All runs, interleaved; cells are those of [`describe`].
fn rounds(
    bench: &mut Bench,
    stores: &[Box<dyn Store>],
    cell_keys: &[CellKey],
    rows: u64,
    cells: &mut [Cell],
) -> Result<()> {
    let effort = bench.options.effort;
    let (seed, calls) = (bench.options.seed, bench.options.native.calls);
    let versions = AtomicU64::new(1);
    let cores = crate::sys::cores();
    bench
        .progress
        .expect(cells.len() * effort.rounds, effort.warm_up + effort.time);
    let mut measure = |_: usize, cell: usize| {
        let cell_key = cell_keys.get(cell);
        let Some((cell_key, store)) = cell_key.and_then(|p| Some((p, stores.get(p.store)?))) else {
            return Measured::default();
        };
        let plan = Plan {
            work: cell_key.work,
            rows: rows.max(1),
            seed,
            threads: cell_key.threads,
            times: (effort.warm_up, effort.time),
            calls,
            versions: &versions,
        };
        let driven = drive::run(store.as_ref(), &plan);
        let mut measured = Measured::of(&driven.outcome, cores);
        measured.run.instructions = driven.instructions;
        measured
    };
    // Stores keep their order in each round.
    let groups = vec![1; cell_keys.len()];
    let progress = &mut bench.progress;
    run_rounds(&groups, effort.rounds, cells, progress, &mut measure)
}

#[cfg(test)]
mod tests;
