//! The text of a view's query as SHOW CREATE VIEW and information_schema.VIEWS have it, in MySQL's
//! spelling: keywords in lower case, names in backticks, operators in parentheses, functions by one
//! of their names, joins as a tree.
//!
//! A view is stored with its names resolved ([`Names`]), because the text that was written does not
//! say which table a column belongs to. From there on, the text depends on nothing else.
//!
//! Invariant: parsing the text in the default mode gives a query with the same result.

use super::super::LexMode;
use super::super::ast::{
    BinaryOp, Case, Chain, ColumnName, Expr, ExprKind, Frame, FrameBound, FrameUnit, Func, Ident,
    IndexHint, IndexHintFor, IndexHintKind, IsTest, Join, JoinCondition, JoinKind, Like, Literal,
    OrderItem, Query, QueryBody, Select, SelectItem, TableFactor, TableName, TableRef, TableSource,
    UnaryOp, WindowSpec, With,
};
use super::Printer;
use super::call::unit;
use std::collections::BTreeMap;

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 64;

/// A column by the name of its table in the FROM clause and its own.
pub type QualifiedName = (String, String);

/// Resolved names of a query, by their positions in its text.
#[derive(Debug, Default)]
pub struct Names {
    /// The text of the statement.
    pub text: String,
    /// Columns, by the position of the last part of the name. Names that are not here refer to
    /// select-list items.
    pub columns: BTreeMap<u32, QualifiedName>,
    /// Columns of `*`, by the position of its SELECT, and of `t.*`, by the position of `t`.
    pub stars: BTreeMap<u32, Vec<QualifiedName>>,
    /// The database of the view, whose tables are printed without it.
    pub database: String,
    /// Databases of tables and views, by the position of the name.
    pub tables: BTreeMap<u32, String>,
    /// Databases of stored functions, by the position of the name.
    pub functions: BTreeMap<u32, String>,
    /// Columns that USING and NATURAL JOIN equate, by [`Names::join_position`].
    pub merged: BTreeMap<u32, Vec<(QualifiedName, QualifiedName)>>,
    /// Names of the columns of the first SELECT, which are the query's.
    pub items: Vec<String>,
}

impl Names {
    /// The position in the text that identifies a join with this right side.
    #[must_use]
    pub fn join_position(right: &TableFactor<'_>) -> u32 {
        match right {
            TableFactor::Table(source) => source.name.name.span.start,
            TableFactor::Derived(derived) => derived.alias.span.start,
            TableFactor::JsonTable(table) => table.alias.span.start,
            TableFactor::Nested(tables) => tables
                .first()
                .map_or(0, |table| Names::join_position(&table.first)),
        }
    }

    /// The columns that a join equates by their names, if it does.
    pub(super) fn merged(&self, join: &Join<'_>) -> Option<&[(QualifiedName, QualifiedName)]> {
        let by_name = join.natural || matches!(join.condition, JoinCondition::Using(_));
        let columns = self.merged.get(&Names::join_position(&join.right));
        columns.filter(|_| by_name).map(Vec::as_slice)
    }
}

/// State of printing the text of a view.
#[derive(Debug)]
pub(super) struct Shown<'p> {
    /// The database of the view.
    database: &'p str,
    /// The default database of the session, whose tables are shown without it.
    current: Option<&'p str>,
    /// Names of common table expressions in scope.
    ctes: Vec<String>,
    /// Names of the tables in scope, with the database that their columns are shown with.
    tables: Vec<(String, Option<String>)>,
    /// Whether texts are shown with their character set.
    introducers: bool,
}

/// A printer in MySQL's spelling.
fn spelling<'p>(database: &'p str, current: Option<&'p str>, introducers: bool) -> Printer<'p> {
    Printer {
        out: Vec::with_capacity(256),
        mode: LexMode::default(),
        all_parens: true,
        names: None,
        shown: Some(Shown {
            database,
            current,
            ctes: Vec::new(),
            tables: Vec::new(),
            introducers,
        }),
        is_operand: false,
        is_first: true,
    }
}

/// The text of a stored query of a view of `database`, as a session with the default database
/// `current` sees it.
#[must_use]
pub fn view_query(query: &Query<'_>, database: &str, current: Option<&str>) -> Vec<u8> {
    let mut printer = spelling(database, current, false);
    printer.query(query);
    printer.out
}

/// The text of an expression of a table's definition (CHECK, DEFAULT, generated columns, key parts) as
/// SHOW CREATE TABLE has it: texts have their character set.
#[must_use]
pub fn definition_expr(expr: &Expr<'_>) -> Vec<u8> {
    let mut printer = spelling("", None, true);
    printer.expr(expr);
    printer.out
}

impl Printer<'_> {
    fn qualified(&mut self, (table, column): &QualifiedName) {
        self.quoted_name(table.as_bytes());
        self.put(".");
        self.quoted_name(column.as_bytes());
    }

    /// A column with its table, if that is known. Returns false if nothing was printed.
    pub(super) fn resolved_column(&mut self, name: &ColumnName<'_>) -> bool {
        if let Some(names) = self.names
            && let Some(column) = names.columns.get(&name.name.span.start)
        {
            self.qualified(column);
            return true;
        }
        let (Some(shown), Some(table), None) = (&self.shown, &name.table, &name.schema) else {
            return false;
        };
        let mut tables = shown.tables.iter().rev();
        let found = tables.find(|(known, _)| known.eq_ignore_ascii_case(table.name));
        if let Some(database) = found.and_then(|(_, database)| database.clone()) {
            self.quoted_name(database.as_bytes());
            self.put(".");
        }
        self.ident(table);
        self.put(".");
        self.ident(&name.name);
        true
    }

    /// The name of a table; with its database, if that is not the view's, or in the text of a view that
    /// of the session.
    pub(super) fn table_of(&mut self, name: &TableName<'_>) {
        if self.shown.is_some() {
            if let Some(database) = self.database_of(name) {
                self.quoted_name(database.as_bytes());
                self.put(".");
            }
            return self.ident(&name.name);
        }
        if let (Some(names), None) = (self.names, &name.schema)
            && let Some(database) = names.tables.get(&name.name.span.start)
            && *database != names.database
        {
            self.quoted_name(database.as_bytes());
            self.put(".");
        }
        self.table_name(name);
    }

    /// The name of a function with its database, if it is a stored one. Returns false if nothing was
    /// printed.
    pub(super) fn stored_function(&mut self, func: &Func<'_>) -> bool {
        let database = match (&func.schema, &self.shown, self.names) {
            (Some(schema), Some(shown), _) => {
                Some(schema.name.to_owned()).filter(|name| shown.current != Some(name))
            }
            (None, None, Some(names)) => match names.functions.get(&func.name.span.start) {
                Some(database) => Some(database.clone()),
                None => return false,
            },
            _ => return false,
        };
        if let Some(database) = database {
            self.quoted_name(database.as_bytes());
            self.put(".");
        }
        self.ident(&func.name);
        true
    }

    /// An item of a select list with its name; `at` is the number of columns before it. Returns the
    /// number of columns printed; `None` if the item is printed as it is.
    pub(super) fn resolved_item(
        &mut self,
        select: &Select<'_>,
        item: &SelectItem<'_>,
        (is_first, at): (bool, usize),
    ) -> Option<usize> {
        let Some(names) = self.names else {
            return self.shown_item(item);
        };
        let star = match item {
            SelectItem::Wildcard => names.stars.get(&select.span.start),
            SelectItem::TableWildcard(name) => names.stars.get(&name.name.span.start),
            SelectItem::Expr { expr, alias, span } => {
                if self.is_operand {
                    return None;
                }
                self.expr(expr);
                let given = names.items.get(at).filter(|_| is_first).cloned();
                let name = match (given, alias) {
                    (Some(given), _) => given,
                    (None, Some(alias)) => alias.name.to_owned(),
                    (None, None) => item_name(expr, names, (span.start, span.end)),
                };
                if !name.is_empty() && name.chars().count() <= MAX_NAME {
                    self.put(" AS ");
                    self.quoted_name(name.as_bytes());
                } else if let Some(alias) = alias {
                    self.put(" AS ");
                    self.string(alias.name.as_bytes());
                }
                return Some(1);
            }
        };
        let star = star?;
        self.list(star, Self::qualified);
        Some(star.len())
    }

    fn shown_item(&mut self, item: &SelectItem<'_>) -> Option<usize> {
        self.shown.as_ref()?;
        let SelectItem::Expr { expr, alias, .. } = item else {
            return None;
        };
        self.expr(expr);
        let own = match &expr.kind {
            ExprKind::Column(column) if !self.is_operand => Some(column.name),
            _ => None,
        };
        if let Some(name) = alias.or(own) {
            self.exactly(" AS ");
            self.quoted_name(name.name.as_bytes());
        }
        Some(1)
    }

    /// Prints the condition that is equivalent to USING or NATURAL JOIN.
    pub(super) fn merged_condition(
        &mut self,
        merged: &[(QualifiedName, QualifiedName)],
        kind: JoinKind,
    ) {
        if merged.is_empty() {
            let is_outer = matches!(kind, JoinKind::Left | JoinKind::Right);
            return self.put_if(is_outer, " ON TRUE");
        }
        self.put(" ON ");
        self.separated(merged, " AND ", |p, (left, right)| {
            p.qualified(left);
            p.put(" = ");
            p.qualified(right);
        });
    }

    /// A condition: a value that is not a truth value is compared with 0.
    pub(super) fn condition(&mut self, expr: &Expr<'_>) {
        if self.shown.is_none() || is_boolean(expr) {
            return self.expr(expr);
        }
        self.put("(0 <> ");
        self.expr(expr);
        self.put(")");
    }

    pub(super) fn shown_query(&mut self, query: &Query<'_>) {
        let outside = self.shown.as_ref().map_or(0, |shown| shown.ctes.len());
        if let Some(with) = query.with {
            self.shown_with(with);
        }
        let items = match &query.body {
            QueryBody::Select(select) => select.items,
            _ => &[],
        };
        let tables = self.scope_size();
        if let QueryBody::Select(select) = &query.body {
            self.enter(select);
        }
        self.query_body(&query.body);
        if !query.order_by.is_empty() {
            self.put(" ORDER BY ");
            self.order_items_of(query.order_by, items);
        }
        if let Some(limit) = query.limit {
            self.put(" LIMIT ");
            if let Some(offset) = &limit.offset {
                self.expr(offset);
                self.put(",");
            }
            self.expr(&limit.count);
        }
        for lock in query.locks {
            self.lock_clause(lock);
        }
        self.leave(tables);
        if let Some(shown) = &mut self.shown {
            shown.ctes.truncate(outside);
        }
    }

    /// Number of tables in scope.
    pub(super) fn scope_size(&self) -> usize {
        self.shown.as_ref().map_or(0, |shown| shown.tables.len())
    }

    /// Removes the tables that were added since [`Printer::scope_size`] was `size`.
    pub(super) fn leave(&mut self, size: usize) {
        if let Some(shown) = &mut self.shown {
            shown.tables.truncate(size);
        }
    }

    fn shown_with(&mut self, with: &With<'_>) {
        self.put(if with.recursive {
            "WITH RECURSIVE "
        } else {
            "WITH "
        });
        for (at, cte) in with.ctes.iter().enumerate() {
            self.put_if(at > 0, ",");
            self.ident(&cte.name);
            self.opt_idents(cte.columns);
            self.put(" AS ");
            if with.recursive {
                self.add_cte(&cte.name);
            }
            self.named_query(cte.query);
            self.add_cte(&cte.name);
        }
        self.put(" ");
    }

    fn add_cte(&mut self, name: &Ident<'_>) {
        if let Some(shown) = &mut self.shown {
            shown.ctes.push(name.name.to_owned());
        }
    }

    /// Adds the tables of a SELECT to those in scope.
    pub(super) fn enter(&mut self, select: &Select<'_>) {
        for table in select.from {
            self.enter_table(table);
        }
    }

    fn enter_table(&mut self, table: &TableRef<'_>) {
        let right = table.joins.iter().map(|join| &join.right);
        for factor in std::iter::once(&table.first).chain(right) {
            let (name, database) = match factor {
                TableFactor::Nested(tables) => {
                    tables.iter().for_each(|table| self.enter_table(table));
                    continue;
                }
                TableFactor::Table(source) => match &source.alias {
                    Some(alias) => (alias.name, None),
                    None => (source.name.name.name, self.database_of(&source.name)),
                },
                TableFactor::Derived(derived) => (derived.alias.name, None),
                TableFactor::JsonTable(table) => (table.alias.name, None),
            };
            if let Some(shown) = &mut self.shown {
                shown.tables.push((name.to_owned(), database));
            }
        }
    }

    /// The database that a table is shown with.
    fn database_of(&self, name: &TableName<'_>) -> Option<String> {
        let shown = self.shown.as_ref()?;
        let is_cte = |cte: &String| cte.eq_ignore_ascii_case(name.name.name);
        let database = match &name.schema {
            Some(schema) => schema.name,
            None if shown.ctes.iter().any(is_cte) => return None,
            None => shown.database,
        };
        (shown.current != Some(database)).then(|| database.to_owned())
    }

    /// The tables of FROM as a tree of joins.
    pub(super) fn shown_from(&mut self, from: &[TableRef<'_>]) {
        let mut tree: Option<Vec<u8>> = None;
        for table in from {
            let next = self.captured(|p| p.shown_joins(table));
            tree = Some(match tree {
                None => next,
                Some(before) => [b"(", before.as_slice(), b" join ", &next, b")"].concat(),
            });
        }
        self.out.extend(tree.unwrap_or_default());
    }

    fn shown_joins(&mut self, table: &TableRef<'_>) {
        let mut tree = self.captured(|p| p.shown_factor(&table.first));
        for join in table.joins {
            let mut left = std::mem::take(&mut tree);
            let mut right = self.captured(|p| p.shown_factor(&join.right));
            let word: &[u8] = match join.kind {
                JoinKind::Inner => b" join ",
                JoinKind::Straight => b" straight_join ",
                JoinKind::Left => b" left join ",
                JoinKind::Right => {
                    std::mem::swap(&mut left, &mut right);
                    b" left join "
                }
            };
            let on = self.captured(|p| p.shown_on(join));
            tree = [b"(", left.as_slice(), word, &right, &on, b")"].concat();
        }
        self.out.extend(tree);
    }

    fn shown_on(&mut self, join: &Join<'_>) {
        match &join.condition {
            JoinCondition::On(on) => {
                self.put(" on(");
                self.condition(on);
                self.put(")");
            }
            JoinCondition::Using(columns) => {
                self.put(" using");
                self.opt_idents(columns);
            }
            // An outer join needs a condition.
            JoinCondition::None if matches!(join.kind, JoinKind::Left | JoinKind::Right) => {
                self.put(" on(true)");
            }
            JoinCondition::None => {}
        }
    }

    fn shown_factor(&mut self, factor: &TableFactor<'_>) {
        match factor {
            TableFactor::Nested(tables) => self.shown_from(tables),
            other => self.table_factor(other),
        }
    }

    /// The text that `print` appends.
    fn captured(&mut self, print: impl FnOnce(&mut Self)) -> Vec<u8> {
        let outside = std::mem::take(&mut self.out);
        print(self);
        std::mem::replace(&mut self.out, outside)
    }

    /// Name, partitions and alias of a table.
    pub(super) fn shown_table(&mut self, source: &TableSource<'_>) {
        self.table_of(&source.name);
        if !source.partitions.is_empty() {
            self.exactly(" PARTITION");
            self.opt_idents(source.partitions);
        }
        self.opt_ident(" ", source.alias.as_ref());
    }

    /// An index hint; each index has one of its own.
    pub(super) fn shown_hint(&mut self, hint: &IndexHint<'_>) {
        let (word, purpose) = (hint_word(hint.kind), hint_purpose(hint.purpose));
        if hint.indexes.is_empty() {
            self.exactly(word);
            self.exactly(purpose);
            self.put(" ()");
        }
        for index in hint.indexes {
            self.exactly(word);
            self.exactly(purpose);
            self.put(" (");
            if index.name.eq_ignore_ascii_case("PRIMARY") {
                self.exactly("PRIMARY");
            } else {
                self.ident(index);
            }
            self.put(")");
        }
    }

    /// Sort keys; a position is shown as the item that it stands for.
    pub(super) fn order_items_of(&mut self, order: &[OrderItem<'_>], items: &[SelectItem<'_>]) {
        if self.shown.is_none() {
            return self.order_items(order);
        }
        self.list(order, |p, key| {
            let position = match key.expr.kind {
                ExprKind::Literal(Literal::Int(n)) => usize::try_from(n).ok(),
                _ => None,
            };
            let item = position.and_then(|n| items.get(n.checked_sub(1)?));
            match item {
                Some(SelectItem::Expr { expr, .. }) => match expr.kind {
                    ExprKind::Literal(_) => p.put("''"),
                    _ => p.expr(expr),
                },
                _ => p.expr(&key.expr),
            }
            p.put_if(key.desc, " desc");
        });
    }

    pub(super) fn shown_string(&mut self, text: &[u8]) {
        self.out.push(b'\'');
        for &byte in text {
            match byte {
                b'\'' => self.exactly("\\'"),
                b'\\' => self.exactly("\\\\"),
                0 => self.exactly("\\0"),
                b'\n' => self.exactly("\\n"),
                b'\r' => self.exactly("\\r"),
                0x1a => self.exactly("\\Z"),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'\'');
    }

    /// Prints expressions that the text of a view has in another form. Returns false if nothing was
    /// printed.
    pub(super) fn shown_expr(&mut self, expr: &Expr<'_>) -> bool {
        match &expr.kind {
            ExprKind::Literal(literal) => return self.shown_literal(literal),
            ExprKind::Unary(op, arg) => self.shown_unary(*op, arg),
            ExprKind::Chain(chain) => self.shown_chain(chain),
            ExprKind::Like(like) if like.not => self.shown_not_like(like),
            ExprKind::Regexp(regexp) => {
                self.put_if(regexp.not, "(not(");
                self.shown_call("regexp_like", &[regexp.expr, regexp.pattern]);
                self.put_if(regexp.not, "))");
            }
            ExprKind::InQuery(test) => {
                self.operand(&test.expr, super::expr::PREDICATE + 1);
                self.put(" in ");
                self.operand_query(test.query);
                self.put_if(test.not, " is false");
            }
            ExprKind::Exists(query) => {
                self.put("exists");
                self.operand_query(query);
            }
            ExprKind::Row(items) => {
                self.put("(");
                self.exprs(items);
                self.put(")");
            }
            ExprKind::Is(is) if is.test != IsTest::Null && is.test != IsTest::Unknown => {
                self.condition(&is.expr);
                self.put(if is.not { " is not " } else { " is " });
                self.put(if is.test == IsTest::True {
                    "true"
                } else {
                    "false"
                });
            }
            ExprKind::IntervalArith(node) => {
                self.operand(&node.date, super::expr::UNARY);
                self.put(if node.subtract { " - " } else { " + " });
                self.put("interval ");
                self.operand(&node.amount, super::expr::UNARY);
                self.put(" ");
                self.put(unit(node.unit));
            }
            ExprKind::Case(case) => self.shown_case(case),
            ExprKind::Binary(node) if node.op == BinaryOp::SoundsLike => {
                self.shown_call("soundex", &[node.left]);
                self.put(" = ");
                self.shown_call("soundex", &[node.right]);
            }
            ExprKind::Func(func) => return self.shown_function(func),
            ExprKind::Cast(cast) if !cast.array && cast.time_zone.is_none() => {
                self.put("cast(");
                self.expr(&cast.expr);
                self.put(" as ");
                self.shown_cast_type(&cast.ty);
                self.put(")");
            }
            _ => return self.shown_special(expr),
        }
        true
    }

    fn shown_chain(&mut self, chain: &Chain<'_>) {
        // The operators have one level.
        let Some((op, _)) = chain.rest.first() else {
            return self.expr(&chain.first);
        };
        let min = self.binary_level(*op) + 1;
        (1..chain.rest.len()).for_each(|_| self.put("("));
        self.operand(&chain.first, min);
        for (at, (op, right)) in chain.rest.iter().enumerate() {
            self.put_if(at > 0, ")");
            self.exactly(super::expr::operator(*op));
            self.operand(right, min);
        }
    }

    fn shown_not_like(&mut self, like: &Like<'_>) {
        self.put("not((");
        self.operand(&like.expr, super::expr::PREDICATE + 1);
        self.put(" like ");
        self.operand(&like.pattern, super::expr::PREDICATE + 1);
        if let Some(escape) = &like.escape {
            self.put(" escape ");
            self.expr(escape);
        }
        self.put("))");
    }

    fn shown_unary(&mut self, op: UnaryOp, arg: &Expr<'_>) {
        let is_number = matches!(
            arg.kind,
            ExprKind::Literal(Literal::Int(_) | Literal::Decimal(_) | Literal::Float(_))
        );
        match op {
            UnaryOp::Neg if is_number => {
                self.put("-");
                self.expr(arg);
            }
            UnaryOp::Neg | UnaryOp::BitNot => {
                self.put(if op == UnaryOp::Neg { "-(" } else { "~(" });
                self.expr(arg);
                self.put(")");
            }
            UnaryOp::Plus => {
                self.put("(");
                self.expr(arg);
                self.put(")");
            }
            UnaryOp::Not if matches!(arg.kind, ExprKind::Exists(_) | ExprKind::InQuery(_)) => {
                self.expr(arg);
                self.put(" is false");
            }
            UnaryOp::Not if is_boolean(arg) => {
                self.put("(not(");
                self.expr(arg);
                self.put("))");
            }
            UnaryOp::Not => {
                self.put("(0 = ");
                self.expr(arg);
                self.put(")");
            }
            UnaryOp::Binary => {
                self.put("cast(");
                self.expr(arg);
                self.put(" as char charset binary)");
            }
        }
    }

    fn shown_case(&mut self, case: &Case<'_>) {
        self.put("(case");
        if let Some(operand) = &case.operand {
            self.put(" ");
            self.expr(operand);
        }
        for (when, then) in case.arms {
            self.put(" when ");
            match case.operand {
                Some(_) => self.expr(when),
                None => self.condition(when),
            }
            self.put(" then ");
            self.expr(then);
        }
        if let Some(otherwise) = &case.otherwise {
            self.put(" else ");
            self.expr(otherwise);
        }
        self.put(" end)");
    }

    fn shown_literal(&mut self, literal: &Literal<'_>) -> bool {
        match literal {
            Literal::Null => self.exactly("NULL"),
            Literal::Hex(bytes) | Literal::Bit(bytes) => {
                self.exactly("0x");
                for byte in *bytes {
                    self.exactly(&format!("{byte:02x}"));
                }
            }
            Literal::String(text) if self.shows_introducers() => {
                self.exactly("_utf8mb4");
                self.shown_string(text);
            }
            Literal::Date(text) => self.shown_temporal("DATE", text),
            Literal::Time(text) => self.shown_temporal("TIME", text),
            Literal::Timestamp(text) => self.shown_temporal("TIMESTAMP", text),
            _ => return false,
        }
        true
    }

    /// Whether texts are shown with their character set.
    pub(super) fn shows_introducers(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.introducers)
    }

    fn shown_temporal(&mut self, word: &str, text: &[u8]) {
        self.exactly(word);
        self.shown_string(text);
    }

    /// A window in parentheses, with MySQL's spaces.
    pub(super) fn shown_window(&mut self, spec: &WindowSpec<'_>) {
        self.put("(");
        let mut separator = "";
        if let Some(base) = &spec.base {
            self.ident(base);
            separator = " ";
        }
        if !spec.partition_by.is_empty() {
            self.put(separator);
            self.exactly("PARTITION BY ");
            self.exprs(spec.partition_by);
            separator = " ";
        }
        if !spec.order_by.is_empty() {
            self.put(separator);
            self.exactly("ORDER BY ");
            self.order_items(spec.order_by);
            separator = " ";
        }
        match &spec.frame {
            Some(frame) => {
                self.put(separator);
                self.shown_frame(frame);
            }
            None => self.put_if(!spec.order_by.is_empty(), " "),
        }
        self.put(") ");
    }

    fn shown_frame(&mut self, frame: &Frame<'_>) {
        self.exactly(match frame.unit {
            FrameUnit::Rows => "ROWS BETWEEN ",
            FrameUnit::Range => "RANGE BETWEEN ",
            FrameUnit::Groups => "GROUPS BETWEEN ",
        });
        self.shown_bound(&frame.start);
        self.exactly(" AND ");
        self.shown_bound(frame.end.as_ref().unwrap_or(&FrameBound::CurrentRow));
    }

    fn shown_bound(&mut self, bound: &FrameBound<'_>) {
        let (amount, interval, word) = match bound {
            FrameBound::CurrentRow => return self.exactly("CURRENT ROW"),
            FrameBound::UnboundedPreceding => return self.exactly("UNBOUNDED PRECEDING"),
            FrameBound::UnboundedFollowing => return self.exactly("UNBOUNDED FOLLOWING"),
            FrameBound::Preceding(amount, interval) => (amount, interval, " PRECEDING"),
            FrameBound::Following(amount, interval) => (amount, interval, " FOLLOWING"),
        };
        if let Some(interval) = interval {
            self.exactly("INTERVAL ");
            self.expr(amount);
            self.put(" ");
            self.put(unit(*interval));
            self.put(" ");
        } else {
            self.expr(amount);
        }
        self.exactly(word);
    }
}

/// Whether an expression is NOT IN or NOT EXISTS, which is printed with IS FALSE.
pub(super) fn is_negated_query(expr: &Expr<'_>) -> bool {
    match &expr.kind {
        ExprKind::InQuery(test) => test.not,
        ExprKind::Unary(UnaryOp::Not, arg) => {
            matches!(arg.kind, ExprKind::Exists(_) | ExprKind::InQuery(_))
        }
        _ => false,
    }
}

/// Whether an expression is printed without parentheses around it, though it is an operator.
pub(super) fn is_bare(expr: &Expr<'_>) -> bool {
    match &expr.kind {
        ExprKind::Unary(..) | ExprKind::Regexp(_) | ExprKind::InQuery(_) => true,
        ExprKind::Quantified(_) | ExprKind::MemberOf(_) => true,
        // NOT IN and NOT EXISTS.
        ExprKind::Is(is) => {
            let negates = is.test == IsTest::False && !is.not;
            negates && matches!(is.expr.kind, ExprKind::InQuery(_) | ExprKind::Exists(_))
        }
        _ => false,
    }
}

/// Whether the value of an expression is a truth value.
fn is_boolean(expr: &Expr<'_>) -> bool {
    use super::super::ast::BinaryOp as B;
    let compares = |op: B| {
        matches!(
            op,
            B::Eq
                | B::NullSafeEq
                | B::NotEq
                | B::Less
                | B::LessEq
                | B::Greater
                | B::GreaterEq
                | B::SoundsLike
        )
    };
    match &expr.kind {
        ExprKind::Literal(Literal::Bool(_))
        | ExprKind::Unary(UnaryOp::Not, _)
        | ExprKind::Logical(..)
        | ExprKind::Is(_)
        | ExprKind::Like(_)
        | ExprKind::Regexp(_)
        | ExprKind::Between(_)
        | ExprKind::InList(_)
        | ExprKind::InQuery(_)
        | ExprKind::Exists(_)
        | ExprKind::Quantified(_)
        | ExprKind::MemberOf(_) => true,
        ExprKind::Binary(binary) => compares(binary.op),
        ExprKind::Chain(chain) => chain.rest.last().is_some_and(|(op, _)| compares(*op)),
        ExprKind::Func(func) => {
            let name = func.name.name.to_ascii_lowercase();
            matches!(name.as_str(), "isnull" | "regexp_like")
        }
        _ => false,
    }
}

/// The name that a select-list item without alias has.
fn item_name(expr: &Expr<'_>, names: &Names, (start, end): (u32, u32)) -> String {
    match &expr.kind {
        ExprKind::Column(column) => column.name.name.to_owned(),
        ExprKind::Literal(Literal::String(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => {
            let text = names.text.get(start as usize..end as usize);
            text.unwrap_or_default().trim().to_owned()
        }
    }
}

/// The keywords of an index hint.
pub(super) fn hint_word(kind: IndexHintKind) -> &'static str {
    match kind {
        IndexHintKind::Use => " USE INDEX",
        IndexHintKind::Ignore => " IGNORE INDEX",
        IndexHintKind::Force => " FORCE INDEX",
    }
}

/// The keywords of a hint's purpose.
pub(super) fn hint_purpose(purpose: IndexHintFor) -> &'static str {
    match purpose {
        IndexHintFor::All => "",
        IndexHintFor::Join => " FOR JOIN",
        IndexHintFor::OrderBy => " FOR ORDER BY",
        IndexHintFor::GroupBy => " FOR GROUP BY",
    }
}
