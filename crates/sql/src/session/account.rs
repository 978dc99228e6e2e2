//! Account limits on a session: resource limits and password expiry.
//!
//! Invariants:
//! 1. A session without limits pays one comparison for each statement.
//! 2. With an expired password a session may change the password and set variables, nothing else.

use super::{ClientInfo, Encryption, SqlSession};
use crate::client::Compression;
use crate::server::SqlServer;
use porpoise_access::{AuthId, Exceeded, Limits, Usage};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Account as AstAccount, Statement};
use std::sync::Arc;

/// Usage counters of an account with limits; its connection is counted until this is dropped.
pub(super) struct LimitedUsage {
    usage: Arc<Usage>,
    limits: Limits,
    user: String,
}

fn exceeded(user: &str, (resource, value): Exceeded) -> SqlError {
    let text =
        format!("User '{user}' has exceeded the '{resource}' resource (current value: {value})");
    SqlError::new(1226, "42000", text)
}

impl LimitedUsage {
    /// Counts a connection if the account has limits, or `max_user_connections` is set.
    ///
    /// # Errors
    /// 1226 for a limit of the account, 1203 for `max_user_connections`.
    pub(super) fn connect(server: &SqlServer, client: &ClientInfo) -> Result<Option<Self>> {
        let id = AuthId::parse(&client.account);
        let data = server.access.data();
        let account = data.account(&id.user, &id.host);
        let mut limits = account.map_or(Limits::default(), |a| a.attributes.limits);
        let has_own_limit = limits.concurrent != 0;
        if !has_own_limit {
            limits.concurrent = server.number("max_user_connections");
        }
        if limits == Limits::default() {
            return Ok(None);
        }
        let usage = server.access.usage(&id);
        usage
            .connect(limits, server.access.now())
            .map_err(|(resource, value)| {
                if resource == "max_user_connections" && !has_own_limit {
                    let text = format!(
                        "User {} already has more than 'max_user_connections' active connections",
                        client.user
                    );
                    SqlError::new(1203, "42000", text)
                } else {
                    exceeded(&client.user, (resource, value))
                }
            })?;
        Ok(Some(LimitedUsage {
            usage,
            limits,
            user: client.user.clone(),
        }))
    }
}

impl Drop for LimitedUsage {
    fn drop(&mut self) {
        self.usage.disconnect();
    }
}

impl SqlSession {
    /// Marks the password as expired: until it is changed, other statements fail with 1820.
    pub fn expire_password(&mut self) {
        self.cx.password_expired = true;
    }

    /// Stores the connection's encryption, for SHOW STATUS.
    pub fn set_encryption(&mut self, encryption: Encryption) {
        self.cx.encryption = encryption;
    }

    /// Stores the connection's compression, for SHOW STATUS.
    pub fn set_compression(&mut self, algorithm: &'static str, level: u32) {
        self.cx.compression = Compression { algorithm, level };
    }

    /// Counts a statement against the account's limits.
    pub(super) fn count_query(&self) -> Result<()> {
        let Some(limited) = &self.limited_usage else {
            return Ok(());
        };
        let counted = limited
            .usage
            .query(limited.limits, self.cx.server.access.now());
        counted.map_err(|e| exceeded(&limited.user, e))
    }

    /// Counts a statement that changes data against the account's limits.
    pub(super) fn count_update(&self) -> Result<()> {
        let Some(limited) = &self.limited_usage else {
            return Ok(());
        };
        let counted = limited
            .usage
            .update(limited.limits, self.cx.server.access.now());
        counted.map_err(|e| exceeded(&limited.user, e))
    }

    /// Error 1820 while the password is expired.
    pub(super) fn check_password(&self) -> Result<()> {
        if !self.cx.password_expired {
            return Ok(());
        }
        let text = "You must reset your password using ALTER USER statement before executing this \
                    statement.";
        Err(SqlError::new(1820, "HY000", text))
    }

    /// Checks a statement before it is dispatched: password expiry, and the limit of updates for
    /// statements that run no plan.
    pub(super) fn check_account(&self, statement: &Statement<'_>) -> Result<()> {
        let own = |account: &AstAccount<'_>| {
            let id = self.cx.auth_id(account);
            format!("{}@{}", id.user, id.host) == self.cx.client.account
        };
        let allowed = match statement {
            Statement::SetPassword(set) => set.account.as_ref().is_none_or(own),
            Statement::User(user) => user.alter && user.users.iter().all(|u| own(&u.account)),
            Statement::Set(_) => true,
            _ => false,
        };
        if !allowed {
            self.check_password()?;
        }
        match statement {
            Statement::CreateTable(_)
            | Statement::DropTable(_)
            | Statement::AlterTable(_)
            | Statement::Truncate(_)
            | Statement::RenameTable(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::CreateView(_)
            | Statement::DropView(_)
            | Statement::User(_)
            | Statement::DropUser { .. }
            | Statement::RenameUser(_)
            | Statement::Role { .. }
            | Statement::Grant(_)
            | Statement::SetPassword(_) => self.count_update(),
            _ => Ok(()),
        }
    }
}
