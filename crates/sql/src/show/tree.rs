//! EXPLAIN FORMAT=TREE and EXPLAIN ANALYZE: a plan as a tree of operators.
//!
//! The words are MySQL's where an operator of its own does the same; costs
//! are in rows read in the order of the primary key. A line ends with what is
//! expected, and under ANALYZE with what happened: time to the first and to
//! the last row in milliseconds, rows, both for one loop on average.

use super::expression::{Printer, window};
use crate::bind::{Origin, Source};
use crate::exec::profile::{Actual, Profile, Role};
use crate::expr::query::Subquery;
use crate::expr::{Expr, ExprKind};
use crate::plan::derived::{Derived, RowsPlan};
use crate::plan::planned::Plan;
use crate::plan::{Access, SelectPlan, Step};
use porpoise_rows::catalog::Table;
use porpoise_types::ValueRef;
use std::fmt::Write as _;
use std::sync::Arc;

/// An operator.
struct Node {
    text: String,
    /// Cost and rows expected.
    expected: Option<(f64, f64)>,
    /// What happened; under ANALYZE `Some(None)` where nothing did.
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
                let (first, last) = (each(actual.first), each(actual.time));
                let rows = actual.rows as f64 / loops;
                let _ = write!(out, " (actual time={:.3}..{last:.3}", first.min(last));
                let _ = match rows.fract() == 0.0 {
                    true => write!(out, " rows={rows:.0}"),
                    false => write!(out, " rows={rows:.2}"),
                };
                let _ = write!(out, " loops={})", actual.loops);
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

/// Builds the tree.
pub struct Tree<'t> {
    /// The statement's parameters.
    pub params: &'t [ValueRef<'t>],
    /// What happened, under ANALYZE.
    pub profile: Option<&'t Profile>,
    next: usize,
    shown: Vec<Arc<Subquery>>,
}

impl<'t> Tree<'t> {
    /// For a statement with these parameters.
    pub fn new(params: &'t [ValueRef<'t>], profile: Option<&'t Profile>) -> Tree<'t> {
        Tree {
            params,
            profile,
            next: 1,
            shown: Vec::new(),
        }
    }

    /// The text for a plan.
    pub fn text(&mut self, plan: &Plan) -> String {
        let node = match plan {
            Plan::Select(p) => self.select(p),
            Plan::Insert(p) => {
                let source = p.source.iter().map(|s| self.select(s)).collect();
                Node::new(format!("Insert into {}", p.table.name), source)
            }
            Plan::Update(p) => {
                let found = self.target(&p.target.source, &p.target.step);
                Node::new(
                    format!("Update {} (immediate)", p.target.table.name),
                    vec![found],
                )
            }
            Plan::Delete(p) => {
                let found = self.target(&p.target.source, &p.target.step);
                let name = &p.target.table.name;
                Node::new(format!("Delete from {name} (immediate)"), vec![found])
            }
            Plan::Multi(p) => {
                let what = if p.delete { "Delete from" } else { "Update" };
                let names: Vec<&str> = p.targets.iter().map(|t| t.table.name.as_str()).collect();
                let found = self.select(&p.select);
                Node::new(
                    format!("{what} {} (buffered)", names.join(", ")),
                    vec![found],
                )
            }
        };
        let mut out = String::new();
        node.print(0, &mut out);
        out.pop();
        out
    }

    fn target(&mut self, source: &Source, step: &Step) -> Node {
        let sources = std::slice::from_ref(source);
        self.step(step, sources)
    }

    fn actual<T>(&self, part: &T, role: Role) -> Option<Option<Actual>> {
        self.profile.map(|profile| profile.of(part, role))
    }

    fn select(&mut self, plan: &SelectPlan) -> Node {
        let params = self.params;
        let printer = Printer {
            sources: &plan.sources,
            params,
        };
        let mut node = self.joins(plan);
        if !plan.constant.is_empty() {
            node = Node::new(
                format!("Filter: {}", printer.all(&plan.constant)),
                vec![node],
            );
        }
        if plan.grouped {
            let text = match plan.group_by.as_slice() {
                [] => "Aggregate".to_owned(),
                keys if plan.consecutive => {
                    format!("Group aggregate: {}", printer.list(keys))
                }
                keys => format!("Aggregate using hash table: {}", printer.list(keys)),
            };
            node = Node::new(text, vec![node]);
            node.actual = self.actual(plan, Role::Group);
        }
        if let Some(having) = &plan.having {
            node = Node::new(format!("Filter: {}", printer.expr(having)), vec![node]);
        }
        if plan.distinct {
            node = Node::new("Deduplicate rows", vec![node]);
        }
        if !plan.order_by.is_empty() {
            let keys = printer.keys(&plan.order_by);
            let top = if plan.limit.is_some() {
                ", first rows only"
            } else {
                ""
            };
            node = Node::new(format!("Sort: {keys}{top}"), vec![node]);
            node.actual = self.actual(plan, Role::Sort);
        }
        if let Some(text) = window(plan, &printer) {
            node = Node::new(text, vec![node]);
        }
        if node.actual.is_none() {
            node.actual = self.actual(plan, Role::Whole);
        }
        let mut inside: Vec<Arc<Subquery>> = Vec::new();
        plan.expressions(&mut |e| queries_of(e, &mut inside));
        for query in inside {
            if self.shown.iter().any(|q| Arc::ptr_eq(q, &query)) {
                continue;
            }
            self.shown.push(query.clone());
            self.next += 1;
            let how = match query.free.is_empty() {
                true => "run only once",
                false => "dependent",
            };
            let text = format!("Select #{} (subquery; {how})", self.next);
            let child = self.select(&query.plan);
            node.children.push(Node::new(text, vec![child]));
        }
        node
    }

    fn joins(&mut self, plan: &SelectPlan) -> Node {
        let mut left: Option<Node> = None;
        for step in &plan.steps {
            let right = self.step(step, &plan.sources);
            left = Some(match left {
                None => right,
                Some(left) => self.join(step, left, right),
            });
        }
        left.unwrap_or_else(|| Node::new("Rows fetched before execution", Vec::new()))
    }

    fn join(&self, step: &Step, left: Node, right: Node) -> Node {
        let kind = match (step.semi, step.outer) {
            (Some(false), _) => "semijoin",
            (Some(true), _) => "antijoin",
            (None, true) => "left join",
            (None, false) => "inner join",
        };
        let text = match (step.hash.is_empty(), kind) {
            (true, _) => format!("Nested loop {kind}"),
            (false, "inner join") => "Inner hash join".to_owned(),
            (false, _) => format!("Hash {kind}"),
        };
        let mut node = Node::new(text, vec![left, right]);
        let estimate = step.estimate;
        if estimate.cost > 0.0 {
            node.expected = Some((estimate.cost, estimate.total));
        }
        node
    }

    /// A step alone: what it reads, under its conditions.
    fn step(&mut self, step: &Step, sources: &[Source]) -> Node {
        let printer = Printer {
            sources,
            params: self.params,
        };
        let mut node = match step.group.as_slice() {
            [] => self.access(step, sources, &printer),
            group => {
                let mut left: Option<Node> = None;
                for inner in group {
                    let right = self.step(inner, sources);
                    left = Some(match left {
                        None => right,
                        Some(left) => self.join(inner, left, right),
                    });
                }
                left.unwrap_or_else(|| Node::new("Nothing", Vec::new()))
            }
        };
        let conditions: Vec<Expr> = match step.outer || step.semi.is_some() {
            true => step.on.clone(),
            false => step.filter.clone(),
        };
        if !conditions.is_empty() {
            node = Node::new(format!("Filter: {}", printer.all(&conditions)), vec![node]);
        }
        node.actual = self.actual(step, Role::Step);
        if step.outer && !step.filter.is_empty() {
            let text = format!("after the join: {}", printer.all(&step.filter));
            let _ = write!(node.text, " ({text})");
        }
        node
    }

    fn access(&mut self, step: &Step, sources: &[Source], printer: &Printer<'_>) -> Node {
        let Some(source) = sources.get(step.slot) else {
            return Node::new("Nothing", Vec::new());
        };
        let alias = &source.alias;
        let Some(table) = source.table() else {
            let children = match &source.origin {
                Origin::Derived(derived) => self.derived(derived),
                _ => Vec::new(),
            };
            return Node::new(format!("Table scan on {alias}"), children);
        };
        let covering = step.entries && !matches!(step.access, Access::Full { index: 0, .. });
        let path = |access: &Access| path_text(access, table, (alias, covering), printer);
        let arms = match &step.access {
            Access::Union { arms, .. } => arms.as_slice(),
            _ => &[],
        };
        let arms = arms.iter().map(|arm| Node::new(path(arm), Vec::new()));
        let mut node = Node::new(path(&step.access), arms.collect());
        node.expected = Some((step.estimate.cost, step.estimate.rows));
        node
    }

    fn derived(&mut self, derived: &Arc<Derived>) -> Vec<Node> {
        if matches!(derived.rows, RowsPlan::Working) {
            return Vec::new();
        }
        let queries: Vec<Node> = derived
            .rows
            .selects()
            .into_iter()
            .map(|plan| self.select(plan))
            .collect();
        let text = match queries.len() {
            0 => "Rows fetched before execution",
            1 => "Materialize",
            _ => "Union materialize",
        };
        vec![Node::new(text, queries)]
    }
}

fn queries_of(e: &Expr, found: &mut Vec<Arc<Subquery>>) {
    e.walk(&mut |e| {
        if let ExprKind::Query(test) = &e.kind {
            found.push(test.query.clone());
        }
    });
}

/// What an access path does, in a line.
fn path_text(
    access: &Access,
    table: &Table,
    (alias, covering): (&str, bool),
    printer: &Printer<'_>,
) -> String {
    let index = access.index().and_then(|at| table.indexes.get(at));
    let name = index.map_or("PRIMARY", |i| i.name.as_str());
    let parts = index.map_or(&[][..], |index| &index.parts);
    let columns = parts.iter().filter_map(|p| table.columns.get(p.column));
    let parts: Vec<&str> = columns.map(|c| c.name.as_str()).collect();
    let by = printer.narrowing(access, &parts);
    let mut text = match access {
        Access::Lookup {
            whole: true, keys, ..
        } if keys.len() == 1 => {
            format!("single-row index lookup on {alias} using {name} ({by})")
        }
        Access::Lookup { .. } => format!("index lookup on {alias} using {name} ({by})"),
        Access::Range { .. } => format!("index range scan on {alias} using {name} over {by}"),
        Access::Union { .. } => "deduplicate rows sorted by row ID".to_owned(),
        Access::Set { .. } => {
            format!("index lookup on {alias} using {name} (values of a subquery)")
        }
        Access::Full { index: 0, .. } | Access::Virtual => format!("table scan on {alias}"),
        Access::Full { .. } => format!("index scan on {alias} using {name}"),
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
