//! CHARACTER_SETS, COLLATIONS, ENGINES, PROCESSLIST: what SHOW tells, too.

use super::T;
use crate::session::SqlSession;
use crate::show::server as shown;
use crate::show::table::{maybe, text};
use porpoise_access::Privileges;
use porpoise_types::{Collation, Value};

/// Columns of CHARACTER_SETS.
pub(super) const CHARACTER_SETS: &[(&str, T)] = &[
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("DEFAULT_COLLATE_NAME", T::Text(64)),
    ("DESCRIPTION", T::Text(2048)),
    ("MAXLEN", T::Unsigned),
];

/// Columns of COLLATIONS.
pub(super) const COLLATIONS: &[(&str, T)] = &[
    ("COLLATION_NAME", T::Text(64)),
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("ID", T::BigUnsigned),
    ("IS_DEFAULT", T::Text(3)),
    ("IS_COMPILED", T::Text(3)),
    ("SORTLEN", T::Unsigned),
    ("PAD_ATTRIBUTE", T::Text(9)),
];

/// Columns of COLLATION_CHARACTER_SET_APPLICABILITY.
pub(super) const APPLICABILITY: &[(&str, T)] = &[
    ("COLLATION_NAME", T::Text(64)),
    ("CHARACTER_SET_NAME", T::Text(64)),
];

/// Columns of ENGINES.
pub(super) const ENGINES: &[(&str, T)] = &[
    ("ENGINE", T::Text(64)),
    ("SUPPORT", T::Text(8)),
    ("COMMENT", T::Text(80)),
    ("TRANSACTIONS", T::Text(3)),
    ("XA", T::Text(3)),
    ("SAVEPOINTS", T::Text(3)),
];

/// Columns of PROCESSLIST.
pub(super) const PROCESSLIST: &[(&str, T)] = &[
    ("ID", T::BigUnsigned),
    ("USER", T::Text(32)),
    ("HOST", T::Text(261)),
    ("DB", T::Text(64)),
    ("COMMAND", T::Text(16)),
    ("TIME", T::Int),
    ("STATE", T::Text(64)),
    ("INFO", T::Long),
];

/// Rows of CHARACTER_SETS.
pub(super) fn character_sets() -> Vec<Vec<Value>> {
    let shown = shown::charsets().into_rows().into_iter();
    let swapped = shown.map(|mut row| {
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
pub(super) fn engines() -> Vec<Vec<Value>> {
    shown::engines().into_rows()
}

/// Rows of PROCESSLIST: without PROCESS those of the same user.
pub(super) fn processes(session: &SqlSession) -> Vec<Vec<Value>> {
    let server = &session.server;
    let now = server.db().clock().now();
    let all = session.rights().global().has(Privileges::PROCESS);
    let row = |process: &std::sync::Arc<crate::session::processes::Process>| {
        let (command, seconds, info) = process.state(now);
        let state = if command == "Sleep" { "" } else { "executing" };
        vec![
            Value::UInt(process.id),
            text(&process.user),
            text(&process.host),
            maybe(process.database()),
            text(command),
            Value::Int(i64::try_from(seconds).unwrap_or(i64::MAX)),
            text(state),
            maybe(info),
        ]
    };
    let list = server.sessions();
    let seen = list.iter().filter(|p| all || p.user == session.client.user);
    seen.map(row).collect()
}
