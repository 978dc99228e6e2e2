//! Temporary tables: tables of one session.
//!
//! A session with temporary tables plans its statements on its own catalog: the shared one, in
//! which the temporary tables replace tables and views of the same names. Neither other sessions
//! nor information_schema see them.
//!
//! Invariants:
//! 1. The overlay has the version of the catalog from which it was built; plans made before a
//!    temporary table was created or dropped are discarded.
//! 2. CREATE and DROP do not commit; ALTER TABLE, CREATE INDEX and DROP INDEX do (manual,
//!    "Statements That Cause an Implicit Commit"). A table that a transaction may still use is
//!    dropped when no transaction is open.

use super::create::Variables;
use super::plan_cache::PlanCache;
use super::{Outcome, SqlSession};
use crate::definition::{self, Naming};
use porpoise_rows::catalog::Table;
use porpoise_rows::ddl::{AlterOp, TableSpec};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{DropTables, Statement, TableName};
use porpoise_types::CastCx;
use std::sync::Arc;

impl SqlSession {
    /// Executes statements on temporary tables, without a commit; `None` for other statements.
    pub(super) fn define_temporary(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        variables: &Variables<'_>,
    ) -> Result<Option<Outcome>> {
        let named = |session: &SqlSession, name: &TableName<'_>| {
            let found = session.cx.qualified(name).ok();
            found.filter(|(d, n)| session.cx.temporary.table(d, n).is_some())
        };
        match statement {
            Statement::CreateTable(create) if create.temporary => {
                self.check_no_branch_for_temporary()?;
                if create.like.is_some() {
                    return self.create_like(create).map(Some);
                }
                if let Some(query) = create.query {
                    return self.create_select(create, query, text, variables).map(Some);
                }
                let (database, _) = self.cx.qualified(&create.name)?;
                let naming = Naming::of(&self.cx, &database)?;
                let mut spec = definition::table(&self.cx, &naming, create)?;
                definition::generated_key::add(&self.cx, &mut spec)?;
                self.add_temporary(&spec)?;
                Ok(Some(Outcome::default()))
            }
            Statement::DropTable(drop) => self.drop_temporary(drop),
            Statement::Truncate(name) => {
                let Some((database, name)) = named(self, name) else {
                    return Ok(None);
                };
                self.check_no_branch_for_temporary()?;
                self.truncate_temporary(&database, &name)?;
                Ok(Some(Outcome::default()))
            }
            _ => Ok(None),
        }
    }

    /// CREATE TEMPORARY TABLE. Returns false if the table exists (IF NOT EXISTS).
    pub(super) fn add_temporary(&mut self, spec: &TableSpec) -> Result<bool> {
        self.drop_pending_temporary();
        if self
            .cx
            .temporary
            .table(&spec.database, &spec.name)
            .is_some()
        {
            if !spec.if_not_exists {
                let text = format!("Table '{}' already exists", spec.name);
                return Err(SqlError::new(1050, "42S01", text));
            }
            self.cx
                .note(1050, format!("Table '{}' already exists", spec.name));
            return Ok(false);
        }
        let db = self.cx.server.db.clone();
        let table = db.create_temporary(&self.ddl_cx(), spec)?;
        let key = (spec.database.clone(), spec.name.clone());
        self.cx.temporary.tables.insert(key, table);
        self.tracker.state();
        self.forget_plans();
        Ok(true)
    }

    /// ALTER TABLE of a temporary table. Returns the number of rows copied. No transaction may be
    /// open.
    pub(super) fn alter_temporary(
        &mut self,
        table: &Arc<Table>,
        ops: &[AlterOp],
        cast: &mut CastCx<'_>,
    ) -> Result<u64> {
        for op in ops {
            if let AlterOp::RenameTo(database, name) = op
                && self.cx.temporary.table(database, name).is_some()
            {
                let text = format!("Table '{name}' already exists");
                return Err(SqlError::new(1050, "42S01", text));
            }
        }
        let db = self.cx.server.db.clone();
        let (altered, rows) = db.alter_temporary(&self.ddl_cx(), table, ops, cast)?;
        let old = (table.database.clone(), table.name.clone());
        self.cx.temporary.tables.remove(&old);
        let key = (altered.database.clone(), altered.name.clone());
        self.cx.temporary.tables.insert(key, altered);
        self.forget_plans();
        Ok(rows)
    }

    /// Removes the temporary table of this name. Returns false if there is none.
    pub(super) fn remove_temporary(&mut self, database: &str, name: &str) -> bool {
        let key = (database.to_owned(), name.to_owned());
        let Some(table) = self.cx.temporary.tables.remove(&key) else {
            return false;
        };
        self.cx.temporary.pending_drops.push(table);
        self.tracker.state();
        self.forget_plans();
        self.drop_pending_temporary();
        true
    }

    /// TRUNCATE of a temporary table. Returns false if there is none.
    pub(super) fn truncate_temporary(&mut self, database: &str, name: &str) -> Result<bool> {
        let Some(table) = self.cx.temporary.table(database, name).cloned() else {
            return Ok(false);
        };
        let fresh = self.cx.server.db.renew_temporary(&table)?;
        let key = (database.to_owned(), name.to_owned());
        self.cx.temporary.tables.insert(key, fresh);
        self.cx.temporary.pending_drops.push(table);
        self.forget_plans();
        self.drop_pending_temporary();
        Ok(true)
    }

    /// Executes DROP TABLE if all names are temporary tables, or the statement says TEMPORARY; `None`
    /// for other statements.
    pub(super) fn drop_temporary(&mut self, drop: &DropTables<'_>) -> Result<Option<Outcome>> {
        let names = drop.names.iter().map(|n| self.cx.qualified(n));
        let names: Vec<(String, String)> = names.collect::<Result<_>>()?;
        let is_missing = |(d, n): &&(String, String)| self.cx.temporary.table(d, n).is_none();
        let missing = names.iter().filter(is_missing);
        let missing: Vec<String> = missing.map(|(d, n)| format!("{d}.{n}")).collect();
        if !missing.is_empty() {
            if !drop.temporary {
                return Ok(None);
            }
            if !drop.if_exists {
                let text = format!("Unknown table '{}'", missing.join(","));
                return Err(SqlError::new(1051, "42S02", text));
            }
        }
        if names.len() > missing.len() {
            self.check_no_branch_for_temporary()?;
        }
        for (database, name) in &names {
            self.remove_temporary(database, name);
        }
        for name in missing {
            self.cx.note(1051, format!("Unknown table '{name}'"));
        }
        Ok(Some(Outcome::default()))
    }

    /// Drops all temporary tables when the session ends or is reset.
    pub(super) fn drop_all_temporary(&mut self) {
        let tables = std::mem::take(&mut self.cx.temporary.tables);
        self.cx.temporary.pending_drops.extend(tables.into_values());
        self.forget_plans();
        self.drop_pending_temporary();
    }

    fn drop_pending_temporary(&mut self) {
        if self.open.is_none() {
            for table in std::mem::take(&mut self.cx.temporary.pending_drops) {
                self.cx.server.db.drop_temporary(&table);
            }
        }
    }

    fn forget_plans(&mut self) {
        self.cx.temporary.overlay.replace(None);
        self.plans = PlanCache::default();
        self.forget_prepared_plans();
    }
}
