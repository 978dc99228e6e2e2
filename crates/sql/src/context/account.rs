//! The account of a session: resolution of its name in statements, its active roles and its rights.
//!
//! Invariants:
//! 1. A role counts only while it is granted to the account or mandatory. Rights are computed again
//!    when access control's version changes, and only then.
//! 2. A session keeps its account when RENAME USER changes the account's name.

use super::StatementContext;
use porpoise_access::{AuthId, Rights};
use porpoise_sql_parser::ast::Account as AstAccount;
use std::sync::Arc;

impl StatementContext {
    /// The account that a statement names.
    pub(crate) fn auth_id(&self, account: &AstAccount<'_>) -> AuthId {
        let (user, host) = match account {
            AstAccount::Named { user, host } => (
                String::from_utf8_lossy(user).into_owned(),
                host.map_or_else(
                    || "%".to_owned(),
                    |h| String::from_utf8_lossy(h).to_lowercase(),
                ),
            ),
            AstAccount::Current => {
                let own = &self.client.account;
                let (user, host) = own.rsplit_once('@').unwrap_or((own, "%"));
                (user.to_owned(), host.to_owned())
            }
        };
        AuthId { user, host }
    }

    /// The accounts that a statement names.
    pub(crate) fn auth_ids(&self, accounts: &[AstAccount<'_>]) -> Vec<AuthId> {
        accounts.iter().map(|a| self.auth_id(a)).collect()
    }

    /// The roles of `mandatory_roles`.
    pub(crate) fn mandatory_roles(&self) -> Vec<AuthId> {
        let list = self.server.variable("mandatory_roles").unwrap_or_default();
        AuthId::parse_list(&list)
    }

    /// The roles that SET ROLE may activate: those granted to the account, and existing mandatory
    /// ones.
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

    /// The active roles, without those revoked since.
    pub(crate) fn active_roles(&self) -> Vec<AuthId> {
        let available = self.available_roles();
        let active = self.roles.iter().filter(|r| available.contains(r));
        active.cloned().collect()
    }

    /// Adopts the new name of the session's account if it was renamed.
    pub(crate) fn follow_renames(&mut self) {
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

    /// The rights of the account, including its active roles.
    pub(crate) fn current_rights(&self) -> Arc<Rights> {
        let data = self.server.access.data();
        if self.is_system {
            return Arc::new(Rights::all(self.server.access.version()));
        }
        // The current statement may have renamed the account; `follow_renames` adopts the new name
        // only before the next statement.
        let own = data.name_since(&AuthId::parse(&self.client.account), self.named_at);
        let mandatory = self.mandatory_roles();
        Arc::new(data.rights_with(&own, &self.roles, &mandatory))
    }

    /// Replaces the active roles.
    pub(crate) fn activate_roles(&mut self, mut roles: Vec<AuthId>) {
        roles.sort();
        roles.dedup();
        let names: Vec<String> = roles.iter().map(AuthId::to_string).collect();
        self.env.roles = names.join(",");
        self.roles = roles;
        let rights = self.current_rights();
        *self.rights.get_mut() = rights;
    }

    /// Activates the roles of a login: all granted ones under `activate_all_roles_on_login`,
    /// otherwise the account's default roles.
    pub(crate) fn activate_login_roles(&mut self) {
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
