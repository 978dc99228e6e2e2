//! The plan of a statement, with what every execution of it asks for.

use super::dml::{DeletePlan, InsertPlan, UpdatePlan};
use super::multi::MultiPlan;
use super::uses::TableUse;
use super::{QueryPlan, ResultColumn};
use porpoise_rows::catalog::{Table, TableId};
use std::sync::Arc;

/// The plan of a statement.
#[derive(Clone, Debug)]
pub enum Plan {
    /// SELECT.
    Select(QueryPlan),
    /// INSERT and REPLACE.
    Insert(InsertPlan),
    /// UPDATE.
    Update(UpdatePlan),
    /// DELETE.
    Delete(DeletePlan),
    /// UPDATE or DELETE over several tables.
    Multi(MultiPlan),
}

impl Plan {
    /// Its stored tables, and whether it writes to them.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        match self {
            Plan::Select(p) => p.tables(),
            Plan::Insert(p) => p.tables(),
            Plan::Update(p) => p.tables(),
            Plan::Delete(p) => p.tables(),
            Plan::Multi(p) => p.tables(),
        }
    }

    /// Whether it looks at more than whole unique keys.
    fn scans_ranges(&self) -> bool {
        match self {
            Plan::Select(p) => p.scans_ranges(),
            Plan::Insert(p) => p.scans_ranges(),
            Plan::Update(p) => p.scans_ranges(),
            Plan::Delete(p) => p.scans_ranges(),
            Plan::Multi(_) => true,
        }
    }

    /// Whether it changes rows.
    pub fn writes(&self) -> bool {
        !matches!(self, Plan::Select(_))
    }

    /// Whether it reads stored rows without locking them.
    fn reads_unlocked(&self) -> bool {
        match self {
            Plan::Select(p) => p.reads_unlocked(),
            Plan::Insert(p) => p.reads_unlocked(),
            Plan::Update(p) => !p.inner_tables.is_empty(),
            Plan::Delete(p) => !p.inner_tables.is_empty(),
            Plan::Multi(p) => p.select.reads_unlocked(),
        }
    }

    /// The columns of its result.
    pub fn columns(&self) -> &[ResultColumn] {
        match self {
            Plan::Select(p) => &p.columns,
            _ => &[],
        }
    }
}

/// A plan with what every execution asks for, computed once.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Its stored tables, and whether it writes to them.
    pub tables: Vec<(Arc<Table>, bool)>,
    /// Tables that it publishes as used.
    pub used: Vec<TableId>,
    /// Whether it reads more than whole unique keys of stored tables.
    pub scans: bool,
    /// Whether it reads stored rows without locking them.
    pub unlocked: bool,
    /// Whether it writes to a table whose definition holds expressions.
    pub expressions: bool,
    /// Uses of tables and columns, those inside views included, for privileges.
    pub uses: Box<[TableUse]>,
}

impl Planned {
    /// Computes what executions ask for.
    pub fn new(plan: Plan, uses: Box<[TableUse]>) -> Planned {
        let tables = plan.tables();
        let mut used: Vec<TableId> = Vec::with_capacity(8);
        for (table, writes) in &tables {
            match writes {
                true => used.extend(table.write_set.iter().copied()),
                false => used.push(table.id),
            }
        }
        Planned {
            scans: !tables.is_empty() && plan.scans_ranges(),
            unlocked: plan.reads_unlocked(),
            expressions: tables.iter().any(|(t, w)| *w && t.has_expressions()),
            used,
            tables,
            uses,
            plan,
        }
    }
}
