//! GRANT, REVOKE and SHOW GRANTS (manual, "GRANT Statement", "REVOKE
//! Statement").

use super::columns::{self, Columns, no_grant};
use crate::context::StatementContext;
use crate::privileges::partial;
use crate::results::Outcome;
use crate::users;
use porpoise_access::{
    AccessData, AuthId, Change, ColumnGrant, Grant, Privileges, routine_of_place, routine_place,
};
use porpoise_rows::catalog::{Catalog, Routine, RoutineKind};
use porpoise_rows::show::quote;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{self, GrantOn, ProgramKind};
use porpoise_sql_plan::virtual_tables;

/// The database and table of a GRANT or REVOKE; both are empty for `*.*`.
fn grant_target(cx: &StatementContext, on: &GrantOn<'_>) -> Result<(String, String)> {
    let current = || {
        let name = cx.env.database.clone();
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
        GrantOn::Program(kind, name) => {
            let database = match &name.schema {
                Some(schema) => schema.name.to_owned(),
                None => current()?,
            };
            let is_function = *kind == ProgramKind::Function;
            (database, routine_place(is_function, name.name.name))
        }
    })
}

/// Privileges that can be granted on a routine.
const ROUTINE: Privileges = Privileges::EXECUTE.with(Privileges::ALTER_ROUTINE);

/// The privileges that a statement names for an object: on all of it, and on its columns.
fn named_privileges(
    statement: &ast::Grant<'_>,
    database: &str,
    table: &str,
) -> Result<(Privileges, Columns)> {
    let all = match (database.is_empty(), table.is_empty()) {
        (true, _) => Privileges::ALL,
        (false, true) => Privileges::DATABASE,
        (false, false) if routine_of_place(table).is_some() => ROUTINE,
        (false, false) => Privileges::TABLE,
    };
    let mut set = Privileges::NONE;
    let mut columns = Columns::default();
    for privilege in statement.privileges {
        if !privilege.columns.is_empty() {
            columns.add(privilege, table)?;
            continue;
        }
        set = set.with(match privilege.name {
            "ALL" | "ALL PRIVILEGES" => all,
            "USAGE" => Privileges::NONE,
            "GRANT OPTION" => Privileges::GRANT_OPTION,
            name => Privileges::named(&name.to_ascii_uppercase())
                .ok_or_else(|| SqlError::not_supported("this privilege"))?,
        });
    }
    let static_privileges = set.without(Privileges::DYNAMIC);
    let dynamic_only = static_privileges == Privileges::NONE && set != Privileges::NONE;
    if statement.grant_option && !dynamic_only {
        // Each dynamic privilege has a GRANT OPTION of its own (`Grant::grantable`).
        set = set.with(Privileges::GRANT_OPTION);
    }
    if statement.revoke && database.is_empty() && set.has(Privileges::ALL) {
        set = set.with(Privileges::DYNAMIC);
    }
    let dynamic = set
        .names()
        .find(|name| Privileges::named(name).is_some_and(|p| Privileges::DYNAMIC.has(p)));
    let mut allowed = all.with(Privileges::GRANT_OPTION);
    match dynamic {
        Some(name) if !database.is_empty() => {
            let text = format!("Illegal privilege level specified for {name}");
            return Err(SqlError::new(3619, "HY000", text));
        }
        _ => allowed = allowed.with(Privileges::DYNAMIC),
    }
    if allowed.has(set) {
        return Ok((set, columns));
    }
    if !table.is_empty() {
        return Err(columns::illegal_grant());
    }
    let text = "Incorrect usage of DB GRANT and GLOBAL PRIVILEGES";
    Err(SqlError::new(1221, "HY000", text))
}

/// Checks that the grantor has the privileges and GRANT OPTION on the object. For a database
/// pattern it must have them on every database that matches.
fn check_grantor(
    cx: &StatementContext,
    set: Privileges,
    database: &str,
    table: &str,
) -> Result<()> {
    let rights = cx.rights();
    let (dynamic, static_privileges) = (
        set.intersection(Privileges::DYNAMIC),
        set.without(Privileges::DYNAMIC),
    );
    if !rights.grantable().has(dynamic) {
        return Err(crate::context::rights::denied_globally("GRANT OPTION"));
    }
    if dynamic != Privileges::NONE && static_privileges == Privileges::NONE {
        return Ok(());
    }
    let set = static_privileges;
    let own = match (database.is_empty(), table.is_empty()) {
        (true, _) => rights.global(),
        (false, true) => rights.on_pattern(database),
        (false, false) => rights.on_table(database, table),
    };
    if own.has(set.with(Privileges::GRANT_OPTION)) {
        return Ok(());
    }
    if let Some((_, name)) = routine_of_place(table) {
        let text = format!(
            "grant command denied to user {} for routine '{database}.{name}'",
            cx.client_name()
        );
        return Err(SqlError::new(1370, "42000", text));
    }
    if !table.is_empty() {
        let text = format!(
            "GRANT command denied to user {} for table '{table}'",
            cx.client_name()
        );
        return Err(SqlError::new(1142, "42000", text));
    }
    if !database.is_empty() {
        return Err(cx.database_denied(database));
    }
    let text = format!(
        "Access denied for user {} (using password: YES)",
        cx.client_name()
    );
    Err(SqlError::new(1045, "28000", text))
}

/// Executes GRANT and REVOKE.
///
/// # Errors
/// 1141, 1147, 1410 and others for accounts and grants that do not exist; 1142, 1044 and 1045 for
/// grantors without the privilege to grant.
pub fn grant(cx: &mut StatementContext, statement: &ast::Grant<'_>) -> Result<Outcome> {
    let access = cx.server.access.clone();
    let position = access.change(|data| {
        Ok::<_, SqlError>(Change {
            statement: cx.logged_grant(statement),
            ..change(cx, data, statement)?
        })
    })?;
    Ok(Outcome {
        position,
        ..Outcome::default()
    })
}

/// The change of grants that a statement makes.
fn change(cx: &StatementContext, data: &AccessData, statement: &ast::Grant<'_>) -> Result<Change> {
    if statement.on.is_none() && !statement.privileges.is_empty() {
        return users::roles::grant_change(cx, data, statement);
    }
    let mut targets = Vec::with_capacity(statement.accounts.len());
    for account in statement.accounts {
        let AuthId { user, host } = cx.auth_id(account);
        if data.account(&user, &host).is_some() {
            cx.need_system_user(data, &AuthId::new(&user, &host))?;
            targets.push((user, host));
        } else if statement.revoke {
            return Err(no_grant(&user, &host, ""));
        } else {
            let text = "You are not allowed to create a user with GRANT";
            return Err(SqlError::new(1410, "42000", text));
        }
    }
    let mut change = Change::default();
    match &statement.on {
        None => {
            cx.need_global(Privileges::CREATE_USER, "CREATE USER")?;
            revoke_all(cx, data, &targets, &mut change)?;
        }
        Some(on) => {
            let (database, table) = grant_target(cx, on)?;
            let (set, columns) = named_privileges(statement, &database, &table)?;
            check_grantor(cx, set, &database, &table)?;
            columns.check_grantor(cx, &database, &table)?;
            let catalog = cx.server.db().catalog();
            let creates = set.has(Privileges::CREATE) && columns.is_empty();
            if !table.is_empty() && !statement.revoke && !creates {
                check_exists(&catalog, &database, &table)?;
            }
            let columns = if statement.revoke {
                columns
            } else {
                columns.resolve_names(cx, &catalog, &database, &table)?
            };
            for (user, host) in targets {
                let mut empty = Grant {
                    user,
                    host,
                    database: database.clone(),
                    table: table.clone(),
                    privileges: Privileges::NONE,
                    grantable: if statement.grant_option {
                        set.intersection(Privileges::DYNAMIC)
                    } else {
                        Privileges::NONE
                    },
                };
                let revoke = statement.revoke;
                let on_columns = columns.change(data, revoke, set, &empty, &mut change)?;
                if set == Privileges::NONE && !columns.is_empty() {
                    continue;
                }
                let rest = partial::restrict(cx, data, statement, set, &mut empty, &mut change)?;
                if let Some(rest) = rest {
                    change_grant(data, revoke, rest, empty, on_columns, &mut change)?;
                }
            }
        }
    }
    Ok(change)
}

/// Grants an account EXECUTE and ALTER ROUTINE on a routine that it has created.
///
/// # Errors
/// The errors of writing the grant.
pub fn grant_own_routine(cx: &StatementContext, routine: &Routine) -> Result<()> {
    let own = AuthId::parse(&cx.client.account);
    let grant = Grant {
        user: own.user,
        host: own.host,
        database: routine.database.clone(),
        table: place_of(routine),
        privileges: ROUTINE,
        grantable: Privileges::NONE,
    };
    let change = |_: &AccessData| -> Result<Change> {
        Ok(Change {
            put_grants: vec![grant.clone()],
            ..Change::default()
        })
    };
    cx.server.access.change(change).map(drop)
}

/// Removes all grants on a routine that is dropped.
///
/// # Errors
/// The errors of writing the grants.
pub fn revoke_routine(cx: &StatementContext, routine: &Routine) -> Result<()> {
    let place = place_of(routine);
    let on_it = |g: &&Grant| g.database == routine.database && g.table == place;
    if !cx.server.access.data().grants.iter().any(|g| on_it(&g)) {
        return Ok(());
    }
    let change = |data: &AccessData| -> Result<Change> {
        Ok(Change {
            remove_grants: data.grants.iter().filter(on_it).cloned().collect(),
            ..Change::default()
        })
    };
    cx.server.access.change(change).map(drop)
}

/// The text in place of the table's name in grants on a routine.
pub(crate) fn place_of(routine: &Routine) -> String {
    routine_place(routine.kind == RoutineKind::Function, &routine.name)
}

/// Errors 1146 and 1305 for a table or routine that does not exist.
fn check_exists(catalog: &Catalog, database: &str, table: &str) -> Result<()> {
    let Some((is_function, name)) = routine_of_place(table) else {
        let exists = catalog.table(database, table).is_some()
            || catalog.view(database, table).is_some()
            || virtual_tables::find(database, table).is_some();
        return if exists {
            Ok(())
        } else {
            Err(SqlError::no_table(database, table))
        };
    };
    let kind = if is_function {
        RoutineKind::Function
    } else {
        RoutineKind::Procedure
    };
    if catalog.routine(database, kind, name).is_some() {
        return Ok(());
    }
    let text = format!("{} {database}.{name} does not exist", kind.name());
    Err(SqlError::new(1305, "42000", text))
}

/// Removes everything granted to accounts.
fn revoke_all(
    cx: &StatementContext,
    data: &AccessData,
    targets: &[(String, String)],
    change: &mut Change,
) -> Result<()> {
    let theirs = |g: &&Grant| targets.iter().any(|(u, h)| *u == g.user && *h == g.host);
    let grants = data.grants.iter().filter(theirs);
    change.remove_grants.extend(grants.cloned());
    let theirs = |g: &&ColumnGrant| targets.iter().any(|(u, h)| g.is_of(u, h));
    let grants = data.column_grants.iter().filter(theirs);
    change.remove_column_grants.extend(grants.cloned());
    partial::lift_all(cx, data, targets, change)
}

/// Adds the change of one account's privileges on the object of `next`, whose `grantable` are the
/// dynamic privileges that the statement grants WITH GRANT OPTION. `on_columns` is true if the
/// account has privileges on columns of the object.
fn change_grant(
    data: &AccessData,
    revoke: bool,
    set: Privileges,
    mut next: Grant,
    on_columns: bool,
    change: &mut Change,
) -> Result<()> {
    let same = |g: &&Grant| {
        g.user == next.user
            && g.host == next.host
            && g.database == next.database
            && g.table == next.table
    };
    let old = data.grants.iter().find(same);
    if revoke && old.is_none() && on_columns {
        return Ok(());
    }
    if revoke && old.is_none() && !next.database.is_empty() {
        return Err(no_grant(&next.user, &next.host, &next.table));
    }
    let had = old.map_or(Privileges::NONE, |g| g.privileges);
    let grantable = old.map_or(Privileges::NONE, |g| g.grantable);
    if revoke {
        next.privileges = had.without(set);
        next.grantable = if set.has(Privileges::GRANT_OPTION) {
            Privileges::NONE
        } else {
            grantable.without(set)
        };
    } else {
        next.privileges = had.with(set);
        next.grantable = grantable.with(next.grantable);
    }
    if next.privileges == Privileges::NONE {
        change.remove_grants.push(next);
    } else {
        change.put_grants.push(next);
    }
    Ok(())
}

/// The statements that SHOW GRANTS prints for an account; with USING, including the privileges of
/// `roles` and of roles granted to these.
pub fn grant_statements(cx: &StatementContext, id: &AuthId, roles: &[AuthId]) -> Vec<String> {
    let data = cx.server.access.data();
    let mut ids = data.closure(roles);
    ids.push(id.clone());
    let mut merged: Vec<Grant> = Vec::new();
    let held = |g: &&Grant| ids.iter().any(|i| g.user == i.user && g.host == i.host);
    for grant in data.grants.iter().filter(held) {
        let same = |m: &&mut Grant| m.database == grant.database && m.table == grant.table;
        match merged.iter_mut().find(same) {
            Some(m) => {
                m.privileges = m.privileges.with(grant.privileges);
                m.grantable = m.grantable.with(grant.grantable);
            }
            None => merged.push(grant.clone()),
        }
    }
    let columns = columns::ShownColumnGrants::of(&data, &ids);
    columns.add_tables(id, &mut merged);
    let mut own: Vec<&Grant> = merged.iter().collect();
    own.sort_by(|a, b| (&a.database, &a.table).cmp(&(&b.database, &b.table)));
    let to = id.to_string();
    let mut lines = Vec::with_capacity(own.len() + 1);
    if !own.iter().any(|g| g.database.is_empty()) {
        lines.push(format!("GRANT USAGE ON *.* TO {to}"));
    }
    let (tables, others): (Vec<&Grant>, Vec<&Grant>) =
        own.into_iter().partition(|g| !g.table.is_empty());
    for grant in others.into_iter().chain(tables) {
        let (all, object) = shown_place(grant);
        let static_privileges = grant
            .privileges
            .without(Privileges::GRANT_OPTION)
            .without(Privileges::DYNAMIC);
        let privileges = match static_privileges {
            p if p == all => "ALL PRIVILEGES".to_owned(),
            p => match columns.privilege_list(p, &grant.database, &grant.table) {
                list if list.is_empty() => "USAGE".to_owned(),
                list => list.join(", "),
            },
        };
        let option = if grant.privileges.has(Privileges::GRANT_OPTION) {
            " WITH GRANT OPTION"
        } else {
            ""
        };
        lines.push(format!("GRANT {privileges} ON {object} TO {to}{option}"));
        lines.extend(dynamic_grant_statements(grant, &to));
        if grant.database.is_empty() {
            lines.extend(partial::restriction_statements(cx, &data, id, roles));
        }
    }
    lines.extend(role_grant_statements(cx, &data, id));
    lines
}

/// The object of a grant as SHOW GRANTS prints it, and all privileges that can be granted on it.
fn shown_place(grant: &Grant) -> (Privileges, String) {
    let within = |name: &str| format!("{}.{}", quote(&grant.database), quote(name));
    if grant.database.is_empty() {
        return (Privileges::ALL, "*.*".to_owned());
    }
    if grant.table.is_empty() {
        return (
            Privileges::DATABASE,
            format!("{}.*", quote(&grant.database)),
        );
    }
    match routine_of_place(&grant.table) {
        // MySQL names them also if they are all.
        Some((true, name)) => (Privileges::ALL, format!("FUNCTION {}", within(name))),
        Some((false, name)) => (Privileges::ALL, format!("PROCEDURE {}", within(name))),
        None => (Privileges::TABLE, within(&grant.table)),
    }
}

/// Dynamic privileges of a grant as SHOW GRANTS prints them; those WITH GRANT OPTION separately.
fn dynamic_grant_statements(grant: &Grant, to: &str) -> Vec<String> {
    let dynamic = grant.privileges.intersection(Privileges::DYNAMIC);
    let grantable = dynamic.intersection(grant.grantable);
    let mut lines = Vec::new();
    for (some, option) in [
        (dynamic.without(grantable), ""),
        (grantable, " WITH GRANT OPTION"),
    ] {
        let mut names: Vec<&str> = some.names().collect();
        names.sort_unstable();
        if !names.is_empty() {
            let privileges = names.join(",");
            lines.push(format!("GRANT {privileges} ON *.* TO {to}{option}"));
        }
    }
    lines
}

/// Roles of an account as SHOW GRANTS prints them: mandatory ones included, those WITH ADMIN OPTION
/// separately.
fn role_grant_statements(cx: &StatementContext, data: &AccessData, id: &AuthId) -> Vec<String> {
    let mut lines = Vec::new();
    for admin in [false, true] {
        let edges = data.roles_of(id).filter(|e| e.admin == admin);
        let mut names: Vec<String> = edges.map(|e| e.role.to_string()).collect();
        if !admin {
            let mandatory = cx.mandatory_roles();
            let more = mandatory.iter().filter(|r| *r != id);
            let more = more.filter(|r| data.account(&r.user, &r.host).is_some());
            let more = more.filter(|r| !data.roles_of(id).any(|e| e.role == **r));
            names.extend(more.map(AuthId::to_string));
        }
        names.sort();
        if !names.is_empty() {
            let option = if admin { " WITH ADMIN OPTION" } else { "" };
            lines.push(format!("GRANT {} TO {id}{option}", names.join(",")));
        }
    }
    lines
}
