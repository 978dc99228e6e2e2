//! Copying a whole database from one engine to another: for `porpoise copy`, and for what `porpoise salvage` finds.
//!
//! Each table is created in the target by the statement that SHOW CREATE TABLE would print, and its rows are inserted in
//! batches, so that indexes and generated columns are rebuilt, and values are split as the target's engine
//! needs it. Foreign keys are not checked: rows come table by table. Row versions (`gets`, `cas`) are new.
//!
//! Rejected: copying keys and values of the engines. It would be faster, but limits of keys and values differ, and
//! the copy would keep the layout of the release that wrote the rows.

use crate::config::StartError;
use parking_lot::Mutex;
use porpoise_base::cancel::Cancel;
use porpoise_base::disk;
use porpoise_kv::{Durability, Engine, Read};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_rows::ddl::{TriggerOrder, ViewMode};
use porpoise_rows::histogram::Histogram;
use porpoise_rows::{
    AutoIncOptions, BeginOptions, Db, Fetch, InsertMode, OverflowFetch, RowBuf, ScanPosition,
    ScanSpec, show,
};
use porpoise_sql::client::ClientInfo;
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::SqlSession;
use porpoise_sql::{ResultColumn, ResultSink, SqlError};
use porpoise_types::{Value, ValueRef, write_text};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Rows per transaction.
const BATCH: usize = 500;
/// Threads that insert the rows of a table: on a cluster most of a transaction's time is a wait for stores.
const WRITERS: usize = 4;
/// Error of a transaction that conflicts with another one: rows share entries of FULLTEXT indexes.
const DEADLOCK: u16 = 1213;
/// Number of times that a batch is repeated after conflicts.
const MAX_CONFLICTS: u32 = 20;
/// Bytes of rows per transaction, unless one row has more.
const BATCH_BYTES: usize = 4 << 20;

/// Result of a transfer.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tables copied.
    pub tables: usize,
    /// Rows copied.
    pub rows: u64,
    /// Lines about what is lost or may be lost.
    pub lost: Vec<String>,
}

/// Kind of the source of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The readable part of a damaged store. The target keeps its accounts and settings unless the source has some.
    Salvaged,
    /// A whole database: the target becomes equal to it.
    Whole,
}

/// How the rows of a table are copied.
#[derive(Clone, Copy)]
struct CopyMode {
    kind: Source,
    insert: InsertMode,
}

/// Rows of one transaction.
#[derive(Default)]
struct Batch {
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, row: Vec<Value>) {
        let bytes = row.iter().map(|value| match value {
            Value::Bytes(bytes) => bytes.len(),
            _ => 8,
        });
        self.bytes += bytes.sum::<usize>();
        self.rows.push(row);
    }
}

fn all_rows() -> ScanSpec {
    ScanSpec {
        index: 0,
        ranges: vec![porpoise_rows::KeyRange::ALL],
        reverse: false,
        entries_only: false,
    }
}

/// Options of transactions that write rows as they are.
fn unchecked() -> BeginOptions {
    BeginOptions {
        foreign_key_checks: false,
        cascades_fire: false,
        ..BeginOptions::default()
    }
}

/// The id that the table's next row gets; `None` if it follows from the rows.
fn next_id(source: &Db, table: &Table, kind: Source, report: &mut Report) -> Option<u64> {
    if kind == Source::Salvaged || table.auto_increment().is_none() {
        return None;
    }
    let next = source.next_auto_increment(table);
    next.map_err(|error| {
        let name = table.quoted_name();
        report.lost.push(format!("{name}: the next id: {error}"));
    })
    .ok()
}

/// The values of a row with its overflow values. Rows are completed one by one, so that one with a missing value does not
/// fail the others: then the error is a line about it.
fn complete(source: &Arc<Db>, table: &Table, row: (Vec<u8>, RowBuf)) -> Result<Vec<Value>, String> {
    let key = row.0.clone();
    let mut row = [row];
    let values = source.begin(BeginOptions::default()).and_then(|mut txn| {
        txn.complete_rows(table, &mut row, OverflowFetch::All, Read::SNAPSHOT)?;
        let [(_, row)] = &row;
        Ok(row.row(table)?.values())
    });
    values.map_err(|error| lost_row(table, &key, &error))
}

/// Reads the rows of a table, and hands them over in batches, with their values in the order of the target's columns.
fn read_table(
    source: &Arc<Db>,
    table: &Arc<Table>,
    columns: &[Option<usize>],
    batches: &SyncSender<Vec<Vec<Value>>>,
    report: &mut Report,
) {
    let mut position = ScanPosition::default();
    loop {
        let mut rows: Vec<(Vec<u8>, RowBuf)> = Vec::new();
        let read = source.begin(BeginOptions::default()).and_then(|mut txn| {
            txn.scan_with(
                table,
                &all_rows(),
                Fetch::PREFIXES,
                Read::SNAPSHOT,
                &mut position,
                BATCH,
                &mut |key, row| rows.push((key.to_vec(), row.to_buf())),
            )
        });
        let mut batch = Batch::default();
        for row in rows {
            match complete(source, table, row) {
                Ok(values) => batch.add(arranged(&values, columns)),
                Err(lost) => report.lost.push(lost),
            }
            if batch.bytes >= BATCH_BYTES {
                // Fails only if all writers have panicked, which is reported when they are joined.
                let _ = batches.send(std::mem::take(&mut batch).rows);
            }
        }
        let _ = batches.send(batch.rows);
        match read {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let name = table.quoted_name();
                let text = format!("{name}: the remaining rows: {error}");
                return report.lost.push(text);
            }
        }
    }
}

/// The database that receives the rows.
pub(crate) struct Target {
    engine: Arc<dyn Engine>,
    pub(crate) server: Arc<SqlServer>,
}

impl Target {
    /// Opens an embedded store in a directory, or one in memory.
    pub(crate) fn embedded(dir: Option<PathBuf>) -> Result<Target, StartError> {
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
        Target::open(engine)
    }

    /// Opens the database in an engine; creates it in an empty one.
    pub(crate) fn open(engine: Arc<dyn Engine>) -> Result<Target, StartError> {
        let failed = |e: &dyn std::fmt::Display| StartError::failure(format!("the target: {e}"));
        let db = crate::rows::open(engine.clone()).map_err(|e| failed(&e))?;
        let server = SqlServer::new(db, SqlConfig::default()).map_err(|e| failed(&e.message))?;
        Ok(Target { engine, server })
    }

    pub(crate) fn close(self) -> Result<(), StartError> {
        self.server.db().return_ids();
        self.server.db().leave_cluster();
        self.engine.shutdown()?;
        Ok(())
    }

    /// A session of root in which statements of dumps run.
    pub(crate) fn session(&self) -> Result<SqlSession, SqlError> {
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

    /// Copies databases, tables and rows, then histograms, views, stored programs, events and triggers.
    pub(crate) fn copy_all(&self, source: &Arc<Db>, kind: Source, report: &mut Report) {
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
                let next = next_id(source, table, kind, report);
                let text = show::create_table(table, next);
                self.try_statement(&mut session, &text, &name, report);
            } else if kind == Source::Whole
                && let Err(error) = self.empty(table)
            {
                report
                    .lost
                    .push(format!("{}: {error}", table.quoted_name()));
            }
            // The target's first start has filled the tables that exist.
            let insert = if exists {
                InsertMode::Replace
            } else {
                InsertMode::Ignore
            };
            self.copy_table(source, table, CopyMode { kind, insert }, report);
        }
        self.copy_histograms(&catalog, report);
        self.copy_programs(&catalog, report);
    }

    /// Deletes the rows that a first start has written, so that those that were deleted in the source do not come back.
    fn empty(&self, table: &Table) -> porpoise_rows::Result<()> {
        let Some(target) = self.find(table) else {
            return Ok(());
        };
        loop {
            let mut txn = self.server.db().begin(unchecked())?;
            let mut keys: Vec<Vec<u8>> = Vec::new();
            txn.scan_with(
                &target,
                &all_rows(),
                Fetch::PREFIXES,
                Read::SNAPSHOT,
                &mut ScanPosition::default(),
                BATCH,
                &mut |key, _| keys.push(key.to_vec()),
            )?;
            if keys.is_empty() {
                return Ok(());
            }
            let rows = txn.lock_present(&target, &keys, |_| true)?;
            txn.delete(&target, rows)?;
            txn.commit()?;
        }
    }

    pub(crate) fn try_statement(
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
        mode: CopyMode,
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
        // One writer for a table without a primary key, whose rows are in the order of insertion, and for a damaged store, of whose
        // duplicates the first stays.
        let has_key = table.indexes.first().is_some_and(|i| !i.parts.is_empty());
        let writers = if has_key && mode.kind == Source::Whole {
            WRITERS
        } else {
            1
        };
        std::thread::scope(|scope| {
            let (batches, waiting) = sync_channel::<Vec<Vec<Value>>>(writers);
            let waiting = Arc::new(Mutex::new(waiting));
            let write = || {
                let (waiting, target) = (waiting.clone(), target.clone());
                scope.spawn(move || {
                    let mut report = Report::default();
                    loop {
                        let rows = waiting.lock().recv();
                        let Ok(rows) = rows else { return report };
                        self.insert(&target, rows, mode.insert, &mut report);
                    }
                })
            };
            let writers: Vec<_> = (0..writers).map(|_| write()).collect();
            drop(waiting);
            read_table(source, table, &columns, &batches, report);
            drop(batches);
            for writer in writers {
                match writer.join() {
                    Ok(written) => {
                        report.rows += written.rows;
                        report.lost.extend(written.lost);
                    }
                    Err(_) => report.lost.push(format!("{name}: a thread failed")),
                }
            }
        });
    }

    fn insert(
        &self,
        table: &Arc<Table>,
        rows: Vec<Vec<Value>>,
        mode: InsertMode,
        report: &mut Report,
    ) {
        let mut conflicts = 0;
        let error = loop {
            match self.insert_batch(table, rows.clone(), mode, report) {
                Ok(()) => return,
                Err(error) if error.code() == DEADLOCK && conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                }
                Err(error) => break error,
            }
        };
        if rows.len() > 1 {
            for row in rows {
                self.insert(table, vec![row], mode, report);
            }
        } else {
            let text = format!("{}: a row is refused: {error}", table.quoted_name());
            report.lost.push(text);
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
        let mut txn = self.server.db().begin(unchecked())?;
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

    /// Copies the histograms of columns.
    fn copy_histograms(&self, catalog: &Catalog, report: &mut Report) {
        let db = self.server.db();
        for ((table, column), histogram) in &catalog.histograms {
            let Some(table) = catalog.tables.get(table) else {
                continue;
            };
            let of_id = |t: &Table| t.columns.iter().find(|c| c.id == *column).cloned();
            let target = self
                .find(table)
                .zip(of_id(table))
                .and_then(|(target, column)| {
                    let at = target.column(&column.name)?;
                    let id = target.columns.get(at)?.id;
                    Some((target.id, id))
                });
            let Some((target, column)) = target else {
                continue;
            };
            let histogram = Histogram::clone(histogram);
            let done =
                db.define(|cx| db.set_histograms(cx, target, vec![(column, Some(histogram))]));
            if let Err(error) = done {
                let name = table.quoted_name();
                report.lost.push(format!("{name}: a histogram: {error}"));
            }
        }
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

pub(crate) fn execute(session: &mut SqlSession, text: &str) -> Result<Vec<String>, SqlError> {
    let mut sink = LastRow::default();
    session.query(text.as_bytes(), false, &mut sink)?;
    Ok(sink.1)
}
