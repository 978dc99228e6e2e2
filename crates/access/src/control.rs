//! Accounts and grants in memory, loaded from their tables.
//!
//! Readers take the current [`AccessData`] without a lock. A change runs under one
//! lock: it is computed from the current data, written in one durable transaction, and
//! then the tables are loaded again under the next version. Caches compare
//! [`AccessControl::version`] and rebuild when it moved.
//!
//! Statements may also write the tables directly. Such a commit is noticed at the next
//! login (a [`Watch`] on both tables), or by FLUSH PRIVILEGES ([`AccessControl::reload`]).

use crate::account::{Account, host_matches, specificity};
use crate::account_table::{self, USERS};
use crate::error::Result;
use crate::grant_table::{self, GRANTS};
use crate::rights::{Grant, Rights};
use crate::system_table;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use porpoise_kv::Ticket;
use porpoise_rows::{Db, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All accounts and grants as of one version.
#[derive(Debug, Default)]
pub struct AccessData {
    /// The version; grows with every change.
    pub version: u64,
    /// All accounts.
    pub accounts: Vec<Account>,
    /// All grants.
    pub grants: Vec<Grant>,
}

impl AccessData {
    /// The account of exactly that name.
    pub fn account(&self, user: &str, host: &str) -> Option<&Account> {
        let mut accounts = self.accounts.iter();
        accounts.find(|a| a.user == user && a.host.eq_ignore_ascii_case(host))
    }

    /// The account that a client logs in as: the most specific host first, a named user
    /// before the anonymous one (manual, "Connection Verification"). `None` when there is
    /// none, or when it is locked.
    pub fn find(&self, user: &str, host: &str) -> Option<&Account> {
        let matches =
            |a: &&Account| (a.user == user || a.user.is_empty()) && host_matches(&a.host, host);
        let mut found: Vec<&Account> = self.accounts.iter().filter(matches).collect();
        found.sort_by_key(|a| std::cmp::Reverse((specificity(&a.host), !a.user.is_empty())));
        found.into_iter().next().filter(|a| !a.locked)
    }

    /// The effective privileges of an account, `user@host`.
    pub fn rights(&self, account: &str) -> Rights {
        Rights::of(self.version, &self.grants, account)
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
}

impl Change {
    fn is_empty(&self) -> bool {
        self.put_accounts.is_empty()
            && self.remove_accounts.is_empty()
            && self.put_grants.is_empty()
            && self.remove_grants.is_empty()
    }
}

/// Access control of one server.
pub struct AccessControl {
    db: Arc<Db>,
    data: ArcSwap<AccessData>,
    version: AtomicU64,
    /// Number of commits to the tables that the data contains.
    loaded: AtomicU64,
    /// Serializes changes and loads.
    changing: Mutex<()>,
    watch: Arc<Watch>,
}

impl AccessControl {
    /// Opens access control over a database. At first start it creates the tables and
    /// `root@localhost` with the password given.
    ///
    /// # Errors
    /// Creating or reading the tables failed.
    pub fn open(db: Arc<Db>, root_password: Option<&str>) -> Result<Arc<AccessControl>> {
        account_table::create_at_first_start(&db, root_password)?;
        grant_table::create_if_missing(&db, &account_table::load(&db)?)?;
        let watch = db.watch(&[USERS.find(&db)?.id, GRANTS.find(&db)?.id]);
        let control = AccessControl {
            db,
            data: ArcSwap::default(),
            version: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            changing: Mutex::new(()),
            watch,
        };
        control.reload()?;
        Ok(Arc::new(control))
    }

    /// The version of accounts and grants: one atomic load.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
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
        if self.is_stale() {
            self.reload_if_stale(&self.changing.lock())?;
        }
        Ok(self.data.load().find(user, host).cloned())
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
    /// What `compute` returns; writing or reading the tables failed.
    pub fn change<E: From<crate::Error>>(
        &self,
        compute: impl FnOnce(&AccessData) -> std::result::Result<Change, E>,
    ) -> std::result::Result<Ticket, E> {
        let held = self.changing.lock();
        self.reload_if_stale(&held)?;
        let change = compute(&self.data.load())?;
        if change.is_empty() {
            return Ok(Ticket::NONE);
        }
        Ok(self.apply(&change, &held)?)
    }

    fn apply(&self, change: &Change, held: &MutexGuard<'_, ()>) -> Result<Ticket> {
        let accounts =
            account_table::change(&self.db, &change.put_accounts, &change.remove_accounts);
        let grants = grant_table::change(&change.put_grants, &change.remove_grants);
        let ticket = system_table::write(&self.db, vec![accounts, grants])?;
        self.db.engine().wait_durable(ticket)?;
        self.load(held)?;
        Ok(ticket)
    }

    /// Loads accounts and grants from their tables (FLUSH PRIVILEGES).
    ///
    /// # Errors
    /// Reading the tables failed.
    pub fn reload(&self) -> Result<()> {
        self.load(&self.changing.lock())
    }

    /// Whether the tables were written to since they were loaded.
    fn is_stale(&self) -> bool {
        self.watch.changes() != self.loaded.load(Ordering::Acquire)
    }

    fn reload_if_stale(&self, held: &MutexGuard<'_, ()>) -> Result<()> {
        if self.is_stale() {
            self.load(held)?;
        }
        Ok(())
    }

    fn load(&self, _held: &MutexGuard<'_, ()>) -> Result<()> {
        // Counted before the tables are read: a commit in between is read again.
        let changes = self.watch.changes();
        self.db.engine().wait_durable(self.watch.ticket())?;
        let version = self.version() + 1;
        let data = AccessData {
            version,
            accounts: account_table::load(&self.db)?,
            grants: grant_table::load(&self.db)?,
        };
        self.data.store(Arc::new(data));
        self.version.store(version, Ordering::Release);
        self.loaded.store(changes, Ordering::Release);
        Ok(())
    }
}
