//! SHOW CREATE PROCEDURE and FUNCTION, SHOW PROCEDURE and FUNCTION STATUS, and the rows of
//! information_schema.ROUTINES and PARAMETERS share what an account may see of a routine.

use crate::context::StatementContext;
use crate::results::table::{Rows, long_column, text, text_column, typed_column};
use porpoise_access::{AuthId, Privileges};
use porpoise_rows::catalog::{Routine, RoutineAccess, RoutineKind};
use porpoise_rows::show::{literal, quote};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{ProgramKind, TableName};
use porpoise_types::{ColumnType, DateTime, SqlMode, Value};
use std::sync::Arc;

/// Kind of routine that SHOW names.
fn kind_of(kind: ProgramKind) -> RoutineKind {
    match kind {
        ProgramKind::Function => RoutineKind::Function,
        _ => RoutineKind::Procedure,
    }
}

/// The routines that the account may see: its own, and those on which it has a privilege.
pub(crate) fn visible(cx: &StatementContext) -> Vec<Arc<Routine>> {
    let rights = cx.rights();
    let some = Privileges::EXECUTE
        .with(Privileges::ALTER_ROUTINE)
        .with(Privileges::CREATE_ROUTINE);
    let catalog = cx.server.db.catalog();
    let seen = catalog.routines.values().filter(|r| {
        let place = crate::privileges::grant::place_of(r);
        r.definer == cx.client.account || rights.on_table(&r.database, &place).intersects(some)
    });
    seen.cloned().collect()
}

/// Whether the account may read a routine's definition.
pub(crate) fn shows_body(cx: &StatementContext, routine: &Routine) -> bool {
    let global = cx.rights().global();
    routine.definer == cx.client.account
        || global.has(Privileges::SHOW_ROUTINE)
        || cx.rights().everywhere().has(Privileges::SELECT)
}

/// The statement that creates a routine, as SHOW CREATE shows it.
pub(crate) fn create_text(routine: &Routine) -> String {
    let AuthId { user, host } = AuthId::parse(&routine.definer);
    let mut shown = format!(
        "CREATE DEFINER={}@{} {} {}({})",
        quote(&user),
        quote(&host),
        routine.kind.name(),
        quote(&routine.name),
        routine.parameters
    );
    if routine.kind == RoutineKind::Function {
        shown += &format!(" RETURNS {}", routine.returns);
    }
    shown.push('\n');
    let clauses = [
        (routine.access != RoutineAccess::ContainsSql).then(|| routine.access.name().to_owned()),
        routine.deterministic.then(|| "DETERMINISTIC".to_owned()),
        routine.invoker.then(|| "SQL SECURITY INVOKER".to_owned()),
        (!routine.comment.is_empty()).then(|| format!("COMMENT {}", literal(&routine.comment))),
    ];
    for clause in clauses.into_iter().flatten() {
        shown += &format!("    {clause}\n");
    }
    shown += &routine.body;
    shown
}

/// SHOW CREATE PROCEDURE, SHOW CREATE FUNCTION.
pub fn create_routine(
    cx: &StatementContext,
    kind: ProgramKind,
    name: &TableName<'_>,
) -> Result<Rows> {
    let (database, name) = cx.qualified(name)?;
    let (kind, catalog) = (kind_of(kind), cx.server.db.catalog());
    let found = catalog.routine(&database, kind, &name);
    let seen = found.filter(|found| visible(cx).iter().any(|r| Arc::ptr_eq(r, found)));
    let routine = seen.ok_or_else(|| {
        let text = format!("{} {name} does not exist", kind.name());
        SqlError::new(1305, "42000", text)
    })?;
    let (title, create) = match kind {
        RoutineKind::Function => ("Function", "Create Function"),
        RoutineKind::Procedure => ("Procedure", "Create Procedure"),
    };
    let mut rows = Rows::new(vec![
        text_column(title, 64),
        text_column("sql_mode", 256),
        long_column(create),
        text_column("character_set_client", 32),
        text_column("collation_connection", 32),
        text_column("Database Collation", 32),
    ]);
    let body = shows_body(cx, routine).then(|| create_text(routine));
    rows.push(vec![
        text(&routine.name),
        text(SqlMode::from_bits(routine.sql_mode).to_string()),
        body.map_or(Value::Null, text),
        text(&routine.charset),
        text(&routine.collation),
        text(&routine.database_collation),
    ]);
    Ok(rows)
}

/// A time of the catalog in the session's time zone.
pub(crate) fn moment(cx: &StatementContext, micros: i64) -> Value {
    let at = DateTime::from_unix_micros(micros).and_then(|m| m.round(0, true));
    at.map_or(Value::Null, |at| {
        Value::DateTime(cx.env.time_zone.utc_to_local(at))
    })
}

/// SHOW PROCEDURE STATUS, SHOW FUNCTION STATUS.
pub fn routine_status(cx: &StatementContext, kind: ProgramKind) -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Db", 64),
        text_column("Name", 64),
        text_column("Type", 9),
        text_column("Language", 64),
        text_column("Definer", 288),
        typed_column("Modified", ColumnType::datetime(0)),
        typed_column("Created", ColumnType::datetime(0)),
        text_column("Security_type", 7),
        long_column("Comment"),
        text_column("character_set_client", 64),
        text_column("collation_connection", 64),
        text_column("Database Collation", 64),
    ]);
    for routine in visible(cx) {
        if routine.kind != kind_of(kind) {
            continue;
        }
        rows.push(vec![
            text(&routine.database),
            text(&routine.name),
            text(routine.kind.name()),
            text("SQL"),
            text(&routine.definer),
            moment(cx, routine.modified),
            moment(cx, routine.created),
            text(if routine.invoker {
                "INVOKER"
            } else {
                "DEFINER"
            }),
            text(&routine.comment),
            text(&routine.charset),
            text(&routine.collation),
            text(&routine.database_collation),
        ]);
    }
    rows
}
