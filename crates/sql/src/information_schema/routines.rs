//! ROUTINES and PARAMETERS.

use super::columns::type_description;
use crate::context::StatementContext;
use crate::programs::program::Program;
use crate::results::table::text;
use crate::show::routines::{moment, shows_body, visible};
use porpoise_rows::catalog::{Routine, RoutineKind};
use porpoise_sql_parser::ast::ParameterMode;
use porpoise_types::{ColumnType, SqlMode, Value};

/// DATA_TYPE up to DTD_IDENTIFIER; a procedure has no type.
fn of_type(ty: Option<&ColumnType>) -> Vec<Value> {
    match ty {
        Some(ty) => type_description(ty),
        None => {
            let mut row = vec![text("")];
            row.extend(std::iter::repeat_n(Value::Null, 8));
            row
        }
    }
}

/// The compiled form of a routine; `None` if its definition is not accepted any more.
fn compiled(cx: &StatementContext, routine: &Routine) -> Option<Program> {
    cx.compile_routine(routine).ok()
}

/// Rows of ROUTINES.
pub(super) fn rows(cx: &StatementContext) -> Vec<Vec<Value>> {
    let row = |routine: &Routine| {
        let program = compiled(cx, routine);
        let returns = program.as_ref().and_then(|p| p.returns.as_ref());
        let mut row = vec![
            text(&routine.name),
            text("def"),
            text(&routine.database),
            text(&routine.name),
            text(routine.kind.name()),
        ];
        row.extend(of_type(returns));
        let body = shows_body(cx, routine).then(|| text(&routine.body));
        row.extend([
            text("SQL"),
            body.unwrap_or(Value::Null),
            Value::Null,
            text("SQL"),
            text("SQL"),
            text(if routine.deterministic { "YES" } else { "NO" }),
            text(routine.access.name()),
            Value::Null,
            text(if routine.invoker {
                "INVOKER"
            } else {
                "DEFINER"
            }),
            moment(cx, routine.created),
            moment(cx, routine.modified),
            text(SqlMode::from_bits(routine.sql_mode).to_string()),
            text(&routine.comment),
            text(&routine.definer),
            text(&routine.charset),
            text(&routine.collation),
            text(&routine.database_collation),
        ]);
        row
    };
    visible(cx).iter().map(|r| row(r)).collect()
}

/// Rows of PARAMETERS. The result of a function has the position 0.
pub(super) fn parameters(cx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for routine in visible(cx) {
        let Some(program) = compiled(cx, &routine) else {
            continue;
        };
        let mut add = |at: u64, mode: Value, name: Value, ty: &ColumnType| {
            let mut row = vec![
                text("def"),
                text(&routine.database),
                text(&routine.name),
                Value::UInt(at),
                mode,
                name,
            ];
            row.extend(type_description(ty));
            row.push(text(routine.kind.name()));
            rows.push(row);
        };
        if let Some(returns) = program.returns.as_ref()
            && routine.kind == RoutineKind::Function
        {
            add(0, Value::Null, Value::Null, returns);
        }
        let all = program.parameters.iter().zip(&program.variables);
        for (at, (mode, (name, ty))) in (1u64..).zip(all) {
            let mode = match mode {
                ParameterMode::In => "IN",
                ParameterMode::Out => "OUT",
                ParameterMode::InOut => "INOUT",
            };
            add(at, text(mode), text(name), ty);
        }
    }
    rows
}
