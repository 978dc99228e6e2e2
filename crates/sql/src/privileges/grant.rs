//! GRANT, REVOKE and SHOW GRANTS (manual, "GRANT Statement", "REVOKE
//! Statement").

use super::{Grant, Privileges, store};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, GrantOn};
use crate::session::{Outcome, SqlSession};
use crate::users;
use porpoise_rows::show::quote;

/// Database and table that a statement means; both empty is `*.*`.
fn place(session: &SqlSession, on: &GrantOn<'_>) -> Result<(String, String)> {
    let current = || {
        let name = session.env.database.clone();
        name.ok_or_else(SqlError::no_database_selected)
    };
    Ok(match on {
        GrantOn::Global => (String::new(), String::new()),
        GrantOn::Schema(name) => (name.name.to_owned(), String::new()),
        GrantOn::DefaultSchema => (current()?, String::new()),
        GrantOn::Table(name) => {
            let database = match &name.schema {
                Some(schema) => schema.name.to_owned(),
                None => current()?,
            };
            (database, name.name.name.to_owned())
        }
        GrantOn::Program(..) => return Err(SqlError::not_supported("GRANT on stored programs")),
    })
}

/// The privileges that a statement names at a place.
fn named(statement: &ast::Grant<'_>, database: &str, table: &str) -> Result<Privileges> {
    let all = match (database.is_empty(), table.is_empty()) {
        (true, _) => Privileges::ALL,
        (false, true) => Privileges::DATABASE,
        (false, false) => Privileges::TABLE,
    };
    let mut set = Privileges::NONE;
    for privilege in statement.privileges {
        if !privilege.columns.is_empty() {
            return Err(SqlError::not_supported("privileges on columns"));
        }
        set = set.with(match privilege.name {
            "ALL" | "ALL PRIVILEGES" => all,
            "USAGE" => Privileges::NONE,
            "GRANT OPTION" => Privileges::GRANT_OPTION,
            name => Privileges::named(name)
                .ok_or_else(|| SqlError::not_supported("dynamic privileges and roles"))?,
        });
    }
    if statement.grant_option {
        set = set.with(Privileges::GRANT_OPTION);
    }
    let allowed = all.with(Privileges::GRANT_OPTION);
    if allowed.has(set) {
        return Ok(set);
    }
    if !table.is_empty() {
        let text = "Illegal GRANT/REVOKE command; please consult the manual to see which \
                    privileges can be used";
        return Err(SqlError::new(1144, "42000", text));
    }
    let text = "Incorrect usage of DB GRANT and GLOBAL PRIVILEGES";
    Err(SqlError::new(1221, "HY000", text))
}

/// Who grants must hold what is granted, and GRANT OPTION, there.
fn may_grant(session: &SqlSession, set: Privileges, database: &str, table: &str) -> Result<()> {
    let rights = session.rights();
    let own = match (database.is_empty(), table.is_empty()) {
        (true, _) => rights.global(),
        (false, true) => rights.on_database(database),
        (false, false) => rights.on_table(database, table),
    };
    if own.has(set.with(Privileges::GRANT_OPTION)) {
        return Ok(());
    }
    if !table.is_empty() {
        let text = format!(
            "GRANT command denied to user {} for table '{table}'",
            session.client_name()
        );
        return Err(SqlError::new(1142, "42000", text));
    }
    if !database.is_empty() {
        return Err(session.database_denied(database));
    }
    let text = format!(
        "Access denied for user {} (using password: YES)",
        session.client_name()
    );
    Err(SqlError::new(1045, "28000", text))
}

fn no_grant(user: &str, host: &str, table: &str) -> SqlError {
    let start = format!("There is no such grant defined for user '{user}' on host '{host}'");
    match table.is_empty() {
        true => SqlError::new(1141, "42000", start),
        false => SqlError::new(1147, "42000", format!("{start} on table '{table}'")),
    }
}

/// GRANT and REVOKE.
///
/// # Errors
/// 1141, 1147, 1410 and others for accounts and grants that are not there;
/// 1142, 1044, 1045 for those who may not grant.
pub fn grant(session: &mut SqlSession, statement: &ast::Grant<'_>) -> Result<Outcome> {
    let before = session.commit()?;
    let server = session.server.clone();
    let accounts = users::names(server.db())?;
    let held = server.grants.read().list.clone();
    let mut targets = Vec::with_capacity(statement.accounts.len());
    for account in statement.accounts {
        let (user, host) = users::named(session, account);
        if accounts.contains(&(user.clone(), host.clone())) {
            targets.push((user, host));
        } else if statement.revoke {
            return Err(no_grant(&user, &host, ""));
        } else {
            let text = "You are not allowed to create a user with GRANT";
            return Err(SqlError::new(1410, "42000", text));
        }
    }
    let (mut put, mut remove) = (Vec::new(), Vec::new());
    match &statement.on {
        None if statement.revoke && statement.privileges.is_empty() => {
            session.need_global(Privileges::CREATE_USER, "CREATE USER")?;
            let theirs = |g: &&Grant| targets.iter().any(|(u, h)| *u == g.user && *h == g.host);
            remove.extend(held.iter().filter(theirs).cloned());
        }
        None => return Err(SqlError::not_supported("roles")),
        Some(on) => {
            let (database, table) = place(session, on)?;
            let set = named(statement, &database, &table)?;
            may_grant(session, set, &database, &table)?;
            let catalog = server.db().catalog();
            let exists = catalog.table(&database, &table).is_some()
                || catalog.view(&database, &table).is_some();
            if !table.is_empty() && !statement.revoke && !exists && !set.has(Privileges::CREATE) {
                return Err(SqlError::no_table(&database, &table));
            }
            for (user, host) in targets {
                let at_place = |g: &&Grant| {
                    g.user == user && g.host == host && g.database == database && g.table == table
                };
                let old = held.iter().find(at_place);
                let had = old.map_or(Privileges::NONE, |g| g.privileges);
                if statement.revoke && old.is_none() && !database.is_empty() {
                    return Err(no_grant(&user, &host, &table));
                }
                let privileges = match statement.revoke {
                    true => had.without(set),
                    false => had.with(set),
                };
                let next = Grant {
                    user,
                    host,
                    database: database.clone(),
                    table: table.clone(),
                    privileges,
                };
                match privileges == Privileges::NONE {
                    true => remove.push(next),
                    false => put.push(next),
                }
            }
        }
    }
    let ticket = store::write(server.db(), &put, &remove)?;
    server.reload_grants()?;
    Ok(Outcome {
        ticket: ticket.max(before),
        ..Outcome::default()
    })
}

/// Takes away all grants of accounts, given as user and host, that are dropped.
///
/// # Errors
/// What writing fails with.
pub fn forget(session: &SqlSession, accounts: &[(&str, &str)]) -> Result<porpoise_kv::Ticket> {
    let held = session.server.grants.read().list.clone();
    let theirs = |g: &&Grant| accounts.contains(&(&g.user, &g.host));
    let grants: Vec<Grant> = held.iter().filter(theirs).cloned().collect();
    store::write(session.server.db(), &[], &grants)
}

/// The statements that SHOW GRANTS prints for an account.
pub fn shown(session: &SqlSession, user: &str, host: &str) -> Vec<String> {
    let grants = session.server.grants.read();
    let mut own: Vec<&Grant> = grants
        .list
        .iter()
        .filter(|g| g.user == user && g.host == host)
        .collect();
    own.sort_by(|a, b| (&a.database, &a.table).cmp(&(&b.database, &b.table)));
    let to = format!("{}@{}", quote(user), quote(host));
    let mut lines = Vec::with_capacity(own.len() + 1);
    if !own.iter().any(|g| g.database.is_empty()) {
        lines.push(format!("GRANT USAGE ON *.* TO {to}"));
    }
    let (tables, others): (Vec<&Grant>, Vec<&Grant>) =
        own.into_iter().partition(|g| !g.table.is_empty());
    for grant in others.into_iter().chain(tables) {
        let (all, place) = match (grant.database.is_empty(), grant.table.is_empty()) {
            (true, _) => (Privileges::ALL, "*.*".to_owned()),
            (_, true) => (
                Privileges::DATABASE,
                format!("{}.*", quote(&grant.database)),
            ),
            _ => {
                let place = format!("{}.{}", quote(&grant.database), quote(&grant.table));
                (Privileges::TABLE, place)
            }
        };
        let plain = grant.privileges.without(Privileges::GRANT_OPTION);
        let what = match plain {
            p if p == all => "ALL PRIVILEGES".to_owned(),
            Privileges::NONE => "USAGE".to_owned(),
            p => p.names().collect::<Vec<_>>().join(", "),
        };
        let option = match grant.privileges.has(Privileges::GRANT_OPTION) {
            true => " WITH GRANT OPTION",
            false => "",
        };
        lines.push(format!("GRANT {what} ON {place} TO {to}{option}"));
    }
    lines
}
