//! Physical plans: a query as a tree of operators.
//!
//! The planner chooses the tree; the executor runs it, EXPLAIN prints it, and
//! neither looks for a better shape. There are four kinds of operators, by what
//! their rows are made of:
//!
//! - A [`RowOperator`] yields joined rows: one slot for each table of the
//!   query, of which those not joined yet are empty. Scans, joins, aggregation,
//!   HAVING and window functions are of this kind. The row of a group has its
//!   first row's columns in the slots, and the results of aggregates beside
//!   them; window functions add their results after those.
//! - A [`ResultOperator`] yields rows of the result: it evaluates the select list
//!   ([`QueryPlan::items`]) for every joined row and sends, keeps, sorts or
//!   counts what comes out.
//! - A [`TableOperator`](super::derived::TableOperator) yields rows that a scan reads like
//!   those of a table: materialization, set operations, recursion (`derived.rs`).
//! - A sink, [`Plan`](super::sinks::Plan), stands at the top: the client, or what a statement
//!   changes (`sinks.rs`).
//!
//! `SELECT c.name, COUNT(*) FROM customer c JOIN orders o ON o.customer = c.id
//! WHERE c.city = 'Bonn' GROUP BY c.name HAVING COUNT(*) > 2 ORDER BY 2 LIMIT 10`:
//!
//! ```text
//!  Limit 10                                        results: values of the select list
//!    TopN  count(0)
//!  ------------------------------------------------------------------------------
//!      Filter  count(0) > 2                        joined rows: slots [c, o]
//!        Aggregate (hash)  c.name
//!          Join (inner, index lookup)
//!            Scan c  IndexLookup city = 'Bonn'         the driving scan
//!            Scan o  IndexLookup customer = c.id       keys of a whole batch at once
//! ```
//!
//! A join's left input is again a tree, its right one a table ([`Join`]), or a
//! tree of its own for the right side of an outer join of several tables
//! ([`NestedJoin`]):
//!
//! ```text
//!  a LEFT JOIN (b JOIN c ON b.x = c.x) ON b.a = a.id
//!
//!  NestedJoin (left)
//!    Scan a
//!    Join (inner, hash)
//!      Join (inner, index lookup)
//!        BatchInput                 the batch of rows of `a` that is extended
//!        Scan b
//!      Scan c
//! ```
//!
//! Rows flow from the leftmost scan, the driving scan, upwards in batches
//! (`exec`). The table operator of a scan is behind [`crate::bind::Origin::Derived`].
//!
//! Invariants:
//! 1. A plan owns everything it needs and can be executed any number of times
//!    with other parameters; nothing in it changes after planning.
//! 2. A condition stands once: in a [`RowOperator::OneTimeFilter`] if it is about no table,
//!    else at the first operator above which all its tables are joined.
//! 3. An access path only narrows. Conditions are checked on the rows, except
//!    those that a scan lists as implied by its path.
//! 4. Operators that finish a query early, or never read its rows
//!    ([`PointLookup`], [`AggregateMethod::CountRows`],
//!    [`AggregateMethod::MinMaxByIndex`], [`RowOperator::FusedScan`]), are chosen
//!    by rules (`rules.rs`) and have no fallback at run time, except that a derived table is
//!    materialized where its query would run for each row of another.
//! 5. A [`TopNPerGroup`] only narrows, too: it may pass on rows beyond its limit.
//!
//! Rejected: one enum for all kinds (a sort below a join would be a plan that no
//! executor runs), and a separate logical plan for joins (the search for the join
//! order works on the bound FROM clause, see `join_order.rs`).

use super::ResultColumn;
use super::derived::operator_of;
use super::finish::BoundQuery;
use super::scan::{LockSpec, Scan, ScanMode};
use crate::bind::aggregate::AggregateKind;
use crate::bind::window::{FrameBound, Window as BoundWindow, WindowCall, WindowFunction};
use crate::bind::{Aggregate as AggregateCall, OrderKey, Origin, Source};
use crate::error::SqlError;
use crate::expr::query::{Subquery, SubqueryPlan};
use crate::expr::{Expr, ExprKind};
use porpoise_rows::catalog::Table;
use porpoise_types::{CompareAs, Kind};
use std::sync::Arc;

/// A planned query without set operations.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// The tables; the position is the slot.
    pub sources: Vec<Source>,
    /// The select list.
    pub items: Vec<Expr>,
    /// Number of hidden items at the end of the select list; DISTINCT does not compare them.
    pub hidden_items: usize,
    /// Metadata of the items.
    pub columns: Vec<ResultColumn>,
    /// The operators.
    pub root: ResultOperator,
    /// Whether MySQL would merge the query into an outer one: it has no DISTINCT, LIMIT or groups.
    pub is_mergeable: bool,
    /// Whether the order of the rows below the root matters: an ORDER BY was left out because they
    /// have its order, the query is nested, or its expressions are not deterministic. False only for
    /// joins and groups.
    pub needs_order: bool,
    /// Whether expressions of this query contain subqueries.
    pub has_subqueries: bool,
    /// Whether they contain searches of FULLTEXT indexes.
    pub has_searches: bool,
    /// Stored tables that nested queries read; only for the outermost query.
    pub nested_tables: Vec<Arc<Table>>,
    /// Whether a nested query locks rows; only for the outermost query.
    pub has_nested_locks: bool,
    /// The query as it was bound, for rules of the enclosing query; only of a nested SELECT.
    pub(super) bound: Option<Arc<BoundQuery>>,
}

/// An operator whose rows are values of the select list.
#[derive(Clone, Debug)]
pub enum ResultOperator {
    /// Rows by whole keys of a unique index, encoded in place.
    PointLookup(Box<PointLookup>),
    /// Each row is sent as soon as it is found.
    Project(RowOperator),
    /// Rows of a statement that may restart are buffered and sent at the end.
    Collect(RowOperator),
    /// Distinct rows are buffered and sent at the end.
    Distinct(Distinct),
    /// Rows are buffered and sorted.
    Sort(Box<Sort>),
    /// A sort that keeps only the first rows.
    TopN(Box<Sort>),
    /// LIMIT and OFFSET.
    Limit(Box<Limit>),
    /// SQL_CALC_FOUND_ROWS: all rows are computed and counted; LIMIT and OFFSET only select those
    /// that are sent.
    CountFoundRows(Box<Limit>),
}

/// Rows of one table by whole keys, with no operator between them and the result.
#[derive(Clone, Debug)]
pub struct PointLookup {
    /// Conditions that read no table.
    pub constant_conditions: Vec<Expr>,
    /// The table; its access is [`super::scan::Access::PointLookup`].
    pub scan: Scan,
}

/// DISTINCT without ORDER BY.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// The method by which equal rows are found.
    pub method: DistinctMethod,
    /// The rows.
    pub input: RowOperator,
}

/// Method by which DISTINCT finds rows that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctMethod {
    /// By a hash table.
    Hash,
    /// Equal rows are consecutive: each row is compared with the one before.
    Adjacent,
}

/// ORDER BY, with a DISTINCT that precedes it.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The keys.
    pub keys: Vec<OrderKey>,
    /// DISTINCT.
    pub distinct: Option<DistinctMethod>,
    /// The rows.
    pub input: RowOperator,
}

/// LIMIT and OFFSET.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Maximum number of rows sent.
    pub count: Option<Expr>,
    /// Number of rows skipped.
    pub offset: Option<Expr>,
    /// The rows.
    pub input: ResultOperator,
}

/// An operator whose rows have a slot for each table.
#[derive(Clone, Debug)]
pub enum RowOperator {
    /// One row without tables: `SELECT 1`.
    SingleRow,
    /// The batch that a [`NestedJoin`] extends: the leftmost leaf of its right side.
    BatchInput,
    /// The rows of one table, copied in batches.
    Scan(Box<Scan>),
    /// The rows of one table, filtered and consumed in place, without a copy; those of a derived table as
    /// its query computes them. Expressions above are deterministic and contain no subquery, and nothing
    /// is sent to a client meanwhile.
    FusedScan(Box<Scan>),
    /// A join with one table.
    Join(Box<Join>),
    /// An outer join whose right side is a join.
    NestedJoin(Box<NestedJoin>),
    /// Conditions that read no table: unless they are true there are no rows, and nothing is read.
    OneTimeFilter(Box<Filter>),
    /// HAVING.
    Filter(Box<Filter>),
    /// GROUP BY and aggregates.
    Aggregate(Box<Aggregate>),
    /// The first rows of each partition of a window.
    TopNPerGroup(Box<TopNPerGroup>),
    /// Window functions.
    Window(Box<Window>),
}

/// A join of the rows so far with one table.
#[derive(Clone, Debug)]
pub struct Join {
    /// The kind of join.
    pub kind: JoinKind,
    /// The method by which matching rows are found.
    pub method: JoinMethod,
    /// The rows so far.
    pub left: RowOperator,
    /// The table.
    pub right: Scan,
    /// Conditions that decide about matches.
    pub on: Vec<Expr>,
    /// Conditions checked on the rows of an outer join, after matching.
    pub filter: Vec<Expr>,
}

/// Kinds of joins, by the rows that they yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Every pair that matches.
    Inner,
    /// Every pair that matches, and rows of the left side without a match.
    Left,
    /// Rows of the left side that have a match: EXISTS, IN.
    Semi,
    /// Rows of the left side that have none: NOT EXISTS, NOT IN.
    Anti,
}

/// Method by which a join finds the rows of its right side.
#[derive(Clone, Debug)]
pub enum JoinMethod {
    /// Nested loop with batched key access: the index keys of a whole batch are
    /// looked up in one call.
    IndexLookup,
    /// Hash join: the right side is read once into a hash table by these equalities.
    Hash(Vec<HashKey>),
    /// Nested loop over the right side, which is read once and materialized.
    Materialized,
    /// Nested loop over a LATERAL derived table, which is computed for each left row.
    Lateral,
}

/// An equality between the rows so far and a row of the build side.
#[derive(Clone, Debug)]
pub struct HashKey {
    /// The probe side: an expression over the tables joined before.
    pub probe: Expr,
    /// The build side: an expression over its row.
    pub build: Expr,
    /// The comparison of the two.
    pub compare_as: CompareAs,
}

/// A left join whose right side is a join of several tables.
#[derive(Clone, Debug)]
pub struct NestedJoin {
    /// The rows so far.
    pub left: RowOperator,
    /// The right side; its leftmost leaf is [`RowOperator::BatchInput`].
    pub right: RowOperator,
    /// Conditions on the joined rows.
    pub filter: Vec<Expr>,
}

/// Conditions that rows pass.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Conditions, all of which must be true.
    pub conditions: Vec<Expr>,
    /// The rows.
    pub input: RowOperator,
}

/// GROUP BY and aggregates.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The method by which groups and results are computed.
    pub method: AggregateMethod,
    /// The keys; without any there is exactly one group, even if there are no rows.
    pub group_by: Vec<Expr>,
    /// WITH ROLLUP: the values of the keys and of GROUPING() follow those of the aggregates.
    pub rollup: bool,
    /// The aggregates of select list, HAVING and ORDER BY.
    pub calls: Vec<AggregateCall>,
    /// Columns that expressions above read of a group's first row.
    pub first_row_columns: Vec<(usize, usize)>,
    /// The rows.
    pub input: RowOperator,
}

/// Method by which groups and the results of aggregates are computed.
#[derive(Clone, Debug)]
pub enum AggregateMethod {
    /// Hash aggregate: groups are found in a hash table.
    Hash,
    /// Stream aggregate: the rows of a group are consecutive.
    Stream,
    /// COUNT(*) of a scan that counts entries and reads none.
    CountRows,
    /// MIN and MAX, each by a query of one row through an index that has its order.
    MinMaxByIndex(Vec<QueryPlan>),
}

/// Drops rows whose rank in their partition is beyond a limit, before a window sorts them. A filter
/// above the window decides: rows beyond the limit may stay if memory is short.
#[derive(Clone, Debug)]
pub struct TopNPerGroup {
    /// The rank that is limited.
    pub ranking: Ranking,
    /// The limit: an expression that reads no row.
    pub limit: Expr,
    /// Whether rows whose rank equals the limit are wanted.
    pub inclusive: bool,
    /// PARTITION BY.
    pub partition: Vec<OrderKey>,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// Columns that the window and expressions above it read of a row.
    pub carried: Vec<(usize, usize)>,
    /// Number of results of the aggregation below.
    pub aggregates: usize,
    /// The rows.
    pub input: RowOperator,
}

/// Window functions that number the rows of a partition in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// ROW_NUMBER().
    RowNumber,
    /// RANK().
    Rank,
    /// DENSE_RANK().
    DenseRank,
}

/// Window functions: rows are sorted once for each pass, and each window of the pass adds the
/// results of its calls, partition by partition.
#[derive(Clone, Debug)]
pub struct Window {
    /// The sorts, in the order of execution.
    pub passes: Vec<WindowPass>,
    /// Columns that expressions above read of a row.
    pub carried: Vec<(usize, usize)>,
    /// Number of results of the aggregation below, which precede those of window functions.
    pub aggregates: usize,
    /// The rows.
    pub input: RowOperator,
}

/// Windows that one sort serves.
#[derive(Clone, Debug)]
pub struct WindowPass {
    /// The sort keys; none where the order of the input will do.
    pub sort: Vec<OrderKey>,
    /// Whether the input has the order of the sort keys, so that it is not sorted.
    pub is_presorted: bool,
    /// The windows: partition and order of each are the leading sort keys.
    pub windows: Vec<WindowCalls>,
}

/// A window, with the functions that are computed over it.
#[derive(Clone, Debug)]
pub struct WindowCalls {
    /// The window.
    pub window: BoundWindow,
    /// The functions, in the order of their results.
    pub calls: Vec<WindowCall>,
}

impl Window {
    /// Whether the operator passes no row on before it has all rows.
    pub(super) fn keeps_input(&self) -> bool {
        let buffers_all = |over: &WindowCalls| !over.streams() && over.window.partition.is_empty();
        self.passes
            .first()
            .is_some_and(|pass| pass.is_sorted() || pass.windows.first().is_some_and(buffers_all))
    }
}

impl WindowPass {
    /// Whether the input is sorted.
    pub fn is_sorted(&self) -> bool {
        !self.sort.is_empty() && !self.is_presorted
    }
}

impl Aggregate {
    /// Whether results depend on the order of the rows: those of functions that collect values, and
    /// the last bits of sums of doubles.
    pub fn depends_on_order(&self) -> bool {
        self.calls.iter().any(|call| match call.kind {
            AggregateKind::Sum | AggregateKind::Avg => call.ty.kind == Kind::Double,
            AggregateKind::Deviation { .. }
            | AggregateKind::Concat
            | AggregateKind::JsonArray
            | AggregateKind::JsonObject => true,
            _ => false,
        })
    }
}

impl WindowCalls {
    /// Whether each row's results depend only on the rows before it: no partition is buffered.
    pub fn streams(&self) -> bool {
        let frame = &self.window.frame;
        let running = !frame.range
            && matches!(frame.start, FrameBound::Unbounded)
            && matches!(frame.end, FrameBound::Current);
        self.calls.iter().all(|call| match call.function {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => true,
            WindowFunction::Aggregate(_) => running,
            _ => false,
        })
    }
}

impl QueryPlan {
    /// A query of these operators, of which nothing else is known.
    pub(super) fn new(sources: Vec<Source>, items: Vec<Expr>, root: ResultOperator) -> QueryPlan {
        QueryPlan {
            sources,
            items,
            hidden_items: 0,
            columns: Vec::new(),
            root,
            is_mergeable: false,
            needs_order: true,
            has_subqueries: false,
            has_searches: false,
            nested_tables: Vec::new(),
            has_nested_locks: false,
            bound: None,
        }
    }

    /// The plan of `SELECT value`.
    pub fn of_value(value: Expr) -> QueryPlan {
        let has_subqueries = value.has_subquery();
        let root = ResultOperator::Project(RowOperator::SingleRow);
        QueryPlan {
            has_subqueries,
            ..QueryPlan::new(Vec::new(), vec![value], root)
        }
    }

    /// The row operators below the result operators; `None` for a point lookup.
    pub fn rows(&self) -> Option<&RowOperator> {
        self.root.input()
    }

    /// Adds a LIMIT unless there is one.
    pub fn limit_to(&mut self, count: Expr) {
        match &mut self.root {
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => {
                limit.count.get_or_insert(count);
            }
            _ => self.root.replace_with(|input| {
                let (count, offset) = (Some(count), None);
                ResultOperator::with_limit(count, offset, input)
            }),
        }
    }

    /// Makes the query compute and count all rows (SQL_CALC_FOUND_ROWS); a sort keeps all of them.
    pub(super) fn count_found_rows(&mut self) {
        self.root.replace_with(|root| match root {
            ResultOperator::Limit(mut limit) => {
                limit.input.replace_with(|input| match input {
                    ResultOperator::TopN(sort) => ResultOperator::Sort(sort),
                    input => input,
                });
                ResultOperator::CountFoundRows(limit)
            }
            input => ResultOperator::CountFoundRows(Box::new(Limit {
                count: None,
                offset: None,
                input,
            })),
        });
    }

    /// Whether there is a GROUP BY or an aggregate.
    pub fn aggregates(&self) -> bool {
        self.rows().is_some_and(|rows| rows.aggregate().is_some())
    }

    pub(super) fn aggregate_mut(&mut self) -> Option<&mut Aggregate> {
        self.root.input_mut()?.aggregate_mut()
    }

    /// The window functions.
    pub fn window(&self) -> Option<&Window> {
        match self.rows() {
            Some(RowOperator::Window(window)) => Some(window),
            _ => None,
        }
    }

    /// The only table of a query without groups, with the conditions that read no table.
    pub fn single_scan(&self) -> Option<(&Scan, &[Expr])> {
        match self.root.below_limit() {
            ResultOperator::PointLookup(lookup) => {
                Some((&lookup.scan, &lookup.constant_conditions))
            }
            root => match root.input()? {
                RowOperator::OneTimeFilter(filter) => {
                    Some((filter.input.as_scan()?, &filter.conditions))
                }
                rows => Some((rows.as_scan()?, &[])),
            },
        }
    }

    /// Visits the tables in the order of the join, each with the join that adds it.
    pub fn each_table<'p>(&'p self, visit: &mut dyn FnMut(&'p Scan, Option<&'p Join>)) {
        match self.root.below_limit() {
            ResultOperator::PointLookup(lookup) => visit(&lookup.scan, None),
            root => {
                if let Some(rows) = root.input() {
                    rows.each_table(visit);
                }
            }
        }
    }

    /// Visits the scans in join order.
    pub fn scans<'p>(&'p self, visit: &mut dyn FnMut(&'p Scan)) {
        self.each_table(&mut |scan, _| visit(scan));
    }

    /// As [`QueryPlan::scans`], mutably.
    pub(super) fn scans_mut(&mut self, visit: &mut dyn FnMut(&mut Scan, &[Expr])) {
        match self.root.below_limit_mut() {
            ResultOperator::PointLookup(lookup) => visit(&mut lookup.scan, &[]),
            root => {
                if let Some(rows) = root.input_mut() {
                    rows.scans_mut(visit);
                }
            }
        }
    }

    /// Whether any scan satisfies the predicate.
    pub fn any_scan(&self, is: impl Fn(&Scan) -> bool) -> bool {
        let mut any = false;
        self.scans(&mut |scan| any |= is(scan));
        any
    }

    /// Whether rows are locked.
    pub fn locks(&self) -> bool {
        self.has_nested_locks || self.any_scan(|scan| scan.lock().is_some())
    }

    /// The stored tables that the query reads, each marked as not written.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let stored = self.sources.iter().filter_map(Source::table);
        let all = stored.chain(&self.nested_tables);
        all.map(|t| (t.clone(), false)).collect()
    }

    /// Whether it reads more than rows by whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        !self.nested_tables.is_empty() || self.any_scan(|scan| !scan.is_point_lookup())
    }

    /// Whether it reads stored rows without locking them.
    pub fn reads_unlocked(&self) -> bool {
        let stored = |slot: usize| self.sources.get(slot).is_some_and(|s| s.table().is_some());
        let unlocked = |scan: &Scan| scan.lock().is_none() && stored(scan.slot);
        !self.nested_tables.is_empty() || self.any_scan(unlocked)
    }

    /// Visits the expressions of this query, without those of nested queries.
    pub fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        // In the order of the text, by which EXPLAIN numbers subqueries.
        self.items.iter().for_each(&mut *visit);
        if let Some(rows) = self.rows() {
            rows.expressions(visit);
        }
        self.root.expressions(visit);
    }

    /// Records whether its expressions hold subqueries.
    pub(super) fn find_subqueries(&mut self) {
        let (mut found, mut searches) = (false, false);
        self.expressions(&mut |e| {
            found |= e.has_subquery();
            e.walk(&mut |e| searches |= matches!(e.kind, ExprKind::TextMatch(_)));
        });
        (self.has_subqueries, self.has_searches) = (found, searches);
    }

    /// Whether the result is deterministic.
    pub fn is_fixed(&self) -> bool {
        let mut fixed = true;
        self.expressions(&mut |e| fixed &= e.is_fixed());
        fixed
            && self.sources.iter().all(|s| match &s.origin {
                Origin::Derived(derived) => operator_of(derived).is_fixed(),
                _ => true,
            })
    }
}

impl ResultOperator {
    /// Adds LIMIT and OFFSET to an operator; a sort below becomes a top-N sort.
    pub(super) fn with_limit(
        count: Option<Expr>,
        offset: Option<Expr>,
        input: ResultOperator,
    ) -> ResultOperator {
        let input = match input {
            ResultOperator::Sort(sort) if count.is_some() => ResultOperator::TopN(sort),
            input => input,
        };
        let limit = Limit {
            count,
            offset,
            input,
        };
        ResultOperator::Limit(Box::new(limit))
    }

    /// The operator below LIMIT.
    pub fn below_limit(&self) -> &ResultOperator {
        match self {
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => {
                limit.input.below_limit()
            }
            other => other,
        }
    }

    pub(super) fn below_limit_mut(&mut self) -> &mut ResultOperator {
        match self {
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => {
                limit.input.below_limit_mut()
            }
            other => other,
        }
    }

    /// LIMIT.
    pub fn limit(&self) -> Option<&Limit> {
        match self {
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => Some(limit),
            _ => None,
        }
    }

    /// ORDER BY.
    pub fn order(&self) -> &[OrderKey] {
        match self.below_limit() {
            ResultOperator::Sort(sort) | ResultOperator::TopN(sort) => &sort.keys,
            _ => &[],
        }
    }

    /// DISTINCT.
    pub fn distinct(&self) -> Option<DistinctMethod> {
        match self.below_limit() {
            ResultOperator::Sort(sort) | ResultOperator::TopN(sort) => sort.distinct,
            ResultOperator::Distinct(distinct) => Some(distinct.method),
            _ => None,
        }
    }

    /// The row operators; `None` for a point lookup.
    pub(super) fn input(&self) -> Option<&RowOperator> {
        match self {
            ResultOperator::PointLookup(_) => None,
            ResultOperator::Project(input) | ResultOperator::Collect(input) => Some(input),
            ResultOperator::Distinct(distinct) => Some(&distinct.input),
            ResultOperator::Sort(sort) | ResultOperator::TopN(sort) => Some(&sort.input),
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => {
                limit.input.input()
            }
        }
    }

    pub(super) fn input_mut(&mut self) -> Option<&mut RowOperator> {
        match self {
            ResultOperator::PointLookup(_) => None,
            ResultOperator::Project(input) | ResultOperator::Collect(input) => Some(input),
            ResultOperator::Distinct(distinct) => Some(&mut distinct.input),
            ResultOperator::Sort(sort) | ResultOperator::TopN(sort) => Some(&mut sort.input),
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => {
                limit.input.input_mut()
            }
        }
    }

    /// Replaces the operator by one that is built from it.
    pub(super) fn replace_with(&mut self, make: impl FnOnce(ResultOperator) -> ResultOperator) {
        let input = std::mem::replace(self, ResultOperator::Project(RowOperator::SingleRow));
        *self = make(input);
    }

    /// Visits the expressions of the result operators.
    fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        if let ResultOperator::PointLookup(lookup) = self.below_limit() {
            lookup.constant_conditions.iter().for_each(&mut *visit);
            lookup.scan.expressions(visit);
        }
        self.order().iter().for_each(|key| visit(&key.expr));
        if let Some(limit) = self.limit() {
            limit.count.iter().chain(&limit.offset).for_each(visit);
        }
    }
}

impl RowOperator {
    /// Adds the conditions that read no table, if there are any.
    pub(super) fn with_one_time_filter(self, conditions: Vec<Expr>) -> RowOperator {
        if conditions.is_empty() {
            return self;
        }
        RowOperator::OneTimeFilter(Box::new(Filter {
            conditions,
            input: self,
        }))
    }

    /// The scan, if the operator is a plain scan.
    pub fn as_scan(&self) -> Option<&Scan> {
        match self {
            RowOperator::Scan(scan) | RowOperator::FusedScan(scan) => Some(scan),
            _ => None,
        }
    }

    /// The operator below the conditions that read no table.
    pub(super) fn below_one_time_filter(&self) -> &RowOperator {
        match self {
            RowOperator::OneTimeFilter(filter) => &filter.input,
            other => other,
        }
    }

    pub(super) fn below_one_time_filter_mut(&mut self) -> &mut RowOperator {
        match self {
            RowOperator::OneTimeFilter(filter) => &mut filter.input,
            other => other,
        }
    }

    /// The scan below operators of one input, if there is no join.
    pub(super) fn only_scan(&self) -> Option<&Scan> {
        match self {
            RowOperator::Scan(scan) => Some(scan),
            RowOperator::OneTimeFilter(filter) | RowOperator::Filter(filter) => {
                filter.input.only_scan()
            }
            RowOperator::Aggregate(aggregate) => aggregate.input.only_scan(),
            RowOperator::Window(window) => window.input.only_scan(),
            _ => None,
        }
    }

    /// As [`RowOperator::only_scan`], mutably.
    pub(super) fn only_scan_mut(&mut self) -> Option<&mut Scan> {
        match self {
            RowOperator::Scan(scan) => Some(scan),
            RowOperator::OneTimeFilter(filter) | RowOperator::Filter(filter) => {
                filter.input.only_scan_mut()
            }
            RowOperator::Aggregate(aggregate) => aggregate.input.only_scan_mut(),
            RowOperator::Window(window) => window.input.only_scan_mut(),
            _ => None,
        }
    }

    /// The aggregation in the tree, if there is one.
    pub fn aggregate(&self) -> Option<&Aggregate> {
        match self {
            RowOperator::Aggregate(aggregate) => Some(aggregate),
            RowOperator::Filter(filter) => filter.input.aggregate(),
            RowOperator::TopNPerGroup(top) => top.input.aggregate(),
            RowOperator::Window(window) => window.input.aggregate(),
            _ => None,
        }
    }

    pub(super) fn aggregate_mut(&mut self) -> Option<&mut Aggregate> {
        match self {
            RowOperator::Aggregate(aggregate) => Some(aggregate),
            RowOperator::Filter(filter) => filter.input.aggregate_mut(),
            RowOperator::TopNPerGroup(top) => top.input.aggregate_mut(),
            RowOperator::Window(window) => window.input.aggregate_mut(),
            _ => None,
        }
    }

    /// Slots that the tree fills beyond those of [`RowOperator::BatchInput`], as a bit set.
    pub(super) fn slots(&self) -> u64 {
        let mut slots = 0;
        self.each_table(&mut |scan, _| slots |= scan.slot_bit());
        slots
    }

    /// Visits the tables in the order of the join, each with the join that adds it.
    fn each_table<'p>(&'p self, visit: &mut dyn FnMut(&'p Scan, Option<&'p Join>)) {
        match self {
            RowOperator::SingleRow | RowOperator::BatchInput => {}
            RowOperator::Scan(scan) | RowOperator::FusedScan(scan) => visit(scan, None),
            RowOperator::Join(join) => {
                join.left.each_table(visit);
                visit(&join.right, Some(join));
            }
            RowOperator::NestedJoin(join) => {
                join.left.each_table(visit);
                join.right.each_table(visit);
            }
            RowOperator::OneTimeFilter(filter) | RowOperator::Filter(filter) => {
                filter.input.each_table(visit);
            }
            RowOperator::Aggregate(aggregate) => aggregate.input.each_table(visit),
            RowOperator::TopNPerGroup(top) => top.input.each_table(visit),
            RowOperator::Window(window) => window.input.each_table(visit),
        }
    }

    /// As [`RowOperator::each_table`], with mutable scans and the conditions that decide about
    /// matches of each scan's rows.
    fn scans_mut(&mut self, visit: &mut dyn FnMut(&mut Scan, &[Expr])) {
        match self {
            RowOperator::SingleRow | RowOperator::BatchInput => {}
            RowOperator::Scan(scan) | RowOperator::FusedScan(scan) => visit(scan, &[]),
            RowOperator::Join(join) => {
                join.left.scans_mut(visit);
                visit(&mut join.right, &join.on);
            }
            RowOperator::NestedJoin(join) => {
                join.left.scans_mut(visit);
                join.right.scans_mut(visit);
            }
            RowOperator::OneTimeFilter(filter) | RowOperator::Filter(filter) => {
                filter.input.scans_mut(visit);
            }
            RowOperator::Aggregate(aggregate) => aggregate.input.scans_mut(visit),
            RowOperator::TopNPerGroup(top) => top.input.scans_mut(visit),
            RowOperator::Window(window) => window.input.scans_mut(visit),
        }
    }

    /// Sets the locks of scans, by slot.
    pub(super) fn lock(&mut self, specs: &[Option<LockSpec>]) {
        self.scans_mut(&mut |scan, _| {
            if let Some(Some(spec)) = specs.get(scan.slot) {
                scan.mode = ScanMode::Locked(*spec);
            }
        });
    }

    /// Visits the expressions of the operators in the tree.
    fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        match self {
            RowOperator::SingleRow | RowOperator::BatchInput => {}
            RowOperator::Scan(scan) | RowOperator::FusedScan(scan) => scan.expressions(visit),
            RowOperator::Join(join) => {
                join.left.expressions(visit);
                join.on.iter().chain(&join.filter).for_each(&mut *visit);
                join.right.expressions(visit);
            }
            RowOperator::NestedJoin(join) => {
                join.left.expressions(visit);
                join.filter.iter().for_each(&mut *visit);
                join.right.expressions(visit);
            }
            RowOperator::OneTimeFilter(filter) | RowOperator::Filter(filter) => {
                filter.input.expressions(visit);
                filter.conditions.iter().for_each(visit);
            }
            RowOperator::Aggregate(aggregate) => {
                aggregate.input.expressions(visit);
                for call in &aggregate.calls {
                    call.args.iter().for_each(&mut *visit);
                    call.order.iter().for_each(|key| visit(&key.expr));
                }
                aggregate.group_by.iter().for_each(visit);
            }
            RowOperator::TopNPerGroup(top) => {
                top.input.expressions(visit);
                let keys = top.partition.iter().chain(&top.order);
                keys.for_each(|key| visit(&key.expr));
                visit(&top.limit);
            }
            RowOperator::Window(window) => {
                window.input.expressions(visit);
                window.expressions(visit);
            }
        }
    }
}

impl Window {
    /// Visits the expressions that are evaluated for each row.
    pub(super) fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        for pass in &self.passes {
            pass.sort.iter().for_each(|key| visit(&key.expr));
            let calls = pass.windows.iter().flat_map(|window| &window.calls);
            calls.for_each(|call| call.function.args().for_each(&mut *visit));
        }
    }
}

impl Join {
    /// The equalities of a hash join.
    pub fn hash_keys(&self) -> &[HashKey] {
        match &self.method {
            JoinMethod::Hash(keys) => keys,
            _ => &[],
        }
    }
}

impl SubqueryPlan for QueryPlan {
    fn items(&self) -> &[Expr] {
        &self.items
    }
}

/// The plan of a subquery in an expression.
///
/// # Errors
/// An internal error for a plan of another planner.
pub fn plan_of(query: &Subquery) -> Result<&QueryPlan, SqlError> {
    let plan = query.plan_as::<QueryPlan>();
    plan.ok_or_else(|| SqlError::internal("a subquery without a plan"))
}
