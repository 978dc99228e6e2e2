//! CHARACTER_SETS, COLLATIONS, ENGINES and PROCESSLIST, with the same rows as SHOW, and
//! CLUSTER_SERVERS.

use crate::context::StatementContext;
use crate::results::table::{text, text_or_null};
use crate::show::server as shown;
use porpoise_access::Privileges;
use porpoise_rows::cluster::ServerState;
use porpoise_types::{Collation, DateTime, Value};

/// Rows of CHARACTER_SETS.
pub(super) fn character_sets() -> Vec<Vec<Value>> {
    let shown = shown::charsets().into_rows().into_iter();
    let swapped = shown.map(|mut row| {
        // SHOW has the description before the default collation.
        row.swap(1, 2);
        row
    });
    swapped.collect()
}

/// Rows of COLLATIONS.
pub(super) fn collations() -> Vec<Vec<Value>> {
    shown::collations().into_rows()
}

/// Rows of COLLATION_CHARACTER_SET_APPLICABILITY.
pub(super) fn applicability() -> Vec<Vec<Value>> {
    Collation::all()
        .map(|c| vec![text(c.name()), text(c.charset().name())])
        .collect()
}

/// Rows of ENGINES.
pub(super) fn engines(cx: &StatementContext) -> Vec<Vec<Value>> {
    shown::engines(cx).into_rows()
}

/// Rows of PROCESSLIST; without PROCESS only those of the same user.
pub(super) fn processes(cx: &StatementContext) -> Vec<Vec<Value>> {
    let server = &cx.server;
    let now = server.db().clock().now();
    let all = cx.rights().global().has(Privileges::PROCESS);
    let row = |process: &std::sync::Arc<crate::processes::Process>| {
        let state = process.state(now);
        let stage = match state.command {
            "Sleep" => String::new(),
            _ => process.stage(),
        };
        vec![
            Value::UInt(process.id),
            text(&process.user),
            text(&process.host),
            text_or_null(process.database()),
            text(state.command),
            Value::Int(i64::try_from(state.seconds).unwrap_or(i64::MAX)),
            text(stage),
            text_or_null(state.info),
        ]
    };
    let list = server.sessions();
    let seen = list.iter().filter(|p| all || p.user == cx.client.user);
    seen.map(row).collect()
}

/// Rows of CLUSTER_SERVERS: the servers with a lease. None on an engine that one server uses.
pub(super) fn cluster(cx: &StatementContext) -> Vec<Vec<Value>> {
    let view = match cx.server.db.cluster_view() {
        Ok(Some(view)) => view,
        Ok(None) => return Vec::new(),
        Err(error) => {
            let text = format!("The servers of the cluster could not be read: {error}");
            cx.warn(error.code(), text);
            return Vec::new();
        }
    };
    let row = |server: &ServerState| {
        let started = DateTime::from_unix_micros(server.started).and_then(|at| at.round(0, true));
        let left = server.lease_end.saturating_sub(view.now);
        vec![
            Value::UInt(server.id),
            text(&server.address),
            text(&server.program),
            started.map_or(Value::Null, Value::DateTime),
            text(if server.id == view.own { "YES" } else { "NO" }),
            text(if server.is_active {
                "active"
            } else {
                "loading"
            }),
            Value::Double(left as f64 / 1000.0),
            Value::UInt(server.loaded),
            Value::UInt(server.drained),
        ]
    };
    view.servers.iter().map(row).collect()
}
