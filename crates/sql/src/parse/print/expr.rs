//! Expressions.
//!
//! An operand is put into parentheses unless it binds tighter than the operator it belongs to, on
//! the left too: `(a + b) + c` is a tree of its own, different from the chain `a + b + c`.

use super::super::ast::{
    BinaryOp, DataType, Expr, ExprKind, Frame, FrameBound, Func, IntervalArith, IntervalUnit,
    IsTest, JsonOnResponse, JsonValue, Literal, LogicalOp, MatchMode, OrderItem, SystemVar,
    TemporalKind, TrimSide, UnaryOp, VarScope, Window, WindowSpec,
};
use super::Printer;

/// Binding levels, as in the parser.
const OR: u8 = 1;
const XOR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARE: u8 = 5;
const PREDICATE: u8 = 6;
const ADD: u8 = 10;
const UNARY: u8 = 14;
const COLLATE: u8 = 15;
const ATOM: u8 = 20;

impl Printer {
    fn level(&self, expr: &Expr<'_>) -> u8 {
        match &expr.kind {
            ExprKind::AssignUserVar(_) => 0,
            ExprKind::IntervalArith(node) if amount_first(node) => 0,
            ExprKind::IntervalArith(_) => ADD,
            ExprKind::Logical(op, _) => logical_level(*op),
            ExprKind::Unary(UnaryOp::Not, _) if !self.mode.high_not_precedence => NOT,
            ExprKind::Unary(..) => UNARY,
            ExprKind::Binary(node) => self.binary_level(node.op),
            ExprKind::Chain(node) => node
                .rest
                .first()
                .map_or(ATOM, |(op, _)| self.binary_level(*op)),
            ExprKind::Is(_) | ExprKind::Quantified(_) => COMPARE,
            ExprKind::Like(_)
            | ExprKind::Regexp(_)
            | ExprKind::Between(_)
            | ExprKind::InList(_)
            | ExprKind::InQuery(_)
            | ExprKind::MemberOf(_) => PREDICATE,
            ExprKind::Collate(_) => COLLATE,
            _ => ATOM,
        }
    }

    fn binary_level(&self, op: BinaryOp) -> u8 {
        match op {
            BinaryOp::Eq
            | BinaryOp::NullSafeEq
            | BinaryOp::NotEq
            | BinaryOp::Less
            | BinaryOp::LessEq
            | BinaryOp::Greater
            | BinaryOp::GreaterEq => COMPARE,
            BinaryOp::SoundsLike => PREDICATE,
            BinaryOp::BitOr => 7,
            BinaryOp::BitAnd => 8,
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => 9,
            BinaryOp::Add | BinaryOp::Sub => ADD,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::IntDiv | BinaryOp::Mod => 11,
            BinaryOp::BitXor => 12,
            BinaryOp::Concat if self.mode.pipes_as_concat => 13,
            // Printed as a call.
            BinaryOp::Concat => ATOM,
        }
    }

    /// An expression where any may stand.
    pub(super) fn expr(&mut self, expr: &Expr<'_>) {
        let parens = self.all_parens && self.level(expr) < ATOM;
        self.put_if(parens, "(");
        self.bare_expr(expr);
        self.put_if(parens, ")");
    }

    /// An operand that must bind at `min` or tighter.
    fn operand(&mut self, expr: &Expr<'_>, min: u8) {
        let parens = !self.all_parens && self.level(expr) < min;
        self.put_if(parens, "(");
        self.expr(expr);
        self.put_if(parens, ")");
    }

    pub(super) fn exprs(&mut self, exprs: &[Expr<'_>]) {
        self.list(exprs, Self::expr);
    }

    fn call(&mut self, name: &str, args: &[Expr<'_>]) {
        self.put(name);
        self.put("(");
        self.exprs(args);
        self.put(")");
    }

    fn bare_expr(&mut self, expr: &Expr<'_>) {
        let level = self.level(expr);
        match &expr.kind {
            ExprKind::Literal(literal) => self.literal(literal),
            ExprKind::Param(_) => self.put("?"),
            ExprKind::Column(name) => self.column_name(name),
            ExprKind::UserVar(name) => self.user_var(name),
            ExprKind::AssignUserVar(node) => {
                self.user_var(node.name);
                self.put(" := ");
                self.expr(&node.value);
            }
            ExprKind::SystemVar(var) => self.system_var(var),
            ExprKind::Unary(op, operand) => self.unary(*op, operand, level),
            ExprKind::Binary(node) => self.binary(&node.left, &[(node.op, node.right)], level),
            ExprKind::Chain(node) => self.binary(&node.first, node.rest, level),
            ExprKind::Logical(op, terms) => {
                let word = match op {
                    LogicalOp::And => " AND ",
                    LogicalOp::Or => " OR ",
                    LogicalOp::Xor => " XOR ",
                };
                self.separated(terms, word, |p, term| p.operand(term, level + 1));
            }
            ExprKind::Is(node) => {
                self.operand(&node.expr, COMPARE + 1);
                self.put(if node.not { " IS NOT " } else { " IS " });
                self.put(match node.test {
                    IsTest::Null => "NULL",
                    IsTest::True => "TRUE",
                    IsTest::False => "FALSE",
                    IsTest::Unknown => "UNKNOWN",
                });
            }
            ExprKind::Exists(query) => {
                self.put("EXISTS ");
                self.paren_query(query);
            }
            ExprKind::Subquery(query) => self.paren_query(query),
            ExprKind::Row(items) => self.call("ROW", items),
            ExprKind::Quantified(node) => {
                self.operand(&node.left, COMPARE + 1);
                self.put(operator(node.op));
                self.put(if node.all { "ALL " } else { "ANY " });
                self.paren_query(node.query);
            }
            ExprKind::IntervalArith(node) => self.interval_arith(node),
            ExprKind::Collate(node) => {
                self.operand(&node.expr, COLLATE + 1);
                self.put(" COLLATE ");
                self.ident(&node.collation);
            }
            ExprKind::Default => self.put("DEFAULT"),
            ExprKind::Func(func) => self.func(func),
            _ => self.predicate(expr),
        }
    }

    /// LIKE and its kin; the rest goes on to `special`.
    fn predicate(&mut self, expr: &Expr<'_>) {
        let not = |not: bool| if not { " NOT" } else { "" };
        match &expr.kind {
            ExprKind::Like(node) => {
                self.operand(&node.expr, PREDICATE + 1);
                self.put(not(node.not));
                self.put(" LIKE ");
                self.operand(&node.pattern, PREDICATE + 1);
                if let Some(escape) = &node.escape {
                    self.put(" ESCAPE ");
                    self.operand(escape, UNARY);
                }
            }
            ExprKind::Regexp(node) => {
                self.operand(&node.expr, PREDICATE + 1);
                self.put(not(node.not));
                self.put(" REGEXP ");
                self.operand(&node.pattern, PREDICATE + 1);
            }
            ExprKind::Between(node) => {
                self.operand(&node.expr, PREDICATE + 1);
                self.put(not(node.not));
                self.put(" BETWEEN ");
                self.operand(&node.low, PREDICATE + 1);
                self.put(" AND ");
                self.operand(&node.high, PREDICATE + 1);
            }
            ExprKind::InList(node) => {
                self.operand(&node.expr, PREDICATE + 1);
                self.put(not(node.not));
                self.call(" IN ", node.list);
            }
            ExprKind::InQuery(node) => {
                self.operand(&node.expr, PREDICATE + 1);
                self.put(not(node.not));
                self.put(" IN ");
                self.paren_query(node.query);
            }
            ExprKind::MemberOf(node) => {
                self.operand(&node.expr, PREDICATE + 1);
                self.put(" MEMBER OF (");
                self.operand(&node.array, UNARY);
                self.put(")");
            }
            _ => self.special(expr),
        }
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr<'_>, level: u8) {
        self.put(match op {
            UnaryOp::Neg => "-",
            UnaryOp::Plus => "+",
            UnaryOp::BitNot => "~",
            UnaryOp::Not => "NOT ",
            UnaryOp::Binary => "BINARY ",
        });
        self.operand(operand, level + 1);
    }

    fn binary(&mut self, first: &Expr<'_>, rest: &[(BinaryOp, Expr<'_>)], level: u8) {
        if level == ATOM {
            self.put("CONCAT(");
            self.expr(first);
            for (_, operand) in rest {
                self.put(", ");
                self.expr(operand);
            }
            self.put(")");
            return;
        }
        self.operand(first, level + 1);
        for (op, operand) in rest {
            self.put(operator(*op));
            self.operand(operand, level + 1);
        }
    }

    fn interval_arith(&mut self, node: &IntervalArith<'_>) {
        let first = amount_first(node);
        if !first {
            self.operand(&node.date, ADD + 1);
            self.put(if node.subtract { " - " } else { " + " });
        }
        self.put("INTERVAL ");
        self.operand(&node.amount, UNARY);
        self.put(" ");
        self.put(unit(node.unit));
        if first {
            self.put(" + ");
            self.operand(&node.date, ADD + 1);
        }
    }

    pub(super) fn user_var(&mut self, name: &[u8]) {
        self.put("@");
        self.quoted_name(name);
    }

    fn system_var(&mut self, var: &SystemVar<'_>) {
        self.put("@@");
        self.put(match var.scope {
            VarScope::Default => "",
            VarScope::Global => "GLOBAL.",
            VarScope::Session => "SESSION.",
            VarScope::Persist => "PERSIST.",
            VarScope::PersistOnly => "PERSIST_ONLY.",
        });
        if let Some(component) = &var.component {
            self.ident(component);
            self.put(".");
        }
        self.ident(&var.name);
    }

    pub(super) fn literal(&mut self, literal: &Literal<'_>) {
        match literal {
            Literal::Null => self.put("NULL"),
            Literal::Bool(value) => self.put(if *value { "TRUE" } else { "FALSE" }),
            Literal::Int(value) => self.number(*value),
            Literal::Decimal(text) | Literal::Float(text) => self.put(text),
            Literal::String(text) => self.string(text),
            Literal::Introduced(text) => {
                self.put("_");
                self.put(text.charset);
                self.string(text.bytes);
            }
            Literal::Hex(bytes) => self.hex(bytes),
            Literal::Bit(bytes) => {
                self.put("b'");
                for byte in *bytes {
                    self.put(&format!("{byte:08b}"));
                }
                self.put("'");
            }
            Literal::Date(text) => self.temporal("DATE ", text),
            Literal::Time(text) => self.temporal("TIME ", text),
            Literal::Timestamp(text) => self.temporal("TIMESTAMP ", text),
        }
    }

    fn temporal(&mut self, word: &str, text: &[u8]) {
        self.put(word);
        self.string(text);
    }

    pub(super) fn hex(&mut self, bytes: &[u8]) {
        self.put("x'");
        for byte in bytes {
            self.put(&format!("{byte:02X}"));
        }
        self.put("'");
    }

    fn func(&mut self, func: &Func<'_>) {
        if let Some(schema) = &func.schema {
            self.ident(schema);
            self.put(".");
            self.ident(&func.name);
        } else {
            self.put(func.name.name);
        }
        self.put("(");
        self.put_if(func.star, "*");
        self.put_if(func.distinct, "DISTINCT ");
        self.exprs(func.args);
        self.order_by(func.order_by);
        self.opt_string(" SEPARATOR ", func.separator);
        self.put(")");
        self.put_if(func.from_last, " FROM LAST");
        self.put_if(func.ignore_nulls, " IGNORE NULLS");
        match func.over {
            Some(Window::Named(name)) => self.opt_ident(" OVER ", Some(name)),
            Some(Window::Spec(spec)) => {
                self.put(" OVER ");
                self.window_spec(spec);
            }
            None => {}
        }
    }

    /// ` ORDER BY ...`, or nothing for an empty list.
    pub(super) fn order_by(&mut self, items: &[OrderItem<'_>]) {
        if !items.is_empty() {
            self.put(" ORDER BY ");
            self.order_items(items);
        }
    }

    pub(super) fn order_items(&mut self, items: &[OrderItem<'_>]) {
        self.list(items, |p, item| {
            p.expr(&item.expr);
            p.put_if(item.desc, " DESC");
        });
    }

    pub(super) fn window_spec(&mut self, spec: &WindowSpec<'_>) {
        self.put("(");
        self.opt_ident("", spec.base.as_ref());
        if !spec.partition_by.is_empty() {
            self.put(" PARTITION BY ");
            self.exprs(spec.partition_by);
        }
        self.order_by(spec.order_by);
        if let Some(frame) = &spec.frame {
            self.frame(frame);
        }
        self.put(")");
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.put(if frame.range { " RANGE " } else { " ROWS " });
        if let Some(end) = &frame.end {
            self.put("BETWEEN ");
            self.frame_bound(&frame.start);
            self.put(" AND ");
            self.frame_bound(end);
        } else {
            self.frame_bound(&frame.start);
        }
    }

    fn frame_bound(&mut self, bound: &FrameBound<'_>) {
        let (amount, interval, word) = match bound {
            FrameBound::CurrentRow => return self.put("CURRENT ROW"),
            FrameBound::UnboundedPreceding => return self.put("UNBOUNDED PRECEDING"),
            FrameBound::UnboundedFollowing => return self.put("UNBOUNDED FOLLOWING"),
            FrameBound::Preceding(amount, interval) => (amount, interval, " PRECEDING"),
            FrameBound::Following(amount, interval) => (amount, interval, " FOLLOWING"),
        };
        self.put_if(interval.is_some(), "INTERVAL ");
        self.operand(amount, UNARY);
        if let Some(interval) = interval {
            self.put(" ");
            self.put(unit(*interval));
        }
        self.put(word);
    }

    /// Functions with a syntax of their own.
    fn special(&mut self, expr: &Expr<'_>) {
        match &expr.kind {
            ExprKind::Case(node) => {
                self.put("CASE");
                if let Some(operand) = &node.operand {
                    self.put(" ");
                    self.expr(operand);
                }
                for (when, then) in node.arms {
                    self.put(" WHEN ");
                    self.expr(when);
                    self.put(" THEN ");
                    self.expr(then);
                }
                if let Some(otherwise) = &node.otherwise {
                    self.put(" ELSE ");
                    self.expr(otherwise);
                }
                self.put(" END");
            }
            ExprKind::Cast(node) => {
                self.put("CAST(");
                self.expr(&node.expr);
                self.opt_string(" AT TIME ZONE ", node.time_zone);
                self.put(" AS ");
                self.cast_type(&node.ty);
                self.put_if(node.array, " ARRAY");
                self.put(")");
            }
            ExprKind::ConvertUsing(node) => {
                self.put("CONVERT(");
                self.expr(&node.expr);
                self.opt_ident(" USING ", Some(&node.charset));
                self.put(")");
            }
            ExprKind::CharUsing(node) => {
                self.put("CHAR(");
                self.exprs(node.args);
                self.opt_ident(" USING ", Some(&node.charset));
                self.put(")");
            }
            ExprKind::Extract(of, from) => {
                self.put("EXTRACT(");
                self.put(unit(*of));
                self.put(" FROM ");
                self.expr(from);
                self.put(")");
            }
            ExprKind::Trim(node) => {
                self.put(match node.side {
                    TrimSide::Both => "TRIM(BOTH ",
                    TrimSide::Leading => "TRIM(LEADING ",
                    TrimSide::Trailing => "TRIM(TRAILING ",
                });
                if let Some(what) = &node.what {
                    self.expr(what);
                    self.put(" ");
                }
                self.put("FROM ");
                self.expr(&node.from);
                self.put(")");
            }
            ExprKind::WeightString(node) => {
                self.put("WEIGHT_STRING(");
                self.expr(&node.expr);
                if let Some(length) = node.length {
                    self.put(if node.binary {
                        " AS BINARY("
                    } else {
                        " AS CHAR("
                    });
                    self.number(length);
                    self.put(")");
                }
                self.put(")");
            }
            ExprKind::JsonValue(node) => self.json_value(node),
            ExprKind::JsonPath(node) => {
                self.column_name(node.column);
                self.put(if node.unquote { "->>" } else { "->" });
                self.string(node.path);
            }
            ExprKind::TimestampArith(node) => {
                self.put(if node.diff {
                    "TIMESTAMPDIFF("
                } else {
                    "TIMESTAMPADD("
                });
                self.put(unit(node.unit));
                self.put(", ");
                self.exprs(&[node.a, node.b]);
                self.put(")");
            }
            ExprKind::GetFormat(kind, format) => {
                self.put(match kind {
                    TemporalKind::Date => "GET_FORMAT(DATE, ",
                    TemporalKind::Time => "GET_FORMAT(TIME, ",
                    TemporalKind::DateTime => "GET_FORMAT(DATETIME, ",
                });
                self.expr(format);
                self.put(")");
            }
            ExprKind::Match(node) => {
                self.put("MATCH ");
                self.paren_list(node.columns, Self::column_name);
                self.put(" AGAINST (");
                self.operand(&node.against, PREDICATE + 1);
                self.put(match node.mode {
                    MatchMode::NaturalLanguage => ")",
                    MatchMode::QueryExpansion => " WITH QUERY EXPANSION)",
                    MatchMode::Boolean => " IN BOOLEAN MODE)",
                });
            }
            ExprKind::DefaultOf(column) => self.of_column("DEFAULT(", column),
            ExprKind::ValuesOf(column) => self.of_column("VALUES(", column),
            _ => {}
        }
    }

    fn of_column(&mut self, word: &str, column: &super::ColumnName<'_>) {
        self.put(word);
        self.column_name(column);
        self.put(")");
    }

    fn json_value(&mut self, node: &JsonValue<'_>) {
        self.put("JSON_VALUE(");
        self.expr(&node.doc);
        self.put(", ");
        self.string(node.path);
        if let Some(ty) = &node.returning {
            self.put(" RETURNING ");
            self.cast_type(ty);
        }
        self.json_responses(node.on_empty.as_ref(), node.on_error.as_ref());
        self.put(")");
    }

    pub(super) fn json_responses(
        &mut self,
        on_empty: Option<&JsonOnResponse<'_>>,
        on_error: Option<&JsonOnResponse<'_>>,
    ) {
        for (response, end) in [(on_empty, " ON EMPTY"), (on_error, " ON ERROR")] {
            match response {
                Some(JsonOnResponse::Error) => self.put(" ERROR"),
                Some(JsonOnResponse::Null) => self.put(" NULL"),
                Some(JsonOnResponse::Default(literal)) => {
                    self.put(" DEFAULT ");
                    self.literal(literal);
                }
                None => continue,
            }
            self.put(end);
        }
    }

    /// A type as CAST takes it.
    fn cast_type(&mut self, ty: &DataType<'_>) {
        if ty.kind == super::super::ast::TypeKind::BigInt && ty.length.is_none() && !ty.zerofill {
            self.put(if ty.unsigned { "UNSIGNED" } else { "SIGNED" });
        } else {
            self.data_type(ty);
        }
    }
}

/// True for `INTERVAL n unit + date`: the amount comes first in the text.
fn amount_first(node: &IntervalArith<'_>) -> bool {
    node.amount.span.start < node.date.span.start
}

fn logical_level(op: LogicalOp) -> u8 {
    match op {
        LogicalOp::Or => OR,
        LogicalOp::Xor => XOR,
        LogicalOp::And => AND,
    }
}

/// The spelling of an operator with the space around it.
pub(super) fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => " + ",
        BinaryOp::Sub => " - ",
        BinaryOp::Mul => " * ",
        BinaryOp::Div => " / ",
        BinaryOp::IntDiv => " DIV ",
        BinaryOp::Mod => " % ",
        BinaryOp::BitAnd => " & ",
        BinaryOp::BitOr => " | ",
        BinaryOp::BitXor => " ^ ",
        BinaryOp::ShiftLeft => " << ",
        BinaryOp::ShiftRight => " >> ",
        BinaryOp::Eq => " = ",
        BinaryOp::NullSafeEq => " <=> ",
        BinaryOp::NotEq => " <> ",
        BinaryOp::Less => " < ",
        BinaryOp::LessEq => " <= ",
        BinaryOp::Greater => " > ",
        BinaryOp::GreaterEq => " >= ",
        BinaryOp::Concat => " || ",
        BinaryOp::SoundsLike => " SOUNDS LIKE ",
    }
}

/// The spelling of a unit.
pub(super) fn unit(unit: IntervalUnit) -> &'static str {
    use IntervalUnit as U;
    match unit {
        U::Microsecond => "MICROSECOND",
        U::Second => "SECOND",
        U::Minute => "MINUTE",
        U::Hour => "HOUR",
        U::Day => "DAY",
        U::Week => "WEEK",
        U::Month => "MONTH",
        U::Quarter => "QUARTER",
        U::Year => "YEAR",
        U::SecondMicrosecond => "SECOND_MICROSECOND",
        U::MinuteMicrosecond => "MINUTE_MICROSECOND",
        U::MinuteSecond => "MINUTE_SECOND",
        U::HourMicrosecond => "HOUR_MICROSECOND",
        U::HourSecond => "HOUR_SECOND",
        U::HourMinute => "HOUR_MINUTE",
        U::DayMicrosecond => "DAY_MICROSECOND",
        U::DaySecond => "DAY_SECOND",
        U::DayMinute => "DAY_MINUTE",
        U::DayHour => "DAY_HOUR",
        U::YearMonth => "YEAR_MONTH",
    }
}
