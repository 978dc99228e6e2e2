//! RENAME USER (manual, "RENAME USER Statement").
//!
//! Everything that references an account is renamed with it: grants, roles, default roles, password
//! history, usage and failed logins. The account's sessions continue under the new name.
//!
//! Pairs are applied in textual order, each to the result of the previous ones: `a TO b, b TO c`
//! renames `a` to `c`. If one fails, none is applied.

use super::{failed, quoted};
use crate::context::StatementContext;
use crate::results::Outcome;
use porpoise_access::{
    AccessData, Account, AuthId, Change, ColumnGrant, DefaultRole, Grant, OldPassword, Privileges,
    RoleEdge,
};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::Account as AstAccount;

/// Accounts, by their names before and after the statement.
struct AccountNames(Vec<(AuthId, AuthId)>);

impl AccountNames {
    fn new(data: &AccessData) -> AccountNames {
        let ids = data.accounts.iter().map(Account::id);
        AccountNames(ids.map(|id| (id.clone(), id)).collect())
    }

    /// Applies a pair. Returns the account's name before the statement; `None` if the account does
    /// not exist or the new name is taken.
    fn rename(&mut self, from: &AuthId, to: &AuthId) -> Option<AuthId> {
        let is_same = |name: &AuthId, id: &AuthId| {
            name.user == id.user && name.host.eq_ignore_ascii_case(&id.host)
        };
        if self.0.iter().any(|(_, now)| is_same(now, to)) {
            return None;
        }
        let (before, now) = self.0.iter_mut().find(|(_, now)| is_same(now, from))?;
        *now = to.clone();
        Some(before.clone())
    }

    /// Maps an account's name before the statement to its name after it.
    fn after(&self, id: &AuthId) -> AuthId {
        let found = self.0.iter().find(|(before, _)| before == id);
        found.map_or_else(|| id.clone(), |(_, now)| now.clone())
    }

    /// Renames accounts in the items of `list`.
    fn apply<T: Clone + PartialEq>(
        &self,
        list: &[T],
        renamed: impl Fn(&T) -> T,
        put: &mut Vec<T>,
        remove: &mut Vec<T>,
    ) {
        for old in list {
            let new = renamed(old);
            if new != *old {
                remove.push(old.clone());
                put.push(new);
            }
        }
    }

    /// The change of access control that renames the accounts.
    fn change(&self, data: &AccessData) -> Change {
        let mut change = Change::default();
        let account = |a: &Account| {
            let AuthId { user, host } = self.after(&a.id());
            Account {
                user,
                host,
                ..a.clone()
            }
        };
        let grant = |g: &Grant| {
            let AuthId { user, host } = self.after(&AuthId::new(&g.user, &g.host));
            Grant {
                user,
                host,
                ..g.clone()
            }
        };
        let column_grant = |g: &ColumnGrant| {
            let AuthId { user, host } = self.after(&AuthId::new(&g.user, &g.host));
            ColumnGrant {
                user,
                host,
                ..g.clone()
            }
        };
        let edge = |e: &RoleEdge| RoleEdge {
            role: self.after(&e.role),
            grantee: self.after(&e.grantee),
            admin: e.admin,
        };
        let default = |d: &DefaultRole| DefaultRole {
            account: self.after(&d.account),
            role: self.after(&d.role),
        };
        let old_password = |old: &OldPassword| OldPassword {
            account: self.after(&old.account),
            ..old.clone()
        };
        let c = &mut change;
        let (put, remove) = (&mut c.put_accounts, &mut c.remove_accounts);
        self.apply(&data.accounts, account, put, remove);
        self.apply(&data.grants, grant, &mut c.put_grants, &mut c.remove_grants);
        let (put, remove) = (&mut c.put_column_grants, &mut c.remove_column_grants);
        self.apply(&data.column_grants, column_grant, put, remove);
        self.apply(&data.edges, edge, &mut c.put_edges, &mut c.remove_edges);
        let (put, remove) = (&mut c.put_defaults, &mut c.remove_defaults);
        self.apply(&data.default_roles, default, put, remove);
        let (put, remove) = (&mut c.put_history, &mut c.remove_history);
        self.apply(&data.history, old_password, put, remove);
        let moved = self.0.iter().filter(|(before, now)| before != now);
        change.renames = moved.cloned().collect();
        change
    }
}

/// Error 4006 for an account that is the definer of a view; a warning 4005 if the session may name
/// any definer.
fn check_definer(cx: &StatementContext, id: &AuthId) -> Result<()> {
    let name = format!("{}@{}", id.user, id.host);
    let catalog = cx.server.db().catalog();
    if !catalog.views.values().any(|view| view.definer == name) {
        return Ok(());
    }
    let name = quoted(&id.user, &id.host);
    let text = format!("User {name} is referenced as a definer account in a view.");
    let some = Privileges::SET_ANY_DEFINER.with(Privileges::SET_USER_ID);
    if cx.rights().global().intersects(some) {
        cx.warn(4005, text);
        return Ok(());
    }
    Err(SqlError::new(4006, "HY000", text))
}

/// Executes RENAME USER.
///
/// # Errors
/// 1396 for accounts that do not exist, and for new names that do; 3532 for granted roles; 1227 for
/// accounts with SYSTEM_USER; 4006.
pub fn rename_users(
    cx: &mut StatementContext,
    pairs: &[(AstAccount<'_>, AstAccount<'_>)],
) -> Result<Outcome> {
    let access = cx.server.access.clone();
    let position = access.change(|data| {
        let mut names = AccountNames::new(data);
        let mut wrong = Vec::new();
        for (from, to) in pairs {
            let (from, to) = (cx.auth_id(from), cx.auth_id(to));
            if data.edges.iter().any(|e| e.role == from || e.role == to) {
                let text = "Renaming of a role identifier is forbidden";
                return Err(SqlError::new(3532, "HY000", text));
            }
            match names.rename(&from, &to) {
                Some(account) => {
                    cx.need_system_user(data, &account)?;
                    check_definer(cx, &account)?;
                }
                None => wrong.push(quoted(&from.user, &from.host)),
            }
        }
        if wrong.is_empty() {
            Ok(Change {
                statement: cx.logged_text(),
                ..names.change(data)
            })
        } else {
            Err(failed("RENAME USER", &wrong))
        }
    })?;
    Ok(Outcome {
        position,
        ..Outcome::default()
    })
}
