//! Binding of subqueries in expressions.
//!
//! A subquery is planned in its own scope, linked to the enclosing scopes. A name that it does not
//! resolve itself is looked up outwards, and becomes a node that reads the enclosing row. Every
//! query in between records the reference, because its result depends on it too.
//!
//! An aggregate function belongs to the nearest query whose columns its arguments read, if an
//! aggregate is allowed there; else to a query between that one and its own; else to its own
//! (manual, "Aggregate Function Descriptions"). Inner queries read its result from the row of the
//! outer query's group.

use super::literal::DateTextLiteral;
use super::nodes::{comparison_operator, node};
use super::types::comparison;
use super::window::window_alias;
use super::{Aggregates, Binder, Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::query::{AGGREGATES, FreeRef, QueryTest, Subquery, SubqueryPlan, TestKind};
use crate::expr::{CmpOp, Coercibility, Expr, ExprKind, Load, load_of};
use crate::parse::ast::{self, BinaryOp, ColumnName, Query, QueryBody};
use porpoise_types::ColumnType;
use std::cell::RefCell;
use std::sync::Arc;

/// A query that encloses the one being bound.
#[derive(Debug)]
pub struct Enclosing<'a> {
    /// Its tables.
    pub scope: &'a Scope,
    /// The next enclosing query.
    pub outer: Option<&'a Enclosing<'a>>,
    /// Columns of this query and of those further out that the inner query reads.
    pub free: RefCell<Vec<FreeRef>>,
    /// The query's aggregates, if the inner query is at a place that allows them.
    pub aggregates: RefCell<Option<Aggregates>>,
    /// Whether the inner query is within the arguments of an aggregate of this query.
    pub in_aggregate: bool,
    /// The query's select-list aliases that the inner query may use.
    pub aliases: Aliases<'a>,
    /// The part of the inner query's result that the query uses.
    pub demand: SubqueryDemand,
}

/// The part of a subquery's result that the enclosing query uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubqueryDemand {
    /// The rows in their order.
    #[default]
    Rows,
    /// The rows in any order (IN, ANY, ALL).
    Set,
    /// Only whether there are rows (EXISTS).
    Existence,
}

/// Select-list aliases with their expressions, as subqueries see them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aliases<'a> {
    /// Names and expressions.
    pub list: &'a [(String, Expr)],
    /// Whether the subquery is in the select list itself.
    pub is_select_list: bool,
    /// Whether the subquery is in GROUP BY, where aliases of aggregates are refused.
    pub is_group_by: bool,
    /// Aliases that the subquery cannot use, because they are defined after it.
    pub later: &'a [&'a str],
}

impl<'a> Enclosing<'a> {
    /// Creates the enclosing query with these tables, itself inside `outer`.
    pub fn new(scope: &'a Scope, outer: Option<&'a Enclosing<'a>>) -> Enclosing<'a> {
        Enclosing {
            scope,
            outer,
            free: RefCell::new(Vec::new()),
            aggregates: RefCell::new(None),
            in_aggregate: false,
            aliases: Aliases::default(),
            demand: SubqueryDemand::Rows,
        }
    }

    /// The enclosing query `level` levels out, 1 being this one.
    pub fn at(&self, level: usize) -> Option<&Enclosing<'a>> {
        match level {
            0 => None,
            1 => Some(self),
            more => self.outer.and_then(|up| up.at(more - 1)),
        }
    }

    /// Number of references recorded, here and at each level further out.
    pub(super) fn reference_counts(&self) -> Vec<usize> {
        let mut counts = vec![self.free.borrow().len()];
        if let Some(up) = self.outer {
            counts.extend(up.reference_counts());
        }
        counts
    }

    /// Drops the references recorded since [`Enclosing::reference_counts`] returned `counts`.
    pub(super) fn truncate_references(&self, counts: &[usize]) {
        if let Some((count, more)) = counts.split_first() {
            self.free.borrow_mut().truncate(*count);
            if let Some(up) = self.outer {
                up.truncate_references(more);
            }
        }
    }

    /// Records that the inner query reads this column, at every level out to the query that it
    /// belongs to.
    pub(super) fn note_reference(&self, free: FreeRef) {
        let up = (free.level > 1).then(|| FreeRef {
            level: free.level - 1,
            ..free.clone()
        });
        let mut known = self.free.borrow_mut();
        if !known.contains(&free) {
            known.push(free);
        }
        if let (Some(free), Some(enclosing)) = (up, self.outer) {
            enclosing.note_reference(free);
        }
    }
}

/// Records all columns that an expression of the query `level` levels out reads.
fn note_references(e: &Expr, level: usize, nearest: &Enclosing<'_>) {
    let note = |level, slot, column, load, ty: &ColumnType| {
        let ty = ty.clone();
        nearest.note_reference(FreeRef {
            level,
            slot,
            column,
            load,
            ty,
        });
    };
    e.walk(&mut |e| match &e.kind {
        ExprKind::Column { slot, column, load } => note(level, *slot, *column, *load, &e.ty),
        ExprKind::Outer {
            level: further,
            slot,
            column,
            load,
        } => note(level + further, *slot, *column, *load, &e.ty),
        ExprKind::Aggregate(at) => note(level, AGGREGATES, *at, Load::Plain, &e.ty),
        ExprKind::Query(test) => {
            for free in &test.query.free {
                let out = level + free.level - 1;
                note(out, free.slot, free.column, free.load, &free.ty);
            }
        }
        ExprKind::Enclosing(further, e) => note_references(e, level + further, nearest),
        _ => {}
    });
}

/// The planner as binding sees it: the enclosing queries, and planning of subqueries.
pub trait SubqueryPlanner {
    /// The directly enclosing query.
    fn outer(&self) -> Option<&Enclosing<'_>>;

    /// Plans a query inside of `enclosing`. Also returns whether the query is deterministic.
    ///
    /// # Errors
    /// Errors of binding and planning.
    fn plan_inside(
        &self,
        query: &Query<'_>,
        enclosing: &Enclosing<'_>,
    ) -> Result<(Box<dyn SubqueryPlan>, bool)>;

    /// The planner of the query `level` levels out, if there is one.
    fn outer_planner(&self, level: usize) -> Option<Box<dyn SubqueryPlanner + '_>>;

    /// The account with whose rights stored functions are called; `None` for that of the session.
    fn invoker(&self) -> Option<&str>;

    /// Records that a column of a table is read; `used` is the table's position among the uses of
    /// the statement.
    fn note_read(&self, used: usize, column: usize);

    /// Records the database of a stored function that is called at this position of the text.
    fn note_function(&self, position: u32, database: &str);

    /// Records the column of a table that a name at this position of the text refers to.
    fn note_name(&self, position: u32, scope: &Scope, slot: usize, column: usize);

    /// Records a literal that is compared with a date.
    fn note_date_literal(&self, literal: DateTextLiteral);
}

impl Binder<'_> {
    /// The table in a slot of the enclosing query at this level; level 1 is the nearest.
    pub(super) fn enclosing_source(&self, level: usize, slot: usize) -> Option<&Source> {
        let mut enclosing = self.plan.and_then(|planner| planner.outer())?;
        for _ in 1..level {
            enclosing = enclosing.outer?;
        }
        enclosing.scope.sources.get(slot)
    }

    /// Resolves a name that this query does not know in the enclosing queries.
    pub(super) fn outer_column(&self, name: &ColumnName<'_>) -> Result<Option<Expr>> {
        let Some(planner) = self.plan else {
            return Ok(None);
        };
        let Some(nearest) = planner.outer() else {
            return Ok(None);
        };
        let (mut level, mut enclosing) = (1, nearest);
        loop {
            let database = name.schema.map(|i| i.name);
            let table = name.table.map(|i| i.name);
            match enclosing
                .scope
                .resolve(database, table, name.name.name, self.clause)
            {
                Ok((slot, column)) => {
                    self.note(enclosing.scope, slot, column);
                    planner.note_name(name.name.span.start, enclosing.scope, slot, column);
                    if let Some(computed) = enclosing.scope.computed_at(slot, column) {
                        return Ok(Some(as_outer(computed, level, nearest)));
                    }
                    return Ok(enclosing.scope.column(slot, column).map(|found| {
                        let load = if enclosing.scope.is_stored(slot) {
                            load_of(&found.ty)
                        } else {
                            Load::Plain
                        };
                        nearest.note_reference(FreeRef {
                            level,
                            slot,
                            column,
                            load,
                            ty: found.ty.clone(),
                        });
                        Expr {
                            kind: ExprKind::Outer {
                                level,
                                slot,
                                column,
                                load,
                            },
                            ty: found.ty.clone(),
                            nullable: true,
                            coercibility: Coercibility::Implicit,
                        }
                    }));
                }
                Err(error) if error.code == 1052 => return Err(error),
                Err(_) => {}
            }
            if table.is_none()
                && let Some(e) = self.outer_alias(name.name.name, level, enclosing, nearest)?
            {
                return Ok(Some(e));
            }
            let column = name.name.name;
            let mut later = enclosing.aliases.later.iter();
            if table.is_none() && later.any(|alias| alias.eq_ignore_ascii_case(column)) {
                let text =
                    format!("Reference '{column}' not supported (forward reference in item list)");
                return Err(SqlError::new(1247, "42S22", text));
            }
            match enclosing.outer {
                Some(up) => (level, enclosing) = (level + 1, up),
                None => return Ok(None),
            }
        }
    }

    /// The expression of a select-list alias of an enclosing query, as this query reads it.
    fn outer_alias(
        &self,
        name: &str,
        level: usize,
        enclosing: &Enclosing<'_>,
        nearest: &Enclosing<'_>,
    ) -> Result<Option<Expr>> {
        let aliases = enclosing.aliases;
        let mut list = aliases.list.iter();
        let Some((_, e)) = list.find(|(alias, _)| alias.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        if aliases.is_select_list && e.has_window() {
            // Windows are computed after all subqueries of the select list.
            return Err(window_alias(name));
        }
        let value = self.without_window(e.clone(), name)?;
        let mut grouped = value.has_aggregate();
        value.walk(&mut |e| grouped |= matches!(e.kind, ExprKind::Aggregate(_)));
        let value = as_outer(value, level, nearest);
        // Only HAVING is evaluated where the outer query's groups are known.
        if grouped && (aliases.is_group_by || self.clause != "having clause") {
            let text = format!("Reference '{name}' not supported (reference to group function)");
            return Err(SqlError::new(1247, "42S22", text));
        }
        Ok(Some(value))
    }

    /// Plans a subquery in an expression.
    fn subquery(&mut self, query: &Query<'_>, demand: SubqueryDemand) -> Result<Arc<Subquery>> {
        let Some(planner) = self.plan else {
            return Err(SqlError::not_supported("subqueries here"));
        };
        super::check_stack()?;
        let mut enclosing = Enclosing::new(self.scope, planner.outer());
        enclosing.in_aggregate = self.in_aggregate;
        enclosing.demand = demand;
        enclosing.aliases = Aliases {
            list: self.preceding_aliases.unwrap_or(self.aliases),
            is_select_list: self.preceding_aliases.is_some(),
            is_group_by: self.clause == "group statement",
            later: self.later_aliases,
        };
        let lent = self.aggregates.as_deref_mut().map(std::mem::take);
        enclosing.aggregates.replace(lent);
        let planned = planner.plan_inside(query, &enclosing);
        let lent = enclosing.aggregates.take();
        if let (Some(own), Some(lent)) = (self.aggregates.as_deref_mut(), lent) {
            *own = lent;
        }
        let (plan, fixed) = planned?;
        Ok(Arc::new(Subquery {
            plan,
            free: enclosing.free.into_inner(),
            is_deterministic: fixed,
        }))
    }

    /// Binds `(SELECT ...)` as a scalar.
    pub(super) fn scalar(&mut self, query: &Query<'_>) -> Result<Expr> {
        let mut columns = self.columns_of(query)?;
        match (columns.pop(), columns.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err(SqlError::operand_columns(1)),
        }
    }

    /// The columns of a subquery's only row, each as an expression.
    fn columns_of(&mut self, query: &Query<'_>) -> Result<Vec<Expr>> {
        let query = self.subquery(query, SubqueryDemand::Rows)?;
        let column = |(at, item): (usize, &Expr)| {
            let test = QueryTest {
                query: query.clone(),
                kind: match at {
                    0 => TestKind::Scalar,
                    at => TestKind::Column(at),
                },
                left: Vec::new(),
                compare_as: Vec::new(),
            };
            let mut e = node(ExprKind::Query(Box::new(test)), item.ty.clone(), true);
            e.coercibility = item.coercibility;
            e
        };
        Ok(query.items().iter().enumerate().map(column).collect())
    }

    /// Binds EXISTS.
    pub(super) fn exists(&mut self, query: &Query<'_>) -> Result<Expr> {
        let test = QueryTest {
            query: self.subquery(query, SubqueryDemand::Existence)?,
            kind: TestKind::Exists,
            left: Vec::new(),
            compare_as: Vec::new(),
        };
        Ok(Expr::boolean(ExprKind::Query(Box::new(test)), false))
    }

    /// Binds a test of left-hand values against a subquery.
    fn bind_query_test(
        &mut self,
        left: &ast::Expr<'_>,
        query: &Query<'_>,
        kind: TestKind,
        operation: &str,
    ) -> Result<Expr> {
        let outside = self.clause;
        if matches!(kind, TestKind::Any(_) | TestKind::All(_)) {
            self.clause = "IN/ALL/ANY subquery";
        }
        let left = match &left.kind {
            ast::ExprKind::Row(values) => {
                let is_row = |e: &ast::Expr<'_>| matches!(e.kind, ast::ExprKind::Row(_));
                if values.iter().any(is_row) {
                    return Err(SqlError::operand_columns(values.len()));
                }
                self.list(values)
            }
            ast::ExprKind::Subquery(row) => self.columns_of(row),
            _ => self.expr(left).map(|e| vec![e]),
        };
        self.clause = outside;
        let left = left?;
        self.test_against_query(left, query, kind, operation)
    }

    fn test_against_query(
        &mut self,
        left: Vec<Expr>,
        query: &Query<'_>,
        kind: TestKind,
        operation: &str,
    ) -> Result<Expr> {
        let is_set = matches!(kind, TestKind::Any(_) | TestKind::All(_));
        if is_set && has_limit(query) {
            return Err(SqlError::not_supported("LIMIT & IN/ALL/ANY/SOME subquery"));
        }
        let demand = if is_set {
            SubqueryDemand::Set
        } else {
            SubqueryDemand::Rows
        };
        let query = self.subquery(query, demand)?;
        test_of(left, query, kind, operation)
    }

    /// Binds `[NOT] IN (SELECT ...)`.
    pub(super) fn in_query(&mut self, test: &ast::InQuery<'_>) -> Result<Expr> {
        let kind = if test.not {
            TestKind::All(CmpOp::Ne)
        } else {
            TestKind::Any(CmpOp::Eq)
        };
        self.bind_query_test(&test.expr, test.query, kind, "IN")
    }

    /// Binds `op ANY (SELECT ...)` and `op ALL (SELECT ...)`.
    pub(super) fn quantified(&mut self, test: &ast::Quantified<'_>) -> Result<Expr> {
        let op = comparison_operator(test.op).ok_or_else(|| SqlError::operand_columns(1))?;
        if let ast::ExprKind::Row(row) = &test.left.kind
            && !matches!((op, test.all), (CmpOp::Eq, false) | (CmpOp::Ne, true))
        {
            let columns = self
                .subquery(test.query, SubqueryDemand::Set)?
                .items()
                .len();
            let is_alike = columns == row.len();
            return Err(SqlError::operand_columns(if is_alike {
                1
            } else {
                row.len()
            }));
        }
        let kind = if test.all {
            TestKind::All(op)
        } else {
            TestKind::Any(op)
        };
        self.bind_query_test(&test.left, test.query, kind, op.sign())
    }

    /// Binds `(SELECT x, y ...) = (a, b)`.
    pub(super) fn query_against_row(
        &mut self,
        op: BinaryOp,
        query: &Query<'_>,
        row: &ast::Expr<'_>,
    ) -> Result<Expr> {
        let ast::ExprKind::Row(values) = &row.kind else {
            return Err(SqlError::operand_columns(1));
        };
        let op = comparison_operator(flipped(op)).ok_or_else(|| SqlError::operand_columns(1))?;
        let query = self.subquery(query, SubqueryDemand::Rows)?;
        let columns = query.items().len();
        if columns != values.len() {
            return Err(SqlError::operand_columns(columns));
        }
        if values
            .iter()
            .any(|e| matches!(e.kind, ast::ExprKind::Row(_)))
        {
            return Err(SqlError::operand_columns(1));
        }
        let left = self.list(values)?;
        test_of(left, query, TestKind::Row(op), "=")
    }

    /// Binds `(SELECT x ...) = value`. Error 1241 for more columns.
    pub(super) fn query_against_value(
        &mut self,
        op: BinaryOp,
        query: &Query<'_>,
        value: &ast::Expr<'_>,
    ) -> Result<Expr> {
        let mut columns = self.columns_of(query)?;
        let count = columns.len();
        match columns.pop() {
            Some(left) if count == 1 => {
                let right = self.expr(value)?;
                self.operator(op, left, right)
            }
            _ => Err(SqlError::operand_columns(count)),
        }
    }

    /// Binds `(a, b) = (SELECT x, y ...)`.
    pub(super) fn row_against_query(
        &mut self,
        op: BinaryOp,
        row: &ast::Expr<'_>,
        query: &Query<'_>,
    ) -> Result<Expr> {
        let op = comparison_operator(op).ok_or_else(|| SqlError::operand_columns(1))?;
        self.bind_query_test(row, query, TestKind::Row(op), "=")
    }

    /// Binds `(SELECT a, b ...) = (SELECT x, y ...)`, and any operator over two scalars.
    pub(super) fn query_against_query(
        &mut self,
        op: BinaryOp,
        left: &Query<'_>,
        right: &Query<'_>,
    ) -> Result<Expr> {
        let mut columns = self.columns_of(left)?;
        if columns.len() == 1
            && let Some(left) = columns.pop()
        {
            let right = self.scalar(right)?;
            return self.operator(op, left, right);
        }
        let op = comparison_operator(op).ok_or_else(|| SqlError::operand_columns(1))?;
        self.test_against_query(columns, right, TestKind::Row(op), "=")
    }
}

/// A test of left-hand values against a planned subquery.
fn test_of(left: Vec<Expr>, query: Arc<Subquery>, kind: TestKind, operation: &str) -> Result<Expr> {
    if query.items().len() != left.len() {
        return Err(SqlError::operand_columns(left.len()));
    }
    let mut how = Vec::with_capacity(left.len());
    for (a, b) in left.iter().zip(query.items()) {
        how.push(comparison(a, b, operation)?);
    }
    let test = QueryTest {
        query,
        kind,
        left,
        compare_as: how,
    };
    Ok(Expr::boolean(ExprKind::Query(Box::new(test)), true))
}

/// Whether a query, or an operand of its set operations, has a LIMIT.
fn has_limit(query: &Query<'_>) -> bool {
    fn within(body: &QueryBody<'_>) -> bool {
        match body {
            QueryBody::Nested(query) => has_limit(query),
            QueryBody::Set(chain) => {
                within(&chain.first) || chain.rest.iter().any(|term| within(&term.body))
            }
            QueryBody::Select(_) | QueryBody::Table(_) | QueryBody::Values(_) => false,
        }
    }
    query.limit.is_some() || within(&query.body)
}

/// An expression of the query `level` levels out, for a query inside it.
fn as_outer(mut value: Expr, level: usize, nearest: &Enclosing<'_>) -> Expr {
    if value.has_subquery() {
        note_references(&value, level, nearest);
        let (ty, coercibility) = (value.ty.clone(), value.coercibility);
        value = node(ExprKind::Enclosing(level, Box::new(value)), ty, true);
        value.coercibility = coercibility;
    }
    value.rewrite(&mut |e| {
        let (level, slot, column, load) = match e.kind {
            ExprKind::Column { slot, column, load } => (level, slot, column, load),
            ExprKind::Outer {
                level: further,
                slot,
                column,
                load,
            } => (level + further, slot, column, load),
            ExprKind::Aggregate(at) => (level, AGGREGATES, at, Load::Plain),
            _ => return,
        };
        let ty = e.ty.clone();
        nearest.note_reference(FreeRef {
            level,
            slot,
            column,
            load,
            ty,
        });
        e.nullable = true;
        e.kind = ExprKind::Outer {
            level,
            slot,
            column,
            load,
        };
    });
    value
}

/// The operator for exchanged operands.
fn flipped(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessEq => BinaryOp::GreaterEq,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterEq => BinaryOp::LessEq,
        same => same,
    }
}
