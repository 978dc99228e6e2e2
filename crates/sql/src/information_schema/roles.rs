//! APPLICABLE_ROLES, ENABLED_ROLES, ADMINISTRABLE_ROLE_AUTHORIZATIONS of the session's account,
//! and USER_ATTRIBUTES.

use super::T;
use crate::session::SqlSession;
use crate::show::table::{maybe, text};
use porpoise_access::{AuthId, Privileges, RoleEdge};
use porpoise_types::Value;

/// Columns of APPLICABLE_ROLES and ADMINISTRABLE_ROLE_AUTHORIZATIONS.
pub(super) const APPLICABLE: &[(&str, T)] = &[
    ("USER", T::Text(97)),
    ("HOST", T::Text(256)),
    ("GRANTEE", T::Text(97)),
    ("GRANTEE_HOST", T::Text(256)),
    ("ROLE_NAME", T::Text(255)),
    ("ROLE_HOST", T::Text(256)),
    ("IS_GRANTABLE", T::Text(3)),
    ("IS_DEFAULT", T::Text(3)),
    ("IS_MANDATORY", T::Text(3)),
];

/// Columns of ENABLED_ROLES.
pub(super) const ENABLED: &[(&str, T)] = &[
    ("ROLE_NAME", T::Text(255)),
    ("ROLE_HOST", T::Text(255)),
    ("IS_DEFAULT", T::Text(3)),
    ("IS_MANDATORY", T::Text(3)),
];

/// Columns of USER_ATTRIBUTES.
pub(super) const ATTRIBUTES: &[(&str, T)] = &[
    ("USER", T::Text(32)),
    ("HOST", T::Text(255)),
    ("ATTRIBUTE", T::Long),
];

fn yes(is: bool) -> Value {
    text(if is { "YES" } else { "NO" })
}

/// Rows of the edges that lead to the session's account, directly or not, and that `which`
/// takes.
fn edges(session: &SqlSession, which: impl Fn(&RoleEdge) -> bool) -> Vec<Vec<Value>> {
    let data = session.server.access.data();
    let own = AuthId::parse(&session.client.account);
    let mandatory = session.mandatory_roles();
    let mut all: Vec<RoleEdge> = data.edges.clone();
    for role in session.available_roles() {
        if !data.roles_of(&own).any(|e| e.role == role) {
            all.push(RoleEdge {
                role,
                grantee: own.clone(),
                admin: false,
            });
        }
    }
    let mut from = session.available_roles();
    from.push(own.clone());
    let reached = data.closure(&from);
    let defaults = data.default_roles_of(&own);
    let shown = all
        .iter()
        .filter(|e| reached.contains(&e.grantee) && which(e));
    let row = |e: &RoleEdge| {
        vec![
            text(&own.user),
            text(&own.host),
            text(&e.grantee.user),
            text(&e.grantee.host),
            text(&e.role.user),
            text(&e.role.host),
            yes(e.admin),
            yes(e.grantee == own && defaults.contains(&e.role)),
            yes(mandatory.contains(&e.role)),
        ]
    };
    shown.map(row).collect()
}

/// Rows of APPLICABLE_ROLES.
pub(super) fn applicable(session: &SqlSession) -> Vec<Vec<Value>> {
    edges(session, |_| true)
}

/// Rows of ADMINISTRABLE_ROLE_AUTHORIZATIONS.
pub(super) fn administrable(session: &SqlSession) -> Vec<Vec<Value>> {
    edges(session, |e| e.admin)
}

/// Rows of ENABLED_ROLES.
pub(super) fn enabled(session: &SqlSession) -> Vec<Vec<Value>> {
    let data = session.server.access.data();
    let own = AuthId::parse(&session.client.account);
    let defaults = data.default_roles_of(&own);
    let mandatory = session.mandatory_roles();
    let row = |id: AuthId| {
        let (default, must) = (defaults.contains(&id), mandatory.contains(&id));
        vec![text(id.user), text(id.host), yes(default), yes(must)]
    };
    let active = data.closure(&session.active_roles());
    active.into_iter().map(row).collect()
}

/// Rows of USER_ATTRIBUTES: the own account, and all for an account that may administer them.
pub(super) fn attributes(session: &SqlSession) -> Vec<Vec<Value>> {
    let rights = session.rights();
    let all = rights.global().meets(Privileges::CREATE_USER)
        || rights
            .on_database("mysql")
            .meets(Privileges::SELECT.with(Privileges::UPDATE));
    let data = session.server.access.data();
    let own = |a: &&porpoise_access::Account| all || a.name() == session.client.account;
    let row = |a: &porpoise_access::Account| {
        let metadata = maybe(a.attributes.metadata.as_deref());
        vec![text(&a.user), text(&a.host), metadata]
    };
    data.accounts.iter().filter(own).map(row).collect()
}
