//! `porpoise import`: loads a dump by MySQL Shell into a server.
//!
//! Order: schemas with their routines, tables, rows, triggers, views. Rows are loaded by LOAD DATA LOCAL
//! over several connections, the largest files first, without checks of foreign and unique keys that
//! are not needed for rows of a consistent dump. The server must be empty of what is loaded, unless
//! the command line says otherwise.

mod client;
mod dump;

use crate::config::StartError;
use client::Client;
use dump::{Chunk, Dump, Schema, quote};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use client::Target;

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Treatment of tables and views of the dump that exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Nothing is loaded at all.
    Refuse,
    /// They stay, without the dump's rows.
    Keep,
    /// They are dropped first.
    Drop,
}

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The directory.
    pub dump: PathBuf,
    /// The server.
    pub into: Target,
    /// Number of connections that load rows.
    pub threads: usize,
    /// Treatment of existing tables and views.
    pub existing: Existing,
    /// Whether progress is not reported.
    pub quiet: bool,
}

/// A file to be loaded, with its statement.
struct Job<'d> {
    chunk: &'d Chunk,
    statement: String,
}

/// Loads a dump.
///
/// # Errors
/// One line: the dump cannot be read, the server refuses something.
pub fn run(options: &ImportOptions) -> Result<(), StartError> {
    let start = Instant::now();
    let dump = Dump::read(&options.dump)?;
    let mut client = connect(options, &dump)?;
    check_local_infile(&mut client)?;
    let kept = prepare_existing(&mut client, &dump, options.existing)?;
    let is_kept =
        |schema: &Schema, name: &str| kept.iter().any(|(s, n)| *s == schema.name && n == name);
    for schema in &dump.schemas {
        run_script(&mut client, schema.script.as_deref())?;
        client.run(format!("USE {}", quote(&schema.name)).as_bytes())?;
        for table in schema.tables.iter().filter(|t| !is_kept(schema, &t.name)) {
            run_script(&mut client, table.script.as_deref())?;
        }
    }
    let mut jobs = Vec::new();
    for schema in &dump.schemas {
        for table in schema.tables.iter().filter(|t| !is_kept(schema, &t.name)) {
            let statement = table.options.load_statement(&schema.name, &table.name);
            jobs.extend(table.chunks.iter().map(|chunk| Job {
                chunk,
                statement: statement.clone(),
            }));
        }
    }
    let loaded = load_rows(options, &dump, jobs)?;
    for schema in &dump.schemas {
        client.run(format!("USE {}", quote(&schema.name)).as_bytes())?;
        for table in schema.tables.iter().filter(|t| !is_kept(schema, &t.name)) {
            run_script(&mut client, table.triggers.as_deref())?;
        }
    }
    for step in 0..2 {
        for schema in &dump.schemas {
            client.run(format!("USE {}", quote(&schema.name)).as_bytes())?;
            for view in schema.views.iter().filter(|v| !is_kept(schema, &v.name)) {
                run_script(
                    &mut client,
                    view.scripts.get(step).and_then(Option::as_deref),
                )?;
            }
        }
    }
    if !options.quiet {
        let tables: usize = dump.schemas.iter().map(|s| s.tables.len()).sum();
        let seconds = start.elapsed().as_secs_f64();
        let bytes = loaded as f64 / 1e6;
        eprintln!("import: {tables} tables, {bytes:.1} MB of files in {seconds:.1} s");
    }
    Ok(())
}

/// Connects, and sets what the scripts and files of a dump rely on.
fn connect(options: &ImportOptions, dump: &Dump) -> Result<Client, StartError> {
    let mut client = Client::connect(&options.into)?;
    client.run(
        b"SET NAMES utf8mb4; SET SESSION foreign_key_checks = 0, unique_checks = 0, \
          sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    )?;
    if dump.is_utc {
        client.run(b"SET SESSION time_zone = '+00:00'")?;
    }
    Ok(client)
}

/// LOAD DATA LOCAL must be on.
fn check_local_infile(client: &mut Client) -> Result<(), StartError> {
    let rows = client.run(b"SELECT @@GLOBAL.local_infile")?;
    let value = rows.first().and_then(|row| row.first()).cloned().flatten();
    if value.as_deref() == Some("1") {
        return Ok(());
    }
    let text =
        "import: the server refuses files of clients: run `SET GLOBAL local_infile = ON` in it";
    Err(StartError::usage(text))
}

/// The tables and views of the dump that exist and stay; drops the others.
fn prepare_existing(
    client: &mut Client,
    dump: &Dump,
    existing: Existing,
) -> Result<Vec<(String, String)>, StartError> {
    let rows = client.run(
        b"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES \
          WHERE TABLE_TYPE IN ('BASE TABLE', 'VIEW')",
    )?;
    let mut found = Vec::new();
    for row in rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let (Some(schema), Some(name), Some(kind)) = (cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let of_dump = dump.schemas.iter().find(|s| s.name == schema);
        let of_dump = of_dump.is_some_and(|s| {
            let mut views = s.views.iter();
            s.tables.iter().any(|t| t.name == name) || views.any(|v| v.name == name)
        });
        if of_dump {
            found.push((schema, name, kind == "VIEW"));
        }
    }
    match existing {
        Existing::Refuse => {
            let Some((schema, name, _)) = found.first() else {
                return Ok(Vec::new());
            };
            let more = found.len();
            Err(StartError::usage(format!(
                "import: {more} tables and views of the dump exist, {schema}.{name} among them; use \
                 --existing keep or --existing drop"
            )))
        }
        Existing::Keep => Ok(found.into_iter().map(|(s, n, _)| (s, n)).collect()),
        Existing::Drop => {
            for (schema, name, is_view) in &found {
                let kind = if *is_view { "VIEW" } else { "TABLE" };
                let drop = format!("DROP {kind} {}.{}", quote(schema), quote(name));
                client.run(drop.as_bytes())?;
            }
            Ok(Vec::new())
        }
    }
}

/// Runs a script as the command line client does: DELIMITER lines change where statements end.
/// Statements that end with a semicolon go to the server together.
fn run_script(client: &mut Client, path: Option<&Path>) -> Result<(), StartError> {
    let Some(path) = path else {
        return Ok(());
    };
    let script = std::fs::read_to_string(path);
    let script =
        script.map_err(|e| StartError::usage(format!("import: {}: {e}", path.display())))?;
    for part in script_parts(&script) {
        let part = part.trim();
        if !part.is_empty() {
            client.run(part.as_bytes())?;
        }
    }
    Ok(())
}

/// The texts of a script between DELIMITER lines, and between other delimiters than semicolons.
fn script_parts(script: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut delimiter = ";".to_owned();
    for line in script.lines() {
        let mut words = line.split_whitespace();
        if words
            .next()
            .is_some_and(|w| w.eq_ignore_ascii_case("DELIMITER"))
        {
            parts.push(std::mem::take(&mut part));
            delimiter = words.next().unwrap_or(";").to_owned();
            continue;
        }
        let end = line.trim_end().strip_suffix(&delimiter);
        match end.filter(|_| delimiter != ";") {
            Some(rest) => {
                part.push_str(rest);
                parts.push(std::mem::take(&mut part));
            }
            None => {
                part.push_str(line);
                part.push('\n');
            }
        }
    }
    parts.push(part);
    parts
}

/// Progress of the workers.
#[derive(Default)]
struct Counts {
    next: AtomicUsize,
    bytes: AtomicU64,
    running: AtomicUsize,
    error: Mutex<Option<StartError>>,
}

impl Counts {
    fn has_failed(&self) -> bool {
        self.error.lock().is_ok_and(|error| error.is_some())
    }

    fn fail(&self, error: StartError) {
        if let Ok(mut first) = self.error.lock() {
            first.get_or_insert(error);
        }
    }
}

/// Loads files over several connections, the largest first. Returns the bytes of the files.
fn load_rows(
    options: &ImportOptions,
    dump: &Dump,
    mut jobs: Vec<Job<'_>>,
) -> Result<u64, StartError> {
    jobs.sort_by_key(|job| std::cmp::Reverse(job.chunk.bytes));
    let total: u64 = jobs.iter().map(|job| job.chunk.bytes).sum();
    let counts = Counts::default();
    let threads = options.threads.clamp(1, jobs.len().max(1));
    counts.running.store(threads, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Err(error) = load_until_done(options, dump, &jobs, &counts) {
                    counts.fail(error);
                }
                counts.running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut shown = Instant::now();
        while counts.running.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            if !options.quiet && shown.elapsed() >= PROGRESS_INTERVAL {
                shown = Instant::now();
                let done = counts.bytes.load(Ordering::Relaxed) as f64 / 1e6;
                eprintln!("import: {done:.0} of {:.0} MB of files", total as f64 / 1e6);
            }
        }
    });
    let error = counts.error.into_inner().ok().flatten();
    error.map_or(Ok(total), Err)
}

fn load_until_done(
    options: &ImportOptions,
    dump: &Dump,
    jobs: &[Job<'_>],
    counts: &Counts,
) -> Result<(), StartError> {
    let mut client = connect(options, dump)?;
    while !counts.has_failed() {
        let at = counts.next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at) else {
            break;
        };
        let path = &job.chunk.path;
        let unreadable =
            |e: std::io::Error| StartError::usage(format!("import: {}: {e}", path.display()));
        let file = File::open(path).map_err(unreadable)?;
        let mut rows: Box<dyn Read> = if job.chunk.is_zstd {
            Box::new(zstd::stream::read::Decoder::new(file).map_err(unreadable)?)
        } else {
            Box::new(file)
        };
        client.run_with_file(job.statement.as_bytes(), rows.as_mut())?;
        counts.bytes.fetch_add(job.chunk.bytes, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_divided_at_their_delimiters() {
        let script = "CREATE DATABASE s;\nUSE s;\nDELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\n  SELECT \
                      1;\nEND ;;\nDELIMITER ;\nSELECT 2;\n";
        let parts = script_parts(script);
        let parts: Vec<&str> = parts.iter().map(|p| p.trim()).collect();
        assert_eq!(
            parts,
            [
                "CREATE DATABASE s;\nUSE s;",
                "CREATE PROCEDURE p()\nBEGIN\n  SELECT 1;\nEND",
                "",
                "SELECT 2;"
            ]
        );
    }
}
