//! Queries.

use super::super::ast::{
    Derived, FileFormat, Into, IntoVar, Join, JoinCondition, JoinKind, JsonTable, JsonTableColumn,
    Limit, LockClause, LockWait, Query, QueryBody, Select, SelectItem, SetChain, SetOp,
    TableFactor, TableRef, TableSource, With,
};
use super::Printer;
use super::view::{hint_purpose, hint_word};

impl Printer<'_> {
    pub(super) fn paren_query(&mut self, query: &Query<'_>) {
        self.put("(");
        self.query(query);
        self.put(")");
    }

    /// A query in parentheses as an operand of an expression.
    pub(super) fn operand_query(&mut self, query: &Query<'_>) {
        let outside = std::mem::replace(&mut self.is_operand, true);
        self.paren_query(query);
        self.is_operand = outside;
    }

    /// A query in parentheses whose columns have names.
    pub(super) fn named_query(&mut self, query: &Query<'_>) {
        let outside = std::mem::replace(&mut self.is_operand, false);
        let first = std::mem::take(&mut self.is_first);
        self.paren_query(query);
        self.is_operand = outside;
        self.is_first = first;
    }

    pub(super) fn query(&mut self, query: &Query<'_>) {
        if self.shown.is_some() {
            return self.shown_query(query);
        }
        if let Some(with) = query.with {
            self.with(with);
        }
        self.query_body(&query.body);
        self.order_by(query.order_by);
        self.opt_limit(query.limit);
        for lock in query.locks {
            self.lock_clause(lock);
        }
        if let Some(into) = query.into {
            self.into(into);
        }
    }

    pub(super) fn with(&mut self, with: &With<'_>) {
        self.put(if with.recursive {
            "WITH RECURSIVE "
        } else {
            "WITH "
        });
        self.list(with.ctes, |p, cte| {
            p.ident(&cte.name);
            p.opt_idents(cte.columns);
            p.put(" AS ");
            p.named_query(cte.query);
        });
        self.put(" ");
    }

    pub(super) fn query_body(&mut self, body: &QueryBody<'_>) {
        match body {
            QueryBody::Select(select) => self.scoped_select(select),
            QueryBody::Table(name) => {
                self.put("TABLE ");
                self.table_of(name);
            }
            QueryBody::Values(rows) => {
                self.put("VALUES ");
                self.rows(rows);
            }
            QueryBody::Nested(query) => self.paren_query(query),
            QueryBody::Set(chain) => self.set_chain(chain),
        }
    }

    /// `ROW(..), ROW(..)`
    pub(super) fn rows(&mut self, rows: &[&[super::Expr<'_>]]) {
        self.list(rows, |p, row| {
            p.put("ROW(");
            p.exprs(row);
            p.put(")");
        });
    }

    fn set_chain(&mut self, chain: &SetChain<'_>) {
        let intersect = chain
            .rest
            .first()
            .is_some_and(|term| term.op == SetOp::Intersect);
        self.set_operand(&chain.first, intersect);
        for term in chain.rest {
            self.put(match term.op {
                SetOp::Union => " UNION ",
                SetOp::Except => " EXCEPT ",
                SetOp::Intersect => " INTERSECT ",
            });
            self.put_if(term.all, "ALL ");
            self.set_operand(&term.body, intersect);
        }
    }

    /// An operand; a chain of INTERSECT needs no parentheses inside UNION or EXCEPT.
    fn set_operand(&mut self, body: &QueryBody<'_>, in_intersect: bool) {
        let parens = match body {
            QueryBody::Set(inner) => {
                in_intersect
                    || inner
                        .rest
                        .first()
                        .is_some_and(|term| term.op != SetOp::Intersect)
            }
            _ => false,
        };
        self.put_if(parens, "(");
        self.query_body(body);
        self.put_if(parens, ")");
    }

    /// A SELECT; its tables are in scope for the columns in it.
    fn scoped_select(&mut self, select: &Select<'_>) {
        let outside = self.scope_size();
        self.enter(select);
        self.select(select);
        self.leave(outside);
    }

    fn select(&mut self, select: &Select<'_>) {
        let options = &select.options;
        self.put("SELECT ");
        self.put_if(options.distinct, "DISTINCT ");
        self.put_if(options.high_priority, "HIGH_PRIORITY ");
        self.put_if(options.straight_join, "STRAIGHT_JOIN ");
        self.put_if(options.small_result, "SQL_SMALL_RESULT ");
        self.put_if(options.big_result, "SQL_BIG_RESULT ");
        self.put_if(options.buffer_result, "SQL_BUFFER_RESULT ");
        self.put_if(options.no_cache, "SQL_NO_CACHE ");
        self.put_if(options.calc_found_rows, "SQL_CALC_FOUND_ROWS ");
        self.select_items(select);
        if !select.from.is_empty() {
            self.put(" FROM ");
            self.joined_tables(select.from);
        } else if self.shown.is_none()
            && (select.filter.is_some() || !select.group_by.is_empty() || select.having.is_some())
        {
            self.put(" FROM DUAL");
        }
        self.opt_where(select.filter.as_ref());
        if !select.group_by.is_empty() {
            self.put(" GROUP BY ");
            self.order_items_of(select.group_by, select.items);
            self.put_if(select.rollup, " WITH ROLLUP");
        }
        if let Some(having) = &select.having {
            self.put(" HAVING ");
            self.condition(having);
        }
        if !select.windows.is_empty() {
            self.put(" WINDOW ");
            self.separated(select.windows, ", ", |p, window| {
                p.ident(&window.name);
                p.exactly(" AS ");
                p.window_spec(&window.spec);
            });
        }
    }

    /// FROM: its items are separated by commas.
    fn joined_tables(&mut self, from: &[TableRef<'_>]) {
        match self.shown {
            Some(_) => self.shown_from(from),
            None => self.list(from, Self::table_ref),
        }
    }

    fn select_items(&mut self, select: &Select<'_>) {
        let is_first = std::mem::take(&mut self.is_first);
        let mut columns = 0;
        for (at, item) in select.items.iter().enumerate() {
            if at > 0 {
                self.put(if self.shown.is_some() { "," } else { ", " });
            }
            match self.resolved_item(select, item, (is_first, columns)) {
                Some(printed) => columns += printed,
                None => self.select_item(item),
            }
        }
    }

    fn select_item(&mut self, item: &SelectItem<'_>) {
        match item {
            SelectItem::Wildcard => self.put("*"),
            SelectItem::TableWildcard(name) => {
                self.table_name(name);
                self.put(".*");
            }
            SelectItem::Expr { expr, alias, .. } => {
                self.expr(expr);
                if let Some(alias) = alias {
                    self.put(" AS ");
                    // An empty alias, and one that contains NUL, is printed as a string.
                    if alias.name.is_empty() || alias.name.contains('\0') {
                        self.string(alias.name.as_bytes());
                    } else {
                        self.ident(alias);
                    }
                }
            }
        }
    }

    pub(super) fn opt_where(&mut self, filter: Option<&super::Expr<'_>>) {
        if let Some(filter) = filter {
            self.put(" WHERE ");
            self.condition(filter);
        }
    }

    pub(super) fn opt_limit(&mut self, limit: Option<&Limit<'_>>) {
        let Some(limit) = limit else { return };
        self.put(" LIMIT ");
        match &limit.offset {
            // Keeps the order of parameters.
            Some(offset) if offset.span.start < limit.count.span.start => {
                self.expr(offset);
                self.put(", ");
                self.expr(&limit.count);
            }
            Some(offset) => {
                self.expr(&limit.count);
                self.put(" OFFSET ");
                self.expr(offset);
            }
            None => self.expr(&limit.count),
        }
    }

    pub(super) fn lock_clause(&mut self, lock: &LockClause<'_>) {
        self.put(if lock.exclusive {
            " FOR UPDATE"
        } else {
            " FOR SHARE"
        });
        if !lock.tables.is_empty() {
            self.put(" OF ");
            self.list(lock.tables, Self::table_name);
        }
        self.put(match lock.wait {
            LockWait::Wait => "",
            LockWait::NoWait => " NOWAIT",
            LockWait::SkipLocked => " SKIP LOCKED",
        });
    }

    fn into(&mut self, into: &Into<'_>) {
        self.put(" INTO ");
        match into {
            Into::Vars(vars) => self.list(vars, Self::destination_var),
            Into::Outfile {
                path,
                charset,
                format,
            } => {
                self.put("OUTFILE ");
                self.string(path);
                self.opt_ident(" CHARACTER SET ", charset.as_ref());
                self.file_format(format);
            }
            Into::Dumpfile(path) => {
                self.put("DUMPFILE ");
                self.string(path);
            }
        }
    }

    pub(super) fn destination_var(&mut self, var: &IntoVar<'_>) {
        match var {
            IntoVar::User(name) => self.user_var(name),
            IntoVar::Local { name, .. } => self.ident(name),
        }
    }

    pub(super) fn file_format(&mut self, format: &FileFormat<'_>) {
        if format
            .field_terminator
            .or(format.enclosed)
            .or(format.escaped)
            .is_some()
        {
            self.put(" FIELDS");
            self.opt_string(" TERMINATED BY ", format.field_terminator);
            self.put_if(format.optionally, " OPTIONALLY");
            self.opt_string(" ENCLOSED BY ", format.enclosed);
            self.opt_string(" ESCAPED BY ", format.escaped);
        }
        if format.line_start.or(format.line_terminator).is_some() {
            self.put(" LINES");
            self.opt_string(" STARTING BY ", format.line_start);
            self.opt_string(" TERMINATED BY ", format.line_terminator);
        }
    }

    pub(super) fn table_ref(&mut self, table: &TableRef<'_>) {
        self.table_factor(&table.first);
        for join in table.joins {
            self.join(join);
        }
    }

    fn join(&mut self, join: &Join<'_>) {
        let merged = self.names.and_then(|names| names.merged(join));
        self.put_if(join.natural && merged.is_none(), " NATURAL");
        self.put(match join.kind {
            JoinKind::Inner => " JOIN ",
            JoinKind::Straight => " STRAIGHT_JOIN ",
            JoinKind::Left => " LEFT JOIN ",
            JoinKind::Right => " RIGHT JOIN ",
        });
        self.table_factor(&join.right);
        if let Some(merged) = merged {
            return self.merged_condition(merged, join.kind);
        }
        match &join.condition {
            JoinCondition::None => {}
            JoinCondition::On(expr) => {
                self.put(" ON ");
                self.expr(expr);
            }
            JoinCondition::Using(columns) => {
                self.put(" USING");
                self.opt_idents(columns);
            }
        }
    }

    pub(super) fn table_factor(&mut self, factor: &TableFactor<'_>) {
        match factor {
            TableFactor::Table(source) => self.table_source(source),
            TableFactor::Derived(derived) => self.derived(derived),
            TableFactor::JsonTable(table) => self.json_table(table),
            TableFactor::Nested(tables) => self.paren_list(tables, Self::table_ref),
        }
    }

    fn derived(&mut self, derived: &Derived<'_>) {
        self.put_if(derived.lateral, "LATERAL ");
        self.named_query(derived.query);
        let word = if self.shown.is_some() { " " } else { " AS " };
        self.opt_ident(word, Some(&derived.alias));
        self.opt_idents(derived.columns);
    }

    pub(super) fn table_source(&mut self, source: &TableSource<'_>) {
        if self.shown.is_some() {
            self.shown_table(source);
        } else {
            self.table_of(&source.name);
            self.opt_partitions(source.partitions);
            self.opt_ident(" AS ", source.alias.as_ref());
        }
        if let Some(sample) = &source.sample {
            self.put(if sample.bernoulli {
                " TABLESAMPLE BERNOULLI ("
            } else {
                " TABLESAMPLE SYSTEM ("
            });
            self.expr(&sample.percent);
            self.put(")");
        }
        for hint in source.hints {
            if self.shown.is_some() {
                self.shown_hint(hint);
                continue;
            }
            self.put(hint_word(hint.kind));
            self.put(hint_purpose(hint.purpose));
            self.put(" (");
            self.idents(hint.indexes);
            self.put(")");
        }
    }

    fn json_table(&mut self, table: &JsonTable<'_>) {
        self.put("JSON_TABLE(");
        self.expr(&table.doc);
        self.put(", ");
        self.string(table.path);
        self.json_columns(table.columns);
        self.put(")");
        self.opt_ident(" AS ", Some(&table.alias));
    }

    fn json_columns(&mut self, columns: &[JsonTableColumn<'_>]) {
        self.put(" COLUMNS ");
        self.paren_list(columns, |p, column| match column {
            JsonTableColumn::Ordinality(name) => {
                p.ident(name);
                p.put(" FOR ORDINALITY");
            }
            JsonTableColumn::Path {
                name,
                ty,
                exists,
                path,
                on_empty,
                on_error,
            } => {
                p.ident(name);
                p.put(" ");
                p.data_type(ty);
                p.put_if(*exists, " EXISTS");
                p.opt_string(" PATH ", Some(path));
                p.json_responses(on_empty.as_ref(), on_error.as_ref());
            }
            JsonTableColumn::Nested { path, columns } => {
                p.opt_string("NESTED PATH ", Some(path));
                p.json_columns(columns);
            }
        });
    }
}
