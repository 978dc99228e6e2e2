//! Copies rows from a snapshot in ranges of the primary key, over several connections.
//!
//! A worker has a connection to the source, within the snapshot, and one to the server that is loaded. For each range:
//!
//! ```text
//!   source   SELECT ... WHERE id >= low ORDER BY id LIMIT n    rows, and the end of the range
//!   here     START TRANSACTION
//!            read the replica's position: it must be that of the snapshot
//!            record the range with the number of rows and their checksum
//!            LOAD DATA LOCAL                                       no warning is accepted
//!            COMMIT
//!            SELECT the range with result_checksum = ON            compared with what was read
//!            record that it was compared
//! ```
//!
//! The server computes the checksum of the stored rows as it would send them: transferring all rows again took a third of
//! the time of the load. It is computed after the commit, because reading a transaction's own writes sorts them
//! first. If the process ends in between, the next one compares the range before the replica changes it ([`compare_loaded`]).
//!
//! Rows of one key value that are more than [`MAX_CHUNKS`] chunks are loaded in several transactions. The value is recorded before the
//! first of them; after an interruption its rows are deleted ([`delete_parts`]). A table without an integer key is copied by one SELECT
//! and several transactions; it is compared and recorded at its end.
//!
//! Checksum: the sum of a hash of each row's packet, so that the order of rows does not matter.

use super::super::connection::{Server, failed};
use super::Live;
use super::deferred;
use super::notes::{self, Range, UncomparedRange};
use super::plan::{Name, Table, range_condition};
use super::source::{Position, Snapshot};
use crate::config::StartError;
use crate::import::ImportOptions;
use porpoise_client::{Error, Result};
use porpoise_wire::mysql::client::result::TextRow;
use std::collections::{BTreeMap, VecDeque};
use std::io::Cursor;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of chunks that the rows of one key value have if they are loaded in one transaction.
const MAX_CHUNKS: usize = 16;

/// Size in bytes from which a range is divided among workers.
const DIVIDED: u64 = 16 << 20;

/// Number of rows that one transaction deletes.
const DELETED_ROWS: usize = 10_000;

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Settings of a connection that loads.
const SETTINGS: &str = "SET NAMES utf8mb4; SET SESSION unique_checks = 1, time_zone = '+00:00', \
    sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'";

/// Part of a table to be copied.
struct Job {
    table: usize,
    range: Range,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Job>,
    /// Number of unfinished jobs of a table; a table without an entry is done.
    left: BTreeMap<Name, usize>,
    /// Tables that wait for their parents.
    waiting: Vec<usize>,
    error: Option<StartError>,
}

struct Shared<'t> {
    tables: &'t [Table],
    /// Jobs of each table, taken when its parents are done.
    jobs: Mutex<Vec<Vec<Job>>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    position: Option<&'t Position>,
    /// Approximate number of bytes that one transaction loads.
    chunk_bytes: usize,
    rows: AtomicU64,
    bytes: AtomicU64,
    running: AtomicUsize,
}

/// Counts of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// Rows.
    pub rows: u64,
    /// Bytes of the rows as text.
    pub bytes: u64,
}

/// Copies the parts of these tables that are not copied yet.
///
/// # Errors
/// The first error of any worker; ranges that are recorded stay.
pub fn run(
    options: &ImportOptions,
    live: &Live,
    server: &mut Server,
    mut snapshot: Snapshot,
    tables: &[Table],
) -> std::result::Result<Copied, StartError> {
    let mut jobs = Vec::new();
    let mut queue = Queue::default();
    let workers = snapshot.connections.len();
    let control = snapshot.connections.first_mut();
    let control = control.ok_or_else(|| failed("no connection to the source"))?;
    for (at, table) in tables.iter().enumerate() {
        let mut of_table = Vec::new();
        for gap in notes::gaps(&notes::ranges(server, table)?) {
            of_table.extend(divide(control, table, gap, workers)?);
        }
        let of_table = of_table.into_iter().map(|range| Job { table: at, range });
        let of_table: Vec<Job> = of_table.collect();
        if of_table.is_empty() {
            // An earlier process has ended after the last range and before recording the table; its indexes exist
            // since the continuation.
            server.run(&notes::note_table(table))?;
            jobs.push(of_table);
            continue;
        }
        queue.left.insert(table.name.clone(), of_table.len());
        queue.waiting.push(at);
        jobs.push(of_table);
    }
    let shared = Shared {
        tables,
        jobs: Mutex::new(jobs),
        queue: Mutex::new(queue),
        changed: Condvar::new(),
        position: snapshot.position.as_ref(),
        chunk_bytes: live.chunk_bytes.max(1),
        rows: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        running: AtomicUsize::new(workers),
    };
    shared.release();
    let total = tables.iter().map(|table| table.bytes).sum();
    std::thread::scope(|scope| {
        for (number, source) in snapshot.connections.iter_mut().enumerate() {
            let shared = &shared;
            scope.spawn(move || {
                if let Err(error) = work(options, shared, source, number) {
                    shared.fail(error);
                }
                shared.running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        report(options, &shared, total);
    });
    let queue = shared.queue.into_inner();
    let error = queue.map_or(None, |queue| queue.error);
    error.map_or(
        Ok(Copied {
            rows: shared.rows.into_inner(),
            bytes: shared.bytes.into_inner(),
        }),
        Err,
    )
}

/// Prints the progress until all workers have ended.
fn report(options: &ImportOptions, shared: &Shared<'_>, total: u64) {
    let (start, mut shown) = (Instant::now(), Instant::now());
    while shared.running.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(20));
        if options.quiet || shown.elapsed() < PROGRESS_INTERVAL {
            continue;
        }
        shown = Instant::now();
        let done = shared.bytes.load(Ordering::Relaxed);
        let rate = done as f64 / start.elapsed().as_secs_f64();
        let left = total.saturating_sub(done) as f64 / rate.max(1.0);
        eprintln!(
            "import: {} rows, {:.1} of about {:.1} MB, {:.1} MB/s, about {left:.0} s left",
            shared.rows.load(Ordering::Relaxed),
            done as f64 / 1e6,
            total as f64 / 1e6,
            rate / 1e6
        );
    }
}

/// Divides a range among workers, if it is large.
fn divide(
    source: &mut Server,
    table: &Table,
    gap: Range,
    workers: usize,
) -> std::result::Result<Vec<Range>, StartError> {
    let Some(key) = table
        .key
        .as_ref()
        .filter(|_| table.bytes >= DIVIDED && workers > 1)
    else {
        return Ok(vec![gap]);
    };
    let condition = range_condition(key, gap.0, gap.1);
    let column = super::super::connection::quote(key);
    let [least, most] = source.first_row(&format!(
        "SELECT MIN({column}), MAX({column}) FROM {} WHERE {condition}",
        table.quoted()
    ))?;
    let (Ok(least), Ok(most)) = (least.parse::<i128>(), most.parse::<i128>()) else {
        return Ok(vec![gap]);
    };
    let parts = (workers * 2) as i128;
    let step = (most - least) / parts;
    if step == 0 {
        return Ok(vec![gap]);
    }
    let mut limits: Vec<Option<i128>> = vec![gap.0];
    limits.extend((1..parts).map(|part| Some(least + part * step)));
    limits.push(gap.1);
    let pairs = limits.windows(2).filter_map(|pair| match pair {
        [low, high] => Some((*low, *high)),
        _ => None,
    });
    Ok(pairs.collect())
}

impl Shared<'_> {
    fn fail(&self, error: StartError) {
        if let Ok(mut queue) = self.queue.lock() {
            queue.error.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    /// Queues the jobs of tables whose parents are done.
    fn release(&self) {
        let (Ok(mut queue), Ok(mut jobs)) = (self.queue.lock(), self.jobs.lock()) else {
            return;
        };
        let waiting = std::mem::take(&mut queue.waiting);
        for at in waiting {
            let Some(table) = self.tables.get(at) else {
                continue;
            };
            if table
                .parents
                .iter()
                .any(|parent| queue.left.contains_key(parent))
            {
                queue.waiting.push(at);
            } else if let Some(of_table) = jobs.get_mut(at) {
                queue.ready.extend(of_table.drain(..));
            }
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// Waits for a job; `None`: everything is done, or a worker has failed.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().ok()?;
        loop {
            if queue.error.is_some() || queue.left.is_empty() {
                return None;
            }
            if let Some(job) = queue.ready.pop_front() {
                return Some(job);
            }
            queue = self.changed.wait(queue).ok()?;
        }
    }

    /// Ends a job. Returns whether it was its table's last one.
    fn done(&self, table: &Table) -> bool {
        let Ok(mut queue) = self.queue.lock() else {
            return false;
        };
        let Some(left) = queue.left.get_mut(&table.name) else {
            return false;
        };
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// Marks a table as done, so that its children can begin.
    fn finished(&self, table: &Table) {
        if let Ok(mut queue) = self.queue.lock() {
            queue.left.remove(&table.name);
        }
        self.release();
    }
}

/// Copies ranges until none is left.
fn work(
    options: &ImportOptions,
    shared: &Shared<'_>,
    source: &mut Server,
    number: usize,
) -> std::result::Result<(), StartError> {
    let mut server = Server::with_settings(&options.into, SETTINGS)?;
    // A session of an earlier process may still commit, as long as it lives.
    notes::lock(&mut server, &format!("worker {number}"))?;
    while let Some(job) = shared.next() {
        let Some(table) = shared.tables.get(job.table) else {
            continue;
        };
        let checks = u8::from(!table.is_cyclic);
        server.run(&format!("SET SESSION foreign_key_checks = {checks}"))?;
        let mut copier = Copier {
            shared,
            source: &mut *source,
            server: &mut server,
            table,
        };
        let done = match (&table.key, table.key_position()) {
            (Some(key), Some(at)) => copier.ranges(key, at, job.range),
            _ => copier.whole(),
        };
        done.map_err(|error| failed(format_args!("table {}: {error}", table.shown())))?;
        if shared.done(table) {
            deferred::create_indexes(&mut server, table)?;
            server.run(&notes::note_table(table))?;
            shared.finished(table);
        }
    }
    Ok(())
}

/// Rows in the format of LOAD DATA.
#[derive(Default)]
struct Chunk {
    text: Vec<u8>,
    rows: u64,
    sum: u64,
}

impl Chunk {
    /// Adds a row.
    fn push(&mut self, row: TextRow<'_>) {
        self.sum = self.sum.wrapping_add(xxh3_64(row.payload()));
        self.rows += 1;
        append_line(row, &mut self.text);
    }
}

/// Appends a row as LOAD DATA reads it.
fn append_line(row: TextRow<'_>, line: &mut Vec<u8>) {
    for (at, cell) in row.enumerate() {
        if at > 0 {
            line.push(b'\t');
        }
        let Some(cell) = cell else {
            line.extend_from_slice(b"\\N");
            continue;
        };
        let mut rest = cell;
        let is_escaped = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\\');
        while let Some(at) = rest.iter().position(is_escaped) {
            let (plain, special) = rest.split_at(at);
            line.extend_from_slice(plain);
            line.push(b'\\');
            line.push(match special.first() {
                Some(b'\t') => b't',
                Some(b'\n') => b'n',
                _ => b'\\',
            });
            rest = special.get(1..).unwrap_or_default();
        }
        line.extend_from_slice(rest);
    }
    line.push(b'\n');
}

/// The first rows of a range.
enum FirstRows {
    /// All rows up to this end.
    UpTo(Chunk, Option<i128>),
    /// The first key value has more rows than were requested.
    OneValue,
    /// As [`FirstRows::OneValue`], and this value has more rows than [`MAX_CHUNKS`] chunks.
    TooMany(i128),
}

struct Copier<'w, 't> {
    shared: &'w Shared<'t>,
    source: &'w mut Server,
    server: &'w mut Server,
    table: &'w Table,
}

/// An error of this program as an error of the client library.
fn refuse(text: String) -> Error {
    Error::Lost(std::io::Error::other(text))
}

/// The value of a key column.
fn key_value(key: &str, text: Option<&[u8]>) -> Result<i128> {
    let value = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    value.ok_or_else(|| refuse(format!("column {key} is not an integer")))
}

impl Copier<'_, '_> {
    /// Copies a range in steps.
    fn ranges(&mut self, key: &str, at: usize, range: Range) -> Result<()> {
        let row_bytes = usize::try_from(self.table.row_bytes).unwrap_or(0).max(32);
        let mut limit = (self.shared.chunk_bytes / row_bytes).clamp(16, 50_000);
        let (mut low, high) = range;
        loop {
            let end = match self.read(key, at, (low, high), limit)? {
                FirstRows::UpTo(chunk, end) => {
                    self.load_range(key, (low, end), chunk)?;
                    end
                }
                FirstRows::OneValue => {
                    limit *= 4;
                    continue;
                }
                FirstRows::TooMany(value) => self.one_value(key, (low, high), value)?,
            };
            if end == high {
                return Ok(());
            }
            low = end;
        }
    }

    /// Reads the first rows of a range.
    fn read(&mut self, key: &str, at: usize, range: Range, limit: usize) -> Result<FirstRows> {
        let query = format!(
            "SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {limit}",
            self.table.selected(),
            self.table.quoted(),
            range_condition(key, range.0, range.1),
            super::super::connection::quote(key)
        );
        let most = self.shared.chunk_bytes * MAX_CHUNKS;
        let mut chunk = Chunk::default();
        // The last key value, as text, and the chunk before its rows.
        let (mut last, mut before_last, mut seen) = (Vec::new(), (0, 0, 0), 0);
        self.source.stream(&query, |row| {
            seen += 1;
            if chunk.text.len() > most {
                return Ok(());
            }
            let value = row.clone().nth(at).flatten();
            let value = value.ok_or_else(|| refuse(format!("column {key} is NULL")))?;
            if chunk.rows == 0 || last != value {
                last.clear();
                last.extend_from_slice(value);
                before_last = (chunk.text.len(), chunk.rows, chunk.sum);
            }
            chunk.push(row);
            Ok(())
        })?;
        let is_cut = chunk.text.len() > most;
        if seen < limit && !is_cut {
            return Ok(FirstRows::UpTo(chunk, range.1));
        }
        // The last key value may have more rows.
        let last = key_value(key, Some(&last))?;
        let (bytes, rows, sum) = before_last;
        if rows > 0 {
            chunk.text.truncate(bytes);
            (chunk.rows, chunk.sum) = (rows, sum);
            Ok(FirstRows::UpTo(chunk, Some(last)))
        } else if is_cut {
            Ok(FirstRows::TooMany(last))
        } else {
            Ok(FirstRows::OneValue)
        }
    }

    /// Loads and records a range in one transaction, and compares it.
    fn load_range(&mut self, key: &str, range: Range, chunk: Chunk) -> Result<()> {
        let loaded = UncomparedRange {
            range,
            rows: chunk.rows,
            checksum: chunk.sum,
        };
        self.begin()?;
        self.note_range(loaded)?;
        self.load(chunk)?;
        self.server.attempt("COMMIT", None)?;
        self.compare(&range_condition(key, range.0, range.1), loaded)
    }

    /// Copies the rows from the beginning of a range up to a key value that has many rows. Returns the end of the copied part.
    fn one_value(&mut self, key: &str, range: Range, value: i128) -> Result<Option<i128>> {
        let end = Some(value.saturating_add(1));
        let (record, remove) = notes::note_parts(self.table, value);
        self.server.attempt(&record, None)?;
        // There are no rows before the value.
        let condition = range_condition(key, Some(value), end);
        let (rows, checksum) = self.stream(&condition)?;
        let loaded = UncomparedRange {
            range: (range.0, end),
            rows,
            checksum,
        };
        self.begin()?;
        self.note_range(loaded)?;
        self.server.attempt(&remove, None)?;
        self.server.attempt("COMMIT", None)?;
        self.compare(&condition, loaded)?;
        Ok(end)
    }

    /// Copies a table with one SELECT.
    fn whole(&mut self) -> Result<()> {
        let (rows, checksum) = self.stream("TRUE")?;
        let loaded = UncomparedRange {
            range: (None, None),
            rows,
            checksum,
        };
        self.begin()?;
        self.note_range(loaded)?;
        self.server.attempt("COMMIT", None)?;
        self.compare("TRUE", loaded)
    }

    /// Copies rows with one SELECT and several transactions. Returns their number and checksum.
    fn stream(&mut self, condition: &str) -> Result<(u64, u64)> {
        let query = format!(
            "SELECT {} FROM {} WHERE {condition}",
            self.table.selected(),
            self.table.quoted()
        );
        let (mut rows, mut sum) = (0, 0u64);
        let mut chunk = Chunk::default();
        let (shared, table, server) = (self.shared, self.table, &mut *self.server);
        let mut flush = |chunk: &mut Chunk| {
            let chunk = std::mem::take(chunk);
            rows += chunk.rows;
            sum = sum.wrapping_add(chunk.sum);
            begin(shared, server)?;
            load(shared, server, table, chunk)?;
            server.attempt("COMMIT", None).map(drop)
        };
        self.source.stream(&query, |row| {
            chunk.push(row);
            if chunk.text.len() < shared.chunk_bytes {
                return Ok(());
            }
            flush(&mut chunk)
        })?;
        flush(&mut chunk)?;
        Ok((rows, sum))
    }

    fn begin(&mut self) -> Result<()> {
        begin(self.shared, self.server)
    }

    fn load(&mut self, chunk: Chunk) -> Result<()> {
        load(self.shared, self.server, self.table, chunk)
    }

    fn note_range(&mut self, loaded: UncomparedRange) -> Result<()> {
        let note = notes::note_range(self.table, loaded.range, loaded.rows, loaded.checksum);
        self.server.attempt(&note, None).map(drop)
    }

    /// Compares loaded rows with those that were read from the source, and records that.
    fn compare(&mut self, condition: &str, loaded: UncomparedRange) -> Result<()> {
        compare(self.server, self.table, condition, loaded)?;
        let note = notes::note_compared(self.table, loaded.range);
        self.server.attempt(&note, None).map(drop)
    }
}

/// Compares the rows of a range with those that were read from the source.
fn compare(
    server: &mut Server,
    table: &Table,
    condition: &str,
    loaded: UncomparedRange,
) -> Result<()> {
    let query = format!(
        "SET SESSION result_checksum = ON; SELECT {} FROM {} WHERE {condition}; SET SESSION result_checksum = OFF",
        table.selected(),
        table.quoted()
    );
    let mut shown = server.attempt(&query, None)?.rows;
    let row = shown.pop().unwrap_or_default();
    let mut cells = row.into_iter().map(|cell| cell?.parse::<u64>().ok());
    let found = (cells.next().flatten(), cells.next().flatten());
    if found == (Some(loaded.rows), Some(loaded.checksum)) {
        return Ok(());
    }
    Err(refuse(format!(
        "{} rows with checksum {:016x} were read from the source, but {} rows with checksum {:016x} were loaded, where {condition}",
        loaded.rows,
        loaded.checksum,
        found.0.unwrap_or(0),
        found.1.unwrap_or(0)
    )))
}

/// Compares the ranges of a table that an interrupted process has loaded and not compared.
///
/// # Errors
/// Different rows; the server's.
pub fn compare_loaded(server: &mut Server, table: &Table) -> std::result::Result<(), StartError> {
    for loaded in notes::uncompared(server, table)? {
        let (low, high) = loaded.range;
        let condition = match &table.key {
            Some(key) => range_condition(key, low, high),
            None => "TRUE".to_owned(),
        };
        compare(server, table, &condition, loaded)
            .map_err(|error| failed(format_args!("table {}: {error}", table.shown())))?;
        server.run(&notes::note_compared(table, loaded.range))?;
    }
    Ok(())
}

/// Deletes the rows of key values that an interrupted process has loaded in part.
///
/// # Errors
/// The server's.
pub fn delete_parts(server: &mut Server, table: &Table) -> std::result::Result<(), StartError> {
    let Some(key) = &table.key else {
        return Ok(());
    };
    for value in notes::parts(server, table)? {
        let condition = range_condition(key, Some(value), Some(value.saturating_add(1)));
        let delete = format!(
            "DELETE FROM {} WHERE {condition} LIMIT {DELETED_ROWS}",
            table.quoted()
        );
        while server.run(&delete)?.affected > 0 {}
        let (_, remove) = notes::note_parts(table, value);
        server.run(&remove)?;
    }
    Ok(())
}

/// Begins a transaction, and locks the replica's position until its end.
fn begin(shared: &Shared<'_>, server: &mut Server) -> Result<()> {
    server.attempt("START TRANSACTION", None)?;
    let Some((file, position)) = shared.position else {
        return Ok(());
    };
    let query =
        "SELECT Source_log_file, Source_log_pos FROM mysql.replica_position LOCK IN SHARE MODE";
    let rows = server.attempt(query, None)?.rows;
    let row = rows.into_iter().next().unwrap_or_default();
    let mut cells = row.into_iter().map(Option::unwrap_or_default);
    let found = (
        cells.next().unwrap_or_default(),
        cells.next().unwrap_or_default(),
    );
    if found == (file.clone(), position.to_string()) {
        return Ok(());
    }
    Err(refuse(format!(
        "the replica is at {}:{}, but the snapshot at {file}:{position}: do not start the replica while rows are copied",
        found.0, found.1
    )))
}

/// Loads rows; a value that does not fit is an error.
fn load(shared: &Shared<'_>, server: &mut Server, table: &Table, chunk: Chunk) -> Result<()> {
    let (rows, bytes) = (chunk.rows, chunk.text.len() as u64);
    if rows == 0 {
        return Ok(());
    }
    let file = Box::new(Cursor::new(chunk.text));
    let reply = server.attempt(&table.load_statement(), Some(file))?;
    let (warnings, skipped) = (reply.count("Warnings"), reply.count("Skipped"));
    if warnings > 0 || skipped > 0 || reply.affected != rows {
        let shown = server.attempt("SHOW WARNINGS LIMIT 3", None)?.rows;
        let texts = shown.into_iter().filter_map(|row| row.into_iter().nth(2)?);
        let texts: Vec<String> = texts.collect();
        return Err(refuse(format!(
            "rows do not fit: {} of {rows} loaded, {warnings} warnings: {}",
            reply.affected,
            texts.join("; ")
        )));
    }
    shared.rows.fetch_add(rows, Ordering::Relaxed);
    shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}
