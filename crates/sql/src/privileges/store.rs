//! `mysql.grants`: where grants are kept.
//!
//! One row a grant: host, user, database (empty: `*.*`), table (empty: the
//! database), and the names of the privileges between commas, so that a later
//! version's names are kept by an earlier one that reads them over.

use super::{Grant, Grants, Privileges};
use crate::error::{Result, SqlError};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{LockMode, Read, Ticket};
use porpoise_rows::catalog::{ColumnDefault, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, DdlCx, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, InsertMode, KeyRange, RowBuf, ScanPosition, ScanSpec};
use porpoise_types::{Collation, ColumnType, Value, ValueRef};
use std::sync::Arc;
use std::time::Duration;

const DATABASE: &str = "mysql";
const TABLE: &str = "grants";

fn table_spec() -> TableSpec {
    let column = |name: &str, length: u32| ColumnSpec {
        name: name.to_owned(),
        ty: ColumnType::varchar(length, Collation::UTF8MB4_BIN),
        nullable: Some(false),
        default: Some(ColumnDefault::Literal(Value::Bytes(Vec::new()))),
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
    };
    let key = ["Host", "User", "Db", "Table_name"];
    TableSpec {
        database: DATABASE.to_owned(),
        name: TABLE.to_owned(),
        if_not_exists: true,
        columns: vec![
            column("Host", 255),
            column("User", 32),
            column("Db", 64),
            column("Table_name", 64),
            column("Privileges", 1024),
        ],
        indexes: vec![IndexSpec {
            name: None,
            kind: IndexKind::Primary,
            parts: key.iter().map(|n| ((*n).to_owned(), None, false)).collect(),
            using_hash: false,
            comment: String::new(),
            invisible: false,
        }],
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        options: TableOptions {
            engine: "InnoDB".to_owned(),
            collation: Collation::UTF8MB4_BIN,
            comment: "What accounts may do".to_owned(),
            memory: false,
            other: Vec::new(),
            created: 0,
        },
        auto_increment: None,
        placement: Default::default(),
    }
}

/// Makes the table if it is not there: the accounts that there are by then
/// may do everything.
///
/// # Errors
/// What definitions and writes fail with.
pub fn create_if_missing(db: &Arc<Db>, accounts: &[(String, String)]) -> Result<()> {
    if db.catalog().table(DATABASE, TABLE).is_some() {
        return Ok(());
    }
    let mdl = db.mdl().session();
    let cancel = Cancel::new();
    let cx = DdlCx {
        mdl: &mdl,
        deadline: db.clock().now() + Duration::from_secs(60),
        cancel: &cancel,
        foreign_key_checks: true,
        now: db.clock().unix_micros(),
    };
    let done = db.create_table(&cx, &table_spec())?;
    let everything = |(user, host): &(String, String)| Grant {
        user: user.clone(),
        host: host.clone(),
        database: String::new(),
        table: String::new(),
        privileges: Privileges::ALL.with(Privileges::GRANT_OPTION),
    };
    let grants: Vec<Grant> = accounts.iter().map(everything).collect();
    let ticket = write(db, &grants, &[])?;
    db.engine().wait_durable(done.ticket.max(ticket))?;
    Ok(())
}

fn table(db: &Arc<Db>) -> Result<Arc<Table>> {
    let found = db.catalog().table(DATABASE, TABLE).cloned();
    let found = found.ok_or_else(|| SqlError::no_table(DATABASE, TABLE))?;
    match found.columns.len() {
        5 => Ok(found),
        _ => Err(SqlError::internal(
            "table mysql.grants is not laid out as expected",
        )),
    }
}

fn of(row: &porpoise_rows::RowRef<'_>) -> Grant {
    let text = |at| match row.get(at) {
        ValueRef::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        _ => String::new(),
    };
    let names = text(4);
    let known = names.split(',').filter_map(Privileges::named);
    Grant {
        host: text(0),
        user: text(1),
        database: text(2),
        table: text(3),
        privileges: known.fold(Privileges::NONE, Privileges::with),
    }
}

type Stored = (Vec<u8>, RowBuf, Grant);

fn rows(db: &Arc<Db>) -> Result<Vec<Stored>> {
    let table = table(db)?;
    let mut txn = db.begin(BeginOptions::default())?;
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut position = ScanPosition::default();
    let mut list = Vec::new();
    while txn.scan(
        &table,
        &spec,
        Read::SNAPSHOT,
        &mut position,
        1000,
        &mut |key, row| list.push((key.to_vec(), row.to_buf(), of(&row))),
    )? {}
    txn.rollback();
    Ok(list)
}

/// All grants.
///
/// # Errors
/// Reading the table failed.
pub fn load(db: &Arc<Db>, version: u64) -> Result<Grants> {
    let list = rows(db)?.into_iter().map(|(.., grant)| grant).collect();
    Ok(Grants { version, list })
}

/// Whether two grants are of one account and place.
fn same_place(a: &Grant, b: &Grant) -> bool {
    a.user == b.user && a.host == b.host && a.database == b.database && a.table == b.table
}

/// Puts grants in place of those of the same account and place, and takes
/// others away.
///
/// # Errors
/// What writing fails with.
pub fn write(db: &Arc<Db>, put: &[Grant], remove: &[Grant]) -> Result<Ticket> {
    let table = table(db)?;
    let gone: Vec<(Vec<u8>, RowBuf)> = match remove.is_empty() {
        true => Vec::new(),
        false => rows(db)?
            .into_iter()
            .filter(|(.., g)| remove.iter().any(|r| same_place(r, g)))
            .map(|(key, row, _)| (key, row))
            .collect(),
    };
    let mut txn = db.begin(BeginOptions {
        sync: true,
        ..BeginOptions::default()
    })?;
    if !gone.is_empty() {
        let keys: Vec<&[u8]> = gone.iter().map(|(k, _)| k.as_slice()).collect();
        let wait = txn.wait();
        txn.lock_rows(&table, &keys, LockMode::Exclusive, wait, &mut |_, _| ())?;
        txn.delete(&table, gone)?;
    }
    if !put.is_empty() {
        let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
        let row = |g: &Grant| {
            let names: Vec<&str> = g.privileges.names().collect();
            vec![
                text(&g.host),
                text(&g.user),
                text(&g.database),
                text(&g.table),
                text(&names.join(",")),
            ]
        };
        txn.insert(&table, put.iter().map(row).collect(), InsertMode::Replace)?;
    }
    Ok(txn.commit()?.ticket)
}
