//! What a session takes from its account: active roles, resource limits, and an expired
//! password.
//!
//! Invariants:
//! 1. A role counts only while it is granted to the account or mandatory: rights are
//!    computed again when access control's version moves, and only then.
//! 2. A session without limits pays one comparison a statement for them.
//! 3. With an expired password a session may change it and set variables, nothing else.
//! 4. A session keeps its account when RENAME USER changes the name.

use super::{ClientInfo, Encryption, SqlSession};
use crate::error::{Result, SqlError};
use crate::parse::ast::{Account as AstAccount, Statement};
use crate::session::server::SqlServer;
use porpoise_access::{AuthId, Exceeded, Limits, Rights, Usage};
use std::sync::Arc;

/// Usage of an account with limits; counts its connection until it is dropped.
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
    /// Counts a connection of an account that has limits, of its own or by
    /// `max_user_connections`.
    ///
    /// # Errors
    /// 1226, or 1203 for the limit that is the server's.
    pub(super) fn connect(server: &SqlServer, client: &ClientInfo) -> Result<Option<Self>> {
        let id = AuthId::parse(&client.account);
        let data = server.access.data();
        let account = data.account(&id.user, &id.host);
        let mut limits = account.map_or(Limits::default(), |a| a.attributes.limits);
        let own = limits.concurrent != 0;
        if !own {
            limits.concurrent = server.number("max_user_connections");
        }
        if limits == Limits::default() {
            return Ok(None);
        }
        let usage = server.access.usage(&id);
        usage
            .connect(limits, server.access.now())
            .map_err(|(resource, value)| match resource == "max_user_connections" && !own {
                false => exceeded(&client.user, (resource, value)),
                true => {
                    let text = format!(
                        "User {} already has more than 'max_user_connections' active connections",
                        client.user
                    );
                    SqlError::new(1203, "42000", text)
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

impl SqlServer {
    /// A global variable that is a number.
    pub fn number(&self, name: &str) -> u32 {
        let value = self.variable(name).and_then(|v| v.parse::<u64>().ok());
        u32::try_from(value.unwrap_or(0)).unwrap_or(u32::MAX)
    }
}

impl SqlSession {
    /// The login's password has expired: until it is changed, all other statements are
    /// refused with 1820.
    pub fn expire_password(&mut self) {
        self.password_expired = true;
    }

    /// Names what the connection is encrypted with, for SHOW STATUS.
    pub fn set_encryption(&mut self, encryption: Encryption) {
        self.encryption = encryption;
    }

    /// Counts a statement against the account's limits.
    pub(super) fn count_query(&self) -> Result<()> {
        let Some(limited) = &self.limited else {
            return Ok(());
        };
        let counted = limited
            .usage
            .query(limited.limits, self.server.access.now());
        counted.map_err(|e| exceeded(&limited.user, e))
    }

    /// Counts a statement that changes something against the account's limits.
    pub(super) fn count_update(&self) -> Result<()> {
        let Some(limited) = &self.limited else {
            return Ok(());
        };
        let counted = limited
            .usage
            .update(limited.limits, self.server.access.now());
        counted.map_err(|e| exceeded(&limited.user, e))
    }

    /// 1820 while the password is expired.
    pub(super) fn check_password(&self) -> Result<()> {
        if !self.password_expired {
            return Ok(());
        }
        let text = "You must reset your password using ALTER USER statement before executing this \
                    statement.";
        Err(SqlError::new(1820, "HY000", text))
    }

    /// Checks a statement that is dispatched: 1820, and the limit of changes for statements
    /// that run no plan.
    pub(super) fn check_account(&self, statement: &Statement<'_>) -> Result<()> {
        let own = |account: &AstAccount<'_>| {
            let id = crate::users::roles::auth_id(self, account);
            format!("{}@{}", id.user, id.host) == self.client.account
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

    /// The roles of `mandatory_roles`.
    pub(crate) fn mandatory_roles(&self) -> Vec<AuthId> {
        let list = self.server.variable("mandatory_roles").unwrap_or_default();
        AuthId::parse_list(&list)
    }

    /// The roles that SET ROLE may activate: those granted to the account, and the mandatory
    /// ones that exist.
    pub(crate) fn available_roles(&self) -> Vec<AuthId> {
        let data = self.server.access.data();
        let own = AuthId::parse(&self.client.account);
        let mut roles: Vec<AuthId> = data.roles_of(&own).map(|e| e.role.clone()).collect();
        for role in self.mandatory_roles() {
            let exists = data.account(&role.user, &role.host).is_some();
            if exists && role != own && !roles.contains(&role) {
                roles.push(role);
            }
        }
        roles
    }

    /// The active roles, those that were revoked since left out.
    pub(crate) fn active_roles(&self) -> Vec<AuthId> {
        let available = self.available_roles();
        let active = self.roles.iter().filter(|r| available.contains(r));
        active.cloned().collect()
    }

    /// Takes over the new name of the session's account, if it was renamed.
    pub(super) fn follow_renames(&mut self) {
        if self.named_at == self.server.access.version() {
            return;
        }
        let data = self.server.access.data();
        let old = AuthId::parse(&self.client.account);
        let name = data.name_since(&old, self.named_at);
        self.named_at = data.version;
        if name != old {
            self.client.account = format!("{}@{}", name.user, name.host);
            self.env.account.clone_from(&self.client.account);
        }
    }

    /// The rights of the account with its active roles.
    pub(crate) fn current_rights(&self) -> Arc<Rights> {
        let data = self.server.access.data();
        // Renamed within a statement: `follow_renames` is for the next one.
        let own = data.name_since(&AuthId::parse(&self.client.account), self.named_at);
        let mandatory = self.mandatory_roles();
        Arc::new(data.rights_with(&own, &self.roles, &mandatory))
    }

    /// Activates roles, and nothing but them.
    pub(crate) fn activate_roles(&mut self, mut roles: Vec<AuthId>) {
        roles.sort();
        roles.dedup();
        let names: Vec<String> = roles.iter().map(AuthId::to_string).collect();
        self.env.roles = names.join(",");
        self.roles = roles;
        let rights = self.current_rights();
        *self.rights.get_mut() = rights;
    }

    /// Activates the roles of a login: all that are granted under
    /// `activate_all_roles_on_login`, the account's default roles otherwise.
    pub(super) fn activate_login_roles(&mut self) {
        let all = self.server.variable("activate_all_roles_on_login");
        let roles = if all.as_deref() == Some("ON") {
            self.available_roles()
        } else {
            let own = AuthId::parse(&self.client.account);
            let available = self.available_roles();
            let mut roles = self.server.access.data().default_roles_of(&own);
            roles.retain(|r| available.contains(r));
            roles
        };
        self.activate_roles(roles);
    }
}
