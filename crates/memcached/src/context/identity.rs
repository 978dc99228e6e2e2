//! The account that a connection acts as, and its privileges on each container.
//!
//! A connection begins as the default account (`--memcached-account`) if that account's
//! host pattern matches the client, and without an account otherwise. Authentication
//! (the first `set` of the ASCII dialect, SASL PLAIN of the binary one, a client
//! certificate) replaces it. If the connection does not meet the REQUIRE clause of the default
//! account, it has no account from before its first request.
//!
//! Invariants:
//! 1. Privileges are looked up per container once and cached with the versions of access control
//!    and of the mapping from which they were computed. Both versions are compared at every check,
//!    so a REVOKE, DROP USER, ACCOUNT LOCK or a new mapping is in force at once.
//! 2. A connection without an account can execute only `version`, `quit` and authentication.
//! 3. A failed authentication computes the same hashes whether or not the account exists, and
//!    leaves the connection without an account.

use crate::context::Failure;
use crate::context::requirement;
use crate::mapping::Mapping;
use porpoise_access::{AccessControl, AuthId, DelayPolicy, LoginPolicy, Privileges, TlsPeer};
use porpoise_base::blocking::blocking;
use std::sync::Arc;
use std::time::Duration;

/// Failed authentications after which a connection is closed.
pub(crate) const MAX_FAILURES: u32 = 3;

/// Settings of authentication, shared by all connections of the listener.
pub struct Authentication {
    /// Accounts and privileges.
    pub control: Arc<AccessControl>,
    /// The account of clients that do not authenticate.
    pub default: Option<AuthId>,
    /// Returns the delays after failed attempts, and the default lifetime of passwords in days (0:
    /// they do not expire).
    pub policy: Box<dyn Fn() -> (DelayPolicy, u16) + Send + Sync>,
    /// Reports an attempt with user, host and outcome; returns false if a login must be refused
    /// because the report failed.
    pub audit: ReportLogin,
}

impl Authentication {
    /// Authentication against these accounts, without delays. Clients that do not authenticate have
    /// the account `default` if its host pattern matches them.
    pub fn new(control: Arc<AccessControl>, default: Option<AuthId>) -> Authentication {
        Authentication {
            control,
            default,
            policy: Box::new(Default::default),
            audit: Box::new(|_, _, _| true),
        }
    }
}

/// Reports an attempt to authenticate: user, host and outcome. Returns false if a login must be refused.
pub type ReportLogin = Box<dyn Fn(&str, &str, bool) -> bool + Send + Sync>;

/// The result of an attempt to authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) granted: bool,
    /// The delay of the reply.
    pub(crate) delay: Duration,
    /// The connection closes after the reply.
    pub(crate) close: bool,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Identity {
    settings: Arc<Authentication>,
    host: String,
    account: Option<AuthId>,
    /// The version of access control at which the account had the name `account`; the account may
    /// have been renamed since.
    named_at: u64,
    /// Failed authentications since the last success.
    failures: u32,
    /// Versions of access control and mapping that `granted` was computed from.
    versions: (u64, u64),
    /// Privileges by position of the container.
    granted: Vec<Privileges>,
}

impl Identity {
    /// The identity of a client at `host` before its first request.
    pub(crate) fn new(settings: Arc<Authentication>, host: String) -> Identity {
        let account = settings.default.clone();
        let account = account.filter(|id| id.matches_host(&host));
        Identity {
            named_at: settings.control.version(),
            settings,
            host,
            account,
            failures: 0,
            versions: (0, 0),
            granted: Vec::new(),
        }
    }

    /// Whether the connection acts as an account.
    #[inline]
    pub(crate) fn is_authenticated(&self) -> bool {
        self.account.is_some()
    }

    /// Checks privileges on the table of the container at position `at`.
    ///
    /// # Errors
    /// [`Failure::Denied`] naming the missing privilege and the table.
    #[inline]
    pub(crate) fn check(
        &mut self,
        mapping: &Mapping,
        at: usize,
        wanted: Privileges,
    ) -> Result<(), Failure> {
        if self.versions != (self.settings.control.version(), mapping.serial) {
            self.refresh(mapping);
        }
        match self.granted.get(at) {
            Some(granted) if granted.has(wanted) => Ok(()),
            granted => {
                let granted = granted.copied().unwrap_or_default();
                Err(self.denied(mapping, at, wanted.without(granted)))
            }
        }
    }

    /// Looks up the privileges again.
    #[cold]
    fn refresh(&mut self, mapping: &Mapping) {
        let data = self.settings.control.data();
        self.versions = (data.version, mapping.serial);
        let named_at = std::mem::replace(&mut self.named_at, data.version);
        self.account = self.account.take().map(|id| data.name_since(&id, named_at));
        let account = self.account.as_ref();
        let account = account.and_then(|id| data.account(&id.user, &id.host));
        let rights = account
            .filter(|a| !a.locked)
            .map(|a| data.rights(&a.name()))
            .unwrap_or_default();
        let containers = mapping.containers.iter();
        self.granted = containers
            .map(|c| requirement::privileges_held(&rights, c))
            .collect();
    }

    #[cold]
    fn denied(&self, mapping: &Mapping, at: usize, missing: Privileges) -> Failure {
        let name = missing.names().next().unwrap_or("SELECT");
        let table = mapping.containers.get(at);
        let table = table.map_or("", |c| c.table.name.as_str());
        let (user, host) = match &self.account {
            Some(id) => (id.user.as_str(), self.host.as_str()),
            None => ("", self.host.as_str()),
        };
        let text = format!("{name} command denied to user '{user}'@'{host}' for table '{table}'");
        Failure::Denied(text)
    }

    /// Authenticates the client by user name and password. `tls`: the properties of the
    /// connection's encryption; `None`: it is not encrypted. `local`: whether the client is on this
    /// machine.
    pub(crate) fn authenticate(
        &mut self,
        user: &[u8],
        password: &[u8],
        tls: Option<&TlsPeer>,
        local: bool,
    ) -> Attempt {
        let user = String::from_utf8_lossy(user).into_owned();
        let settings = self.settings.clone();
        let control = &settings.control;
        let now = control.now();
        let (delays, lifetime) = (settings.policy)();
        let data = control.current().unwrap_or_default();
        let account = data.candidate(&user, &self.host).cloned();
        // An account without a password is accepted only from this machine, as over MySQL's
        // protocol.
        let account = account.filter(|a| local || !a.secret.is_empty());
        let is_correct = blocking(|| control.is_password(&user, account.as_ref(), password));
        let granted = account.and_then(|account| {
            if !is_correct {
                control.password_failed(&account, now);
                return None;
            }
            let policy = LoginPolicy {
                default_lifetime: lifetime,
                // The memcached protocol has no command that changes a password.
                refuse_expired: true,
            };
            let admitted = control.admit(&account, tls, now, policy);
            admitted.is_ok().then_some(account)
        });
        let is_reported = (settings.audit)(&user, &self.host, granted.is_some());
        let granted = granted.filter(|_| is_reported);
        let delay = control
            .guard()
            .record(&user, &self.host, now, granted.is_some(), delays);
        let attempt = Attempt {
            granted: granted.is_some(),
            delay,
            close: granted.is_none() && self.failures + 1 >= MAX_FAILURES,
        };
        match granted {
            Some(account) => self.become_account(account.id(), data.version),
            None => {
                self.account = None;
                self.versions = (0, 0);
                self.failures += 1;
                tracing::info!(?user, host = %self.host, "memcached authentication failed");
            }
        }
        attempt
    }

    /// Removes the default account if the connection does not meet the account's REQUIRE clause.
    pub(crate) fn check_default(&mut self, tls: Option<&TlsPeer>) {
        let data = self.settings.control.data();
        let account = self.account.as_ref();
        let account = account.and_then(|id| data.account(&id.user, &id.host));
        if account.is_some_and(|a| !a.attributes.require.permits(tls)) {
            self.account = None;
            self.versions = (0, 0);
        }
    }

    /// Acts as the account whose user name is `name`, the common name in a verified client
    /// certificate, if there is one and the connection meets its REQUIRE clause.
    pub(crate) fn authenticate_by_certificate(&mut self, name: &str, tls: &TlsPeer) {
        let control = &self.settings.control;
        let data = control.current().unwrap_or_default();
        let account = data.candidate(name, &self.host).cloned();
        let (_, lifetime) = (self.settings.policy)();
        let policy = LoginPolicy {
            default_lifetime: lifetime,
            refuse_expired: true,
        };
        // A certificate authenticates only for an account that requires one.
        let account = account.filter(|a| a.attributes.require.needs_certificate());
        let admitted =
            account.filter(|a| control.admit(a, Some(tls), control.now(), policy).is_ok());
        if let Some(account) = admitted {
            self.become_account(account.id(), data.version);
        }
    }

    /// Acts as the account that has the name `id` at `version` of access control.
    fn become_account(&mut self, id: AuthId, version: u64) {
        self.account = Some(id);
        self.named_at = version;
        self.failures = 0;
        self.versions = (0, 0);
    }
}
