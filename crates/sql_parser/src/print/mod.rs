//! Printer: from the syntax tree to canonical text.
//!
//! The text is MySQL's, with keywords in upper case, identifiers in backticks, strings in single
//! quotes, and parentheses only where the shape of the tree needs them. It is bytes, because string
//! literals may contain any bytes.
//!
//! Invariants
//! 1. Parsing the text in the same mode gives a tree equal to the one printed.
//! 2. Parameters appear in the order of their numbers.

mod admin;
mod alter;
mod call;
mod ddl;
mod dml;
mod event;
mod expr;
mod key_prefix;
mod query;
mod replication;
mod routine;
mod show;
mod shown_call;
mod user;
mod view;

pub use view::{Names, QualifiedName, definition_expr, view_query};

use super::LexMode;
use super::ast::{ColumnName, Expr, Ident, Query, Statement, TableName};

/// The text of a statement, to be parsed in `mode`.
#[must_use]
pub fn statement(statement: &Statement<'_>, mode: LexMode) -> Vec<u8> {
    let mut printer = Printer::new(mode);
    printer.statement(statement);
    printer.out
}

/// The text of an expression, to be parsed in `mode`.
#[must_use]
pub fn expr(expr: &Expr<'_>, mode: LexMode) -> Vec<u8> {
    let mut printer = Printer::new(mode);
    printer.expr(expr);
    printer.out
}

/// The text of an expression with parentheses around every operator, to show its shape.
#[must_use]
pub fn expr_shape(expr: &Expr<'_>, mode: LexMode) -> Vec<u8> {
    let mut printer = Printer::new(mode);
    printer.all_parens = true;
    printer.expr(expr);
    printer.out
}

/// The keyword of a unit of time.
#[must_use]
pub fn unit_name(unit: super::ast::IntervalUnit) -> &'static str {
    call::unit(unit)
}

/// The text of a query, to be parsed in `mode`.
#[must_use]
pub fn query(query: &Query<'_>, mode: LexMode) -> Vec<u8> {
    let mut printer = Printer::new(mode);
    printer.query(query);
    printer.out
}

/// The text of a query with the names that it was resolved to, to be parsed in `mode`: columns have
/// their tables, stars are lists of columns, and computed columns have names.
#[must_use]
pub fn resolved_query(query: &Query<'_>, names: &Names, mode: LexMode) -> Vec<u8> {
    let mut printer = Printer::new(mode);
    printer.names = Some(names);
    printer.query(query);
    printer.out
}

/// Output buffer of the printer.
pub(super) struct Printer<'p> {
    out: Vec<u8>,
    mode: LexMode,
    all_parens: bool,
    /// Resolved names, if the query is printed with them.
    names: Option<&'p Names>,
    /// Qualification of names in the text of SHOW CREATE VIEW; `None` for other texts.
    shown: Option<view::Shown<'p>>,
    /// Whether the query is an operand of an expression: its columns need no names.
    is_operand: bool,
    /// Whether no SELECT has been printed yet: the names of its columns are the query's.
    is_first: bool,
}

impl Printer<'_> {
    fn new(mode: LexMode) -> Printer<'static> {
        Printer {
            out: Vec::with_capacity(128),
            mode,
            all_parens: false,
            names: None,
            shown: None,
            is_operand: false,
            is_first: true,
        }
    }

    /// Appends keywords and punctuation, in lower case in the text of a view.
    fn put(&mut self, text: &str) {
        if self.shown.is_some() {
            self.out
                .extend(text.bytes().map(|b| b.to_ascii_lowercase()));
        } else {
            self.exactly(text);
        }
    }

    /// Appends a text as it is.
    fn exactly(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Appends text if a condition is true.
    fn put_if(&mut self, condition: bool, text: &str) {
        if condition {
            self.put(text);
        }
    }

    fn number(&mut self, number: u64) {
        self.put(&number.to_string());
    }

    fn quoted_name(&mut self, name: &[u8]) {
        self.out.push(b'`');
        for &byte in name {
            if byte == b'`' {
                self.out.push(b'`');
            }
            self.out.push(byte);
        }
        self.out.push(b'`');
    }

    /// A name. An empty one was written as a text, where the grammar allows either: as a quoted name
    /// it could not be parsed.
    fn ident(&mut self, ident: &Ident<'_>) {
        if ident.name.is_empty() {
            self.string(b"");
        } else {
            self.quoted_name(ident.name.as_bytes());
        }
    }

    /// A keyword that the tree stores as a name.
    fn word(&mut self, ident: &Ident<'_>) {
        self.put(ident.name);
    }

    fn string(&mut self, text: &[u8]) {
        if self.shown.is_some() {
            return self.shown_string(text);
        }
        self.out.push(b'\'');
        for &byte in text {
            match byte {
                b'\'' => self.put("''"),
                b'\\' if !self.mode.no_backslash_escapes => self.put("\\\\"),
                0 if !self.mode.no_backslash_escapes => self.put("\\0"),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'\'');
    }

    fn table_name(&mut self, name: &TableName<'_>) {
        if let Some(schema) = &name.schema {
            self.ident(schema);
            self.put(".");
        }
        self.ident(&name.name);
    }

    fn column_name(&mut self, name: &ColumnName<'_>) {
        if self.resolved_column(name) {
            return;
        }
        for part in [&name.schema, &name.table].into_iter().flatten() {
            self.ident(part);
            self.put(".");
        }
        self.ident(&name.name);
    }

    /// Items with a separator between them.
    fn separated<T>(&mut self, items: &[T], separator: &str, mut item: impl FnMut(&mut Self, &T)) {
        for (index, each) in items.iter().enumerate() {
            self.put_if(index > 0, separator);
            item(self, each);
        }
    }

    /// Items separated by commas.
    fn list<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        let separator = if self.shown.is_some() { "," } else { ", " };
        self.separated(items, separator, item);
    }

    /// Items in parentheses.
    fn paren_list<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        self.put("(");
        self.list(items, item);
        self.put(")");
    }

    fn idents(&mut self, idents: &[Ident<'_>]) {
        self.list(idents, Self::ident);
    }

    /// ` (a, b)`, or nothing for an empty list.
    fn opt_idents(&mut self, idents: &[Ident<'_>]) {
        if !idents.is_empty() {
            self.put(" (");
            self.idents(idents);
            self.put(")");
        }
    }

    /// ` PARTITION (a, b)`, or nothing for an empty list.
    fn opt_partitions(&mut self, partitions: &[Ident<'_>]) {
        if !partitions.is_empty() {
            self.put(" PARTITION");
            self.opt_idents(partitions);
        }
    }

    /// `prefix` and a name, or nothing.
    fn opt_ident(&mut self, prefix: &str, ident: Option<&Ident<'_>>) {
        if let Some(ident) = ident {
            self.put(prefix);
            self.ident(ident);
        }
    }

    /// `prefix` and a string, or nothing.
    fn opt_string(&mut self, prefix: &str, text: Option<&[u8]>) {
        if let Some(text) = text {
            self.put(prefix);
            self.string(text);
        }
    }

    /// `prefix` and a number, or nothing.
    fn opt_number(&mut self, prefix: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.put(prefix);
            self.number(number);
        }
    }

    /// `prefix` and a name, or DEFAULT.
    fn name_or_default(&mut self, prefix: &str, ident: Option<&Ident<'_>>) {
        self.put(prefix);
        match ident {
            Some(ident) => self.ident(ident),
            None => self.put("DEFAULT"),
        }
    }
}
