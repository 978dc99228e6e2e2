//! `mysql.persisted_variables`: global values of system variables that SET PERSIST keeps across
//! restarts (manual, "Persisted System Variables"). MySQL keeps them in the file `mysqld-auto.cnf`; a
//! table is durable with its transaction, and the same for all servers of a cluster.

use crate::system_table::{self, SystemTable, TableChange, text_column, text_of};
use porpoise_rows::Db;
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Value, ValueRef};
use std::sync::Arc;

/// A persisted variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedVariable {
    /// The name, in lower case.
    pub name: String,
    /// The value as text.
    pub value: String,
    /// Time of the statement, in microseconds since 1970 UTC.
    pub set_at: i64,
    /// User that set it.
    pub user: String,
    /// Host of that user.
    pub host: String,
}

static PERSISTED: SystemTable = SystemTable {
    database: "mysql",
    name: "persisted_variables",
    column_count: 5,
};

fn spec() -> TableSpec {
    let value = ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN);
    let columns = vec![
        text_column("Variable_name", 64),
        ColumnSpec::new("Variable_value", value),
        ColumnSpec::new("Set_time", ColumnType::timestamp(6)).not_null(),
        text_column("Set_user", 32),
        text_column("Set_host", 255),
    ];
    let options = TableOptions {
        comment: "Global variables of SET PERSIST".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    let key = vec![IndexSpec::primary(&["Variable_name"])];
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(PERSISTED.database, PERSISTED.name, columns, key, options)
    }
}

/// All persisted variables, by name.
///
/// # Errors
/// Reading the table failed.
pub fn load(db: &Arc<Db>) -> crate::Result<Vec<PersistedVariable>> {
    if !PERSISTED.exists(db) {
        return Ok(Vec::new());
    }
    PERSISTED.rows(db, |row| PersistedVariable {
        name: text_of(row, 0),
        value: text_of(row, 1),
        set_at: match row.get(2) {
            ValueRef::DateTime(at) => at.to_unix_micros(),
            _ => 0,
        },
        user: text_of(row, 3),
        host: text_of(row, 4),
    })
}

/// Stores and removes variables in one transaction, and waits until that is durable. Creates the
/// table if there is none.
///
/// # Errors
/// Creating or writing the table failed; then nothing is changed.
pub fn change(db: &Arc<Db>, put: &[PersistedVariable], remove: &[String]) -> crate::Result<()> {
    PERSISTED.ensure(db, spec)?;
    let row = |name: &str, variable: Option<&PersistedVariable>| {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let at = DateTime::from_unix_micros(variable.map_or(0, |v| v.set_at));
        let field = |get: fn(&PersistedVariable) -> &str| text(variable.map_or("", get));
        vec![
            text(name),
            field(|v| &v.value),
            at.map_or(Value::Null, Value::DateTime),
            field(|v| &v.user),
            field(|v| &v.host),
        ]
    };
    let changes = TableChange {
        table: &PERSISTED,
        put: put.iter().map(|v| row(&v.name, Some(v))).collect(),
        remove: remove.iter().map(|name| row(name, None)).collect(),
    };
    let position = system_table::write(db, vec![changes])?;
    db.engine().wait_durable(position)?;
    Ok(())
}
