//! Accounts and grants in memory, loaded from their tables.
//!
//! Readers take the current [`AccessData`] without a lock. A change runs under one
//! lock: it is computed from the current data, written in one durable transaction, and
//! then the tables are loaded again under the next version. Caches compare
//! [`AccessControl::version`] and rebuild when it changed.
//!
//! Statements may also write the tables directly. Such a commit is detected at the next login
//! (a [`TableChanges`] on all tables but the password history), or by FLUSH PRIVILEGES
//! ([`AccessControl::reload`]).

use crate::account::Account;
use crate::account_table::{self, USERS};
use crate::auth_id::{AuthId, host_matches, specificity};
use crate::column_grants::{self, COLUMN_GRANTS, ColumnGrant};
use crate::grant_table::{self, GRANTS};
use crate::guard::LoginGuard;
use crate::history::{self, OldPassword};
use crate::rights::{Grant, Rights};
use crate::roles::{self, DefaultRole, RoleEdge};
use crate::system_table;
use crate::usage::UsageTable;
use crate::{Error, Result};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use porpoise_kv::CommitPosition;
use porpoise_rows::changes::LoggedStatement;
use porpoise_rows::{Db, TableChanges};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// All accounts and grants as of one version.
#[derive(Debug, Default)]
pub struct AccessData {
    /// The version; grows with every change.
    pub version: u64,
    /// All accounts.
    pub accounts: Vec<Account>,
    /// All grants.
    pub grants: Vec<Grant>,
    /// All grants on columns.
    pub column_grants: Vec<ColumnGrant>,
    /// Roles and their grantees.
    pub edges: Vec<RoleEdge>,
    /// Roles that logins activate.
    pub default_roles: Vec<DefaultRole>,
    /// Earlier passwords of accounts with a policy on reuse.
    pub history: Vec<OldPassword>,
    /// `partial_revokes`: accounts can have restrictions, and names of databases in grants
    /// are literal.
    pub partial_revokes: bool,
    /// Changes of accounts' names since the start, oldest first.
    pub renames: Vec<Rename>,
}

/// A change of an account's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The first version with the new name.
    pub version: u64,
    /// The old name.
    pub from: AuthId,
    /// The new name.
    pub to: AuthId,
}

/// Maximum number of renames kept: sessions with an older name lose their privileges.
const MAX_RENAMES: usize = 10_000;

impl AccessData {
    /// Current name of the account that had the name `id` at `version`.
    pub fn name_since(&self, id: &AuthId, version: u64) -> AuthId {
        let later = self.renames.iter().filter(|r| r.version > version);
        later.fold(id.clone(), |name, rename| {
            if rename.from == name {
                rename.to.clone()
            } else {
                name
            }
        })
    }

    /// Whether any account has restrictions.
    pub fn is_restricted(&self) -> bool {
        let mut accounts = self.accounts.iter();
        accounts.any(|a| !a.attributes.restrictions.is_empty())
    }

    /// Checks a value of `partial_revokes`.
    ///
    /// # Errors
    /// 3896 for OFF while an account has restrictions.
    pub fn check_partial_revokes(&self, on: bool) -> Result<()> {
        if on || !self.is_restricted() {
            return Ok(());
        }
        let text = "At least one partial revoke exists on a database. The system variable \
                    '@@partial_revokes' must be set to ON.";
        Err(Error::refused(3896, "HY000", text))
    }

    /// Whether any account has a second password.
    pub fn has_second_passwords(&self) -> bool {
        let mut accounts = self.accounts.iter();
        accounts.any(|a| a.attributes.second_secret.is_some())
    }

    /// The account of exactly that name.
    pub fn account(&self, user: &str, host: &str) -> Option<&Account> {
        let mut accounts = self.accounts.iter();
        accounts.find(|a| a.user == user && a.host.eq_ignore_ascii_case(host))
    }

    /// The grants on columns that an account holds itself.
    pub fn column_grants_of<'a>(
        &'a self,
        account: &'a Account,
    ) -> impl Iterator<Item = &'a ColumnGrant> {
        let grants = self.column_grants.iter();
        grants.filter(|g| g.is_of(&account.user, &account.host))
    }

    /// The account that a client logs in as: the most specific host first, a named user
    /// before the anonymous one (manual, "Connection Verification"). `None` when there is
    /// none, or when it is locked.
    pub fn find(&self, user: &str, host: &str) -> Option<&Account> {
        self.candidate(user, host).filter(|a| !a.locked)
    }

    /// As [`AccessData::find`], locked accounts included: an account lock is reported only after
    /// the password was verified ([`AccessControl::admit`]).
    pub fn candidate(&self, user: &str, host: &str) -> Option<&Account> {
        let matches =
            |a: &&Account| (a.user == user || a.user.is_empty()) && host_matches(&a.host, host);
        let mut found: Vec<&Account> = self.accounts.iter().filter(matches).collect();
        found.sort_by_key(|a| std::cmp::Reverse((specificity(&a.host), !a.user.is_empty())));
        found.into_iter().next()
    }

    /// The effective privileges of an account, `user@host`, with its default roles.
    pub fn rights(&self, account: &str) -> Rights {
        let id = AuthId::parse(account);
        let roles = self.default_roles_of(&id);
        self.rights_with(&id, &roles, &[])
    }

    /// The effective privileges of an account with these roles active, and all roles
    /// granted to them. Roles that are neither granted to the account nor mandatory are
    /// ignored.
    pub fn rights_with(&self, id: &AuthId, active: &[AuthId], mandatory: &[AuthId]) -> Rights {
        let granted = |role: &&AuthId| {
            mandatory.contains(role) || self.roles_of(id).any(|edge| edge.role == **role)
        };
        let active: Vec<AuthId> = active.iter().filter(granted).cloned().collect();
        let mut ids = self.closure(&active);
        if !ids.contains(id) {
            ids.push(id.clone());
        }
        let rights = Rights::of(self.version, &self.grants, &ids);
        let rights = rights
            .with_columns(&self.column_grants, &ids)
            .with_literal_names(self.partial_revokes);
        if !self.is_restricted() {
            return rights;
        }
        let of = |id: AuthId| {
            let account = self.account(&id.user, &id.host);
            let own = account.map(|a| a.attributes.restrictions.clone());
            (id, own.unwrap_or_default())
        };
        let restrictions: Vec<_> = ids.into_iter().map(of).collect();
        rights.restricted(&self.grants, &restrictions)
    }
}

/// A change of accounts and grants, applied as one transaction.
#[derive(Debug, Default)]
pub struct Change {
    /// Accounts that are created, or replace those of the same name.
    pub put_accounts: Vec<Account>,
    /// Accounts that are deleted.
    pub remove_accounts: Vec<Account>,
    /// Grants that are added, or replace those of the same account and object.
    pub put_grants: Vec<Grant>,
    /// Grants that are deleted.
    pub remove_grants: Vec<Grant>,
    /// Grants on columns that are added, or replace those of the same account and column.
    pub put_column_grants: Vec<ColumnGrant>,
    /// Grants on columns that are deleted.
    pub remove_column_grants: Vec<ColumnGrant>,
    /// Roles that are granted, or granted with another ADMIN OPTION.
    pub put_edges: Vec<RoleEdge>,
    /// Roles that are revoked.
    pub remove_edges: Vec<RoleEdge>,
    /// Default roles that are added.
    pub put_defaults: Vec<DefaultRole>,
    /// Default roles that are removed.
    pub remove_defaults: Vec<DefaultRole>,
    /// Entries added to the password history.
    pub put_history: Vec<OldPassword>,
    /// Entries removed from the password history.
    pub remove_history: Vec<OldPassword>,
    /// Renamed accounts, as (old name, new name): their sessions continue under the new name.
    pub renames: Vec<(AuthId, AuthId)>,
    /// The statement for the change log.
    pub statement: Option<LoggedStatement>,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.put_accounts.is_empty()
            && self.remove_accounts.is_empty()
            && self.put_grants.is_empty()
            && self.remove_grants.is_empty()
            && self.put_column_grants.is_empty()
            && self.remove_column_grants.is_empty()
            && self.put_edges.is_empty()
            && self.remove_edges.is_empty()
            && self.put_defaults.is_empty()
            && self.remove_defaults.is_empty()
            && self.put_history.is_empty()
            && self.remove_history.is_empty()
    }
}

/// Access control of one server.
pub struct AccessControl {
    db: Arc<Db>,
    data: ArcSwap<AccessData>,
    version: AtomicU64,
    /// Value of [`TableChanges::changes`] at the last load.
    loaded: AtomicU64,
    /// Serializes changes and loads.
    change_lock: Mutex<()>,
    is_new: bool,
    /// The variable `partial_revokes`.
    partial_revokes: AtomicBool,
    table_changes: Arc<TableChanges>,
    /// Failed logins.
    pub(crate) guard: LoginGuard,
    /// Usage of accounts with limits.
    pub(crate) usage: UsageTable,
}

impl AccessControl {
    /// Opens access control over a database. At first start it creates the tables and
    /// `root@localhost` with the password given.
    ///
    /// # Errors
    /// Creating or reading the tables failed.
    pub fn open(db: Arc<Db>, root_password: Option<&str>) -> Result<Arc<AccessControl>> {
        let is_new = !USERS.exists(&db);
        account_table::create_at_first_start(&db, root_password)?;
        grant_table::create_if_missing(&db, &account_table::load(&db)?)?;
        column_grants::create_if_missing(&db)?;
        roles::create_if_missing(&db)?;
        history::create_if_missing(&db)?;
        let tables = [
            &USERS,
            &GRANTS,
            &COLUMN_GRANTS,
            &roles::EDGES,
            &roles::DEFAULT_ROLES,
        ];
        let mut watched = Vec::new();
        for table in tables {
            watched.push(table.find(&db)?.id);
        }
        let table_changes = db.subscribe(&watched);
        let control = AccessControl {
            db,
            data: ArcSwap::default(),
            version: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            change_lock: Mutex::new(()),
            is_new,
            partial_revokes: AtomicBool::new(false),
            table_changes,
            guard: LoginGuard::default(),
            usage: UsageTable::default(),
        };
        control.reload()?;
        Ok(Arc::new(control))
    }

    /// Whether opening created the accounts: the first start of this store.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The version of accounts and grants: one atomic load.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Current time in microseconds since 1970, UTC.
    pub fn now(&self) -> i64 {
        self.db.clock().unix_micros()
    }

    /// The current accounts and grants.
    pub fn data(&self) -> Arc<AccessData> {
        self.data.load_full()
    }

    /// The account that a client logs in as (see [`AccessData::find`]). Loads the tables
    /// again first if they were written to.
    ///
    /// # Errors
    /// Reading the tables failed.
    pub fn find(&self, user: &str, host: &str) -> Result<Option<Account>> {
        Ok(self.current()?.find(user, host).cloned())
    }

    /// As [`AccessControl::find`], locked accounts included; [`AccessControl::admit`] must be
    /// called once the password is verified.
    ///
    /// # Errors
    /// Reading the tables failed.
    pub fn candidate(&self, user: &str, host: &str) -> Result<Option<Account>> {
        Ok(self.current()?.candidate(user, host).cloned())
    }

    /// The current accounts and grants, loaded again first if the tables were written to.
    ///
    /// # Errors
    /// Reading the tables failed.
    pub fn current(&self) -> Result<Arc<AccessData>> {
        if !self.is_stale() {
            return Ok(self.data());
        }
        let engine = self.db.engine();
        if engine.holds_commits_back() {
            // A change that waits for replicas is not in force yet, and must not prevent their logins.
            if let Some(held) = self.change_lock.try_lock()
                && self.table_changes.position() <= engine.durable_position()
            {
                self.reload_if_stale(&held)?;
            }
            return Ok(self.data());
        }
        self.reload_if_stale(&self.change_lock.lock())?;
        Ok(self.data())
    }

    /// Sets `partial_revokes`.
    ///
    /// # Errors
    /// 3896 for turning it off while an account has restrictions; reading the tables failed.
    pub fn set_partial_revokes(&self, on: bool) -> Result<()> {
        let held = self.change_lock.lock();
        self.reload_if_stale(&held)?;
        self.data.load().check_partial_revokes(on)?;
        self.partial_revokes.store(on, Ordering::Relaxed);
        self.load(&held)
    }

    /// The effective privileges of an account, `user@host`. Keep them as long as
    /// [`Rights::version`] equals [`AccessControl::version`].
    pub fn rights(&self, account: &str) -> Arc<Rights> {
        Arc::new(self.data.load().rights(account))
    }

    /// Applies a change that `compute` derives from the current data, and returns the
    /// position in the log at which it is durable; it waits for that position.
    ///
    /// # Errors
    /// Errors of `compute`; writing or reading the tables failed.
    pub fn change<E: From<crate::Error>>(
        &self,
        compute: impl FnOnce(&AccessData) -> std::result::Result<Change, E>,
    ) -> std::result::Result<CommitPosition, E> {
        let held = self.change_lock.lock();
        self.reload_if_stale(&held)?;
        let change = compute(&self.data.load())?;
        if change.is_empty() {
            return Ok(CommitPosition::NONE);
        }
        Ok(self.apply(&change, &held)?)
    }

    fn apply(&self, change: &Change, held: &MutexGuard<'_, ()>) -> Result<CommitPosition> {
        let changes = vec![
            account_table::change(&change.put_accounts, &change.remove_accounts),
            grant_table::change(&change.put_grants, &change.remove_grants),
            column_grants::change(&change.put_column_grants, &change.remove_column_grants),
            roles::change_edges(&change.put_edges, &change.remove_edges),
            roles::change_defaults(&change.put_defaults, &change.remove_defaults),
            history::change(&change.put_history, &change.remove_history),
        ];
        let position = system_table::write_logged(&self.db, changes, change.statement.as_ref())?;
        self.db.engine().wait_durable(position)?;
        self.load_renamed(&change.renames, held)?;
        for (from, to) in &change.renames {
            self.guard.rename(from, to);
            self.usage.rename(from, to);
        }
        Ok(position)
    }

    /// Loads accounts and grants from their tables (FLUSH PRIVILEGES).
    ///
    /// # Errors
    /// Reading the tables failed.
    pub fn reload(&self) -> Result<()> {
        self.load(&self.change_lock.lock())
    }

    /// Whether the tables were written to since they were loaded.
    fn is_stale(&self) -> bool {
        self.table_changes.changes() != self.loaded.load(Ordering::Acquire)
    }

    fn reload_if_stale(&self, held: &MutexGuard<'_, ()>) -> Result<()> {
        if self.is_stale() {
            self.load(held)?;
        }
        Ok(())
    }

    fn load(&self, held: &MutexGuard<'_, ()>) -> Result<()> {
        self.load_renamed(&[], held)
    }

    /// Loads the tables after a change that renamed accounts.
    fn load_renamed(&self, renamed: &[(AuthId, AuthId)], _held: &MutexGuard<'_, ()>) -> Result<()> {
        // Read the counter before the tables: a commit in between causes another load.
        let changes = self.table_changes.changes();
        self.db
            .engine()
            .wait_durable(self.table_changes.position())?;
        let version = self.version() + 1;
        let rename = |(from, to): &(AuthId, AuthId)| Rename {
            version,
            from: from.clone(),
            to: to.clone(),
        };
        let mut renames = self.data.load().renames.clone();
        renames.extend(renamed.iter().map(rename));
        renames.drain(..renames.len().saturating_sub(MAX_RENAMES));
        let mut data = AccessData {
            version,
            accounts: account_table::load(&self.db)?,
            grants: grant_table::load(&self.db)?,
            column_grants: column_grants::load(&self.db)?,
            edges: roles::load_edges(&self.db)?,
            default_roles: roles::load_defaults(&self.db)?,
            history: history::load(&self.db)?,
            partial_revokes: false,
            renames,
        };
        // Existing restrictions apply even if `partial_revokes` is OFF.
        data.partial_revokes = self.partial_revokes.load(Ordering::Relaxed) || data.is_restricted();
        self.data.store(Arc::new(data));
        self.version.store(version, Ordering::Release);
        self.loaded.store(changes, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_renames_after_a_version() {
        let id = |n: &str| AuthId::new(n, "%");
        let rename = |version, from: &str, to: &str| Rename {
            version,
            from: id(from),
            to: id(to),
        };
        let data = AccessData {
            renames: vec![
                rename(3, "a", "b"),
                rename(5, "b", "c"),
                rename(5, "d", "b"),
                rename(8, "b", "a"),
            ],
            ..AccessData::default()
        };
        for (name, version, expected) in [
            ("a", 2, "c"),
            ("a", 3, "a"),
            ("b", 2, "c"),
            ("b", 5, "a"),
            ("d", 4, "a"),
            ("x", 0, "x"),
        ] {
            let now = data.name_since(&id(name), version);
            assert_eq!(now, id(expected), "{name} {version}");
        }
    }
}
