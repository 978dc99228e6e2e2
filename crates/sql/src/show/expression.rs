//! Text of bound expressions, for EXPLAIN.
//!
//! The text is for readers: only the parentheses that help, columns with their table's name,
//! literals in SQL syntax.

use porpoise_sql_expr::expr::query::{QueryTest, TestKind};
use porpoise_sql_expr::expr::stored::SessionFunction;
use porpoise_sql_expr::expr::text_search::{SearchMode, TextMatch};
use porpoise_sql_expr::expr::{ArithOp, BitOp, CmpOp, Expr, ExprKind, Truth, Unit};
use porpoise_sql_plan::bind::Source;
use porpoise_sql_plan::bind::window::{FrameBound, Window, WindowFrame};
use porpoise_sql_plan::plan::physical::{Limit, WindowCalls};
use porpoise_sql_plan::plan::scan::{Access, Bound, IndexRange};
use porpoise_types::{ColumnType, Value, ValueRef, write_text};

/// Prints expressions of a query.
pub struct Printer<'p> {
    /// The tables of the query, by slot.
    pub sources: &'p [Source],
    /// The statement's parameters.
    pub params: &'p [ValueRef<'p>],
}

/// The keyword of a unit: `DAY_HOUR` for `DayHour`.
fn unit_name(unit: Unit) -> String {
    let mut name = String::new();
    for c in format!("{unit:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

fn literal(value: ValueRef<'_>, ty: &ColumnType) -> String {
    let mut text = Vec::new();
    if value.is_null() {
        return "NULL".to_owned();
    }
    write_text(value, ty, &mut text);
    let shown = String::from_utf8_lossy(&text);
    match value {
        ValueRef::Bytes(_) | ValueRef::Date(_) | ValueRef::DateTime(_) | ValueRef::Time(_) => {
            format!("'{}'", shown.replace('\'', "''"))
        }
        _ => shown.into_owned(),
    }
}

impl Printer<'_> {
    /// The conditions, joined with AND.
    pub fn conjunction(&self, conditions: &[Expr]) -> String {
        let parts: Vec<String> = conditions.iter().map(|e| self.expr(e)).collect();
        match parts.as_slice() {
            [one] => one.clone(),
            _ => format!("({})", parts.join(" and ")),
        }
    }

    /// Expressions separated by commas.
    pub fn list<'e>(&self, list: impl IntoIterator<Item = &'e Expr>) -> String {
        let parts: Vec<String> = list.into_iter().map(|e| self.expr(e)).collect();
        parts.join(", ")
    }

    /// Sort keys separated by commas.
    pub fn keys(&self, keys: &[porpoise_sql_plan::plan::OrderKey]) -> String {
        let one = |key: &porpoise_sql_plan::plan::OrderKey| {
            let desc = if key.desc { " DESC" } else { "" };
            format!("{}{desc}", self.expr(&key.expr))
        };
        let parts: Vec<String> = keys.iter().map(one).collect();
        parts.join(", ")
    }

    /// The calls of a window: `rank() OVER (PARTITION BY t.a ORDER BY t.b )`.
    pub fn window_calls(&self, planned: &WindowCalls) -> String {
        let over = self.window(&planned.window);
        let calls = planned.calls.iter().map(|call| {
            let mut args: Vec<String> = call.function.args().map(|e| self.expr(e)).collect();
            if let Some(number) = call.function.number() {
                args.insert(args.len().min(1), self.expr(number));
            }
            // COUNT(*) is printed as MySQL prints it.
            if args.is_empty() && call.name == "count" {
                args.push("0".to_owned());
            }
            format!("{}({}) OVER ({over})", call.name, args.join(", "))
        });
        calls.collect::<Vec<String>>().join(", ")
    }

    fn window(&self, window: &Window) -> String {
        let mut parts = Vec::new();
        if !window.partition.is_empty() {
            parts.push(format!("PARTITION BY {}", self.list(&window.partition)));
        }
        if !window.order.is_empty() {
            parts.push(format!("ORDER BY {}", self.keys(&window.order)));
        }
        let WindowFrame { range, start, end } = &window.frame;
        let default = matches!((start, end), (FrameBound::Unbounded, FrameBound::Current));
        if !(*range && default) {
            let unit = if *range { "RANGE" } else { "ROWS" };
            let (start, end) = (self.bound(start, "PRECEDING"), self.bound(end, "FOLLOWING"));
            parts.push(format!("{unit} BETWEEN {start} AND {end}"));
        }
        parts.join(" ")
    }

    fn bound(&self, bound: &FrameBound, unbounded: &str) -> String {
        match bound {
            FrameBound::Unbounded => format!("UNBOUNDED {unbounded}"),
            FrameBound::Current => "CURRENT ROW".to_owned(),
            FrameBound::Offset {
                following,
                amount,
                unit,
                ..
            } => {
                let direction = if *following { "FOLLOWING" } else { "PRECEDING" };
                let amount = self.expr(amount);
                match unit {
                    Some(unit) => format!("INTERVAL {amount} {} {direction}", unit_name(*unit)),
                    None => format!("{amount} {direction}"),
                }
            }
        }
    }

    fn joined(&self, list: &[Expr], by: &str) -> String {
        let parts: Vec<String> = list.iter().map(|e| self.expr(e)).collect();
        format!("({})", parts.join(by))
    }

    fn binary(&self, args: &[Expr; 2], by: &str) -> String {
        let [a, b] = args;
        format!("({} {by} {})", self.expr(a), self.expr(b))
    }

    fn column(&self, slot: usize, column: usize) -> String {
        let source = self.sources.get(slot);
        let found = source.and_then(|s| Some((s, s.columns.get(column)?)));
        let table = source.and_then(Source::table);
        if let Some(part) = table.and_then(|t| t.columns.get(column)?.key_part()) {
            return part.text.clone();
        }
        match found {
            Some((source, column)) if source.alias.is_empty() => column.name.clone(),
            Some((source, column)) => format!("{}.{}", source.alias, column.name),
            None => "?".to_owned(),
        }
    }

    fn text_match(&self, found: &TextMatch) -> String {
        let index = &found.searched;
        let parts = index
            .table
            .indexes
            .get(index.index)
            .map_or(0, |i| i.parts.len());
        let columns = found.columns.get(..parts).unwrap_or_default();
        let mode = match index.mode {
            SearchMode::Natural => "",
            SearchMode::Expansion => " with query expansion",
            SearchMode::Boolean => " in boolean mode",
        };
        let (columns, against) = (self.list(columns), self.expr(&found.against));
        format!("(match {columns} against ({against}{mode}))")
    }

    /// One expression; `...` for parts that are nested too deeply for the stack.
    pub fn expr(&self, e: &Expr) -> String {
        if porpoise_base::stack::remaining() < 64 * 1024 {
            return "...".to_owned();
        }
        let not = |negated: bool| if negated { "not " } else { "" };
        match &e.kind {
            ExprKind::Const(value) => literal(value.as_ref(), &e.ty),
            ExprKind::Param(at) => match self.params.get(*at) {
                Some(value) => literal(*value, &e.ty),
                None => "?".to_owned(),
            },
            ExprKind::Column { slot, column, .. } => self.column(*slot, *column),
            ExprKind::Outer { .. } => "<outer column>".to_owned(),
            ExprKind::Benchmark(args) => {
                let [count, e] = &**args;
                format!("benchmark({},{})", self.expr(count), self.expr(e))
            }
            ExprKind::Enclosing(..) => "<outer expression>".to_owned(),
            ExprKind::Query(test) => self.test(test),
            ExprKind::SessionCall(SessionFunction::Stored(function), args) => {
                let (database, name) = (&function.database, &function.name);
                format!("`{database}`.`{name}`({})", self.list(args))
            }
            ExprKind::SessionCall(SessionFunction::BuiltIn(function), args) => {
                format!("{}({})", function.name().to_lowercase(), self.list(args))
            }
            ExprKind::Grouping(args) => format!("grouping({})", self.list(args)),
            ExprKind::Aggregate(at) => format!("<aggregate {}>", at + 1),
            ExprKind::Window(at) => format!("<window {}>", at + 1),
            ExprKind::Call(function, args) => match args.as_slice() {
                [value, array] if function.name == "MEMBER OF" => {
                    format!("({} member of ({}))", self.expr(value), self.expr(array))
                }
                _ => format!("{}({})", function.name.to_lowercase(), self.list(args)),
            },
            ExprKind::Compare(op, _, args) => self.binary(args, op.sign()),
            ExprKind::And(args) => self.joined(args, " and "),
            ExprKind::Or(args) => self.joined(args, " or "),
            ExprKind::Xor(args) => self.binary(args, "xor"),
            ExprKind::Not(arg) => format!("(not {})", self.expr(arg)),
            ExprKind::Is {
                arg,
                truth,
                negated,
            } => {
                let truth = match truth {
                    Truth::Null => "null",
                    Truth::True => "true",
                    Truth::False => "false",
                };
                format!("({} is {}{truth})", self.expr(arg), not(*negated))
            }
            ExprKind::In { arg, list, negated } => {
                let list = self.list(list.iter().map(|(_, e)| e));
                format!("({} {}in ({list}))", self.expr(arg), not(*negated))
            }
            ExprKind::Between { args, negated, .. } => {
                let [arg, low, high] = args.as_ref();
                let (arg, low, high) = (self.expr(arg), self.expr(low), self.expr(high));
                format!("({arg} {}between {low} and {high})", not(*negated))
            }
            ExprKind::Like { args, negated, .. } => {
                self.binary(args, &format!("{}like", not(*negated)))
            }
            _ => self.other(e),
        }
    }

    /// The kinds of expressions that [`Self::expr`] leaves out.
    fn other(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Case { whens, otherwise } => {
                let mut text = "case".to_owned();
                for when in whens {
                    let (when, then) = (self.expr(&when.condition), self.expr(&when.result));
                    text.push_str(&format!(" when {when} then {then}"));
                }
                if let Some(otherwise) = otherwise {
                    text.push_str(&format!(" else {}", self.expr(otherwise)));
                }
                text + " end"
            }
            ExprKind::Coalesce(args) => format!("coalesce({})", self.list(args)),
            ExprKind::NullIf(_, args) => format!("nullif({})", self.list(args.iter())),
            ExprKind::Arith(op, args) => {
                let op = match op {
                    ArithOp::Add => "+",
                    ArithOp::Sub => "-",
                    ArithOp::Mul => "*",
                    ArithOp::Div => "/",
                    ArithOp::IntDiv => "div",
                    ArithOp::Mod => "%",
                };
                self.binary(args, op)
            }
            ExprKind::Negate(arg) => format!("-({})", self.expr(arg)),
            ExprKind::Bit(op, args) => {
                let op = match op {
                    BitOp::And => "&",
                    BitOp::Or => "|",
                    BitOp::Xor => "^",
                    BitOp::Shl => "<<",
                    BitOp::Shr => ">>",
                };
                self.binary(args, op)
            }
            ExprKind::BitNot(arg) => format!("~({})", self.expr(arg)),
            ExprKind::Cast(arg) => format!("cast({})", self.expr(arg)),
            ExprKind::TextMatch(found) => self.text_match(found),
            ExprKind::ArrayTest(test) => self.expr(&test.condition),
            ExprKind::ArrayKeys(_, arg) => self.expr(arg),
            ExprKind::DateAdd { args, negative, .. } => self.binary(
                args,
                if *negative {
                    "- interval"
                } else {
                    "+ interval"
                },
            ),
            ExprKind::Extract(_, arg) => format!("extract({})", self.expr(arg)),
            ExprKind::UserVariable(name) => format!("@{name}"),
            ExprKind::AssignVariable(name, value) => {
                format!("(@{name} := {})", self.expr(value))
            }
            ExprKind::NewValue { column, .. } => format!("values({})", self.column(0, *column)),
            _ => "?".to_owned(),
        }
    }

    fn test(&self, test: &QueryTest) -> String {
        let left = self.list(&test.left);
        match test.kind {
            TestKind::Scalar | TestKind::Column(_) => "(select ...)".to_owned(),
            TestKind::Exists => "exists(select ...)".to_owned(),
            TestKind::Row(op) => format!("(({left}) {} (select ...))", op.sign()),
            TestKind::Any(CmpOp::Eq) => format!("({left} in (select ...))"),
            TestKind::Any(op) => format!("({left} {} any (select ...))", op.sign()),
            TestKind::All(CmpOp::Ne) => format!("({left} not in (select ...))"),
            TestKind::All(op) => format!("({left} {} all (select ...))", op.sign()),
        }
    }

    /// The part of an index that an access path selects: `a=1, b=2`, or `a=1, (2 < b <= 9)`.
    pub fn index_condition(&self, access: &Access, parts: &[&str]) -> String {
        match access {
            Access::PointLookup { keys, .. } | Access::IndexLookup { keys, .. } => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|k| self.equal(k, parts).join(", "))
                    .collect();
                keys.join(" or ")
            }
            Access::IndexRangeScan { ranges, .. } => self.ranges(ranges, parts),
            Access::LooseScan(scan) => self.ranges(&scan.ranges, parts),
            _ => String::new(),
        }
    }

    fn ranges(&self, ranges: &[IndexRange], parts: &[&str]) -> String {
        let ranges: Vec<String> = ranges.iter().map(|r| self.range(r, parts)).collect();
        ranges.join(" or ")
    }

    fn range(&self, range: &IndexRange, parts: &[&str]) -> String {
        let IndexRange {
            keys,
            low,
            high,
            except,
        } = range;
        let first = keys.first().map_or(&[][..], Vec::as_slice);
        let part = parts.get(first.len()).copied().unwrap_or("?");
        let mut out = match keys.len() {
            1 => self.equal(first, parts),
            n => vec![format!("{n} keys")],
        };
        if low.is_some() || high.is_some() {
            out.push(self.between(part, low.as_ref(), high.as_ref()));
        }
        if !except.is_empty() {
            let values: Vec<String> = except.iter().map(|e| self.expr(e)).collect();
            out.push(format!("({part} not in ({}))", values.join(", ")));
        }
        out.join(", ")
    }

    /// The equalities of a key: `a=1`, `b=2`.
    fn equal(&self, key: &[Expr], parts: &[&str]) -> Vec<String> {
        let each = parts.iter().zip(key);
        each.map(|(part, e)| format!("{part}={}", self.expr(e)))
            .collect()
    }

    fn between(&self, part: &str, low: Option<&Bound>, high: Option<&Bound>) -> String {
        if let Some(bound) = low.filter(|b| b.pattern.is_some()) {
            return format!("({part} like {})", self.expr(&bound.value));
        }
        let sign = |b: &Bound| if b.inclusive { "<=" } else { "<" };
        let low = low.map_or(String::new(), |b| {
            format!("{} {} ", self.expr(&b.value), sign(b))
        });
        let high = high.map_or(String::new(), |b| {
            format!(" {} {}", sign(b), self.expr(&b.value))
        });
        format!("({low}{part}{high})")
    }
}

/// LIMIT and OFFSET as text.
pub fn limit_text(limit: &Limit, printer: &Printer<'_>) -> Option<String> {
    let count = limit.count.as_ref()?;
    let count = match count.as_const() {
        Some(Value::UInt(n)) => n.to_string(),
        _ => printer.expr(count),
    };
    let offset = limit.offset.as_ref().map(|e| printer.expr(e));
    Some(match offset {
        Some(offset) => format!("Limit/Offset: {count}/{offset} row(s)"),
        None => format!("Limit: {count} row(s)"),
    })
}
