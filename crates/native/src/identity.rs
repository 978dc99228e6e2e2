//! The account of a connection, and its rights.
//!
//! Rights are computed once and kept with the version of access control that they were computed
//! from. The version is compared at every request, so that REVOKE, DROP USER and ACCOUNT LOCK are in
//! force with the next one.

use porpoise_access::{AccessControl, AuthId, Rights};
use std::sync::Arc;

/// The account of a connection.
pub(crate) struct Identity {
    control: Arc<AccessControl>,
    account: AuthId,
    /// The version of access control at which the account had the name `account`.
    named_at: u64,
    /// Host of the client, for messages.
    host: String,
    rights: Arc<Rights>,
    /// The version that `rights` was computed from.
    version: u64,
}

impl Identity {
    /// The identity of a client at `host` that acts as `account`, by its name at version `named_at`.
    pub(crate) fn new(
        control: Arc<AccessControl>,
        account: AuthId,
        named_at: u64,
        host: String,
    ) -> Identity {
        let mut identity = Identity {
            control,
            account,
            named_at,
            host,
            rights: Arc::default(),
            version: 0,
        };
        identity.refresh();
        identity
    }

    /// The rights at present, and their version.
    #[inline]
    pub(crate) fn rights(&mut self) -> (&Arc<Rights>, u64) {
        if self.version != self.control.version() {
            self.refresh();
        }
        (&self.rights, self.version)
    }

    #[cold]
    fn refresh(&mut self) {
        let data = self.control.data();
        self.account = data.name_since(&self.account, self.named_at);
        self.named_at = data.version;
        let account = data.account(&self.account.user, &self.account.host);
        let rights = account.filter(|account| !account.locked);
        let rights = rights.map(|account| data.rights(&account.name()));
        self.rights = Arc::new(rights.unwrap_or_default());
        self.version = data.version;
    }

    /// `'user'@'host'`, for messages.
    pub(crate) fn shown(&self) -> String {
        format!("'{}'@'{}'", self.account.user, self.host)
    }
}
