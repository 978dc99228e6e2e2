//! The role graph: an edge leads from a role to an account or role that it is granted to.
//!
//! ```text
//!   reader --> writer --> alice      GRANT reader TO writer; GRANT writer TO alice
//! ```
//!
//! Invariant: the graph has no cycle; a grant that would close one is refused
//! ([`AccessData::reaches`]). Direct writes to the tables may still create one, so every
//! walk visits an account once.

use crate::auth_id::AuthId;
use crate::control::AccessData;
use crate::privileges::Privileges;
use crate::roles::RoleEdge;

impl AccessData {
    /// The roles granted to an account directly.
    pub fn roles_of<'a>(&'a self, account: &'a AuthId) -> impl Iterator<Item = &'a RoleEdge> {
        self.edges.iter().filter(move |e| e.grantee == *account)
    }

    /// These accounts and every role granted to them, directly or not, each once.
    pub fn closure(&self, from: &[AuthId]) -> Vec<AuthId> {
        let mut found: Vec<AuthId> = Vec::new();
        for id in from {
            if !found.contains(id) {
                found.push(id.clone());
            }
        }
        let mut at = 0;
        while let Some(id) = found.get(at).cloned() {
            for edge in self.roles_of(&id) {
                if !found.contains(&edge.role) {
                    found.push(edge.role.clone());
                }
            }
            at += 1;
        }
        found
    }

    /// Whether `role` equals `account`, or is granted to it directly or through other roles.
    pub fn reaches(&self, account: &AuthId, role: &AuthId) -> bool {
        self.closure(std::slice::from_ref(account)).contains(role)
    }

    /// Whether an account has SYSTEM_USER by its own grants or its default roles.
    pub fn is_system_user(&self, account: &AuthId) -> bool {
        let rights = self.rights_with(account, &self.default_roles_of(account), &[]);
        rights.global().has(Privileges::SYSTEM_USER)
    }

    /// The roles that a login of the account activates by default.
    pub fn default_roles_of(&self, account: &AuthId) -> Vec<AuthId> {
        let own = self.default_roles.iter().filter(|d| d.account == *account);
        own.map(|d| d.role.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_visit_each_account_once() {
        let id = |n: &str| AuthId::new(n, "%");
        let edge = |role: &str, grantee: &str| RoleEdge {
            role: id(role),
            grantee: id(grantee),
            admin: false,
        };
        let data = AccessData {
            edges: vec![
                edge("a", "b"),
                edge("b", "c"),
                edge("a", "c"),
                edge("c", "a"),
            ],
            ..AccessData::default()
        };
        assert_eq!(data.closure(&[id("c")]), [id("c"), id("b"), id("a")]);
        assert!(data.reaches(&id("c"), &id("a")));
        assert!(!data.reaches(&id("d"), &id("a")));
        assert!(data.reaches(&id("d"), &id("d")));
    }
}
