//! `mysql.grants`: the table of grants.
//!
//! One row per grant: host, user, database (empty: `*.*`), table (empty: the
//! database), and the names of the privileges separated by commas. Unknown names, written by
//! a later version, are ignored. A dynamic privilege whose GRANT OPTION differs from the row's
//! is followed by its own:
//!
//! ```text
//!   SELECT,GRANT OPTION,BACKUP_ADMIN                        may be passed on
//!   SELECT,GRANT OPTION,BACKUP_ADMIN WITHOUT GRANT OPTION   may not
//!   SELECT,BACKUP_ADMIN WITH GRANT OPTION                   may
//! ```
//!
//! Rows of earlier versions, with one GRANT OPTION for all privileges, thus keep their
//! meaning.

use crate::Result;
use crate::account::Account;
use crate::privileges::Privileges;
use crate::rights::Grant;
use crate::system_table::{self, SystemTable, TableChange, text_column, text_of};
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::ddl::{AlterOp, IndexSpec, Position, TableSpec};
use porpoise_rows::{Db, RowRef};
use porpoise_types::{Collation, Value};
use std::sync::Arc;

pub(crate) static GRANTS: SystemTable = SystemTable {
    database: "mysql",
    name: "grants",
    column_count: 5,
};

/// Maximum length of the `Privileges` column.
const PRIVILEGES_LENGTH: u32 = 2048;

fn table_spec() -> TableSpec {
    let columns = vec![
        text_column("Host", 255),
        text_column("User", 32),
        text_column("Db", 64),
        text_column("Table_name", 64),
        text_column("Privileges", PRIVILEGES_LENGTH),
    ];
    let key = IndexSpec::primary(&["Host", "User", "Db", "Table_name"]);
    let options = TableOptions {
        comment: "Privileges of accounts".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(GRANTS.database, GRANTS.name, columns, vec![key], options)
    }
}

/// Creates the table if it does not exist, and grants all privileges to the
/// existing accounts.
///
/// # Errors
/// Defining or writing the table failed.
pub(crate) fn create_if_missing(db: &Arc<Db>, accounts: &[Account]) -> Result<()> {
    if GRANTS.exists(db) {
        return widen_privileges(db);
    }
    let done = db.define(|cx| db.create_table(cx, &table_spec()))?;
    let everything = |account: &Account| Grant {
        user: account.user.clone(),
        host: account.host.clone(),
        database: String::new(),
        table: String::new(),
        privileges: Privileges::ALL.with(Privileges::GRANT_OPTION),
        grantable: Privileges::NONE,
    };
    let grants: Vec<Grant> = accounts.iter().map(everything).collect();
    let position = system_table::write(db, vec![change(&grants, &[])])?;
    db.engine().wait_durable(done.position.max(position))?;
    Ok(())
}

/// Widens the `Privileges` column of a table that an earlier version has created, which had fewer
/// privileges and a shorter column.
fn widen_privileges(db: &Arc<Db>) -> Result<()> {
    let found = db.catalog().table(GRANTS.database, GRANTS.name).cloned();
    let is_short = found.is_some_and(|table| {
        let column = table.columns.iter().find(|c| c.name == "Privileges");
        column.is_some_and(|column| column.ty.length < PRIVILEGES_LENGTH)
    });
    if !is_short {
        return Ok(());
    }
    let column = text_column("Privileges", PRIVILEGES_LENGTH);
    let ops = [AlterOp::ChangeColumn(
        "Privileges".to_owned(),
        column,
        Position::Default,
    )];
    let done = db.define(|cx| db.alter_table(cx, GRANTS.database, GRANTS.name, &ops))?;
    db.engine().wait_durable(done.position)?;
    Ok(())
}

fn from_row(row: &RowRef<'_>) -> Grant {
    let text = |column| text_of(row, column);
    let (privileges, grantable) = parse(&text(4));
    Grant {
        host: text(0),
        user: text(1),
        database: text(2),
        table: text(3),
        privileges,
        grantable,
    }
}

const WITH: &str = " WITH GRANT OPTION";
const WITHOUT: &str = " WITHOUT GRANT OPTION";

/// Privileges, and the dynamic ones of them that are held WITH GRANT OPTION.
fn parse(names: &str) -> (Privileges, Privileges) {
    let names: Vec<&str> = names.split(',').collect();
    let for_all = names.contains(&"GRANT OPTION");
    let (mut privileges, mut grantable) = (Privileges::NONE, Privileges::NONE);
    for name in names {
        let (name, passes_on) = match (name.strip_suffix(WITH), name.strip_suffix(WITHOUT)) {
            (Some(name), _) => (name, true),
            (_, Some(name)) => (name, false),
            _ => (name, for_all),
        };
        let privilege = Privileges::named(name).unwrap_or_default();
        privileges = privileges.with(privilege);
        if passes_on {
            grantable = grantable.with(privilege.intersection(Privileges::DYNAMIC));
        }
    }
    (privileges, grantable)
}

/// Formats the privileges of a grant; the inverse of [`parse`].
fn print(grant: &Grant) -> String {
    let for_all = grant.privileges.has(Privileges::GRANT_OPTION);
    let name = |name: &'static str| {
        let privilege = Privileges::named(name).unwrap_or_default();
        let passes_on = grant.grantable.has(privilege);
        if !Privileges::DYNAMIC.has(privilege) || passes_on == for_all {
            name.to_owned()
        } else if passes_on {
            format!("{name}{WITH}")
        } else {
            format!("{name}{WITHOUT}")
        }
    };
    let names: Vec<String> = grant.privileges.names().map(name).collect();
    names.join(",")
}

fn to_row(grant: &Grant) -> Vec<Value> {
    let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
    vec![
        text(&grant.host),
        text(&grant.user),
        text(&grant.database),
        text(&grant.table),
        text(&print(grant)),
    ]
}

/// All grants.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load(db: &Arc<Db>) -> Result<Vec<Grant>> {
    GRANTS.rows(db, from_row)
}

/// Table change that inserts or replaces the grants `put` and deletes the grants `remove`.
pub(crate) fn change(put: &[Grant], remove: &[Grant]) -> TableChange {
    let rows = |grants: &[Grant]| grants.iter().map(to_row).collect();
    TableChange {
        table: &GRANTS,
        put: rows(put),
        remove: rows(remove),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(privileges: Privileges, grantable: Privileges) -> Grant {
        Grant {
            user: String::new(),
            host: String::new(),
            database: String::new(),
            table: String::new(),
            privileges,
            grantable,
        }
    }

    #[test]
    fn rows_with_one_grant_option_keep_their_meaning() {
        let backup = Privileges::BACKUP_ADMIN;
        let old = "SELECT,GRANT OPTION,BACKUP_ADMIN,LATER_ADMIN";
        let all = Privileges::SELECT
            .with(Privileges::GRANT_OPTION)
            .with(backup);
        assert_eq!(parse(old), (all, backup));
        let old = "SELECT,BACKUP_ADMIN";
        let all = Privileges::SELECT.with(backup);
        assert_eq!(parse(old), (all, Privileges::NONE));
        assert_eq!(parse(""), (Privileges::NONE, Privileges::NONE));
    }

    #[test]
    fn grant_options_of_dynamic_privileges_round_trip() {
        let (backup, user) = (Privileges::BACKUP_ADMIN, Privileges::SYSTEM_USER);
        for option in [Privileges::NONE, Privileges::GRANT_OPTION] {
            for grantable in [Privileges::NONE, backup, user, backup.with(user)] {
                let one = grant(backup.with(user).with(option), grantable);
                assert_eq!(parse(&print(&one)), (one.privileges, one.grantable));
            }
        }
        let longest = grant(Privileges(u64::MAX), Privileges::NONE);
        assert!(print(&longest).len() <= PRIVILEGES_LENGTH as usize);
    }
}
