//! SELECT ... INTO: the destination of a result that is not sent.

use super::outfile::QueryText;
use super::programs::{Ran, assigned_slot};
use super::{Outcome, SqlSession};
use crate::programs::condition::no_data;
use crate::programs::frame::Frame;
use crate::programs::program::{Program, Source, Target};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::Env;
use porpoise_sql_parser::ast::{Into, IntoVar, Query, Statement};
use porpoise_sql_plan::bind::nodes::variable_name;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{ColumnType, Value, ValueRef};
use std::sync::Arc;

/// The target variables of a query.
///
/// # Errors
/// 1327 for variables of stored programs.
fn variables(list: &[IntoVar<'_>]) -> Result<Vec<Arc<str>>> {
    let name = |v: &IntoVar<'_>| match v {
        IntoVar::User(name) => Ok(variable_name(name)),
        IntoVar::Local { name, .. } => {
            let text = format!("Undeclared variable: {}", name.name);
            Err(SqlError::new(1327, "42000", text))
        }
    };
    list.iter().map(name).collect()
}

/// A sink for a result of a single row.
struct SingleRow {
    names: Vec<Arc<str>>,
    types: Vec<ColumnType>,
    values: Option<Vec<Value>>,
}

impl ResultSink for SingleRow {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if columns.len() != self.names.len() {
            let text = "The used SELECT statements have a different number of columns";
            return Err(SqlError::new(1222, "21000", text));
        }
        self.types = columns.iter().map(|c| c.ty.clone()).collect();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        if self.values.is_some() {
            let text = "Result consisted of more than one row";
            return Err(SqlError::new(1172, "42000", text));
        }
        self.values = Some(values.iter().map(|v| ValueRef::to_owned(*v)).collect());
        Ok(())
    }
}

/// Takes the only row of a query, and converts its values to the types of the variables before the statement ends. If
/// a value does not fit, the statement's changes are undone.
struct OneRow<'a> {
    program: &'a Program,
    targets: &'a [Target],
    types: Vec<ColumnType>,
    row: Option<Vec<Value>>,
    /// Number of values that have been converted. Conversion stops at a value that does not fit, which becomes NULL.
    converted: usize,
    /// Whether the SQL mode is strict.
    in_strict_mode: bool,
}

impl ResultSink for OneRow<'_> {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if self.targets.len() != columns.len() {
            let text = "The used SELECT statements have a different number of columns";
            return Err(SqlError::new(1222, "21000", text));
        }
        self.types = columns.iter().map(|c| c.ty.clone()).collect();
        self.row = None;
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        if self.row.is_some() {
            let text = "Result consisted of more than one row";
            return Err(SqlError::new(1172, "42000", text));
        }
        self.row = Some(values.iter().map(|v| ValueRef::to_owned(*v)).collect());
        Ok(())
    }

    fn is_strict(&self) -> bool {
        let mut targets = self.targets.iter();
        self.in_strict_mode && targets.any(|target| matches!(target, Target::Slot(_)))
    }

    fn complete(&mut self, env: &Env) -> Result<()> {
        let values = self.row.iter_mut().flatten();
        for ((value, target), from) in values.zip(self.targets).zip(&self.types) {
            self.converted += 1;
            if let Target::Slot(slot) = target {
                let to = assigned_slot(self.program, *slot)?;
                let found = std::mem::take(value);
                *value = to.convert(env, found, from)?;
            }
        }
        Ok(())
    }
}

impl SqlSession {
    /// Runs a query whose result goes to variables or to a file.
    pub(super) fn select_into(
        &mut self,
        query: &Query<'_>,
        into: &Into<'_>,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        let without_into = Query {
            into: None,
            ..*query
        };
        let query = QueryText {
            query: &without_into,
            text,
            values,
            types,
        };
        match into {
            Into::Vars(list) => self.select_into_variables(&query, list),
            Into::Outfile {
                path,
                charset,
                format,
            } => self.select_into_outfile(&query, path, *charset, format),
            Into::Dumpfile(path) => self.select_into_dumpfile(&query, path),
        }
    }

    /// Runs a query and assigns its only row to variables; without a row they are unchanged.
    fn select_into_variables(
        &mut self,
        query: &QueryText<'_>,
        list: &[IntoVar<'_>],
    ) -> Result<Outcome> {
        let mut row = SingleRow {
            names: variables(list)?,
            types: Vec::new(),
            values: None,
        };
        let statement = Statement::Query(query.query);
        let mut outcome =
            self.run_statement(&statement, query.text, query.values, query.types, &mut row)?;
        outcome.had_rows = false;
        match row.values {
            Some(found) => {
                for ((name, value), ty) in row.names.into_iter().zip(found).zip(row.types) {
                    self.cx.env.set_user_variable(name, value, ty)?;
                }
                outcome.affected_rows = 1;
            }
            None => self.cx.env.warn(no_data()),
        }
        Ok(outcome)
    }
    /// Executes SELECT ... INTO.
    pub(super) fn select_row(
        &mut self,
        source: &Source,
        targets: &[Target],
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
    ) -> Result<()> {
        let mut one = OneRow {
            program,
            targets,
            types: Vec::new(),
            row: None,
            converted: 0,
            in_strict_mode: self.cx.env.mode.is_strict(),
        };
        let done = self.run_source(source, frame, &mut one);
        let (found, types) = (one.row, one.types);
        let is_empty = found.is_none();
        let row = found.into_iter().flatten().take(one.converted);
        for ((target, value), ty) in targets.iter().zip(row).zip(types) {
            match target {
                Target::Slot(slot) => frame.set(*slot, value, &self.cx.env.memory)?,
                Target::User(name) => {
                    let env = &self.cx.env;
                    env.set_user_variable(name.clone(), value, ty)?;
                }
            }
        }
        ran.position = ran.position.max(done?.position);
        self.cx.env.row_count = i64::from(!is_empty);
        if is_empty {
            self.cx.env.warn(no_data());
        }
        Ok(())
    }
}
