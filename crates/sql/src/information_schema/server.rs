//! CHARACTER_SETS, COLLATIONS, ENGINES and PROCESSLIST, with the same rows as SHOW.

use crate::context::StatementContext;
use crate::results::table::{text, text_or_null};
use crate::show::server as shown;
use porpoise_access::Privileges;
use porpoise_types::{Collation, Value};

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
        let stage = if state.command == "Sleep" {
            ""
        } else {
            "executing"
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
