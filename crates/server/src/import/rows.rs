//! Rows of a dump: files that several connections load, the largest first.

use super::ImportOptions;
use super::connection::{Server, failed};
use super::dump::{Chunk, Schema, Table};
use super::progress::{DUPLICATE, Progress};
use super::report::{Report, SHOWN_WARNINGS};
use crate::config::StartError;
use porpoise_client::Error;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// A file to be loaded, with its statement.
pub struct Job<'d> {
    chunk: &'d Chunk,
    table: String,
    statement: String,
}

/// The files of a table that are not loaded yet.
pub fn jobs<'d>(schema: &Schema, table: &'d Table, loaded: &BTreeSet<String>) -> Vec<Job<'d>> {
    let statement = table.options.load_statement(&schema.name, &table.name);
    let chunks = table.chunks.iter();
    let left = chunks.filter(|chunk| !loaded.contains(&chunk.name()));
    left.map(|chunk| Job {
        chunk,
        table: format!("{}.{}", schema.name, table.name),
        statement: statement.clone(),
    })
    .collect()
}

/// State that the workers share.
#[derive(Default)]
struct Shared {
    next: AtomicUsize,
    bytes: AtomicU64,
    running: AtomicUsize,
    report: Mutex<Report>,
    error: Mutex<Option<StartError>>,
}

impl Shared {
    fn has_failed(&self) -> bool {
        self.error.lock().is_ok_and(|error| error.is_some())
    }

    fn fail(&self, error: StartError) {
        if let Ok(mut first) = self.error.lock() {
            first.get_or_insert(error);
        }
    }

    fn add(&self, report: Report) {
        self.bytes.fetch_add(report.bytes, Ordering::Relaxed);
        if let Ok(mut all) = self.report.lock() {
            all.add_rows(report);
        }
    }
}

/// Loads files over several connections.
///
/// # Errors
/// The first of any connection; the others stop after their current file.
pub fn load(
    options: &ImportOptions,
    is_utc: bool,
    progress: &Progress,
    mut jobs: Vec<Job<'_>>,
    report: &mut Report,
) -> Result<(), StartError> {
    jobs.sort_by_key(|job| std::cmp::Reverse(job.chunk.bytes));
    let total: u64 = jobs.iter().map(|job| job.chunk.bytes).sum();
    let shared = Shared::default();
    let threads = options.threads.clamp(1, jobs.len().max(1));
    shared.running.store(threads, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let result = Server::connect(&options.into, is_utc)
                    .and_then(|mut server| work(&mut server, progress, &jobs, &shared));
                if let Err(error) = result {
                    shared.fail(error);
                }
                shared.running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut shown = Instant::now();
        while shared.running.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            if !options.quiet && shown.elapsed() >= PROGRESS_INTERVAL {
                shown = Instant::now();
                let done = shared.bytes.load(Ordering::Relaxed) as f64 / 1e6;
                eprintln!("import: {done:.0} of {:.0} MB of files", total as f64 / 1e6);
            }
        }
    });
    if let Ok(rows) = shared.report.into_inner() {
        report.add_rows(rows);
    }
    let error = shared.error.into_inner().ok().flatten();
    error.map_or(Ok(()), Err)
}

/// Loads files until none is left.
fn work(
    server: &mut Server,
    progress: &Progress,
    jobs: &[Job<'_>],
    shared: &Shared,
) -> Result<(), StartError> {
    while !shared.has_failed() {
        let at = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at) else {
            break;
        };
        shared.add(load_file(server, progress, job)?);
    }
    Ok(())
}

/// Loads a file, and notes that in the same transaction.
fn load_file(
    server: &mut Server,
    progress: &Progress,
    job: &Job<'_>,
) -> Result<Report, StartError> {
    let path = job.chunk.path.display();
    let unloaded = |error: Error| failed(format_args!("{error}, table {}, {path}", job.table));
    let file = job
        .chunk
        .open()
        .map_err(|error| StartError::usage(format!("import: {path}: {error}")))?;
    server.run("START TRANSACTION")?;
    match server.attempt(&progress.note_file(&job.chunk.name()), None) {
        Ok(_) => {}
        // A former process has died, and its COMMIT came after this one had read the notes.
        Err(Error::Server(error)) if error.code == DUPLICATE => {
            server.run("ROLLBACK")?;
            return Ok(Report::default());
        }
        Err(error) => return Err(unloaded(error)),
    }
    let reply = server
        .attempt(&job.statement, Some(file))
        .map_err(unloaded)?;
    let mut report = Report {
        rows: reply.affected,
        skipped_rows: reply.count("Skipped"),
        bytes: job.chunk.bytes,
        warnings: reply.count("Warnings"),
        ..Report::default()
    };
    if report.warnings > 0 {
        let shown = server.run(&format!("SHOW WARNINGS LIMIT {SHOWN_WARNINGS}"))?;
        let texts = shown
            .rows
            .into_iter()
            .filter_map(|row| row.into_iter().nth(2)?);
        let texts = texts.map(|text| format!("{}: {text}", job.table));
        report.first_warnings.extend(texts);
    }
    server.run("COMMIT")?;
    Ok(report)
}
