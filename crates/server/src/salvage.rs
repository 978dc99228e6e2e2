//! `porpoise salvage`: copies the readable part of a damaged data directory into a new data
//! directory or into a file of SQL, and lists the lost part. Nothing is written to the source.
//!
//! The readable rows of the store ([`porpoise_kv_mem::salvage`]) become a store in memory, whose catalog
//! is read row by row. Each table is created in the target by the statement that SHOW CREATE TABLE would
//! print, and its rows are inserted in batches, so that indexes and generated columns are
//! rebuilt. Foreign keys are not checked: a parent may be lost. A row that the target refuses, such
//! as a second one with the same unique key, is listed as lost.
//!
//! Exit statuses: 0 if nothing is known to be lost, 1 if something is, 2 if nothing was done.

use crate::config::StartError;
use crate::datadir::DataDir;
use crate::engine::STORE;
use crate::new_data_dir::NewDataDir;
use porpoise_access::is_system_schema;
use porpoise_base::cancel::Cancel;
use porpoise_base::clock;
use porpoise_base::disk::{self, Disk, MemDisk, Overlay};
use porpoise_kv::{Durability, Read, TxnOptions};
use porpoise_kv_mem::{KvMem, KvMemOptions, salvage};
use porpoise_rows::catalog::{Catalog, RoutineKind, Table, persist};
use porpoise_rows::ddl::{TriggerOrder, ViewMode};
use porpoise_rows::{
    AutoIncOptions, BeginOptions, Db, DbOptions, Fetch, InsertMode, OverflowFetch, RowBuf,
    ScanPosition, ScanSpec, show,
};
use porpoise_sql::client::ClientInfo;
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::SqlSession;
use porpoise_sql::table_expressions::ExpressionCompiler;
use porpoise_sql::{ResultColumn, ResultSink, SqlError};
use porpoise_types::{Value, ValueRef, write_text};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows per transaction, and per INSERT of a dump.
const BATCH: usize = 500;

/// Suffix of the name of an incomplete result.
const UNFINISHED: &str = "salvaging";

/// Result of a salvage.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tables copied.
    pub tables: usize,
    /// Rows copied.
    pub rows: u64,
    /// Lines about what is lost or may be lost.
    pub lost: Vec<String>,
}

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
        let target = Target::open(None)?;
        target.copy_all(&source, &mut report);
        let failed = |e| StartError::failure(format!("{}: {e}", into.display()));
        write_dump_file(&target, into).map_err(failed)?;
        return Ok(report);
    }
    let mut new = NewDataDir::begin(into, UNFINISHED)?;
    let target = Target::open(Some(new.path().join(STORE)))?;
    target.copy_all(&source, &mut report);
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

/// The database that receives the rows.
struct Target {
    engine: Arc<KvMem>,
    server: Arc<SqlServer>,
}

impl Target {
    /// Opens a store in a directory, or one in memory.
    fn open(dir: Option<PathBuf>) -> Result<Target, StartError> {
        let durability = match dir {
            Some(_) => Durability::Sync,
            None => Durability::Memory,
        };
        let engine = KvMem::open(KvMemOptions {
            dir,
            disk: disk::real(),
            durability,
            ..KvMemOptions::default()
        })?;
        let failed = |e: &dyn std::fmt::Display| StartError::failure(format!("the target: {e}"));
        let db = crate::rows::open(engine.clone()).map_err(|e| failed(&e))?;
        let server = SqlServer::new(db, SqlConfig::default()).map_err(|e| failed(&e.message))?;
        Ok(Target { engine, server })
    }

    fn close(self) -> Result<(), StartError> {
        self.server.db().return_ids();
        porpoise_kv::Engine::shutdown(&*self.engine)?;
        Ok(())
    }

    /// A session of root in which statements of dumps run.
    fn session(&self) -> Result<SqlSession, SqlError> {
        let root = ClientInfo {
            connection_id: 1,
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            account: "root@localhost".to_owned(),
            capabilities: 0,
            collation: 255,
            database: None,
        };
        let mut session = self.server.connect(root, Cancel::new())?;
        let settings = "SET foreign_key_checks = 0, sql_mode = '', time_zone = '+00:00'";
        execute(&mut session, settings)?;
        Ok(session)
    }

    /// Copies databases, tables and rows, then views, stored programs, events and triggers.
    fn copy_all(&self, source: &Arc<Db>, report: &mut Report) {
        let catalog = source.catalog();
        let mut session = match self.session() {
            Ok(session) => session,
            Err(error) => return report.lost.push(error.message),
        };
        for database in catalog.databases.values() {
            let text = format!(
                "CREATE DATABASE IF NOT EXISTS {} COLLATE {}",
                show::quote(&database.name),
                database.collation.name()
            );
            self.try_statement(&mut session, &text, &database.name, report);
        }
        for table in catalog.tables.values() {
            let exists = self.find(table).is_some();
            if !exists {
                let use_database = format!("USE {}", show::quote(&table.database));
                let name = table.quoted_name();
                self.try_statement(&mut session, &use_database, &name, report);
                let text = show::create_table(table, None);
                self.try_statement(&mut session, &text, &name, report);
            }
            // Tables that exist were filled by the target's first start; salvaged rows replace
            // theirs.
            let mode = if exists {
                InsertMode::Replace
            } else {
                InsertMode::Ignore
            };
            self.copy_table(source, table, mode, report);
        }
        self.copy_programs(&catalog, report);
    }

    fn try_statement(
        &self,
        session: &mut SqlSession,
        text: &str,
        object: &str,
        report: &mut Report,
    ) {
        if let Err(error) = execute(session, text) {
            report.lost.push(format!("{object}: {}", error.message));
        }
    }

    fn find(&self, table: &Table) -> Option<Arc<Table>> {
        let catalog = self.server.db().catalog();
        catalog.table(&table.database, &table.name).cloned()
    }

    /// Copies the rows of a table.
    fn copy_table(
        &self,
        source: &Arc<Db>,
        table: &Arc<Table>,
        mode: InsertMode,
        report: &mut Report,
    ) {
        let name = table.quoted_name();
        let Some(target) = self.find(table) else {
            return report.lost.push(format!("{name}: all rows"));
        };
        report.tables += 1;
        // The position in the source of each column of the target.
        let columns = target
            .columns
            .iter()
            .map(|column| table.column(&column.name));
        let columns: Vec<Option<usize>> = columns.collect();
        let mut position = ScanPosition::default();
        let spec = ScanSpec {
            index: 0,
            ranges: vec![porpoise_rows::KeyRange::ALL],
            reverse: false,
            entries_only: false,
        };
        loop {
            let mut rows: Vec<(Vec<u8>, RowBuf)> = Vec::new();
            let read = source.begin(BeginOptions::default()).and_then(|mut txn| {
                let more = txn.scan_with(
                    table,
                    &spec,
                    Fetch::PREFIXES,
                    Read::SNAPSHOT,
                    &mut position,
                    BATCH,
                    &mut |key, row| rows.push((key.to_vec(), row.to_buf())),
                )?;
                Ok(more)
            });
            let values = self.complete(source, table, rows, report);
            let values = values.into_iter().map(|row| arranged(&row, &columns));
            self.insert(&target, values.collect(), mode, report);
            match read {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    return report
                        .lost
                        .push(format!("{name}: rows from here on: {error}"));
                }
            }
        }
    }

    /// The values of rows with their overflow values. Rows are completed one by one, so that one
    /// with a missing value does not fail the others.
    fn complete(
        &self,
        source: &Arc<Db>,
        table: &Table,
        rows: Vec<(Vec<u8>, RowBuf)>,
        report: &mut Report,
    ) -> Vec<Vec<Value>> {
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let key = row.0.clone();
            let mut row = [row];
            let values = source.begin(BeginOptions::default()).and_then(|mut txn| {
                txn.complete_rows(table, &mut row, OverflowFetch::All, Read::SNAPSHOT)?;
                let [(_, row)] = &row;
                Ok(row.row(table)?.values())
            });
            match values {
                Ok(values) => all.push(values),
                Err(error) => report.lost.push(lost_row(table, &key, &error)),
            }
        }
        all
    }

    fn insert(
        &self,
        table: &Arc<Table>,
        rows: Vec<Vec<Value>>,
        mode: InsertMode,
        report: &mut Report,
    ) {
        match self.insert_batch(table, rows.clone(), mode, report) {
            Ok(()) => {}
            Err(_) if rows.len() > 1 => {
                for row in rows {
                    self.insert(table, vec![row], mode, report);
                }
            }
            Err(error) => {
                let text = format!("{}: a row is refused: {error}", table.quoted_name());
                report.lost.push(text);
            }
        }
    }

    fn insert_batch(
        &self,
        table: &Arc<Table>,
        rows: Vec<Vec<Value>>,
        mode: InsertMode,
        report: &mut Report,
    ) -> porpoise_rows::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut txn = self.server.db().begin(BeginOptions {
            foreign_key_checks: false,
            cascades_fire: false,
            ..BeginOptions::default()
        })?;
        let mut rows = rows;
        let options = AutoIncOptions {
            no_auto_value_on_zero: true,
            ..AutoIncOptions::default()
        };
        txn.assign_auto_increment(table, &mut rows, options)?;
        let done = txn.insert(table, rows, mode)?;
        txn.commit()?;
        report.rows += done.inserted;
        for (_, error) in done.skipped {
            let text = format!("{}: a row is refused: {error}", table.quoted_name());
            report.lost.push(text);
        }
        Ok(())
    }

    /// Copies views, stored programs, events and triggers.
    fn copy_programs(&self, catalog: &Catalog, report: &mut Report) {
        let db = self.server.db();
        let mut note = |object: String, done: porpoise_rows::Result<()>| {
            if let Err(error) = done {
                report.lost.push(format!("{object}: {error}"));
            }
        };
        for view in catalog.views.values() {
            let done = db.define(|cx| db.create_view(cx, view, ViewMode::Replace));
            note(
                format!("view {}.{}", view.database, view.name),
                done.map(drop),
            );
        }
        for routine in catalog.routines.values() {
            let done = db.define(|cx| db.create_routine(cx, routine, true));
            note(
                format!("{}.{}", routine.database, routine.name),
                done.map(drop),
            );
        }
        for event in catalog.events.values() {
            let done = db.define(|cx| db.put_event(cx, None, event));
            note(
                format!("event {}.{}", event.database, event.name),
                done.map(drop),
            );
        }
        for table in catalog.tables.values() {
            for trigger in table.triggers.iter() {
                let (database, name) = (&table.database, &table.name);
                let last = TriggerOrder::Last;
                let done =
                    db.define(|cx| db.create_trigger(cx, database, name, trigger, &last, true));
                note(
                    format!("trigger {database}.{}", trigger.name),
                    done.map(drop),
                );
            }
        }
    }
}

/// A row's values in the order of the target's columns.
fn arranged(row: &[Value], columns: &[Option<usize>]) -> Vec<Value> {
    let value = |at: &Option<usize>| {
        at.and_then(|at| row.get(at))
            .cloned()
            .unwrap_or(Value::Null)
    };
    columns.iter().map(value).collect()
}

fn lost_row(table: &Table, key: &[u8], error: &porpoise_rows::Error) -> String {
    let key: String = key.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}: the row with key {key}: {error}", table.quoted_name())
}

/// A sink for statements without rows that keeps the texts of the last row.
#[derive(Default)]
struct LastRow(Vec<ResultColumn>, Vec<String>);

impl ResultSink for LastRow {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.0 = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cells = values.iter().zip(&self.0).map(|(value, column)| {
            let mut text = Vec::new();
            write_text(*value, &column.ty, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        self.1 = cells.collect();
        Ok(())
    }
}

fn execute(session: &mut SqlSession, text: &str) -> Result<Vec<String>, SqlError> {
    let mut sink = LastRow::default();
    session.query(text.as_bytes(), false, &mut sink)?;
    Ok(sink.1)
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
