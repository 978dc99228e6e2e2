//! Planning a statement, and what every execution of its plan asks for.

use super::query::plan_query;
use super::select::PlanCx;
use super::sinks::Plan;
use super::uses::TableUse;
use super::{dml, insert, load, multi};
use crate::bind::literal::DateTextLiteral;
use crate::error::Result;
use crate::parse::ast::{DeleteTarget, Statement};
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::metadata_lock::Access;
use std::sync::Arc;

/// Plans a statement that reads or changes rows; `None` for others, and for SELECT ... INTO,
/// which is run by a statement of its own.
///
/// # Errors
/// The errors of binding, and of clauses that do not go together.
pub fn plan_statement(statement: &Statement<'_>, cx: &PlanCx<'_>) -> Result<Option<Plan>> {
    Ok(Some(match statement {
        Statement::Query(query) if query.into.is_none() => Plan::Select(plan_query(query, cx)?),
        Statement::Insert(insert) => Plan::Insert(insert::plan_insert(insert, cx)?),
        Statement::LoadData(load) => Plan::Insert(load::plan_load(load, cx)?),
        Statement::Update(update) if dml::of_one_table(update, cx) => {
            Plan::Change(dml::plan_update(update, cx)?)
        }
        Statement::Update(update) => Plan::Change(multi::plan_update(update, cx)?),
        Statement::Delete(delete) => Plan::Change(match &delete.target {
            DeleteTarget::One(source) => dml::plan_delete(delete, source, cx)?,
            DeleteTarget::Many { targets, tables } => {
                multi::plan_delete(delete, targets, tables, cx)?
            }
        }),
        _ => return Ok(None),
    }))
}

/// A plan, with properties that every execution needs, computed once.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Its stored tables, and whether it writes to them.
    pub tables: Vec<(Arc<Table>, bool)>,
    /// Tables that it publishes as used, and how.
    pub used_tables: Vec<(TableId, Access)>,
    /// Whether it reads more than whole unique keys of stored tables.
    pub scans_ranges: bool,
    /// Whether it reads stored rows without locking them.
    pub reads_unlocked: bool,
    /// Whether it may run stored programs: it calls functions, or writes rows whose triggers, or those
    /// of rows that foreign key actions change, fire.
    pub runs_programs: bool,
    /// Whether it writes to a table with table expressions.
    pub writes_expressions: bool,
    /// Literals that are compared with dates.
    pub date_literals: Vec<DateTextLiteral>,
    /// Uses of tables and columns, including those inside views, for the check of privileges.
    pub uses: Box<[TableUse]>,
}

impl Planned {
    /// Computes the properties of a plan.
    pub fn new(plan: Plan, uses: Box<[TableUse]>) -> Planned {
        let tables = plan.tables();
        let mut used_tables: Vec<(TableId, Access)> = Vec::with_capacity(8);
        for (table, writes) in &tables {
            if *writes {
                used_tables.extend(table.write_set.iter().map(|id| (*id, Access::Write)))
            } else {
                used_tables.push((table.id, Access::Read))
            }
        }
        Planned {
            scans_ranges: !tables.is_empty() && plan.scans_ranges(),
            reads_unlocked: plan.reads_unlocked(),
            writes_expressions: tables.iter().any(|(t, w)| *w && t.has_expressions()),
            runs_programs: false,
            date_literals: Vec::new(),
            used_tables,
            tables,
            uses,
            plan,
        }
    }
}
