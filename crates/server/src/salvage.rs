//! `porpoise salvage`: copies the readable part of a damaged data directory into a new data
//! directory or into a file of SQL, and lists the lost part. Nothing is written to the source.
//!
//! The readable rows of the store ([`porpoise_kv_mem::salvage`]) become a store in memory, whose catalog
//! is read row by row, and copied as in `transfer.rs`. Foreign keys are not checked: a parent may be lost. A
//! row that the target refuses, such as a second one with the same unique key, is listed as lost.
//!
//! Exit statuses: 0 if nothing is known to be lost, 1 if something is, 2 if nothing was done.

use crate::config::StartError;
use crate::datadir::DataDir;
use crate::engine::STORE;
use crate::new_data_dir::NewDataDir;
use crate::transfer::{Source, Target, execute};
use porpoise_access::is_system_schema;
use porpoise_base::clock;
use porpoise_base::disk::{Disk, MemDisk, Overlay};
use porpoise_kv::{Durability, Read, TxnOptions};
use porpoise_kv_mem::{KvMem, KvMemOptions, salvage};
use porpoise_rows::catalog::{Catalog, RoutineKind, Table, persist};
use porpoise_rows::{BeginOptions, Db, DbOptions, ScanPosition, ScanSpec, show};
use porpoise_sql::SqlError;
use porpoise_sql::session::SqlSession;
use porpoise_sql::table_expressions::ExpressionCompiler;
use porpoise_types::{ValueRef, write_text};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::transfer::Report;

/// Rows per INSERT of a dump.
const BATCH: usize = 500;

/// Suffix of the name of an incomplete result.
const UNFINISHED: &str = "salvaging";

/// Copies the readable part of the data directory `from` into a new data directory, or into a file
/// whose name ends in `.sql`.
///
/// # Errors
/// With exit status 2: there is no store, a server uses it, or the target exists.
pub fn salvage_into(from: &Path, into: &Path) -> Result<Report, StartError> {
    let usage = |text: String| StartError::usage(text);
    if std::fs::symlink_metadata(into).is_ok() {
        return Err(usage(format!("--into: {} exists", into.display())));
    }
    let store = from.join(STORE);
    if !store.is_dir() {
        let text = format!("--from: {} contains no store", from.display());
        return Err(usage(text));
    }
    let _lock = DataDir::lock_unchanged(from)?;
    let (source, mut report) = open_source(&store)?;
    let is_dump = into.extension().is_some_and(|ending| ending == "sql");
    if is_dump {
        let target = Target::embedded(None)?;
        target.copy_all(&source, Source::Salvaged, &mut report);
        let failed = |e| StartError::failure(format!("{}: {e}", into.display()));
        write_dump_file(&target, into).map_err(failed)?;
        return Ok(report);
    }
    let mut new = NewDataDir::begin(into, UNFINISHED)?;
    let target = Target::embedded(Some(new.path().join(STORE)))?;
    target.copy_all(&source, Source::Salvaged, &mut report);
    target.close()?;
    new.finish(into)?;
    Ok(report)
}

/// The readable part of the source as a database in memory, and a report of the lost part.
fn open_source(store: &Path) -> Result<(Arc<Db>, Report), StartError> {
    let mut found = salvage(&Overlay::new(), store)?;
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let dir = PathBuf::from("/salvaged");
    let made = disk.create_dir(&dir);
    made.map_err(|e| StartError::failure(e.to_string()))?;
    found.write_store(disk.clone(), &dir)?;
    let mut report = Report {
        lost: std::mem::take(&mut found.damage),
        ..Report::default()
    };
    // The rows are in the files in memory now; the engine makes a second copy, not a third.
    drop(found);
    let engine = KvMem::open(KvMemOptions {
        dir: Some(dir),
        disk,
        durability: Durability::Sync,
        ..KvMemOptions::default()
    })?;
    let mut txn = porpoise_kv::Engine::begin(&*engine, TxnOptions::default())?;
    let loaded = persist::load_readable(txn.as_mut());
    txn.rollback();
    let failed = |e| StartError::failure(format!("the catalog cannot be read: {e}"));
    let (catalog, problems) = loaded.map_err(failed)?;
    report.lost.extend(problems);
    report.lost.extend(nameless(&*engine, &catalog)?);
    let options = DbOptions::default();
    let db = Db::with_catalog(engine, clock::system(), options, catalog);
    db.set_compiler(Arc::new(ExpressionCompiler::default()));
    Ok((db, report))
}

/// Lines about spaces of tables whose definitions are lost.
fn nameless(
    engine: &dyn porpoise_kv::Engine,
    catalog: &Catalog,
) -> Result<Vec<String>, StartError> {
    let named: std::collections::HashSet<_> = catalog
        .tables
        .values()
        .flat_map(|t| t.all_spaces())
        .collect();
    let spaces = engine.spaces()?.into_iter().map(|(id, _)| id);
    let lost = spaces.filter(|id| !named.contains(id));
    Ok(lost
        .map(|id| {
            format!(
                "space {}: its rows are lost with the definition of their table",
                id.0
            )
        })
        .collect())
}

/// Writes the dump to a temporary file beside its place, which is renamed when it is complete and on disk.
fn write_dump_file(target: &Target, into: &Path) -> io::Result<()> {
    let name = into.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = into.with_file_name(format!(".{name}.{UNFINISHED}"));
    let mut options = std::fs::OpenOptions::new();
    // The dump contains rows and password verifiers: only the owner of the file may read it.
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = BufWriter::new(options.open(&unfinished)?);
    let written = write_dump(target, &mut out)
        .and_then(|()| out.flush())
        .and_then(|()| out.get_ref().sync_all())
        .and_then(|()| std::fs::rename(&unfinished, into));
    if written.is_err() {
        // The error of the write is reported instead: it says more.
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// Writes the target's databases, without the server's own, as SQL.
fn write_dump(target: &Target, out: &mut dyn Write) -> io::Result<()> {
    let failed = |e: SqlError| io::Error::other(e.message);
    let catalog = target.server.db().catalog();
    let mut session = target.session().map_err(failed)?;
    out.write_all(
        b"SET NAMES utf8mb4;\nSET foreign_key_checks = 0, unique_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00';\n",
    )?;
    let databases = catalog.databases.values();
    for database in databases.filter(|d| !is_system_schema(&d.name) && d.name != "ndbmemcache") {
        let name = show::quote(&database.name);
        let collation = database.collation.name();
        writeln!(
            out,
            "CREATE DATABASE IF NOT EXISTS {name} COLLATE {collation};\nUSE {name};"
        )?;
        for id in database.tables.values() {
            if let Some(table) = catalog.table_by_id(*id) {
                writeln!(out, "{};", show::create_table(table, None))?;
                write_rows(target.server.db(), table, out)?;
            }
        }
        execute(&mut session, &format!("USE {name}")).map_err(failed)?;
        let mut programs: Vec<(String, &str, usize)> = Vec::new();
        for routine in catalog
            .routines
            .values()
            .filter(|r| r.database == database.name)
        {
            let kind = if routine.kind == RoutineKind::Function {
                "FUNCTION"
            } else {
                "PROCEDURE"
            };
            programs.push((routine.name.clone(), kind, 2));
        }
        for id in database.tables.values() {
            let table = catalog.table_by_id(*id);
            let triggers = table.iter().flat_map(|t| t.triggers.iter());
            programs.extend(triggers.map(|t| (t.name.clone(), "TRIGGER", 2)));
        }
        for event in catalog
            .events
            .values()
            .filter(|e| e.database == database.name)
        {
            programs.push((event.name.clone(), "EVENT", 3));
        }
        for (name, kind, column) in programs {
            let text = format!("SHOW CREATE {kind} {}", show::quote(&name));
            let row = execute(&mut session, &text).map_err(failed)?;
            let text = row.get(column).map_or("", String::as_str);
            writeln!(out, "DELIMITER ;;\n{text};;\nDELIMITER ;")?;
        }
    }
    write_views(&catalog, &mut session, out)
}

/// A view as it is dumped.
struct DumpedView {
    database: String,
    /// Its name as other views' texts have it: qualified and quoted.
    name: String,
    /// The statement that creates it.
    text: String,
}

/// Writes the views of all databases, each after those that its text names.
fn write_views(catalog: &Catalog, session: &mut SqlSession, out: &mut dyn Write) -> io::Result<()> {
    let failed = |e: SqlError| io::Error::other(e.message);
    // In another database, all names in the texts are qualified.
    execute(session, "USE mysql").map_err(failed)?;
    let mut views = Vec::new();
    for view in catalog.views.values() {
        let (database, name) = (show::quote(&view.database), show::quote(&view.name));
        let name = format!("{database}.{name}");
        let row = execute(session, &format!("SHOW CREATE VIEW {name}")).map_err(failed)?;
        let text = row.get(1).cloned().unwrap_or_default();
        views.push(DumpedView {
            database,
            name,
            text,
        });
    }
    while !views.is_empty() {
        let waits = |view: &DumpedView| {
            let mut others = views.iter().filter(|other| other.name != view.name);
            others.any(|other| view.text.contains(&other.name))
        };
        let mut ready: Vec<bool> = views.iter().map(|view| !waits(view)).collect();
        if !ready.contains(&true) {
            // Two texts that name each other, in a string for example: in any order.
            ready.fill(true);
        }
        let mut rest = Vec::new();
        for (view, is_ready) in views.into_iter().zip(ready) {
            if is_ready {
                writeln!(out, "USE {};\n{};", view.database, view.text)?;
            } else {
                rest.push(view);
            }
        }
        views = rest;
    }
    Ok(())
}

/// Writes the rows of a table as INSERT statements.
fn write_rows(db: &Arc<Db>, table: &Arc<Table>, out: &mut dyn Write) -> io::Result<()> {
    let failed = |e: porpoise_rows::Error| io::Error::other(e.to_string());
    let given: Vec<usize> = (0..table.columns.len())
        .filter(|at| {
            table
                .columns
                .get(*at)
                .is_some_and(|c| c.generated.is_none())
        })
        .collect();
    let names = given.iter().filter_map(|at| table.columns.get(*at));
    let names: Vec<String> = names.map(|c| show::quote(&c.name)).collect();
    let head = format!(
        "INSERT INTO {} ({}) VALUES\n",
        show::quote(&table.name),
        names.join(",")
    );
    let spec = ScanSpec {
        index: 0,
        ranges: vec![porpoise_rows::KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut txn = db.begin(BeginOptions::default()).map_err(failed)?;
    let mut position = ScanPosition::default();
    loop {
        let mut lines: Vec<String> = Vec::new();
        let more = txn
            .scan(
                table,
                &spec,
                Read::SNAPSHOT,
                &mut position,
                BATCH,
                &mut |_, row| {
                    let cells = given.iter().map(|at| literal(table, *at, row.get(*at)));
                    lines.push(format!("({})", cells.collect::<Vec<_>>().join(",")));
                },
            )
            .map_err(failed)?;
        if !lines.is_empty() {
            writeln!(out, "{head}{};", lines.join(",\n"))?;
        }
        if !more {
            return Ok(());
        }
    }
}

/// A storage value as SQL.
fn literal(table: &Table, column: usize, value: ValueRef<'_>) -> String {
    let Some(column) = table.columns.get(column) else {
        return "NULL".to_owned();
    };
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::UInt(n) => n.to_string(),
        ValueRef::Int(n) => n.to_string(),
        ValueRef::Bytes(bytes) if column.ty.is_string() => {
            let charset = column.ty.collation.charset().name();
            let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
            match std::str::from_utf8(bytes) {
                Ok(text) if charset.starts_with("utf8") && !text.contains('\u{1a}') => {
                    show::literal(text)
                }
                _ if hex.is_empty() => "''".to_owned(),
                _ if charset == "binary" => format!("0x{hex}"),
                _ => format!("_{charset} 0x{hex}"),
            }
        }
        value => {
            let mut text = Vec::new();
            write_text(value, &column.ty, &mut text);
            show::literal(&String::from_utf8_lossy(&text))
        }
    }
}

/// Salvages, and prints what is lost.
///
/// # Errors
/// As [`salvage_into`]; with exit status 1 if something is lost.
pub fn run(from: &Path, into: &Path) -> Result<(), StartError> {
    let report = salvage_into(from, into)?;
    let mut out = io::stdout().lock();
    for line in &report.lost {
        // Standard output may be closed; the exit status says the same.
        let _ = writeln!(out, "lost: {line}");
    }
    let counts = format!("{} tables, {} rows copied", report.tables, report.rows);
    match report.lost.len() {
        0 => {
            let _ = writeln!(out, "{counts}; nothing is known to be lost");
            Ok(())
        }
        n => Err(StartError::failure(format!(
            "{counts}; {n} losses are listed"
        ))),
    }
}
