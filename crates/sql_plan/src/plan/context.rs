//! The context of planning: catalog, settings, enclosing queries, and resolution of names to
//! tables, views and common table expressions.

use super::derived::{CteEntry, Derived, TableOperator, operator_of};
use super::uses::{Object, Uses};
use super::views::{ViewFrame, ViewMerging};
use crate::bind::literal::DateTextLiteral;
use crate::bind::query::{Enclosing, SubqueryDemand, SubqueryPlanner};
use crate::bind::{BindEnv, Binder, Origin, Scope, Source, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::query::SubqueryPlan;
use crate::parse::ast::{Join, Query, Select, TableName};
use crate::parse::print::{Names, QualifiedName};
use crate::statistics::StatisticsSource;
use crate::virtual_tables;
use porpoise_access::Privileges;
use porpoise_rows::catalog::{Catalog, Table, View};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Everything that planning a query depends on.
pub struct PlanCx<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// Settings and parameter types.
    pub env: &'a BindEnv,
    /// Looks up `@@name`.
    pub system: &'a dyn SystemVariables,
    /// The statement's text, for the names of unnamed result columns.
    pub text: &'a str,
    /// The enclosing queries.
    pub outer: Option<&'a Enclosing<'a>>,
    /// Whether this query is nested in another statement.
    pub is_nested: bool,
    /// Nesting depth.
    pub depth: usize,
    /// Common table expressions of the enclosing WITH clauses.
    pub ctes: &'a [CteEntry],
    /// Tables that nested queries read.
    pub reads: &'a NestedReads,
    /// Statistics of tables.
    pub statistics: &'a dyn StatisticsSource,
    /// The view whose query is being planned.
    pub view: Option<&'a ViewFrame<'a>>,
    /// The views that are merged.
    pub merging: ViewMerging,
}

/// Facts recorded while a statement is planned: tables and locks of its nested queries, uses of tables, date literals, names.
#[derive(Debug, Default)]
pub struct NestedReads {
    /// The stored tables that nested queries read.
    pub tables: RefCell<Vec<Arc<Table>>>,
    /// Whether a nested query locks rows.
    pub has_locks: Cell<bool>,
    /// All tables and views named by the statement and by its views, existing or not.
    pub uses: Uses,
    /// Literals that are compared with dates.
    pub date_literals: RefCell<Vec<DateTextLiteral>>,
    /// Resolved names of the statement, recorded only for the text of a view.
    pub names: RefCell<Option<Names>>,
}

/// Columns of two tables, by slot and position.
type ColumnPair = ((usize, usize), (usize, usize));

impl<'a> PlanCx<'a> {
    /// Creates the context of a top-level statement.
    pub fn new(
        catalog: &'a Catalog,
        env: &'a BindEnv,
        system: &'a dyn SystemVariables,
        text: &'a str,
        reads: &'a NestedReads,
    ) -> PlanCx<'a> {
        PlanCx {
            catalog,
            env,
            system,
            text,
            outer: None,
            is_nested: false,
            depth: 0,
            ctes: &[],
            reads,
            statistics: system,
            view: None,
            merging: ViewMerging::Plain,
        }
    }
}

impl SubqueryPlanner for PlanCx<'_> {
    fn outer(&self) -> Option<&Enclosing<'_>> {
        self.outer
    }

    fn plan_inside(
        &self,
        query: &Query<'_>,
        enclosing: &Enclosing<'_>,
    ) -> Result<(Box<dyn SubqueryPlan>, bool)> {
        let inside = PlanCx {
            outer: Some(enclosing),
            is_nested: true,
            depth: self.depth + 1,
            merging: ViewMerging::Plain,
            ..*self
        };
        let plan = super::select::plan_query(query, &inside)?;
        let fixed = plan.is_fixed();
        Ok((Box::new(plan), fixed))
    }

    fn outer_planner(&self, level: usize) -> Option<Box<dyn SubqueryPlanner + '_>> {
        let around = self.outer?.at(level)?;
        Some(Box::new(PlanCx {
            outer: around.outer,
            depth: self.depth.saturating_sub(level),
            ..*self
        }))
    }

    fn invoker(&self) -> Option<&str> {
        self.view?.definer()
    }

    fn note_read(&self, used: usize, column: usize) {
        self.reads.uses.note(used, column, Privileges::SELECT);
    }

    fn note_function(&self, position: u32, database: &str) {
        self.note_names(|names| {
            names.functions.insert(position, database.to_owned());
        });
    }

    fn note_name(&self, position: u32, scope: &Scope, slot: usize, column: usize) {
        self.note_names(|names| {
            let name = scope.qualified_name(slot, column);
            // Tables of two databases may have one name.
            if let Some(name) = name.filter(|(table, _)| scope.is_unique_name(table)) {
                names.columns.insert(position, name);
            }
        });
    }

    fn note_date_literal(&self, literal: DateTextLiteral) {
        self.reads.date_literals.borrow_mut().push(literal);
    }
}

impl PlanCx<'_> {
    /// Passes the names of the statement to `note`, if they are recorded. Those within views are not.
    pub(super) fn note_names(&self, note: impl FnOnce(&mut Names)) {
        if self.view.is_none()
            && let Some(names) = self.reads.names.borrow_mut().as_mut()
        {
            note(names);
        }
    }

    /// Records the columns that a join equates by their names.
    pub(super) fn note_merged(&self, join: &Join<'_>, scope: &Scope, columns: &[ColumnPair]) {
        self.note_names(|names| {
            let name = |(slot, column)| scope.qualified_name(slot, column);
            let pairs = columns.iter().filter_map(|(l, r)| name(*l).zip(name(*r)));
            let merged: Vec<(QualifiedName, QualifiedName)> = pairs.collect();
            names
                .merged
                .insert(Names::join_position(&join.right), merged);
        });
    }

    /// Records that columns of a table are written.
    pub(super) fn note_writes(
        &self,
        source: &Source,
        columns: impl IntoIterator<Item = usize>,
        wanted: Privileges,
    ) {
        if let Some(at) = source.use_index {
            for column in columns {
                self.reads.uses.note(at, column, wanted);
            }
        }
    }

    /// The part of this query's result that the enclosing query uses.
    pub(super) fn demand(&self) -> SubqueryDemand {
        self.outer
            .map_or(SubqueryDemand::Rows, |outer| outer.demand)
    }

    /// Creates the binder of a clause.
    pub fn binder<'s>(&'s self, scope: &'s Scope, place: &'static str) -> Binder<'s> {
        Binder {
            plan: Some(self),
            ..Binder::new(scope, self.env, place, self.system)
        }
    }

    /// The common table expression with this name, if there is one.
    fn named_query(&self, name: &TableName<'_>) -> Result<Option<Arc<Derived>>> {
        let mut entries = self.ctes.iter().rev();
        let named = entries.find(|c| c.name.eq_ignore_ascii_case(name.name.name));
        let (Some(entry), None) = (named, &name.schema) else {
            return Ok(None);
        };
        let Some(derived) = &entry.derived else {
            return Err(SqlError::new(super::recursive::PENDING, "HY000", "pending"));
        };
        if matches!(operator_of(derived), TableOperator::WorkingTable)
            && self.depth != entry.depth + 1
        {
            let text = format!(
                "In recursive query block of Recursive Common Table Expression '{}', the recursive \
                 table must be referenced only once, and not in any subquery",
                entry.name
            );
            return Err(SqlError::new(3577, "HY000", text));
        }
        if !derived.free.is_empty() && self.depth != entry.depth {
            return Err(SqlError::not_supported(
                "a common table expression that names outer columns, inside a further query",
            ));
        }
        derived.references.add();
        Ok(Some(derived.clone()))
    }

    /// The view of several tables with this name.
    fn join_view_named(&self, name: &TableName<'_>) -> Option<&Arc<View>> {
        let mut entries = self.ctes.iter();
        let is_cte =
            name.schema.is_none() && entries.any(|c| c.name.eq_ignore_ascii_case(name.name.name));
        let database = name.schema.map(|s| s.name);
        let database = database.or(self.env.database.as_deref())?;
        let view = self.catalog.view(database, name.name.name)?;
        (!is_cte && super::views::is_join_view(view, self)).then_some(view)
    }

    /// Whether the name is that of a view of several tables.
    pub(super) fn is_join_view(&self, name: &TableName<'_>) -> bool {
        self.join_view_named(name).is_some()
    }

    /// Passes the SELECT of a view of several tables to `bind`, with the view and its position among the
    /// uses; `None` for any other name, and where views are not merged.
    pub(super) fn join_view<T>(
        &self,
        name: &TableName<'_>,
        bind: impl FnOnce(&View, usize, &Select<'_>, &PlanCx<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if self.merging == ViewMerging::Plain {
            return Ok(None);
        }
        let Some(view) = self.join_view_named(name) else {
            return Ok(None);
        };
        let reads = self.reads.tables.borrow().len();
        let uses = self.reads.uses.len();
        let within = self.view.map(|frame| frame.at());
        let at = self.reads.uses.add(&view.database, &view.name, within);
        let bind = |select: &Select<'_>, within: &PlanCx<'_>| bind(view, at, select, within);
        let bound = super::views::within_join_view(view, at, self, bind)?;
        if bound.is_none() {
            self.reads.tables.borrow_mut().truncate(reads);
            self.reads.uses.truncate(uses);
        }
        Ok(bound)
    }

    /// The stored or virtual table, or the common table expression, with this name.
    pub fn source(&self, name: &TableName<'_>, alias: Option<&str>) -> Result<Source> {
        if let Some(derived) = self.named_query(name)? {
            let alias = alias.unwrap_or(name.name.name).to_owned();
            return Ok(super::query::derived_source(derived, alias));
        }
        let database = match (&name.schema, &self.env.database) {
            (Some(schema), _) => schema.name,
            (None, Some(database)) => database.as_str(),
            (None, None) => return Err(SqlError::no_database_selected()),
        };
        self.note_names(|names| {
            let position = name.name.span.start;
            names.tables.insert(position, database.to_owned());
        });
        let within = self.view.map(|frame| frame.at());
        let at = self.reads.uses.add(database, name.name.name, within);
        if let Some(view) = self.catalog.view(database, name.name.name) {
            return super::views::source(view, alias, at, self);
        }
        if let Some(table) = self.catalog.table(database, name.name.name) {
            if self.is_nested {
                self.reads.tables.borrow_mut().push(table.clone());
            }
            self.reads
                .uses
                .note_object(at, Object::Table(table.clone()));
            return Ok(Source {
                use_index: Some(at),
                ..Source::stored(table.clone(), alias)
            });
        }
        if let Some(table) = virtual_tables::find(database, name.name.name) {
            self.reads.uses.note_object(at, Object::Virtual);
            return Ok(Source {
                alias: alias.unwrap_or(table.name).to_owned(),
                database: table.database.to_owned(),
                origin: Origin::Virtual(table),
                columns: (table.columns)(),
                partitions: None,
                hints: Default::default(),
                view: None,
                use_index: None,
            });
        }
        let known =
            self.catalog.database(database).is_some() || virtual_tables::is_database(database);
        if known {
            Err(SqlError::no_table(database, name.name.name))
        } else {
            Err(SqlError::unknown_database(database))
        }
    }

    /// The stored table (or the updatable view of one) with this name, for statements that change
    /// rows.
    pub fn target_source(
        &self,
        name: &TableName<'_>,
        alias: Option<&str>,
        verb: &str,
    ) -> Result<Source> {
        let within = PlanCx {
            merging: ViewMerging::OneTable,
            ..*self
        };
        let source = within.source(name, alias)?;
        let view = source.view.as_ref();
        let insertable = view.is_none_or(|v| v.is_insertable());
        match &source.origin {
            Origin::Stored(_) if insertable || verb != "INSERT" => Ok(source),
            Origin::Derived(_) | Origin::Stored(_) if verb == "INSERT" => {
                let text = format!(
                    "The target table {} of the INSERT is not insertable-into",
                    name.name.name
                );
                Err(SqlError::new(1471, "HY000", text))
            }
            Origin::Stored(_) => Ok(source),
            Origin::Derived(_) if verb == "DELETE" && self.is_join_view(name) => Err(
                super::dml::join_view_delete(&source.database, name.name.name),
            ),
            Origin::Derived(_) => {
                let text = format!(
                    "The target table {} of the {verb} is not updatable",
                    name.name.name
                );
                Err(SqlError::new(1288, "HY000", text))
            }
            Origin::Virtual(table) => {
                let text = format!(
                    "INSERT, UPDATE, DELETE command denied for table '{}.{}'",
                    table.database, table.name
                );
                Err(SqlError::new(1142, "42000", text))
            }
        }
    }
}
