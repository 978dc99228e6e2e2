//! Partial revokes: GRANT and REVOKE with `partial_revokes = ON` (manual, "Privilege Restriction
//! Using Partial Revokes").
//!
//! | statement | privilege of the account | effect |
//! |---|---|---|
//! | REVOKE p ON d.* | on `d.*` | the grant is revoked |
//! | | on `*.*` only | restricted on `d` |
//! | | neither | 1141 |
//! | GRANT p ON d.* | restricted on `d` | the restriction is removed; there is no grant on `d` |
//! | GRANT p ON *.* | | restrictions of p are removed, the grantor's passed on |
//! | REVOKE p ON *.* | | restrictions of p are removed |
//!
//! [`porpoise_access::Restrictions`] has the rules by which a grantor's restrictions are passed on.

use crate::context::StatementContext;
use porpoise_access::{
    AccessData, Account, AuthId, Change, Grant, Privileges, Restrictions, literal,
};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast;

/// Error 3879: the grantor is restricted where the account is not.
fn denied(cx: &StatementContext, database: &str) -> SqlError {
    let own = AuthId::parse(&cx.client.account);
    let text = format!("Access denied for AuthId {own} to database '{database}'.");
    SqlError::new(3879, "HY000", text)
}

/// The privileges that an account has on `*.*`.
fn global_privileges(data: &AccessData, id: &AuthId) -> Privileges {
    let global = data
        .grants
        .iter()
        .filter(|g| g.database.is_empty() && g.is_of(id));
    global.fold(Privileges::NONE, |all, g| all.with(g.privileges))
}

/// An account's grant on a database, by literal name.
fn grant_on<'d>(data: &'d AccessData, id: &AuthId, database: &str) -> Option<&'d Grant> {
    let mut grants = data.grants.iter();
    let on = |g: &Grant| g.table.is_empty() && !g.database.is_empty() && g.is_of(id);
    grants.find(|g| on(g) && literal(&g.database) == database)
}

/// Whether the statement names ALL.
fn names_all(statement: &ast::Grant<'_>) -> bool {
    let mut named = statement.privileges.iter();
    named.any(|p| matches!(p.name, "ALL" | "ALL PRIVILEGES"))
}

/// Adds the account with its new restrictions to `change`.
fn set_restrictions(account: &Account, restrictions: Restrictions, change: &mut Change) {
    if account.attributes.restrictions != restrictions {
        let mut account = account.clone();
        account.attributes.restrictions = restrictions;
        change.put_accounts.push(account);
    }
}

/// Applies a statement on `*.*` or a database to the restrictions of `target`'s account. Returns
/// the privileges that remain to be granted or revoked; `None` if the statement is complete.
/// `target` gets the database's name as an existing grant spells it.
///
/// # Errors
/// 3879 if the grantor is restricted where the account is not.
pub(super) fn restrict(
    cx: &StatementContext,
    data: &AccessData,
    statement: &ast::Grant<'_>,
    set: Privileges,
    target: &mut Grant,
    change: &mut Change,
) -> Result<Option<Privileges>> {
    let id = AuthId::new(&target.user, &target.host);
    let account = data.account(&id.user, &id.host);
    let account = account.filter(|_| data.partial_revokes && target.table.is_empty());
    let Some(account) = account else {
        return Ok(Some(set));
    };
    let held = global_privileges(data, &id);
    let mut after = account.attributes.restrictions.clone();
    if target.database.is_empty() {
        let rights = cx.rights();
        let grantor = rights.restrictions();
        if statement.revoke {
            let revoked = set.intersection(held);
            if let Some(database) = grantor.unrevocable_database(revoked, &after) {
                return Err(denied(cx, database));
            }
            after.lift(set);
        } else {
            let on = |database: &str| {
                let grant = grant_on(data, &id, database);
                grant.map_or(Privileges::NONE, |g| g.privileges)
            };
            after = after.after_grant(set, held, grantor, on);
        }
        set_restrictions(account, after, change);
        return Ok(Some(set));
    }
    let database = literal(&target.database);
    let grant = grant_on(data, &id, &database);
    if let Some(grant) = grant {
        grant.database.clone_into(&mut target.database);
    }
    let (applied, rest) = if statement.revoke {
        let granted = grant.map_or(Privileges::NONE, |g| g.privileges);
        let set = match set.intersection(held.with(granted)) {
            some if names_all(statement) && some != Privileges::NONE => some,
            _ => set,
        };
        let restricted = held.intersection(set.without(granted));
        after.add(&database, restricted);
        (restricted, set.without(restricted))
    } else {
        let lifted = set.intersection(after.on(&database));
        after.set(&database, after.on(&database).without(set));
        (lifted, set.without(lifted))
    };
    set_restrictions(account, after, change);
    let complete = applied != Privileges::NONE && rest == Privileges::NONE;
    Ok(if complete { None } else { Some(rest) })
}

/// Removes all restrictions of accounts from which all privileges are revoked.
///
/// # Errors
/// 3879 if the grantor is restricted where the account is not.
pub(super) fn lift_all(
    cx: &StatementContext,
    data: &AccessData,
    targets: &[(String, String)],
    change: &mut Change,
) -> Result<()> {
    let rights = cx.rights();
    for (user, host) in targets {
        let Some(account) = data.account(user, host) else {
            continue;
        };
        let held = global_privileges(data, &account.id());
        let own = &account.attributes.restrictions;
        if let Some(database) = rights.restrictions().unrevocable_database(held, own) {
            return Err(denied(cx, database));
        }
        set_restrictions(account, Restrictions::default(), change);
    }
    Ok(())
}

/// The restrictions of an account with these roles, as SHOW GRANTS prints them.
pub(super) fn restriction_statements(
    cx: &StatementContext,
    data: &AccessData,
    id: &AuthId,
    roles: &[AuthId],
) -> Vec<String> {
    let rights = data.rights_with(id, roles, &cx.mandatory_roles());
    let line = |(database, privileges): (&str, Privileges)| {
        let names: Vec<&str> = privileges.names().collect();
        let place = porpoise_rows::show::quote(database);
        format!("REVOKE {} ON {place}.* FROM {id}", names.join(", "))
    };
    rights.restrictions().iter().map(line).collect()
}
