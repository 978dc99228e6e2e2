//! USER_PRIVILEGES, SCHEMA_PRIVILEGES, TABLE_PRIVILEGES and COLUMN_PRIVILEGES: the grants of SHOW
//! GRANTS, one row for each privilege. An account sees its own grants, or all of them with SELECT
//! on `mysql`.

use crate::context::StatementContext;
use crate::results::table::text;
use porpoise_access::{ColumnGrant, Grant, Privileges, routine_of_place};
use porpoise_types::Value;

/// Rows of the grants that `includes` accepts; `object` gives the columns after the catalog.
fn rows(
    cx: &StatementContext,
    includes: impl Fn(&Grant) -> bool,
    object: impl Fn(&Grant) -> Vec<Value>,
) -> Vec<Vec<Value>> {
    let all = cx.rights().on_database("mysql").has(Privileges::SELECT);
    let account = &cx.client.account;
    let grants = cx.server.access.data();
    let mut own: Vec<&Grant> = grants.grants.iter().filter(|g| includes(g)).collect();
    own.retain(|g| all || *account == format!("{}@{}", g.user, g.host));
    own.sort_by(|a, b| {
        (&a.user, &a.host)
            .cmp(&(&b.user, &b.host))
            .then_with(|| (&a.database, &a.table).cmp(&(&b.database, &b.table)))
    });
    let mut out = Vec::new();
    for grant in own {
        let grantee = format!("'{}'@'{}'", grant.user, grant.host);
        let option = grant.privileges.has(Privileges::GRANT_OPTION);
        let names: Vec<&str> = match grant.privileges.without(Privileges::GRANT_OPTION) {
            Privileges::NONE => vec!["USAGE"],
            some => some.names().collect(),
        };
        for name in names {
            let privilege = Privileges::named(name).unwrap_or_default();
            let option = if Privileges::DYNAMIC.intersects(privilege) {
                grant.grantable.has(privilege)
            } else {
                option
            };
            let mut row = vec![text(&grantee), text("def")];
            row.extend(object(grant));
            row.extend([text(name), text(if option { "YES" } else { "NO" })]);
            out.push(row);
        }
    }
    out
}

/// Rows of USER_PRIVILEGES; USAGE for accounts without global privileges.
pub(super) fn user(cx: &StatementContext) -> Vec<Vec<Value>> {
    let mut out = rows(cx, |g| g.database.is_empty(), |_| Vec::new());
    let all = cx.rights().on_database("mysql").has(Privileges::SELECT);
    let account = &cx.client.account;
    let data = cx.server.access.data();
    let mut accounts: Vec<_> = data.accounts.iter().map(|a| (&a.user, &a.host)).collect();
    accounts.sort();
    for (user, host) in accounts {
        let grantee = text(format!("'{user}'@'{host}'"));
        let shown = all || *account == format!("{user}@{host}");
        if shown && !out.iter().any(|row| row.first() == Some(&grantee)) {
            out.push(vec![grantee, text("def"), text("USAGE"), text("NO")]);
        }
    }
    out
}

/// Rows of SCHEMA_PRIVILEGES.
pub(super) fn schema(cx: &StatementContext) -> Vec<Vec<Value>> {
    let on_database = |g: &Grant| !g.database.is_empty() && g.table.is_empty();
    rows(cx, on_database, |g| vec![text(&g.database)])
}

/// Rows of TABLE_PRIVILEGES.
pub(super) fn table(cx: &StatementContext) -> Vec<Vec<Value>> {
    let object = |g: &Grant| vec![text(&g.database), text(&g.table)];
    let is_of_table = |g: &Grant| !g.table.is_empty() && routine_of_place(&g.table).is_none();
    rows(cx, is_of_table, object)
}

/// Rows of COLUMN_PRIVILEGES. IS_GRANTABLE is that of the table.
pub(super) fn column(cx: &StatementContext) -> Vec<Vec<Value>> {
    let all = cx.rights().on_database("mysql").has(Privileges::SELECT);
    let account = &cx.client.account;
    let data = cx.server.access.data();
    let shown = |g: &&ColumnGrant| all || *account == format!("{}@{}", g.user, g.host);
    let mut grants: Vec<&ColumnGrant> = data.column_grants.iter().filter(shown).collect();
    let order = |g: &ColumnGrant| {
        let column = (g.database.clone(), g.table.clone(), g.column.clone());
        (g.user.clone(), g.host.clone(), column)
    };
    grants.sort_by_cached_key(|g| order(g));
    let mut out = Vec::new();
    for grant in grants {
        let option = data.grants.iter().any(|g| {
            grant.is_of(&g.user, &g.host)
                && grant.is_on(&g.database, &g.table)
                && g.privileges.has(Privileges::GRANT_OPTION)
        });
        for name in grant.privileges.names() {
            out.push(vec![
                text(format!("'{}'@'{}'", grant.user, grant.host)),
                text("def"),
                text(&grant.database),
                text(&grant.table),
                text(&grant.column),
                text(name),
                text(if option { "YES" } else { "NO" }),
            ]);
        }
    }
    out
}
