//! `mysql.column_grants`: privileges on columns (manual, "Privileges Provided by MySQL", and
//! "GRANT Statement", Column Privileges).
//!
//! One row for each account, table and column, with the names of the privileges separated by commas,
//! as in `mysql.grants`. The GRANT OPTION for column privileges is that of the account's row for the
//! table in `mysql.grants`.
//!
//! Invariants:
//! 1. Only SELECT, INSERT, UPDATE and REFERENCES are granted on columns; other names in the table
//!    are ignored.
//! 2. Names of columns are compared without case, as the catalog does.
//! 3. Grants outlive their columns and tables: they hold again for a new column of that name.

use crate::auth_id::AuthId;
use crate::privileges::Privileges;
use crate::system_table::{SystemTable, TableChange, text_column, text_of};
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::ddl::{IndexSpec, TableSpec};
use porpoise_rows::{Db, RowRef};
use porpoise_types::{Collation, Value};
use std::sync::Arc;

/// Privileges on one column of one table, granted to one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnGrant {
    /// The account's user.
    pub user: String,
    /// The account's host.
    pub host: String,
    /// The database.
    pub database: String,
    /// The table or view.
    pub table: String,
    /// The column.
    pub column: String,
    /// The granted privileges.
    pub privileges: Privileges,
}

impl ColumnGrant {
    /// Whether the grant is this account's.
    pub fn is_of(&self, user: &str, host: &str) -> bool {
        self.user == user && self.host.eq_ignore_ascii_case(host)
    }

    /// Whether the grant is on a column of this table.
    pub fn is_on(&self, database: &str, table: &str) -> bool {
        self.database == database && self.table == table
    }
}

/// Effective privileges of one account on single columns of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRights {
    database: String,
    table: String,
    /// Union over all columns.
    on_any_column: Privileges,
    columns: Vec<(String, Privileges)>,
}

impl ColumnRights {
    /// Privileges of the accounts `ids`, one entry for each table.
    pub(crate) fn of_accounts(grants: &[ColumnGrant], ids: &[AuthId]) -> Vec<ColumnRights> {
        let mut tables: Vec<ColumnRights> = Vec::new();
        let own = |g: &&ColumnGrant| ids.iter().any(|id| g.is_of(&id.user, &id.host));
        for grant in grants.iter().filter(own) {
            let same = |t: &&mut ColumnRights| t.is_on(&grant.database, &grant.table);
            match tables.iter_mut().find(same) {
                Some(table) => table.add(grant),
                None => {
                    let mut table = ColumnRights {
                        database: grant.database.clone(),
                        table: grant.table.clone(),
                        on_any_column: Privileges::NONE,
                        columns: Vec::new(),
                    };
                    table.add(grant);
                    tables.push(table);
                }
            }
        }
        tables
    }

    fn add(&mut self, grant: &ColumnGrant) {
        self.on_any_column = self.on_any_column.with(grant.privileges);
        let same = |(name, _): &&mut (String, _)| name.eq_ignore_ascii_case(&grant.column);
        match self.columns.iter_mut().find(same) {
            Some((_, held)) => *held = held.with(grant.privileges),
            None => self.columns.push((grant.column.clone(), grant.privileges)),
        }
    }

    pub(crate) fn is_on(&self, database: &str, table: &str) -> bool {
        self.database == database && self.table == table
    }

    pub(crate) fn is_in(&self, database: &str) -> bool {
        self.database == database
    }

    /// Privileges on at least one column.
    pub fn on_any_column(&self) -> Privileges {
        self.on_any_column
    }

    /// Privileges on one column.
    pub fn on(&self, column: &str) -> Privileges {
        let mut columns = self.columns.iter();
        let found = columns.find(|(name, _)| name.eq_ignore_ascii_case(column));
        found.map_or(Privileges::NONE, |(_, held)| *held)
    }
}

pub(crate) static COLUMN_GRANTS: SystemTable = SystemTable {
    database: "mysql",
    name: "column_grants",
    column_count: 6,
};

fn spec() -> TableSpec {
    let columns = vec![
        text_column("Host", 255),
        text_column("User", 32),
        text_column("Db", 64),
        text_column("Table_name", 64),
        text_column("Column_name", 64),
        text_column("Privileges", 255),
    ];
    let parts = ["Host", "User", "Db", "Table_name", "Column_name"];
    let options = TableOptions {
        comment: "Privileges of accounts on columns".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    let key = vec![IndexSpec::primary(&parts)];
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(
            COLUMN_GRANTS.database,
            COLUMN_GRANTS.name,
            columns,
            key,
            options,
        )
    }
}

/// Creates the table if it does not exist.
///
/// # Errors
/// Creating it failed.
pub(crate) fn create_if_missing(db: &Arc<Db>) -> crate::Result<()> {
    if !COLUMN_GRANTS.exists(db) {
        let done = db.define(|cx| db.create_table(cx, &spec()))?;
        db.engine().wait_durable(done.position)?;
    }
    Ok(())
}

/// Loads all grants on columns.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load(db: &Arc<Db>) -> crate::Result<Vec<ColumnGrant>> {
    COLUMN_GRANTS.rows(db, from_row)
}

fn from_row(row: &RowRef<'_>) -> ColumnGrant {
    let text = |column| text_of(row, column);
    let names = text(5);
    let known = names.split(',').filter_map(Privileges::named);
    let all = known.fold(Privileges::NONE, Privileges::with);
    ColumnGrant {
        host: text(0),
        user: text(1),
        database: text(2),
        table: text(3),
        column: text(4),
        privileges: all.intersection(Privileges::COLUMN),
    }
}

fn to_row(grant: &ColumnGrant) -> Vec<Value> {
    let text = |t: &str| Value::Bytes(t.as_bytes().to_vec());
    let names: Vec<&str> = grant.privileges.names().collect();
    vec![
        text(&grant.host),
        text(&grant.user),
        text(&grant.database),
        text(&grant.table),
        text(&grant.column),
        text(&names.join(",")),
    ]
}

/// Table change that inserts or replaces the grants `put` and deletes the grants `remove`.
pub(crate) fn change(put: &[ColumnGrant], remove: &[ColumnGrant]) -> TableChange {
    let rows = |grants: &[ColumnGrant]| grants.iter().map(to_row).collect();
    TableChange {
        table: &COLUMN_GRANTS,
        put: rows(put),
        remove: rows(remove),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::AccessData;
    use crate::rights::Grant;
    use crate::roles::RoleEdge;

    fn grant(user: &str, column: &str, privileges: Privileges) -> ColumnGrant {
        ColumnGrant {
            user: user.to_owned(),
            host: "%".to_owned(),
            database: "shop".to_owned(),
            table: "goods".to_owned(),
            column: column.to_owned(),
            privileges,
        }
    }

    #[test]
    fn column_grants_add_to_grants_on_the_table() {
        let data = AccessData {
            grants: vec![Grant {
                user: "ann".to_owned(),
                host: "%".to_owned(),
                database: "shop".to_owned(),
                table: "goods".to_owned(),
                privileges: Privileges::DELETE,
                grantable: Privileges::NONE,
            }],
            column_grants: vec![
                grant("ann", "a", Privileges::SELECT),
                grant("ann", "A", Privileges::UPDATE),
                grant("bob", "b", Privileges::SELECT),
            ],
            ..AccessData::default()
        };
        let rights = data.rights("ann@%");
        let on = |column| rights.on_column("shop", "goods", column);
        let a = Privileges::SELECT
            .with(Privileges::UPDATE)
            .with(Privileges::DELETE);
        assert_eq!(on("a"), a);
        assert_eq!(on("b"), Privileges::DELETE);
        assert_eq!(rights.on_table("shop", "goods"), Privileges::DELETE);
        assert_eq!(rights.on_any_column("shop", "goods"), a);
        assert_eq!(rights.on_any_column("shop", "other"), Privileges::NONE);
        assert_eq!(
            rights.column_privileges("shop", "goods", "a"),
            "select,update"
        );
    }

    #[test]
    fn a_column_makes_its_table_and_database_visible() {
        let data = AccessData {
            column_grants: vec![grant("ann", "a", Privileges::REFERENCES)],
            ..AccessData::default()
        };
        let rights = data.rights("ann@%");
        assert!(rights.sees_database("shop") && rights.sees_table("shop", "goods"));
        assert!(!rights.sees_database("other") && !rights.sees_table("shop", "orders"));
        assert_eq!(rights.column_privileges("shop", "goods", "a"), "references");
        assert_eq!(rights.column_privileges("shop", "goods", "b"), "");
    }

    #[test]
    fn columns_of_roles_count_when_the_role_is_active() {
        let role = AuthId::new("reader", "%");
        let ann = AuthId::new("ann", "%");
        let data = AccessData {
            column_grants: vec![
                grant("reader", "a", Privileges::SELECT),
                grant("ann", "b", Privileges::SELECT),
            ],
            edges: vec![RoleEdge {
                role: role.clone(),
                grantee: ann.clone(),
                admin: false,
            }],
            ..AccessData::default()
        };
        let held = |active: &[AuthId]| {
            let rights = data.rights_with(&ann, active, &[]);
            let columns = rights.on_columns("shop", "goods").unwrap();
            ["a", "b"].map(|c| columns.on(c) == Privileges::SELECT)
        };
        assert_eq!(held(&[]), [false, true]);
        assert_eq!(held(&[role]), [true, true]);
    }
}
