//! `mysql.grants`: the table of grants.
//!
//! One row a grant: host, user, database (empty: `*.*`), table (empty: the
//! database), and the names of the privileges between commas, so that a later
//! version's names are kept by an earlier one that reads them over.

use crate::account::Account;
use crate::error::Result;
use crate::privileges::Privileges;
use crate::rights::Grant;
use crate::system_table::{self, SystemTable, TableChange};
use porpoise_rows::catalog::{ColumnDefault, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::{Db, RowRef};
use porpoise_types::{Collation, ColumnType, Value, ValueRef};
use std::sync::Arc;

pub(crate) static GRANTS: SystemTable = SystemTable {
    database: "mysql",
    name: "grants",
    columns: 5,
};

fn table_spec() -> TableSpec {
    let column = |name: &str, length: u32| ColumnSpec {
        default: Some(ColumnDefault::Literal(Value::Bytes(Vec::new()))),
        ..ColumnSpec::new(name, ColumnType::varchar(length, Collation::UTF8MB4_BIN)).not_null()
    };
    let columns = vec![
        column("Host", 255),
        column("User", 32),
        column("Db", 64),
        column("Table_name", 64),
        column("Privileges", 1024),
    ];
    let key = IndexSpec::primary(&["Host", "User", "Db", "Table_name"]);
    let options = TableOptions {
        comment: "What accounts may do".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(GRANTS.database, GRANTS.name, columns, vec![key], options)
    }
}

/// Makes the table if it is not there: the accounts that there are by then
/// may do everything.
///
/// # Errors
/// Defining or writing the table failed.
pub(crate) fn create_if_missing(db: &Arc<Db>, accounts: &[Account]) -> Result<()> {
    if GRANTS.exists(db) {
        return Ok(());
    }
    let done = db.define(|cx| db.create_table(cx, &table_spec()))?;
    let everything = |account: &Account| Grant {
        user: account.user.clone(),
        host: account.host.clone(),
        database: String::new(),
        table: String::new(),
        privileges: Privileges::ALL.with(Privileges::GRANT_OPTION),
    };
    let grants: Vec<Grant> = accounts.iter().map(everything).collect();
    let ticket = system_table::write(db, vec![change(&grants, &[])])?;
    db.engine().wait_durable(done.ticket.max(ticket))?;
    Ok(())
}

fn of(row: &RowRef<'_>) -> Grant {
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

fn row(grant: &Grant) -> Vec<Value> {
    let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
    let names: Vec<&str> = grant.privileges.names().collect();
    vec![
        text(&grant.host),
        text(&grant.user),
        text(&grant.database),
        text(&grant.table),
        text(&names.join(",")),
    ]
}

/// All grants.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load(db: &Arc<Db>) -> Result<Vec<Grant>> {
    GRANTS.rows(db, of)
}

/// The change that puts grants in place of those of the same account and object, and
/// removes others.
pub(crate) fn change(put: &[Grant], remove: &[Grant]) -> TableChange {
    let rows = |grants: &[Grant]| grants.iter().map(row).collect();
    TableChange {
        table: &GRANTS,
        put: rows(put),
        remove: rows(remove),
    }
}
