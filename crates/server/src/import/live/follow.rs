//! The replica of the server that is loaded, as an import uses it: its source, waiting, lag, cutting over.

use super::super::connection::{Server, failed, literal};
use super::source::{self, Identity, Position};
use super::{Live, plan};
use crate::config::StartError;
use crate::import::{ImportOptions, Selection};
use porpoise_client::{Address, TlsMode};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Time between two polls of the replica.
const POLL: Duration = Duration::from_millis(200);

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Time in which a source must be at rest before the cut-over.
const AT_REST: Duration = Duration::from_secs(1);

/// State of the replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it runs.
    pub is_running: bool,
    /// End of the last transaction applied.
    pub applied: Position,
    /// The error with which it has stopped, or cannot connect.
    pub error: String,
}

/// Returns the state of the replica; `None` if it has no source.
///
/// # Errors
/// The server's.
pub fn status(server: &mut Server) -> Result<Option<Status>, StartError> {
    const FILE: usize = 9;
    const IO: usize = 10;
    const RUNNING: usize = 11;
    const POSITION: usize = 21;
    const IO_ERROR: usize = 35;
    const ERROR: usize = 37;
    let Some(row) = server.run("SHOW REPLICA STATUS")?.rows.into_iter().next() else {
        return Ok(None);
    };
    let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let error = match cell(ERROR) {
        error if error.is_empty() => cell(IO_ERROR),
        error => error,
    };
    Ok(Some(Status {
        is_running: cell(RUNNING) == "Yes" && cell(IO) != "No",
        applied: (cell(FILE), cell(POSITION).parse().unwrap_or(0)),
        error,
    }))
}

/// Sets the replica's source to the source of the import, at the position of a snapshot.
///
/// # Errors
/// The server's.
pub fn set_source(
    options: &ImportOptions,
    live: &Live,
    server: &mut Server,
    position: &Position,
) -> Result<(), StartError> {
    let Address::Tcp(host, port) = &live.source.address else {
        return Err(failed("the source must be named by HOST:PORT"));
    };
    let credentials = &live.source.credentials;
    let text = |bytes: &[u8]| literal(&String::from_utf8_lossy(bytes));
    let tls = u8::from(!matches!(
        live.source.tls.mode,
        TlsMode::Preferred | TlsMode::Disabled
    ));
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = {}, SOURCE_PORT = {port}, SOURCE_USER = {}, SOURCE_PASSWORD = {}, \
         SOURCE_LOG_FILE = {}, SOURCE_LOG_POS = {}, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0, SOURCE_SSL = {tls}",
        literal(host),
        text(&credentials.user),
        text(&credentials.password),
        literal(&position.0),
        position.1
    );
    // The statement contains the password, so no message may contain the statement.
    server.attempt(&change, None).map_err(failed)?;
    if let Some(filters) = filters(&options.selection) {
        server.run(&filters)?;
    }
    Ok(())
}

/// The statement that restricts the replica to the selected objects.
fn filters(selection: &Selection) -> Option<String> {
    let quote = super::super::connection::quote;
    let table = |(schema, name): &plan::Name| format!("{}.{}", quote(schema), quote(name));
    let mut rules = Vec::new();
    let mut rule = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            rules.push(format!("{name} = ({})", items.join(", ")));
        }
    };
    let included = selection.include_schemas.iter();
    let mut schemas: Vec<String> = included.map(|name| quote(name)).collect();
    schemas.extend(
        selection
            .include_tables
            .iter()
            .map(|(schema, _)| quote(schema)),
    );
    schemas.sort();
    schemas.dedup();
    rule("REPLICATE_DO_DB", schemas);
    rule(
        "REPLICATE_IGNORE_DB",
        selection
            .exclude_schemas
            .iter()
            .map(|name| quote(name))
            .collect(),
    );
    if !selection.include_tables.is_empty() {
        rule(
            "REPLICATE_DO_TABLE",
            selection.include_tables.iter().map(table).collect(),
        );
        let whole = selection.include_schemas.iter();
        let escape = |name: &String| {
            name.replace('\\', "\\\\")
                .replace('_', "\\_")
                .replace('%', "\\%")
        };
        let patterns = whole.map(|name| literal(&format!("{}.%", escape(name))));
        rule("REPLICATE_WILD_DO_TABLE", patterns.collect());
    }
    rule(
        "REPLICATE_IGNORE_TABLE",
        selection.exclude_tables.iter().map(table).collect(),
    );
    (!rules.is_empty()).then(|| format!("CHANGE REPLICATION FILTER {}", rules.join(", ")))
}

/// Runs the replica up to a position, where it stops.
///
/// # Errors
/// The replica's, if it stops earlier.
pub fn run_until(server: &mut Server, until: &Position) -> Result<(), StartError> {
    server.run(&format!(
        "START REPLICA UNTIL SOURCE_LOG_FILE = {}, SOURCE_LOG_POS = {}",
        literal(&until.0),
        until.1
    ))?;
    loop {
        let status = status(server)?.ok_or_else(|| failed("the replica has lost its source"))?;
        if !status.is_running {
            if status.applied == *until {
                return Ok(());
            }
            let (file, at) = &status.applied;
            return Err(failed(format_args!(
                "the replica has stopped at {file}:{at}, before {}:{}: {}",
                until.0, until.1, status.error
            )));
        }
        std::thread::sleep(POLL);
    }
}

/// Bytes of the source's log between two positions.
fn distance(source: &mut Server, from: &Position, to: &Position) -> Result<u64, StartError> {
    if from.0 == to.0 {
        return Ok(to.1.saturating_sub(from.1));
    }
    let mut bytes = to.1.saturating_sub(from.1);
    for row in source.run("SHOW BINARY LOGS")?.rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let file = cells.next().unwrap_or_default();
        let size: u64 = cells.next().unwrap_or_default().parse().unwrap_or(0);
        if file >= from.0 && file < to.0 {
            bytes += size;
        }
    }
    Ok(bytes)
}

/// Reports the lag until the replica has applied everything, or for ever with `forever`.
///
/// # Errors
/// The replica has stopped.
pub fn watch(
    options: &ImportOptions,
    server: &mut Server,
    source: &mut Server,
    forever: bool,
) -> Result<(), StartError> {
    let (mut shown, mut last) = (Instant::now(), None::<(Instant, Position)>);
    loop {
        let end = source::log_end(source)?;
        let status = status(server)?.ok_or_else(|| failed("the replica has lost its source"))?;
        if !status.is_running {
            return Err(failed(format_args!(
                "the replica has stopped: {}",
                status.error
            )));
        }
        let lag = distance(source, &status.applied, &end)?;
        if lag == 0 && !forever {
            return Ok(());
        }
        if !options.quiet && shown.elapsed() >= PROGRESS_INTERVAL {
            shown = Instant::now();
            let (file, position) = &status.applied;
            let mut line =
                format!("import: following at {file}:{position}, {lag} bytes of the log behind");
            if let Some((since, before)) = &last {
                let applied = distance(source, before, &status.applied)?;
                let rate = applied as f64 / since.elapsed().as_secs_f64();
                let left = lag as f64 / rate.max(1.0);
                let _ = write!(line, ", {:.2} MB/s, about {left:.0} s left", rate / 1e6);
            }
            eprintln!("{line}");
            last = Some((Instant::now(), status.applied));
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until everything is applied and the source is at rest, and ends the replication.
///
/// # Errors
/// Clients still write to the source; the replica is left running.
pub fn cut_over(
    options: &ImportOptions,
    server: &mut Server,
    source: &mut Server,
    identity: &Identity,
) -> Result<(), StartError> {
    watch(options, server, source, false)?;
    let [read_only] = source.first_row("SELECT @@GLOBAL.read_only")?;
    let before = source::log_end(source)?;
    std::thread::sleep(AT_REST);
    let end = source::log_end(source)?;
    if end != before {
        return Err(failed(format_args!(
            "the source {} is being written: stop its applications (SET GLOBAL read_only = 1), then run the same \
             command again; the replica goes on",
            identity.name
        )));
    }
    if read_only == "0" || read_only.eq_ignore_ascii_case("off") {
        return Err(failed(format_args!(
            "the source {} accepts writes: run SET GLOBAL read_only = 1 there, so that no write is lost, then run the \
             same command again; the replica goes on",
            identity.name
        )));
    }
    watch(options, server, source, false)?;
    server.run("STOP REPLICA")?;
    let applied = status(server)?.map(|status| status.applied);
    let now = source::log_end(source)?;
    if applied.as_ref() != Some(&now) {
        server.run("START REPLICA")?;
        return Err(failed(
            "the source was written during the cut-over; the replica goes on following: run the same command again",
        ));
    }
    Ok(())
}
