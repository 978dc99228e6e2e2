//! The table `mysql.user`: its definition, and accounts as its rows.
//!
//! Invariant: a change of accounts is one transaction, and durable before it
//! is told of, whatever the server's durability.

use super::{Account, DEFAULT_PLUGIN, hashed};
use crate::error::{Result, SqlError};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{Read, Ticket};
use porpoise_rows::catalog::{ColumnDefault, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, DdlCx, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, InsertMode, KeyRange, RowBuf, ScanPosition, ScanSpec};
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Value, ValueRef};
use std::sync::Arc;
use std::time::Duration;

/// The database of system tables.
const DATABASE: &str = "mysql";
/// The table of accounts.
const TABLE: &str = "user";
impl Account {
    fn row(&self, now: Option<DateTime>) -> Vec<Value> {
        let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
        vec![
            text(&self.host),
            text(&self.user),
            text(&self.plugin),
            Value::Bytes(self.secret.clone()),
            Value::UInt(if self.locked { 2 } else { 1 }),
            now.map_or(Value::Null, Value::DateTime),
        ]
    }

    fn of(row: &porpoise_rows::RowRef<'_>) -> Account {
        let bytes = |at| match row.get(at) {
            ValueRef::Bytes(b) => b.to_vec(),
            _ => Vec::new(),
        };
        let text = |at| String::from_utf8_lossy(&bytes(at)).into_owned();
        Account {
            host: text(0),
            user: text(1),
            plugin: text(2),
            secret: bytes(3),
            locked: row.get(4) == ValueRef::UInt(2),
        }
    }
}

fn column(name: &str, ty: ColumnType, default: Option<Value>, nullable: bool) -> ColumnSpec {
    ColumnSpec {
        name: name.to_owned(),
        ty,
        nullable: Some(nullable),
        default: default.map(ColumnDefault::Literal),
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
    }
}

fn table_spec() -> TableSpec {
    let text = |n| ColumnType::varchar(n, Collation::UTF8MB4_BIN);
    let words = vec![Box::from(&b"N"[..]), Box::from(&b"Y"[..])];
    let locked = ColumnType::enumeration(words, Collation::UTF8MB4_GENERAL_CI);
    let empty = || Some(Value::Bytes(Vec::new()));
    let plugin = Some(Value::Bytes(DEFAULT_PLUGIN.as_bytes().to_vec()));
    TableSpec {
        database: DATABASE.to_owned(),
        name: TABLE.to_owned(),
        if_not_exists: true,
        columns: vec![
            column("Host", text(255), empty(), false),
            column("User", text(32), empty(), false),
            column("plugin", text(64), plugin, false),
            column(
                "authentication_string",
                ColumnType::text(Kind::Text, Collation::UTF8MB4_BIN),
                None,
                true,
            ),
            column("account_locked", locked, Some(Value::UInt(1)), false),
            column(
                "password_last_changed",
                ColumnType::timestamp(0),
                None,
                true,
            ),
        ],
        indexes: vec![IndexSpec {
            name: None,
            kind: IndexKind::Primary,
            parts: vec![
                ("Host".to_owned(), None, false),
                ("User".to_owned(), None, false),
            ],
            using_hash: false,
            comment: String::new(),
            invisible: false,
        }],
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        options: TableOptions {
            engine: "InnoDB".to_owned(),
            collation: Collation::UTF8MB4_BIN,
            comment: "Users and what they prove themselves with".to_owned(),
            memory: false,
            other: Vec::new(),
            created: 0,
        },
        auto_increment: None,
        placement: Default::default(),
    }
}

/// Makes the table, and `root@localhost`, if they are not there.
///
/// # Errors
/// What definitions and writes fail with.
pub fn create_at_first_start(db: &Arc<Db>, root_password: Option<&str>) -> Result<()> {
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
    db.create_database(&cx, DATABASE, Collation::UTF8MB4_0900_AI_CI, true)?;
    let done = db.create_table(&cx, &table_spec())?;
    let secret = match root_password.filter(|p| !p.is_empty()) {
        Some(password) => hashed(DEFAULT_PLUGIN, password.as_bytes())?,
        None => Vec::new(),
    };
    let root = Account {
        user: "root".to_owned(),
        host: "localhost".to_owned(),
        plugin: DEFAULT_PLUGIN.to_owned(),
        secret,
        locked: false,
    };
    let ticket = write(db, &[root], &[])?;
    db.engine().wait_durable(done.ticket.max(ticket))?;
    Ok(())
}

fn table(db: &Arc<Db>) -> Result<Arc<Table>> {
    let found = db.catalog().table(DATABASE, TABLE).cloned();
    let found = found.ok_or_else(|| SqlError::no_table(DATABASE, TABLE))?;
    match found.columns.len() {
        6 => Ok(found),
        _ => Err(SqlError::internal(
            "table mysql.user is not laid out as expected",
        )),
    }
}

/// User and host of every account.
///
/// # Errors
/// Reading the table failed.
pub fn names(db: &Arc<Db>) -> Result<Vec<(String, String)>> {
    let list = all(db)?.into_iter();
    Ok(list.map(|a| (a.user, a.host)).collect())
}

/// All accounts.
pub(super) fn all(db: &Arc<Db>) -> Result<Vec<Account>> {
    Ok(rows(db)?
        .into_iter()
        .map(|(_, _, account)| account)
        .collect())
}

type StoredAccount = (Vec<u8>, RowBuf, Account);

fn rows(db: &Arc<Db>) -> Result<Vec<StoredAccount>> {
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
        &mut |key, row| {
            list.push((key.to_vec(), row.to_buf(), Account::of(&row)));
        },
    )? {}
    txn.rollback();
    Ok(list)
}

/// Puts accounts in place of those of the same name, and takes others away.
pub(super) fn write(db: &Arc<Db>, put: &[Account], remove: &[Account]) -> Result<Ticket> {
    let table = table(db)?;
    let now = DateTime::from_unix_micros(db.clock().unix_micros());
    let now = now.and_then(|n| n.round(0, true));
    let old = match remove.is_empty() {
        true => Vec::new(),
        false => rows(db)?,
    };
    let mut txn = db.begin(BeginOptions {
        sync: true,
        ..BeginOptions::default()
    })?;
    let gone: Vec<(Vec<u8>, RowBuf)> = old
        .into_iter()
        .filter(|(_, _, a)| remove.iter().any(|r| r.user == a.user && r.host == a.host))
        .map(|(key, row, _)| (key, row))
        .collect();
    if !gone.is_empty() {
        let keys: Vec<&[u8]> = gone.iter().map(|(k, _)| k.as_slice()).collect();
        let wait = txn.wait();
        let mode = porpoise_kv::LockMode::Exclusive;
        txn.lock_rows(&table, &keys, mode, wait, &mut |_, _| ())?;
        txn.delete(&table, gone)?;
    }
    if !put.is_empty() {
        let rows = put.iter().map(|a| a.row(now)).collect();
        txn.insert(&table, rows, InsertMode::Replace)?;
    }
    Ok(txn.commit()?.ticket)
}
