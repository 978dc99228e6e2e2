//! Expressions.
//!
//! An operand is parenthesized unless it binds tighter than its operator, on the left side, too:
//! `(a + b) + c` is a different tree from the chain `a + b + c`.

use super::super::ast::{
    BinaryOp, Expr, ExprKind, IntervalArith, IsTest, Literal, LogicalOp, OrderItem, SystemVar,
    TemporalKind, UnaryOp, VarScope,
};
use super::Printer;
use super::call::unit;

/// Precedence levels, as in the parser.
const OR: u8 = 1;
const XOR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARE: u8 = 5;
pub(super) const PREDICATE: u8 = 6;
const ADD: u8 = 10;
pub(super) const UNARY: u8 = 14;
const COLLATE: u8 = 15;
const ATOM: u8 = 20;

impl Printer<'_> {
    fn level(&self, expr: &Expr<'_>) -> u8 {
        match &expr.kind {
            ExprKind::AssignUserVar(_) => 0,
            ExprKind::IntervalArith(node) if amount_first(node) => 0,
            ExprKind::IntervalArith(_) => ADD,
            ExprKind::Logical(op, _) => logical_level(*op),
            // `x IN (...) IS FALSE`
            _ if self.shown.is_some() && super::view::is_negated_query(expr) => COMPARE,
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

    pub(super) fn binary_level(&self, op: BinaryOp) -> u8 {
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

    /// An expression where any is allowed.
    pub(super) fn expr(&mut self, expr: &Expr<'_>) {
        let parens = self.all_parens && self.level(expr) < ATOM && !self.is_bare(expr);
        self.put_if(parens, "(");
        self.bare_expr(expr);
        self.put_if(parens, ")");
    }

    /// An operand that must have level `min` or higher.
    pub(super) fn operand(&mut self, expr: &Expr<'_>, min: u8) {
        let is_closed = matches!(expr.kind, ExprKind::Unary(..) | ExprKind::Regexp(_))
            && !super::view::is_negated_query(expr);
        let needs = !self.all_parens || (self.is_bare(expr) && !is_closed);
        let parens = needs && self.level(expr) < min;
        self.put_if(parens, "(");
        self.expr(expr);
        self.put_if(parens, ")");
    }

    /// Whether the text of a view has the expression without parentheses.
    fn is_bare(&self, expr: &Expr<'_>) -> bool {
        self.shown.is_some() && super::view::is_bare(expr)
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
        if self.shown.is_some() && self.shown_expr(expr) {
            return;
        }
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
                self.separated(terms, word, |p, term| p.term(term, level + 1));
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
                self.operand_query(query);
            }
            ExprKind::Subquery(query) => self.operand_query(query),
            ExprKind::Row(items) => self.call("ROW", items),
            ExprKind::Quantified(node) => {
                self.operand(&node.left, COMPARE + 1);
                self.put(operator(node.op));
                self.put(if node.all { "ALL " } else { "ANY " });
                self.operand_query(node.query);
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

    /// LIKE and similar predicates; other expressions are passed to `special`.
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
                self.operand_query(node.query);
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

    /// A term of AND, OR or XOR.
    fn term(&mut self, term: &Expr<'_>, min: u8) {
        if self.shown.is_some() {
            self.condition(term);
        } else {
            self.operand(term, min);
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
            let separator = if self.shown.is_some() { "," } else { ", " };
            self.put("CONCAT(");
            self.expr(first);
            for (_, operand) in rest {
                self.put(separator);
                self.expr(operand);
            }
            self.put(")");
            return;
        }
        self.operand(first, level + 1);
        for (op, operand) in rest {
            self.exactly(operator(*op));
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
            Literal::Odbc(kind, text) => {
                self.put(match kind {
                    TemporalKind::Date => "{d ",
                    TemporalKind::Time => "{t ",
                    TemporalKind::DateTime => "{ts ",
                });
                self.string(text);
                self.put("}");
            }
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
}

/// Whether it is `INTERVAL n unit + date`, in which the amount comes first in the text.
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

/// The spelling of an operator, with surrounding spaces.
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
