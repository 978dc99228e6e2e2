//! CREATE TABLE ... LIKE and CREATE TABLE ... SELECT.

use super::{Outcome, SqlSession};
use crate::definition::{self, Naming, copy};
use crate::results::NullSink;
use porpoise_rows::InsertMode;
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{CreateTable, OnDuplicateRow, Query};
use porpoise_sql_plan::bind::Source;
use porpoise_sql_plan::plan::QueryPlan;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::select::{NestedReads, PlanCx, plan_query};
use porpoise_sql_plan::plan::sinks::{Insert, InsertRows, Plan};
use porpoise_types::{ColumnType, ValueRef};
use std::sync::Arc;

/// The parameters of a prepared statement, or the variables of a program's.
pub(super) struct Variables<'v> {
    /// Their values.
    pub values: &'v [ValueRef<'v>],
    /// Their types.
    pub types: &'v [ColumnType],
}

/// The treatment of duplicate rows by the INSERT of a CREATE TABLE ... SELECT.
fn insert_mode(duplicates: OnDuplicateRow) -> InsertMode {
    match duplicates {
        OnDuplicateRow::Error => InsertMode::Plain,
        OnDuplicateRow::Ignore => InsertMode::Ignore,
        OnDuplicateRow::Replace => InsertMode::Replace,
    }
}

impl SqlSession {
    /// CREATE TABLE ... LIKE.
    pub(super) fn create_like(&mut self, create: &CreateTable<'_>) -> Result<Outcome> {
        let Some(original) = &create.like else {
            return Err(SqlError::internal("no table to be like"));
        };
        let (database, name) = self.cx.qualified(&create.name)?;
        let (other_database, other) = self.cx.qualified(original)?;
        let catalog = self.cx.catalog();
        let table = catalog.table(&other_database, &other);
        let table = table.ok_or_else(|| SqlError::no_table(&other_database, &other))?;
        let spec = copy::like(table, &database, &name, create.if_not_exists);
        definition::generated_key::check_required(&self.cx, !table.hidden_key)?;
        if create.temporary {
            self.add_temporary(&spec)?;
            return Ok(Outcome::default());
        }
        let db = self.cx.server.db.clone();
        let done = db.create_table(&self.ddl_cx(), &spec)?;
        if done.is_note {
            self.cx.note(1050, format!("Table '{name}' already exists"));
        }
        Ok(Outcome {
            position: done.position,
            ..Outcome::default()
        })
    }

    /// CREATE TABLE ... SELECT: the table is filled as by INSERT ... SELECT, and becomes visible
    /// under its name when its rows are committed.
    pub(super) fn create_select(
        &mut self,
        create: &CreateTable<'_>,
        query: &Query<'_>,
        text: &[u8],
        variables: &Variables<'_>,
    ) -> Result<Outcome> {
        let (database, name) = self.cx.qualified(&create.name)?;
        let catalog = self.cx.catalog();
        let (select, _) = self.plan_select(query, text, variables, &catalog)?;
        let without_query = CreateTable {
            query: None,
            ..*create
        };
        let mut spec =
            definition::table(&self.cx, &Naming::of(&self.cx, &database)?, &without_query)?;
        let mut names: Vec<String> = Vec::new();
        let declared = spec.columns.len();
        for mut column in copy::columns_of(&select) {
            names.push(column.name.clone());
            // A column of the primary key is NOT NULL.
            column.nullable = column.nullable.filter(|nullable| !nullable);
            let same =
                |c: &&porpoise_rows::ddl::ColumnSpec| c.name.eq_ignore_ascii_case(&column.name);
            if !spec.columns.iter().take(declared).any(|c| same(&c)) {
                spec.columns.push(column);
            }
        }
        definition::generated_key::add(&self.cx, &mut spec)?;
        let mode = insert_mode(create.duplicates);
        if create.temporary {
            if !self.add_temporary(&spec)? {
                return Ok(Outcome::default());
            }
            let Some(table) = self.cx.temporary.table(&database, &name).cloned() else {
                return Err(SqlError::internal("no temporary table"));
            };
            let filled = self.fill_table(&table, &names, mode, query, text, variables);
            if filled.is_err() {
                self.remove_temporary(&database, &name);
            }
            return filled;
        }
        let db = self.cx.server.db.clone();
        let Some(table) = db.begin_table(&self.ddl_cx(), &spec)? else {
            self.cx.note(1050, format!("Table '{name}' already exists"));
            return Ok(Outcome::default());
        };
        let filled = self
            .fill_table(&table, &names, mode, query, text, variables)
            .and_then(|mut outcome| {
                outcome.position = outcome.position.max(self.commit()?);
                Ok(outcome)
            });
        match filled {
            Ok(mut outcome) => {
                let done = db.name_table(&self.ddl_cx(), &spec, &table)?;
                outcome.position = outcome.position.max(done.position);
                Ok(outcome)
            }
            Err(error) => {
                self.roll_back();
                db.abandon_table(&table);
                Err(error)
            }
        }
    }

    /// Plans the SELECT.
    fn plan_select(
        &self,
        query: &Query<'_>,
        text: &[u8],
        variables: &Variables<'_>,
        catalog: &Catalog,
    ) -> Result<(QueryPlan, NestedReads)> {
        let env = self.cx.bind_env(variables.types.to_vec());
        let reads = NestedReads::default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        let plan = plan_query(query, &PlanCx::new(catalog, &env, &*self.cx, text, &reads));
        let plan = plan.map_err(|e| self.cx.hide_unauthorized(e, &reads.uses.names()))?;
        Ok((plan, reads))
    }

    /// Inserts the rows of the SELECT into the columns `names`.
    fn fill_table(
        &mut self,
        table: &Arc<Table>,
        names: &[String],
        mode: InsertMode,
        query: &Query<'_>,
        text: &[u8],
        variables: &Variables<'_>,
    ) -> Result<Outcome> {
        let planned = self.plan_and_lock(|session, catalog| {
            session.cx.planning.calls_functions.set(false);
            let (source, reads) = session.plan_select(query, text, variables, catalog)?;
            let columns = names.iter().map(|n| {
                let at = table.column(n);
                at.ok_or_else(|| SqlError::unknown_column(n, "field list"))
            });
            let plan = Insert {
                table: table.clone(),
                columns: columns.collect::<Result<Vec<usize>>>()?,
                rows: InsertRows::Query(Box::new(source)),
                mode,
                on_duplicate: Vec::new(),
                select_columns: Vec::new(),
                nested_tables: reads.tables.take(),
                partitions: None,
                check: None,
                target_source: Source::stored(table.clone(), None),
                default_expressions: table.has_default_expressions(),
            };
            let mut planned = Planned::new(Plan::Insert(plan), reads.uses.take());
            planned.runs_programs = session.cx.planning.calls_functions.get();
            Ok(Arc::new(planned))
        })?;
        self.run_plan(&planned, variables.values, &mut NullSink)
    }
}
