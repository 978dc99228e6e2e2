//! Tables of roles: accounts granted to accounts (manual, "Using Roles").
//!
//! A role is an account. `mysql.role_edges` holds grants of roles, the edges of a graph, and
//! `mysql.default_roles` the roles that a login activates. Module `role_graph` walks the
//! graph.

use crate::auth_id::AuthId;
use crate::system_table::{SystemTable, TableChange, text_column, text_of};
use porpoise_rows::catalog::{ColumnDefault, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::{Db, RowRef};
use porpoise_types::{Collation, ColumnType, Value, ValueRef};
use std::sync::Arc;

/// Number of the member 'Y' of the ENUM `WITH_ADMIN_OPTION`; 'N' is 1.
const YES: u64 = 2;

/// A role granted to an account or another role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleEdge {
    /// The role.
    pub role: AuthId,
    /// The account or role to which the role is granted.
    pub grantee: AuthId,
    /// Whether the role was granted WITH ADMIN OPTION.
    pub admin: bool,
}

/// A role that a login of the account activates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRole {
    /// The account.
    pub account: AuthId,
    /// The role.
    pub role: AuthId,
}

/// `mysql.role_edges`
pub(crate) static EDGES: SystemTable = SystemTable {
    database: "mysql",
    name: "role_edges",
    column_count: 5,
};

/// `mysql.default_roles`
pub(crate) static DEFAULT_ROLES: SystemTable = SystemTable {
    database: "mysql",
    name: "default_roles",
    column_count: 4,
};

fn specs() -> [TableSpec; 2] {
    let labels = vec![Box::from(&b"N"[..]), Box::from(&b"Y"[..])];
    let yes_or_no = ColumnType::enumeration(labels, Collation::UTF8MB4_GENERAL_CI);
    let admin = ColumnSpec {
        default: Some(ColumnDefault::Literal(Value::UInt(1))),
        ..ColumnSpec::new("WITH_ADMIN_OPTION", yes_or_no).not_null()
    };
    let options = |comment: &str| TableOptions {
        comment: comment.to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    let spec = |table: &SystemTable, columns: Vec<ColumnSpec>, key: &[&str], comment: &str| {
        let key = vec![IndexSpec::primary(key)];
        TableSpec {
            if_not_exists: true,
            ..TableSpec::new(table.database, table.name, columns, key, options(comment))
        }
    };
    let edges = ["FROM_HOST", "FROM_USER", "TO_HOST", "TO_USER"];
    let defaults = ["HOST", "USER", "DEFAULT_ROLE_HOST", "DEFAULT_ROLE_USER"];
    let names = |names: [&str; 4]| {
        let length = |n: &str| if n.ends_with("HOST") { 255 } else { 32 };
        names.map(|n| text_column(n, length(n))).to_vec()
    };
    let mut columns = names(edges);
    columns.push(admin);
    [
        spec(&EDGES, columns, &edges, "Roles and their grantees"),
        spec(
            &DEFAULT_ROLES,
            names(defaults),
            &defaults,
            "Default roles of accounts",
        ),
    ]
}

/// Creates the tables that do not exist.
///
/// # Errors
/// Creating them failed.
pub(crate) fn create_if_missing(db: &Arc<Db>) -> crate::Result<()> {
    for (table, spec) in [&EDGES, &DEFAULT_ROLES].into_iter().zip(specs()) {
        if !table.exists(db) {
            let done = db.define(|cx| db.create_table(cx, &spec))?;
            db.engine().wait_durable(done.position)?;
        }
    }
    Ok(())
}

fn text(t: &str) -> Value {
    Value::Bytes(t.as_bytes().to_vec())
}

fn auth_id_at(row: &RowRef<'_>, first: usize) -> AuthId {
    let text = |column| text_of(row, column);
    AuthId {
        host: text(first),
        user: text(first + 1),
    }
}

/// Loads all rows of `mysql.role_edges`.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load_edges(db: &Arc<Db>) -> crate::Result<Vec<RoleEdge>> {
    EDGES.rows(db, |row| RoleEdge {
        role: auth_id_at(row, 0),
        grantee: auth_id_at(row, 2),
        admin: row.get(4) == ValueRef::UInt(YES),
    })
}

/// Loads all rows of `mysql.default_roles`.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load_defaults(db: &Arc<Db>) -> crate::Result<Vec<DefaultRole>> {
    DEFAULT_ROLES.rows(db, |row| DefaultRole {
        account: auth_id_at(row, 0),
        role: auth_id_at(row, 2),
    })
}

/// Table change that inserts or replaces the edges `put` and deletes the edges `remove`.
pub(crate) fn change_edges(put: &[RoleEdge], remove: &[RoleEdge]) -> TableChange {
    let rows = |edges: &[RoleEdge]| {
        let row = |e: &RoleEdge| {
            vec![
                text(&e.role.host),
                text(&e.role.user),
                text(&e.grantee.host),
                text(&e.grantee.user),
                Value::UInt(if e.admin { YES } else { 1 }),
            ]
        };
        edges.iter().map(row).collect()
    };
    TableChange {
        table: &EDGES,
        put: rows(put),
        remove: rows(remove),
    }
}

/// Table change that inserts or replaces the rows `put` and deletes the rows `remove`.
pub(crate) fn change_defaults(put: &[DefaultRole], remove: &[DefaultRole]) -> TableChange {
    let rows = |list: &[DefaultRole]| {
        let row = |d: &DefaultRole| {
            vec![
                text(&d.account.host),
                text(&d.account.user),
                text(&d.role.host),
                text(&d.role.user),
            ]
        };
        list.iter().map(row).collect()
    };
    TableChange {
        table: &DEFAULT_ROLES,
        put: rows(put),
        remove: rows(remove),
    }
}
