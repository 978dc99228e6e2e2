//! APPLICABLE_ROLES, ENABLED_ROLES and ADMINISTRABLE_ROLE_AUTHORIZATIONS of the session's account,
//! and USER_ATTRIBUTES.

use crate::context::StatementContext;
use crate::results::table::{text, text_or_null};
use porpoise_access::{AuthId, Privileges, RoleEdge};
use porpoise_types::Value;

fn yes_or_no(is: bool) -> Value {
    text(if is { "YES" } else { "NO" })
}

/// Rows of the role grants that reach the session's account, directly or indirectly, and that
/// `includes` accepts.
fn edges(cx: &StatementContext, includes: impl Fn(&RoleEdge) -> bool) -> Vec<Vec<Value>> {
    let data = cx.server.access.data();
    let own = AuthId::parse(&cx.client.account);
    let mandatory = cx.mandatory_roles();
    let mut all: Vec<RoleEdge> = data.edges.clone();
    for role in cx.available_roles() {
        if !data.roles_of(&own).any(|e| e.role == role) {
            all.push(RoleEdge {
                role,
                grantee: own.clone(),
                admin: false,
            });
        }
    }
    let mut from = cx.available_roles();
    from.push(own.clone());
    let reached = data.closure(&from);
    let defaults = data.default_roles_of(&own);
    let shown = all
        .iter()
        .filter(|e| reached.contains(&e.grantee) && includes(e));
    let row = |e: &RoleEdge| {
        vec![
            text(&own.user),
            text(&own.host),
            text(&e.grantee.user),
            text(&e.grantee.host),
            text(&e.role.user),
            text(&e.role.host),
            yes_or_no(e.admin),
            yes_or_no(e.grantee == own && defaults.contains(&e.role)),
            yes_or_no(mandatory.contains(&e.role)),
        ]
    };
    shown.map(row).collect()
}

/// Rows of APPLICABLE_ROLES.
pub(super) fn applicable(cx: &StatementContext) -> Vec<Vec<Value>> {
    edges(cx, |_| true)
}

/// Rows of ADMINISTRABLE_ROLE_AUTHORIZATIONS.
pub(super) fn administrable(cx: &StatementContext) -> Vec<Vec<Value>> {
    edges(cx, |e| e.admin)
}

/// Rows of ENABLED_ROLES.
pub(super) fn enabled(cx: &StatementContext) -> Vec<Vec<Value>> {
    let data = cx.server.access.data();
    let own = AuthId::parse(&cx.client.account);
    let defaults = data.default_roles_of(&own);
    let mandatory = cx.mandatory_roles();
    let row = |id: AuthId| {
        let (is_default, is_mandatory) = (defaults.contains(&id), mandatory.contains(&id));
        vec![
            text(id.user),
            text(id.host),
            yes_or_no(is_default),
            yes_or_no(is_mandatory),
        ]
    };
    let active = data.closure(&cx.active_roles());
    active.into_iter().map(row).collect()
}

/// Rows of USER_ATTRIBUTES: the session's own account, or all if it may administer them.
pub(super) fn attributes(cx: &StatementContext) -> Vec<Vec<Value>> {
    let rights = cx.rights();
    let all = rights.global().intersects(Privileges::CREATE_USER)
        || rights
            .on_database("mysql")
            .intersects(Privileges::SELECT.with(Privileges::UPDATE));
    let data = cx.server.access.data();
    let own = |a: &&porpoise_access::Account| all || a.name() == cx.client.account;
    let row = |a: &porpoise_access::Account| {
        let metadata = text_or_null(a.attributes.metadata.as_deref());
        vec![text(&a.user), text(&a.host), metadata]
    };
    data.accounts.iter().filter(own).map(row).collect()
}
