//! `porpoise import`: loads a dump by MySQL Shell, or a running server ([`live`]), into a server.
//!
//! Order: accounts, schemas with their routines, tables, rows, triggers, views, privileges. Rows are loaded by
//! LOAD DATA LOCAL over several connections, the largest files first, without checks of foreign and unique
//! keys that are not needed for rows of a consistent dump. The server must be empty of what is loaded, unless
//! the command line says otherwise.
//!
//! An import that was interrupted continues where it was ([`progress`]): scripts run again and find their objects,
//! files that are loaded are left out.

mod accounts;
mod connection;
mod dump;
mod live;
mod progress;
mod report;
mod rows;
mod selection;

pub use accounts::account_name;
pub use live::{FROM, Live};
pub use report::Report;
pub use selection::{Selection, table_name};

use crate::config::StartError;
use crate::target::ServerOption;
use accounts::Accounts;
use connection::{Server, quote};
use dump::{Dump, Schema};
use porpoise_client::mysql::Target;
use progress::Progress;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// The option that names the server.
pub const INTO: ServerOption = ServerOption {
    name: "--into",
    program: "porpoise import",
};

/// Treatment of objects and accounts of the dump that exist already.
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
    /// The directory; unused if `live` is given.
    pub dump: PathBuf,
    /// The running server that is copied, instead of a dump.
    pub live: Option<Live>,
    /// The server.
    pub into: Target,
    /// Number of connections that load rows.
    pub threads: usize,
    /// Treatment of what exists.
    pub existing: Existing,
    /// The part of the dump that is loaded.
    pub selection: Selection,
    /// Whether accounts are created.
    pub users: bool,
    /// Whether an interrupted import is forgotten, not continued.
    pub restart: bool,
    /// Whether progress is not reported.
    pub quiet: bool,
}

/// Loads a dump or a running server.
///
/// # Errors
/// One line: the dump cannot be read, a server refuses something.
pub fn run(options: &ImportOptions) -> Result<(), StartError> {
    match &options.live {
        Some(live) => live::run(options, live),
        None => load_dump(options),
    }
}

fn load_dump(options: &ImportOptions) -> Result<(), StartError> {
    let start = Instant::now();
    let mut report = Report::default();
    let mut dump = Dump::read(&options.dump)?;
    let accounts = options
        .users
        .then(|| Accounts::read(&options.dump, &options.selection.exclude_users));
    let mut accounts = accounts.transpose()?.unwrap_or_default();
    report.left_out = options.selection.apply(&mut dump)?;
    report.tables = dump.schemas.iter().map(|s| s.tables.len()).sum();
    report.views = dump.schemas.iter().map(|s| s.views.len()).sum();
    let mut server = Server::connect(&options.into, dump.is_utc)?;
    check_local_infile(&mut server)?;
    let progress = begin(options, &mut server, &dump, &accounts)?;
    report.kept = progress.kept.len();
    report.kept_accounts = progress.kept_accounts.len();
    accounts.leave_out(&progress.kept_accounts);
    accounts.create(&mut server, progress.is_resumed, &mut report)?;
    load(options, &dump, &mut server, &progress, &mut report)?;
    accounts.grant(&mut server, &mut report)?;
    progress.forget(&mut server)?;
    report.finish(start.elapsed(), options.quiet)
}

/// Reads the notes of a former process; if there are none, clears the way and notes the beginning.
fn begin(
    options: &ImportOptions,
    server: &mut Server,
    dump: &Dump,
    accounts: &Accounts,
) -> Result<Progress, StartError> {
    let selected = format!("{:?} {}", options.selection, options.users);
    let id = progress::identity(&[&dump.description, selected.as_bytes()]);
    let mut progress = Progress::open(server, id)?;
    if progress.is_resumed && options.restart {
        progress = progress.forget_and_reopen(server)?;
    }
    if progress.is_resumed {
        if !options.quiet {
            let files = progress.loaded.len();
            eprintln!("import: continues an interrupted import, of which {files} files are loaded");
        }
        return Ok(progress);
    }
    // Dropped before the beginning is noted: whatever exists afterwards is taken for this import's.
    progress.kept_accounts = accounts.prepare(server, options.existing)?;
    progress.kept = prepare_existing(server, dump, options.existing)?;
    progress.begin(server)?;
    Ok(progress)
}

/// Creates objects and loads rows.
fn load(
    options: &ImportOptions,
    dump: &Dump,
    server: &mut Server,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), StartError> {
    let is_new = |schema: &Schema, name: &str| {
        let name = (schema.name.clone(), name.to_owned());
        !progress.kept.contains(&name)
    };
    // Routines and events that are kept, too.
    let may_exist = progress.is_resumed || options.existing == Existing::Keep;
    let select =
        |server: &mut Server, schema: &Schema| server.run(&format!("USE {}", quote(&schema.name)));
    for schema in &dump.schemas {
        server.run_script(schema.script.as_deref(), may_exist)?;
        select(server, schema)?;
        for table in schema.tables.iter().filter(|t| is_new(schema, &t.name)) {
            server.run_script(table.script.as_deref(), may_exist)?;
        }
    }
    let mut jobs = Vec::new();
    for schema in &dump.schemas {
        for table in schema.tables.iter().filter(|t| is_new(schema, &t.name)) {
            jobs.extend(rows::jobs(schema, table, &progress.loaded));
        }
    }
    rows::load(options, dump.is_utc, progress, jobs, report)?;
    for schema in &dump.schemas {
        select(server, schema)?;
        for table in schema.tables.iter().filter(|t| is_new(schema, &t.name)) {
            server.run_script(table.triggers.as_deref(), may_exist)?;
        }
    }
    // Placeholders of all views first, because views read each other.
    for step in 0..2 {
        for schema in &dump.schemas {
            select(server, schema)?;
            for view in schema.views.iter().filter(|v| is_new(schema, &v.name)) {
                let script = view.scripts.get(step).and_then(Option::as_deref);
                server.run_script(script, may_exist)?;
            }
        }
    }
    Ok(())
}

/// LOAD DATA LOCAL must be on.
fn check_local_infile(server: &mut Server) -> Result<(), StartError> {
    let rows = server.run("SELECT @@GLOBAL.local_infile")?.rows;
    let value = rows.first().and_then(|row| row.first()).cloned().flatten();
    if value.as_deref() == Some("1") {
        return Ok(());
    }
    let text =
        "import: the server refuses files of clients: run `SET GLOBAL local_infile = ON` in it";
    Err(StartError::usage(text))
}

/// An object of a dump that exists.
struct Found {
    schema: String,
    name: String,
    /// The word in DROP.
    kind: String,
}

/// The objects of the dump that exist.
fn existing_objects(server: &mut Server, dump: &Dump) -> Result<Vec<Found>, StartError> {
    let rows = server
        .run(
            "SELECT TABLE_SCHEMA, TABLE_NAME, IF(TABLE_TYPE = 'VIEW', 'VIEW', 'TABLE') FROM \
             information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'VIEW') UNION ALL \
             SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES UNION ALL \
             SELECT EVENT_SCHEMA, EVENT_NAME, 'EVENT' FROM information_schema.EVENTS",
        )?
        .rows;
    let mut found = Vec::new();
    for row in rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let (Some(schema), Some(name), Some(kind)) = (cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let of_dump = dump.schemas.iter().find(|s| s.name == schema);
        let is_of_dump = of_dump.is_some_and(|s| match &*kind {
            "TABLE" | "VIEW" => {
                let mut views = s.views.iter();
                s.tables.iter().any(|t| t.name == name) || views.any(|v| v.name == name)
            }
            kind => s.programs.iter().any(|p| p.0 == kind && p.1 == name),
        });
        if is_of_dump {
            found.push(Found { schema, name, kind });
        }
    }
    Ok(found)
}

/// The tables and views of the dump that exist and stay; drops the others, and routines and events.
fn prepare_existing(
    server: &mut Server,
    dump: &Dump,
    existing: Existing,
) -> Result<BTreeSet<(String, String)>, StartError> {
    let found = existing_objects(server, dump)?;
    match existing {
        Existing::Refuse => {
            let Some(Found { schema, name, .. }) = found.first() else {
                return Ok(BTreeSet::new());
            };
            let more = found.len();
            Err(StartError::usage(format!(
                "import: {more} objects of the dump exist, {schema}.{name} among them; use \
                 --existing keep or --existing drop"
            )))
        }
        Existing::Keep => {
            let tables = found
                .into_iter()
                .filter(|f| matches!(&*f.kind, "TABLE" | "VIEW"));
            Ok(tables.map(|f| (f.schema, f.name)).collect())
        }
        Existing::Drop => {
            for Found { schema, name, kind } in &found {
                server.run(&format!("DROP {kind} {}.{}", quote(schema), quote(name)))?;
            }
            Ok(BTreeSet::new())
        }
    }
}
