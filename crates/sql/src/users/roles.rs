//! Role statements: CREATE ROLE, DROP ROLE, GRANT and REVOKE of roles, SET ROLE, SET DEFAULT ROLE
//! (manual, "Using Roles").

use super::{drop_accounts, failed, quoted};
use crate::context::StatementContext;
use crate::results::Outcome;
use porpoise_access::{AccessData, Account, AuthId, Change, DefaultRole, Privileges, RoleEdge};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Account as AstAccount, Grant, Roles, SetRole};

fn unknown(id: &AuthId) -> SqlError {
    SqlError::new(3523, "HY000", format!("Unknown authorization ID {id}"))
}

fn not_granted(role: &AuthId, to: &AuthId) -> SqlError {
    SqlError::new(3530, "HY000", format!("{role} is not granted to {to}"))
}

/// Error 3628 for roles in `mandatory_roles`.
pub(super) fn check_not_mandatory(cx: &StatementContext, id: &AuthId) -> Result<()> {
    if !cx.mandatory_roles().contains(id) {
        return Ok(());
    }
    let text = format!(
        "The role {id} is a mandatory role and can't be revoked or dropped. The restriction can be \
         lifted by excluding the role identifier from the global variable mandatory_roles."
    );
    Err(SqlError::new(3628, "HY000", text))
}

/// CREATE ROLE: creates locked accounts without a password.
///
/// # Errors
/// 1396 for names that exist.
pub fn create(
    cx: &mut StatementContext,
    if_not_exists: bool,
    roles: &[AstAccount<'_>],
) -> Result<Outcome> {
    let access = cx.server.access.clone();
    let mut present = Vec::new();
    let position = access.change(|data| {
        let mut change = Change::default();
        for id in cx.auth_ids(roles) {
            if data.account(&id.user, &id.host).is_some() {
                present.push(quoted(&id.user, &id.host));
                continue;
            }
            let mut role = Account::new(id);
            role.locked = true;
            role.attributes.password.expired = true;
            change.put_accounts.push(role);
        }
        if present.is_empty() || if_not_exists {
            change.statement = cx.logged_text();
            Ok(change)
        } else {
            Err(failed("CREATE ROLE", &present))
        }
    })?;
    for name in &present {
        cx.note(3163, format!("Authorization ID {name} already exists."));
    }
    Ok(Outcome {
        position,
        ..Outcome::default()
    })
}

/// DROP ROLE.
///
/// # Errors
/// 1396 for names that do not exist, 3628 for mandatory roles.
pub fn drop(
    cx: &mut StatementContext,
    if_exists: bool,
    roles: &[AstAccount<'_>],
) -> Result<Outcome> {
    drop_accounts(cx, if_exists, roles, "DROP ROLE")
}

/// Error 1227 unless the session may grant the role, by privilege or by ADMIN OPTION.
fn need_admin(cx: &StatementContext, data: &AccessData, role: &AuthId) -> Result<()> {
    let own = AuthId::parse(&cx.client.account);
    let mut from = cx.active_roles();
    from.push(own);
    let holders = data.closure(&from);
    let admin = |e: &RoleEdge| e.admin && e.role == *role && holders.contains(&e.grantee);
    if data.edges.iter().any(admin) {
        return Ok(());
    }
    cx.need_global(Privileges::SUPER, "WITH ADMIN, ROLE_ADMIN, SUPER")
}

/// The roles that a GRANT or REVOKE names.
fn named_roles(cx: &StatementContext, grant: &Grant<'_>) -> Vec<AuthId> {
    let role = |p: &porpoise_sql_parser::ast::Privilege<'_>| {
        let account = AstAccount::Named {
            user: p.name.as_bytes(),
            host: p.host,
        };
        cx.auth_id(&account)
    };
    grant.privileges.iter().map(role).collect()
}

/// The change that GRANT or REVOKE of roles makes.
///
/// # Errors
/// 3523 for accounts that do not exist, 4027 for a grant that would close a cycle, 3530 for a role
/// that is not granted, 3628 for mandatory roles, 1227 without the privilege.
pub(crate) fn grant_change(
    cx: &StatementContext,
    data: &AccessData,
    grant: &Grant<'_>,
) -> Result<Change> {
    let mut change = Change::default();
    let roles = named_roles(cx, grant);
    for role in &roles {
        if data.account(&role.user, &role.host).is_none() {
            return Err(unknown(role));
        }
        need_admin(cx, data, role)?;
        if grant.revoke {
            check_not_mandatory(cx, role)?;
        }
    }
    // Existing grants and those of this statement, because together they may form a cycle.
    let mut with_grants = AccessData {
        edges: data.edges.clone(),
        ..AccessData::default()
    };
    for grantee in cx.auth_ids(grant.accounts) {
        if data.account(&grantee.user, &grantee.host).is_none() {
            if grant.ignore_unknown {
                cx.warn(3523, format!("Unknown authorization ID {grantee}"));
                continue;
            }
            return Err(unknown(&grantee));
        }
        cx.need_system_user(data, &grantee)?;
        for role in &roles {
            if grant.revoke {
                revoke_one(cx, data, grant.if_exists, role, &grantee, &mut change)?
            } else {
                let edge = grant_one(&with_grants, role, &grantee, grant.grant_option)?;
                with_grants.edges.push(edge.clone());
                change.put_edges.push(edge);
            }
        }
    }
    Ok(change)
}

/// The edge of a grant. Error 4027 if it would close a cycle.
fn grant_one(data: &AccessData, role: &AuthId, to: &AuthId, admin: bool) -> Result<RoleEdge> {
    if data.reaches(role, to) {
        let text = format!(
            "User account {to} is directly or indirectly granted to the role {role}. The GRANT \
             would create a loop"
        );
        return Err(SqlError::new(4027, "HY000", text));
    }
    let has_admin = data.roles_of(to).any(|e| e.role == *role && e.admin);
    Ok(RoleEdge {
        role: role.clone(),
        grantee: to.clone(),
        // Granting again does not remove ADMIN OPTION.
        admin: admin || has_admin,
    })
}

fn revoke_one(
    cx: &StatementContext,
    data: &AccessData,
    if_exists: bool,
    role: &AuthId,
    from: &AuthId,
    change: &mut Change,
) -> Result<()> {
    let Some(edge) = data.roles_of(from).find(|e| e.role == *role) else {
        let error = not_granted(role, from);
        if if_exists {
            cx.warn(3530, error.message);
            return Ok(());
        }
        return Err(error);
    };
    change.remove_edges.push(edge.clone());
    let default = |d: &&DefaultRole| d.account == *from && d.role == *role;
    let defaults = data.default_roles.iter().filter(default);
    change.remove_defaults.extend(defaults.cloned());
    Ok(())
}

/// Removes everything that references an account from roles and password history.
pub(super) fn remove_references(data: &AccessData, id: &AuthId, change: &mut Change) {
    let edges = data.edges.iter();
    let edges = edges.filter(|e| e.role == *id || e.grantee == *id);
    change.remove_edges.extend(edges.cloned());
    let defaults = data.default_roles.iter();
    let defaults = defaults.filter(|d| d.account == *id || d.role == *id);
    change.remove_defaults.extend(defaults.cloned());
    let history = data.history.iter().filter(|h| h.account == *id);
    change.remove_history.extend(history.cloned());
}

/// Adds the default roles that a statement chooses for an account to `change`. With `grant`, it also
/// grants the roles (CREATE USER ... DEFAULT ROLE).
///
/// # Errors
/// 3523 for roles that do not exist, 3530 for those that are not granted.
pub(super) fn choose_defaults(
    cx: &StatementContext,
    data: &AccessData,
    account: &AuthId,
    roles: &Roles<'_>,
    grant: bool,
    change: &mut Change,
) -> Result<()> {
    let granted: Vec<AuthId> = data.roles_of(account).map(|e| e.role.clone()).collect();
    let mandatory = cx.mandatory_roles();
    let chosen = match roles {
        Roles::None | Roles::Default => Vec::new(),
        Roles::AllExcept(_) => granted.clone(),
        Roles::List(list) => cx.auth_ids(list),
    };
    for role in &chosen {
        if data.account(&role.user, &role.host).is_none() {
            return Err(unknown(role));
        }
        if grant {
            need_admin(cx, data, role)?;
            change
                .put_edges
                .push(grant_one(data, role, account, false)?);
        } else if !granted.contains(role) && !mandatory.contains(role) {
            return Err(not_granted(role, account));
        }
    }
    let old = data.default_roles.iter();
    let old = old.filter(|d| d.account == *account && !chosen.contains(&d.role));
    change.remove_defaults.extend(old.cloned());
    change
        .put_defaults
        .extend(chosen.into_iter().map(|role| DefaultRole {
            account: account.clone(),
            role,
        }));
    Ok(())
}

/// SET ROLE.
///
/// # Errors
/// 3530 for roles that are not granted.
pub fn activate(cx: &mut StatementContext, roles: &Roles<'_>) -> Result<Outcome> {
    let roles = selected_roles(cx, roles)?;
    cx.activate_roles(roles);
    Ok(Outcome::default())
}

/// SET DEFAULT ROLE.
///
/// # Errors
/// 3523 and 3530 for roles that do not exist or are not granted.
pub fn set_default_roles(cx: &StatementContext, set: &SetRole<'_>) -> Result<Outcome> {
    let access = cx.server.access.clone();
    let position = access.change(|data| {
        let mut change = Change::default();
        for account in cx.auth_ids(set.default_to) {
            if data.account(&account.user, &account.host).is_none() {
                return Err(unknown(&account));
            }
            choose_defaults(cx, data, &account, &set.roles, false, &mut change)?;
        }
        change.statement = cx.logged_text();
        Ok(change)
    })?;
    Ok(Outcome {
        position,
        ..Outcome::default()
    })
}

/// The roles that SET ROLE selects.
fn selected_roles(cx: &StatementContext, roles: &Roles<'_>) -> Result<Vec<AuthId>> {
    let data = cx.server.access.data();
    let own = AuthId::parse(&cx.client.account);
    let available = cx.available_roles();
    Ok(match roles {
        Roles::None => Vec::new(),
        Roles::Default => data.default_roles_of(&own),
        Roles::AllExcept(except) => {
            let except = cx.auth_ids(except);
            let kept = available.into_iter().filter(|r| !except.contains(r));
            kept.collect()
        }
        Roles::List(list) => {
            let wanted = cx.auth_ids(list);
            if let Some(missing) = wanted.iter().find(|r| !available.contains(r)) {
                return Err(not_granted(missing, &own));
            }
            wanted
        }
    })
}
