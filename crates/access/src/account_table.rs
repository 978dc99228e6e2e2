//! The table `mysql.user`: its definition, and the conversion of accounts to and from rows.
//!
//! Invariant: a change of accounts is one transaction, and durable before it is
//! acknowledged, whatever the server's durability.

use crate::Result;
use crate::account::{Account, DEFAULT_PLUGIN, hash_password};
use crate::attributes::{self, Attributes};
use crate::auth_id::AuthId;
use crate::system_table::{self, SystemTable, TableChange, bytes_of, text_of};
use porpoise_rows::catalog::{ColumnDefault, TableOptions};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, IndexSpec, Position, TableSpec};
use porpoise_rows::{Db, RowRef};
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Value, ValueRef};
use std::sync::Arc;

pub(crate) static USERS: SystemTable = SystemTable {
    database: "mysql",
    name: "user",
    column_count: BASE_COLUMNS + attributes::COLUMN_COUNT,
};

/// Number of columns that the table had before account attributes were added after them.
const BASE_COLUMNS: usize = 6;

impl Account {
    fn to_row(&self) -> Vec<Value> {
        let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
        let changed = self.attributes.password.changed;
        let mut row = vec![
            text(&self.host),
            text(&self.user),
            text(&self.plugin),
            Value::Bytes(self.secret.clone()),
            Value::UInt(if self.locked { 2 } else { 1 }),
            changed.map_or(Value::Null, Value::DateTime),
        ];
        row.extend(self.attributes.values());
        row
    }

    fn from_row(row: &RowRef<'_>) -> Account {
        let changed = match row.get(5) {
            ValueRef::DateTime(at) => Some(at),
            _ => None,
        };
        Account {
            host: text_of(row, 0),
            user: text_of(row, 1),
            plugin: text_of(row, 2),
            secret: bytes_of(row, 3),
            locked: row.get(4) == ValueRef::UInt(2),
            attributes: Attributes::from_row(row, BASE_COLUMNS, changed),
        }
    }
}

fn table_spec() -> TableSpec {
    let column = |name: &str, ty: ColumnType, default: Option<Value>, nullable: bool| ColumnSpec {
        nullable: Some(nullable),
        default: default.map(ColumnDefault::Literal),
        ..ColumnSpec::new(name, ty)
    };
    let text = |n| ColumnType::varchar(n, Collation::UTF8MB4_BIN);
    let secret = ColumnType::text(Kind::Text, Collation::UTF8MB4_BIN);
    let words = vec![Box::from(&b"N"[..]), Box::from(&b"Y"[..])];
    let locked = ColumnType::enumeration(words, Collation::UTF8MB4_GENERAL_CI);
    let changed = ColumnType::timestamp(0);
    let empty = || Some(Value::Bytes(Vec::new()));
    let plugin = Some(Value::Bytes(DEFAULT_PLUGIN.as_bytes().to_vec()));
    let mut columns = vec![
        column("Host", text(255), empty(), false),
        column("User", text(32), empty(), false),
        column("plugin", text(64), plugin, false),
        column("authentication_string", secret, None, true),
        column("account_locked", locked, Some(Value::UInt(1)), false),
        column("password_last_changed", changed, None, true),
    ];
    columns.extend(attributes::columns());
    let key = IndexSpec::primary(&["Host", "User"]);
    let options = TableOptions {
        comment: "Accounts, their credentials and options".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(USERS.database, USERS.name, columns, vec![key], options)
    }
}

/// Creates the table with the account `root@localhost` at the first start; at later starts
/// adds the attribute columns if they are missing.
///
/// # Errors
/// Defining or writing the table failed.
pub(crate) fn create_at_first_start(db: &Arc<Db>, root_password: Option<&str>) -> Result<()> {
    if USERS.exists(db) {
        return add_attributes(db);
    }
    let done = db.define(|cx| {
        let collation = Collation::UTF8MB4_0900_AI_CI;
        db.create_database(cx, USERS.database, collation, true)?;
        db.create_table(cx, &table_spec())
    })?;
    let secret = match root_password.filter(|p| !p.is_empty()) {
        Some(password) => hash_password(DEFAULT_PLUGIN, password.as_bytes())?,
        None => Vec::new(),
    };
    let mut root = Account::new(AuthId::new("root", "localhost"));
    root.secret = secret;
    root.attributes.password.changed = now(db);
    let position = system_table::write(db, vec![change(&[root], &[])])?;
    db.engine().wait_durable(done.position.max(position))?;
    Ok(())
}

/// Current time for `password_last_changed`, truncated to seconds.
pub(crate) fn now(db: &Db) -> Option<DateTime> {
    let now = DateTime::from_unix_micros(db.clock().unix_micros());
    now.and_then(|now| now.round(0, true))
}

/// Upgrades a table that has only the first [`BASE_COLUMNS`] columns: adds the attribute columns in
/// one ALTER TABLE. Existing rows get the defaults.
fn add_attributes(db: &Arc<Db>) -> Result<()> {
    let found = db.catalog().table(USERS.database, USERS.name).cloned();
    if found.is_none_or(|table| table.columns.len() != BASE_COLUMNS) {
        return Ok(());
    }
    let add = |column| AlterOp::AddColumn(column, Position::Default);
    let ops: Vec<AlterOp> = attributes::columns().into_iter().map(add).collect();
    let done = db.define(|cx| db.alter_table(cx, USERS.database, USERS.name, &ops))?;
    db.engine().wait_durable(done.position)?;
    Ok(())
}

/// Loads all accounts.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load(db: &Arc<Db>) -> Result<Vec<Account>> {
    USERS.rows(db, Account::from_row)
}

/// Table change that inserts or replaces the accounts `put` and deletes the accounts `remove`.
pub(crate) fn change(put: &[Account], remove: &[Account]) -> TableChange {
    let rows = |accounts: &[Account]| accounts.iter().map(Account::to_row).collect();
    TableChange {
        table: &USERS,
        put: rows(put),
        remove: rows(remove),
    }
}
