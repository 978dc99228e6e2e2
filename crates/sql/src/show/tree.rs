//! EXPLAIN FORMAT=TREE and EXPLAIN ANALYZE: a plan as a tree of operators.
//!
//! Operators have MySQL's names if MySQL has the same operator; the unit of costs is one row read
//! in primary key order. A line ends with the estimates, and under ANALYZE with measurements: time
//! to the first and to the last row in milliseconds, and rows, as averages for a loop.

use super::expression::{Printer, limit_text};
use porpoise_rows::catalog::{Column, Table};
use porpoise_sql_exec::exec::profile::{Actual, Profile, Role, SpillSize};
use porpoise_sql_expr::expr::query::Subquery;
use porpoise_sql_expr::expr::{Expr, ExprKind};
use porpoise_sql_parser::ast::SetOp;
use porpoise_sql_plan::bind::{Origin, Source};
use porpoise_sql_plan::plan::derived::{SetOperation, TableOperator, operator_of};
use porpoise_sql_plan::plan::physical::{
    Aggregate, AggregateMethod, Join, JoinKind, JoinMethod, Ranking, ResultOperator, RowOperator,
    Sort, TopNPerGroup, Window,
};
use porpoise_sql_plan::plan::scan::{Access, Scan, SearchOrder};
use porpoise_sql_plan::plan::sinks::{Change, ChangeKind, Plan, Targets};
use porpoise_sql_plan::plan::{QueryPlan, plan_of};
use porpoise_types::ValueRef;
use std::fmt::Write as _;
use std::sync::Arc;

/// An operator of the output tree.
struct Node {
    text: String,
    /// Estimated cost and rows.
    expected: Option<(f64, f64)>,
    /// Measurements, under ANALYZE; `Some(None)` if the operator was not executed.
    actual: Option<Option<Actual>>,
    children: Vec<Node>,
}

impl Node {
    fn new(text: impl Into<String>, children: Vec<Node>) -> Node {
        Node {
            text: text.into(),
            expected: None,
            actual: None,
            children,
        }
    }

    fn print(&self, depth: usize, out: &mut String) {
        for _ in 0..depth {
            out.push_str("    ");
        }
        out.push_str("-> ");
        out.push_str(&self.text);
        if let Some((cost, rows)) = self.expected {
            let _ = write!(out, "  (cost={cost:.2} rows={:.0})", rows.max(1.0));
        }
        match self.actual {
            Some(Some(actual)) => {
                let loops = actual.loops.max(1) as f64;
                let each = |time: std::time::Duration| time.as_secs_f64() * 1000.0 / loops;
                let (first, last) = (each(actual.time_to_first_row), each(actual.time));
                let rows = actual.rows as f64 / loops;
                let _ = write!(out, " (actual time={:.3}..{last:.3}", first.min(last));
                let _ = if rows.fract() == 0.0 {
                    write!(out, " rows={rows:.0}")
                } else {
                    write!(out, " rows={rows:.2}")
                };
                let _ = write!(out, " loops={})", actual.loops);
                if let SpillSize {
                    runs: parts @ 1..,
                    bytes,
                } = actual.spilled
                {
                    let _ = write!(out, " (spilled parts={parts} bytes={bytes})");
                }
            }
            Some(None) => out.push_str(" (never executed)"),
            None => {}
        }
        out.push('\n');
        for child in &self.children {
            child.print(depth + 1, out);
        }
    }
}

/// Builder of the tree.
pub struct Tree<'t> {
    /// The statement's parameters.
    pub params: &'t [ValueRef<'t>],
    /// Measurements, under ANALYZE.
    pub profile: Option<&'t Profile>,
    /// The last number given to a query.
    last_id: usize,
    /// Subqueries already shown, because a condition may occur in several places of a plan.
    shown: Vec<Arc<Subquery>>,
}

impl<'t> Tree<'t> {
    /// Creates the builder for a statement with these parameters.
    pub fn new(params: &'t [ValueRef<'t>], profile: Option<&'t Profile>) -> Tree<'t> {
        Tree {
            params,
            profile,
            last_id: 1,
            shown: Vec::new(),
        }
    }

    /// The text of a plan.
    pub fn text(&mut self, plan: &Plan) -> String {
        let mut nodes: Vec<Node> = plan.input().map(|q| self.select(q)).into_iter().collect();
        let mut values = Vec::new();
        plan.sink_expressions(&mut |e| queries_of(e, &mut values));
        nodes.extend(self.subqueries(values));
        let sink = match plan {
            Plan::Select(_) => None,
            Plan::Insert(p) => Some(format!("Insert into {}", p.table.name)),
            Plan::Change(p) => Some(change_text(p)),
        };
        if let Some(sink) = sink {
            nodes = vec![Node::new(sink, nodes)];
        }
        let mut out = String::new();
        nodes.iter().for_each(|node| node.print(0, &mut out));
        out.pop();
        out
    }

    fn actual<T>(&self, part: &T, role: Role) -> Option<Option<Actual>> {
        self.profile.map(|profile| profile.of(part, role))
    }

    fn select(&mut self, plan: &QueryPlan) -> Node {
        let mut node = self.result(&plan.root, plan);
        if node.actual.is_none() {
            node.actual = self.actual(plan, Role::Query);
        }
        let mut inside: Vec<Arc<Subquery>> = Vec::new();
        plan.expressions(&mut |e| queries_of(e, &mut inside));
        node.children.extend(self.subqueries(inside));
        node
    }

    /// Subqueries that are not shown yet.
    fn subqueries(&mut self, found: Vec<Arc<Subquery>>) -> Vec<Node> {
        let mut nodes = Vec::new();
        for query in found {
            if self.shown.iter().any(|q| Arc::ptr_eq(q, &query)) {
                continue;
            }
            self.shown.push(query.clone());
            self.last_id += 1;
            let how = if query.free.is_empty() {
                "run only once"
            } else {
                "dependent"
            };
            let text = format!("Select #{} (subquery; {how})", self.last_id);
            let child = plan_of(&query).map(|plan| self.select(plan));
            nodes.push(Node::new(text, child.into_iter().collect()));
        }
        nodes
    }

    fn printer<'p>(&self, sources: &'p [Source]) -> Printer<'p>
    where
        't: 'p,
    {
        Printer {
            sources,
            params: self.params,
        }
    }

    /// The node of a result operator.
    fn result(&mut self, operator: &ResultOperator, plan: &QueryPlan) -> Node {
        let printer = self.printer(&plan.sources);
        match operator {
            ResultOperator::PointLookup(lookup) => {
                let scan = &lookup.scan;
                let node = self.scan(scan, &scan.filter, &plan.sources, " (point lookup)");
                filtered(node, &lookup.constant_conditions, &printer)
            }
            ResultOperator::Project(input) | ResultOperator::Collect(input) => {
                self.rows(input, &plan.sources)
            }
            ResultOperator::Distinct(distinct) => {
                let node = self.rows(&distinct.input, &plan.sources);
                let mut node = Node::new("Deduplicate rows", vec![node]);
                node.actual = self.actual(plan, Role::Sort);
                node
            }
            ResultOperator::Sort(sort) => self.sort(sort, "", plan),
            ResultOperator::TopN(sort) => self.sort(sort, ", first rows only", plan),
            ResultOperator::Limit(limit) | ResultOperator::CountFoundRows(limit) => {
                let node = self.result(&limit.input, plan);
                match limit_text(limit, &printer) {
                    Some(text) => Node::new(text, vec![node]),
                    None => node,
                }
            }
        }
    }

    /// The node of a sort, whose line ends with `suffix`.
    fn sort(&mut self, sort: &Sort, suffix: &str, plan: &QueryPlan) -> Node {
        let keys = self.printer(&plan.sources).keys(&sort.keys);
        let mut node = self.rows(&sort.input, &plan.sources);
        if sort.distinct.is_some() {
            node = Node::new("Deduplicate rows", vec![node]);
        }
        node = Node::new(format!("Sort: {keys}{suffix}"), vec![node]);
        node.actual = self.actual(plan, Role::Sort);
        node
    }

    /// The node of a row operator.
    fn rows(&mut self, operator: &RowOperator, sources: &[Source]) -> Node {
        let printer = self.printer(sources);
        match operator {
            RowOperator::SingleRow | RowOperator::BatchInput => {
                Node::new("Rows fetched before execution", Vec::new())
            }
            RowOperator::Scan(scan) => self.scan(scan, &scan.filter, sources, ""),
            RowOperator::FusedScan(scan) => self.scan(scan, &scan.filter, sources, " (fused)"),
            RowOperator::Join(join) => self.join(join, sources),
            RowOperator::NestedJoin(join) => {
                let left = self.rows(&join.left, sources);
                let mut right = self.rows(&join.right, sources);
                right.actual = self.actual(&**join, Role::Scan);
                add_outer_join_filter(&mut right, &join.filter, &printer);
                joined("Nested loop left join".to_owned(), &join.left, left, right)
            }
            RowOperator::OneTimeFilter(filter) | RowOperator::Filter(filter) => {
                let node = self.rows(&filter.input, sources);
                filtered(node, &filter.conditions, &printer)
            }
            RowOperator::Aggregate(aggregate) => self.aggregate(aggregate, sources),
            RowOperator::TopNPerGroup(top) => {
                let input = self.rows(&top.input, sources);
                let mut node = Node::new(top_n_text(top, &printer), vec![input]);
                node.actual = self.actual(&**top, Role::Group);
                node
            }
            RowOperator::Window(window) => self.window(window, sources),
        }
    }

    fn window(&mut self, window: &Window, sources: &[Source]) -> Node {
        let mut node = self.rows(&window.input, sources);
        for pass in &window.passes {
            let printer = self.printer(sources);
            if !pass.sort.is_empty() {
                node = Node::new(format!("Sort: {}", printer.keys(&pass.sort)), vec![node]);
            }
            for planned in &pass.windows {
                let how = if planned.streams() {
                    "Window aggregate"
                } else {
                    "Window aggregate with buffering"
                };
                let text = format!("{how}: {}", printer.window_calls(planned));
                node = Node::new(text, vec![node]);
            }
        }
        node.actual = self.actual(window, Role::Group);
        node
    }

    fn aggregate(&mut self, aggregate: &Aggregate, sources: &[Source]) -> Node {
        let keys = self.printer(sources).list(&aggregate.group_by);
        let text = match (&aggregate.method, aggregate.group_by.is_empty()) {
            (AggregateMethod::CountRows, _) => "Count rows".to_owned(),
            (AggregateMethod::MinMaxByIndex(_), _) => "Minimum and maximum by index".to_owned(),
            (_, true) => "Aggregate".to_owned(),
            (AggregateMethod::Stream, false) => format!("Group aggregate: {keys}"),
            _ => format!("Aggregate using hash table: {keys}"),
        };
        let input = self.rows(&aggregate.input, sources);
        let mut node = Node::new(text, vec![input]);
        node.actual = self.actual(aggregate, Role::Group);
        node
    }

    fn join(&mut self, join: &Join, sources: &[Source]) -> Node {
        let kind = match join.kind {
            JoinKind::Semi => "semijoin",
            JoinKind::Anti => "antijoin",
            JoinKind::Left => "left join",
            JoinKind::Inner => "inner join",
        };
        let text = match (&join.method, join.kind) {
            (JoinMethod::Hash(_), JoinKind::Inner) => "Inner hash join".to_owned(),
            (JoinMethod::Hash(_), _) => format!("Hash {kind}"),
            _ => format!("Nested loop {kind}"),
        };
        let left = self.rows(&join.left, sources);
        let mut right = self.scan(&join.right, &join.on, sources, "");
        add_outer_join_filter(&mut right, &join.filter, &self.printer(sources));
        let mut node = joined(text, &join.left, left, right);
        let estimate = join.right.estimate;
        if estimate.cost > 0.0 && !matches!(join.left, RowOperator::BatchInput) {
            node.expected = Some((estimate.cost, estimate.join_rows));
        }
        node
    }

    /// The node of a scan under its conditions; `how` names operators that scan without a copy.
    fn scan(&mut self, scan: &Scan, conditions: &[Expr], sources: &[Source], how: &str) -> Node {
        let printer = self.printer(sources);
        let mut node = self.access(scan, sources, &printer);
        node.text.push_str(how);
        let mut node = filtered(node, conditions, &printer);
        node.actual = self.actual(scan, Role::Scan);
        node
    }

    fn access(&mut self, scan: &Scan, sources: &[Source], printer: &Printer<'_>) -> Node {
        let Some(source) = sources.get(scan.slot) else {
            return Node::new("Nothing", Vec::new());
        };
        let alias = match source.alias.as_str() {
            "" => "<temporary>",
            alias => alias,
        };
        let Some(table) = source.table() else {
            let operator = match &source.origin {
                Origin::Derived(derived) => operator_of(derived),
                _ => return Node::new(format!("Table scan on {alias}"), Vec::new()),
            };
            return match self.table(operator) {
                Some(child) => Node::new(format!("Table scan on {alias}"), vec![child]),
                None => Node::new(format!("Scan new records on {alias}"), Vec::new()),
            };
        };
        let whole = matches!(scan.access, Access::FullScan { index: 0, .. });
        let covering = scan.is_covering() && !whole;
        let path = |access: &Access| path_text(access, table, alias, covering, printer);
        let arms = match &scan.access {
            Access::IndexMergeUnion { arms, .. } => arms.as_slice(),
            _ => &[],
        };
        let arms = arms.iter().map(|arm| Node::new(path(arm), Vec::new()));
        let mut node = Node::new(path(&scan.access), arms.collect());
        node.expected = Some((scan.estimate.cost, scan.estimate.rows));
        node
    }

    /// The node of a table operator; `None` for the rows of the previous iteration.
    fn table(&mut self, operator: &TableOperator) -> Option<Node> {
        Some(match operator {
            TableOperator::WorkingTable => return None,
            TableOperator::JsonTable(_) => Node::new("Materialize table function", Vec::new()),
            TableOperator::Values(_) => Node::new("Rows fetched before execution", Vec::new()),
            TableOperator::Materialize(plan) => Node::new("Materialize", vec![self.select(plan)]),
            TableOperator::Set(set) => self.set(set),
            TableOperator::Recursive(recursive) => {
                let seed = self.select(&recursive.seed);
                let steps = recursive
                    .steps
                    .iter()
                    .map(|plan| self.select(plan))
                    .collect();
                let repeat = Node::new("Repeat until convergence", steps);
                Node::new("Materialize recursive query", vec![seed, repeat])
            }
        })
    }

    /// The node of set operations: one operator if all are of the same kind.
    fn set(&mut self, set: &SetOperation) -> Node {
        let mut terms = set.rest.iter().map(|term| (term.op, term.all));
        let first = terms.next();
        let same = terms.all(|term| Some(term) == first);
        let mut children = vec![self.select(&set.first)];
        for term in &set.rest {
            let node = self.select(&term.plan);
            children.push(if same {
                node
            } else {
                Node::new(set_text(term.op, term.all), vec![node])
            });
        }
        match first.filter(|_| same) {
            Some((op, all)) => Node::new(format!("{} materialize", set_text(op, all)), children),
            None => Node::new("Set operations materialize", children),
        }
    }
}

fn set_text(op: SetOp, all: bool) -> &'static str {
    match (op, all) {
        (SetOp::Union, false) => "Union",
        (SetOp::Union, true) => "Union all",
        (SetOp::Intersect, false) => "Intersect",
        (SetOp::Intersect, true) => "Intersect all",
        (SetOp::Except, false) => "Except",
        (SetOp::Except, true) => "Except all",
    }
}

/// A sink that changes rows.
fn change_text(change: &Change) -> String {
    let verb = match change.kind {
        ChangeKind::Update => "Update",
        ChangeKind::Delete => "Delete from",
    };
    let how = match change.targets {
        Targets::Immediate(_) => "immediate",
        Targets::Buffered(_) => "buffered",
    };
    let targets = change.targets.all().iter();
    let names: Vec<&str> = targets.map(|t| t.table.name.as_str()).collect();
    format!("{verb} {} ({how})", names.join(", "))
}

/// The line of a top N per group: `row_number() <= 3 (PARTITION BY t.g ORDER BY t.v DESC)`.
fn top_n_text(top: &TopNPerGroup, printer: &Printer<'_>) -> String {
    let function = match top.ranking {
        Ranking::RowNumber => "row_number()",
        Ranking::Rank => "rank()",
        Ranking::DenseRank => "dense_rank()",
    };
    let op = if top.inclusive { "<=" } else { "<" };
    let limit = printer.expr(&top.limit);
    let mut clauses = Vec::new();
    for (clause, keys) in [("PARTITION BY", &top.partition), ("ORDER BY", &top.order)] {
        if !keys.is_empty() {
            clauses.push(format!("{clause} {}", printer.keys(keys)));
        }
    }
    let clauses = clauses.join(" ");
    format!("Top N per group: {function} {op} {limit} ({clauses})")
}

/// Adds a filter above a node, if there are conditions.
fn filtered(node: Node, conditions: &[Expr], printer: &Printer<'_>) -> Node {
    if conditions.is_empty() {
        return node;
    }
    let text = format!("Filter: {}", printer.conjunction(conditions));
    Node::new(text, vec![node])
}

/// Adds conditions on the rows of an outer join.
fn add_outer_join_filter(right: &mut Node, conditions: &[Expr], printer: &Printer<'_>) {
    if !conditions.is_empty() {
        let text = format!("after the join: {}", printer.conjunction(conditions));
        let _ = write!(right.text, " ({text})");
    }
}

/// The node of a join; the node of its right side alone for the first table of a nested join, which
/// has nothing to its left.
fn joined(text: String, input: &RowOperator, left: Node, right: Node) -> Node {
    match input {
        RowOperator::BatchInput => right,
        _ => Node::new(text, vec![left, right]),
    }
}

/// Adds the subqueries of an expression to `found`.
fn queries_of(e: &Expr, found: &mut Vec<Arc<Subquery>>) {
    e.walk(&mut |e| {
        if let ExprKind::Query(test) = &e.kind {
            found.push(test.query.clone());
        }
    });
}

/// A one-line description of an access path.
fn path_text(
    access: &Access,
    table: &Table,
    alias: &str,
    covering: bool,
    printer: &Printer<'_>,
) -> String {
    let index = access.index().and_then(|at| table.indexes.get(at));
    let name = index.map_or("PRIMARY", |i| i.name.as_str());
    let parts = index.map_or(&[][..], |index| &index.parts);
    let columns = parts.iter().filter_map(|p| table.columns.get(p.column));
    let parts: Vec<&str> = columns.map(Column::shown_name).collect();
    let condition = printer.index_condition(access, &parts);
    let mut text = match access {
        Access::PointLookup { keys, .. } if keys.len() == 1 => {
            format!("single-row index lookup on {alias} using {name} ({condition})")
        }
        Access::PointLookup { .. } | Access::IndexLookup { .. } => {
            format!("index lookup on {alias} using {name} ({condition})")
        }
        Access::IndexRangeScan { .. } => {
            format!("index range scan on {alias} using {name} over {condition}")
        }
        Access::IndexMergeUnion { .. } => "deduplicate rows sorted by row ID".to_owned(),
        Access::SubqueryLookup { .. } => {
            format!("index lookup on {alias} using {name} (values of a subquery)")
        }
        Access::TextSearch { search, order, .. } => {
            let search = printer.expr(search);
            let by_key = match order {
                SearchOrder::Relevance => "",
                SearchOrder::Key => ", in the order of keys",
            };
            format!("full-text index search on {alias} using {name} ({search}){by_key}")
        }
        Access::LooseScan(scan) => {
            let groups = parts.get(..scan.parts).unwrap_or_default().join(", ");
            let over = if scan.ranges.is_empty() {
                String::new()
            } else {
                format!(" over {condition}")
            };
            format!("index skip scan for grouping on {alias} using {name} ({groups}){over}")
        }
        Access::FullScan { index: 0, .. } | Access::VirtualScan => {
            format!("table scan on {alias}")
        }
        Access::FullScan { .. } => format!("index scan on {alias} using {name}"),
    };
    if covering {
        text = format!("Covering {text}");
    } else if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    if access.reverse() {
        text.push_str(" (reverse)");
    }
    text
}
