//! Roles: accounts granted to accounts (manual, "Using Roles").
//!
//! A role is an account. `mysql.role_edges` holds the edges of the graph "is granted to",
//! `mysql.default_roles` the roles that a login activates.
//!
//! ```text
//!   reader --> writer --> alice      GRANT reader TO writer; GRANT writer TO alice
//! ```
//!
//! Invariant: the graph has no cycle; a grant that would close one is refused
//! ([`AccessData::reaches`]). Tables written by hand may hold one all the same, so every
//! walk visits an account once.

use crate::control::AccessData;
use crate::system_table::{SystemTable, TableChange};
use porpoise_rows::catalog::{ColumnDefault, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::{Db, RowRef};
use porpoise_types::{Collation, ColumnType, Value, ValueRef};
use std::sync::Arc;

/// The name of an account or role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuthId {
    /// The user.
    pub user: String,
    /// The host.
    pub host: String,
}

impl AuthId {
    /// Whether a client at `host` can be this account.
    pub fn matches_host(&self, host: &str) -> bool {
        crate::account::host_matches(&self.host, host)
    }

    /// The name of this user and host.
    pub fn new(user: &str, host: &str) -> AuthId {
        AuthId {
            user: user.to_owned(),
            host: host.to_owned(),
        }
    }

    /// The name that `user@host` spells.
    pub fn parse(account: &str) -> AuthId {
        let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
        AuthId::new(user, host)
    }

    /// The names in a list such as `mandatory_roles`: between commas, each part perhaps in
    /// quotes or backticks, host `%` if not given.
    pub fn parse_list(list: &str) -> Vec<AuthId> {
        let mut ids = Vec::new();
        let mut parts = vec![String::new()];
        let mut quote = None;
        for c in list.chars().chain([',']) {
            match (quote, c) {
                (Some(q), c) if q == c => quote = None,
                (None, '\'' | '"' | '`') => quote = Some(c),
                (None, '@') => parts.push(String::new()),
                (None, ',') => {
                    let mut names = parts.iter().map(|p| p.trim());
                    let user = names.next().unwrap_or_default();
                    let host = names.next().filter(|h| !h.is_empty()).unwrap_or("%");
                    if !user.is_empty() {
                        ids.push(AuthId::new(user, &host.to_lowercase()));
                    }
                    parts = vec![String::new()];
                }
                (_, c) => {
                    if let Some(part) = parts.last_mut() {
                        part.push(c);
                    }
                }
            }
        }
        ids
    }
}

impl std::fmt::Display for AuthId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        write!(f, "{}@{}", quoted(&self.user), quoted(&self.host))
    }
}

/// A role granted to an account or another role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleEdge {
    /// The role.
    pub role: AuthId,
    /// The account or role that has it.
    pub grantee: AuthId,
    /// WITH ADMIN OPTION
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

impl AccessData {
    /// The roles granted to an account directly.
    pub fn roles_of<'a>(&'a self, account: &'a AuthId) -> impl Iterator<Item = &'a RoleEdge> {
        self.edges.iter().filter(move |e| e.grantee == *account)
    }

    /// These accounts and every role granted to them, directly or not, each once.
    pub fn closure(&self, from: &[AuthId]) -> Vec<AuthId> {
        let mut found: Vec<AuthId> = Vec::new();
        for id in from {
            if !found.contains(id) {
                found.push(id.clone());
            }
        }
        let mut at = 0;
        while let Some(id) = found.get(at).cloned() {
            for edge in self.roles_of(&id) {
                if !found.contains(&edge.role) {
                    found.push(edge.role.clone());
                }
            }
            at += 1;
        }
        found
    }

    /// Whether `role` is granted to `account` directly or through other roles, or is it.
    pub fn reaches(&self, account: &AuthId, role: &AuthId) -> bool {
        self.closure(std::slice::from_ref(account)).contains(role)
    }

    /// The roles that a login of the account activates by default.
    pub fn default_roles_of(&self, account: &AuthId) -> Vec<AuthId> {
        let own = self.default_roles.iter().filter(|d| d.account == *account);
        own.map(|d| d.role.clone()).collect()
    }
}

/// `mysql.role_edges`
pub(crate) static EDGES: SystemTable = SystemTable {
    database: "mysql",
    name: "role_edges",
    columns: 5,
};

/// `mysql.default_roles`
pub(crate) static DEFAULTS: SystemTable = SystemTable {
    database: "mysql",
    name: "default_roles",
    columns: 4,
};

fn specs() -> [TableSpec; 2] {
    let name = |name: &str, length: u32| ColumnSpec {
        default: Some(ColumnDefault::Literal(Value::Bytes(Vec::new()))),
        ..ColumnSpec::new(name, ColumnType::varchar(length, Collation::UTF8MB4_BIN)).not_null()
    };
    let words = vec![Box::from(&b"N"[..]), Box::from(&b"Y"[..])];
    let switch = ColumnType::enumeration(words, Collation::UTF8MB4_GENERAL_CI);
    let admin = ColumnSpec {
        default: Some(ColumnDefault::Literal(Value::UInt(1))),
        ..ColumnSpec::new("WITH_ADMIN_OPTION", switch).not_null()
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
        names.map(|n| name(n, length(n))).to_vec()
    };
    let mut columns = names(edges);
    columns.push(admin);
    [
        spec(&EDGES, columns, &edges, "Roles and their grantees"),
        spec(
            &DEFAULTS,
            names(defaults),
            &defaults,
            "Roles that logins activate",
        ),
    ]
}

/// Creates the tables that do not exist.
///
/// # Errors
/// Creating them failed.
pub(crate) fn create_if_missing(db: &Arc<Db>) -> crate::Result<()> {
    for (table, spec) in [&EDGES, &DEFAULTS].into_iter().zip(specs()) {
        if !table.exists(db) {
            let done = db.define(|cx| db.create_table(cx, &spec))?;
            db.engine().wait_durable(done.ticket)?;
        }
    }
    Ok(())
}

fn text(t: &str) -> Value {
    Value::Bytes(t.as_bytes().to_vec())
}

fn pair(row: &RowRef<'_>, first: usize) -> AuthId {
    let text = |at| match row.get(at) {
        ValueRef::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        _ => String::new(),
    };
    AuthId {
        host: text(first),
        user: text(first + 1),
    }
}

/// All edges.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load_edges(db: &Arc<Db>) -> crate::Result<Vec<RoleEdge>> {
    EDGES.rows(db, |row| RoleEdge {
        role: pair(row, 0),
        grantee: pair(row, 2),
        admin: row.get(4) == ValueRef::UInt(2),
    })
}

/// All default roles.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load_defaults(db: &Arc<Db>) -> crate::Result<Vec<DefaultRole>> {
    DEFAULTS.rows(db, |row| DefaultRole {
        account: pair(row, 0),
        role: pair(row, 2),
    })
}

/// The change that puts and removes edges.
pub(crate) fn change_edges(put: &[RoleEdge], remove: &[RoleEdge]) -> TableChange {
    let rows = |edges: &[RoleEdge]| {
        let row = |e: &RoleEdge| {
            vec![
                text(&e.role.host),
                text(&e.role.user),
                text(&e.grantee.host),
                text(&e.grantee.user),
                Value::UInt(if e.admin { 2 } else { 1 }),
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

/// The change that puts and removes default roles.
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
        table: &DEFAULTS,
        put: rows(put),
        remove: rows(remove),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_may_be_quoted() {
        let ids = AuthId::parse_list("a, `b,c`@'H%' ,'d'@\"x@y\",");
        let expected = [("a", "%"), ("b,c", "h%"), ("d", "x@y")];
        assert_eq!(ids, expected.map(|(u, h)| AuthId::new(u, h)));
        assert!(AuthId::parse_list(" ").is_empty());
    }

    #[test]
    fn walks_visit_each_account_once() {
        let id = |n: &str| AuthId::new(n, "%");
        let edge = |role: &str, grantee: &str| RoleEdge {
            role: id(role),
            grantee: id(grantee),
            admin: false,
        };
        let data = AccessData {
            edges: vec![
                edge("a", "b"),
                edge("b", "c"),
                edge("a", "c"),
                edge("c", "a"),
            ],
            ..AccessData::default()
        };
        assert_eq!(data.closure(&[id("c")]), [id("c"), id("b"), id("a")]);
        assert!(data.reaches(&id("c"), &id("a")));
        assert!(!data.reaches(&id("d"), &id("a")));
        assert!(data.reaches(&id("d"), &id("d")));
    }
}
