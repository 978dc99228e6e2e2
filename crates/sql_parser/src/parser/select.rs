//! SELECT and the clauses after it.

use super::super::ast::{
    ColumnName, Expr, ExprKind, Ident, Into, JsonPath, Limit, LockClause, LockWait, NamedWindow,
    OrderItem, Select, SelectItem, SelectOptions, TableName,
};
use super::super::deprecated::Deprecation;
use super::super::keyword::Keyword as Kw;
use super::super::token::Span;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses SELECT from the keyword on.
    pub(super) fn select(&mut self) -> PResult<&'a Select<'a>> {
        let start = self.advance().start;
        let options = self.select_options();
        let items = self.comma_list(Self::select_item)?;
        if self.is_kw(Kw::INTO) {
            let into = self.destination()?;
            self.into = Some(into);
        }
        let mut select = Select {
            options,
            items,
            from: &[],
            filter: None,
            group_by: &[],
            rollup: false,
            having: None,
            windows: &[],
            span: Span::default(),
        };
        if self.eat_kw(Kw::FROM) && !self.eat_kw(Kw::DUAL) {
            select.from = self.table_refs()?;
        }
        if self.eat_kw(Kw::WHERE) {
            select.filter = Some(self.expr()?);
        }
        if self.eat_kw2(Kw::GROUP, Kw::BY) {
            let is_rollup_call =
                self.token.keyword == Kw::ROLLUP && self.peek().kind == K::LeftParen;
            if is_rollup_call {
                self.advance();
                self.expect(K::LeftParen)?;
            }
            select.group_by = self.comma_list(|p| {
                let expr = p.expr()?;
                Ok(OrderItem { expr, desc: false })
            })?;
            if is_rollup_call {
                self.expect(K::RightParen)?;
            }
            select.rollup = is_rollup_call || self.eat_kw2(Kw::WITH, Kw::ROLLUP);
        }
        if self.eat_kw(Kw::HAVING) {
            select.having = Some(self.expr()?);
        }
        if self.eat_kw(Kw::WINDOW) {
            select.windows = self.comma_list(|p| {
                let name = p.ident()?;
                p.expect_kw(Kw::AS)?;
                Ok(NamedWindow {
                    name,
                    spec: p.window_spec()?,
                })
            })?;
        }
        select.span = Span::new(start, self.last_end);
        Ok(self.alloc(select))
    }

    fn select_options(&mut self) -> SelectOptions {
        let mut options = SelectOptions::default();
        loop {
            match self.token.keyword {
                Kw::NONE => return options,
                Kw::ALL => {}
                Kw::DISTINCT | Kw::DISTINCTROW => options.distinct = true,
                Kw::HIGH_PRIORITY => options.high_priority = true,
                Kw::STRAIGHT_JOIN => options.straight_join = true,
                Kw::SQL_SMALL_RESULT => options.small_result = true,
                Kw::SQL_BIG_RESULT => options.big_result = true,
                Kw::SQL_BUFFER_RESULT => options.buffer_result = true,
                Kw::SQL_NO_CACHE => {
                    options.no_cache = true;
                    self.note_deprecated(Deprecation::NoCache);
                }
                Kw::SQL_CACHE => {}
                Kw::SQL_CALC_FOUND_ROWS => {
                    options.calc_found_rows = true;
                    self.note_deprecated(Deprecation::CalcFoundRows);
                }
                _ => return options,
            }
            self.advance();
        }
    }

    fn select_item(&mut self) -> PResult<SelectItem<'a>> {
        if self.eat(K::Star) {
            return Ok(SelectItem::Wildcard);
        }
        let start = self.token.start;
        // `t.*` and `db.t.*`: after a name and a period comes a star or a name.
        if self.is_ident() && self.peek().kind == K::Period {
            return self.dotted_item(start);
        }
        let expr = self.expr()?;
        self.aliased(expr, start)
    }

    fn aliased(&mut self, expr: Expr<'a>, start: u32) -> PResult<SelectItem<'a>> {
        let span = Span::new(start, self.last_end);
        let alias = if self.eat_kw(Kw::AS) {
            Some(if self.is(K::String) {
                self.ident_or_string()?
            } else {
                self.ident()?
            })
        } else if self.is(K::String) {
            Some(self.ident_or_string()?)
        } else if self.is_ident() {
            Some(self.ident()?)
        } else {
            None
        };
        Ok(SelectItem::Expr { expr, alias, span })
    }

    /// At a name that is followed by a period.
    fn dotted_item(&mut self, start: u32) -> PResult<SelectItem<'a>> {
        let first = self.ident()?;
        self.advance();
        if self.eat(K::Star) {
            return Ok(SelectItem::TableWildcard(TableName {
                schema: None,
                name: first,
            }));
        }
        let second = self.any_word()?;
        let mut third = None;
        if self.eat(K::Period) {
            if self.eat(K::Star) {
                return Ok(SelectItem::TableWildcard(TableName {
                    schema: Some(first),
                    name: second,
                }));
            }
            third = Some(self.any_word()?);
        }
        let outer = std::mem::take(&mut self.height);
        let operand = self.dotted_operand(start, first, second, third)?;
        let expr = self.expr_after(operand)?;
        self.height = self.height.max(outer);
        let mut item = self.aliased(expr, start)?;
        // The item `NEW.a` has the name of the column.
        if let SelectItem::Expr { expr, alias, .. } = &mut item
            && matches!(expr.kind, ExprKind::Param(_))
        {
            alias.get_or_insert(second);
        }
        Ok(item)
    }

    fn dotted_operand(
        &mut self,
        start: u32,
        first: Ident<'a>,
        second: Ident<'a>,
        third: Option<Ident<'a>>,
    ) -> PResult<Expr<'a>> {
        if third.is_none() && self.is(K::LeftParen) {
            return self.call(Some(first), second, start);
        }
        if third.is_none()
            && let Some(variable) = self.variable(Some(first), second)
        {
            return Ok(self.node(start, variable));
        }
        let column = self.alloc(match third {
            Some(name) => ColumnName {
                schema: Some(first),
                table: Some(second),
                name,
            },
            None => ColumnName {
                schema: None,
                table: Some(first),
                name: second,
            },
        });
        if matches!(self.token.kind, K::Arrow | K::LongArrow) {
            let unquote = self.advance().kind == K::LongArrow;
            let path = self.string()?;
            return Ok(self.node(
                start,
                ExprKind::JsonPath(self.alloc(JsonPath {
                    column,
                    path,
                    unquote,
                })),
            ));
        }
        Ok(self.node(start, ExprKind::Column(column)))
    }

    /// An optional LIMIT.
    pub(super) fn opt_limit(&mut self) -> PResult<Option<&'a Limit<'a>>> {
        if !self.eat_kw(Kw::LIMIT) {
            return Ok(None);
        }
        let first = self.limit_number()?;
        let limit = if self.eat(K::Comma) {
            Limit {
                count: self.limit_number()?,
                offset: Some(first),
            }
        } else if self.eat_kw(Kw::OFFSET) {
            Limit {
                count: first,
                offset: Some(self.limit_number()?),
            }
        } else {
            Limit {
                count: first,
                offset: None,
            }
        };
        Ok(Some(self.alloc(limit)))
    }

    fn limit_number(&mut self) -> PResult<Expr<'a>> {
        match self.token.kind {
            K::Int => self.literal_expr(),
            K::Param => self.primary(),
            _ if self.is_ident() => {
                let start = self.token.start;
                let column = self.column_name()?;
                let param = match column.schema {
                    None => self.variable(column.table, column.name),
                    Some(_) => None,
                };
                let kind = param.unwrap_or_else(|| ExprKind::Column(self.alloc(column)));
                Ok(self.node(start, kind))
            }
            _ => self.error(),
        }
    }

    pub(super) fn lock_clauses(&mut self) -> PResult<&'a [LockClause<'a>]> {
        let mut locks = self.list();
        loop {
            if self.is_kw(Kw::LOCK) && self.peek().keyword == Kw::IN {
                self.advance();
                self.advance();
                self.expect_kw(Kw::SHARE)?;
                self.expect_kw(Kw::MODE)?;
                locks.push(LockClause {
                    exclusive: false,
                    tables: &[],
                    wait: LockWait::Wait,
                });
                continue;
            }
            if !(self.is_kw(Kw::FOR) && matches!(self.peek().keyword, Kw::UPDATE | Kw::SHARE)) {
                return Ok(locks.into_bump_slice());
            }
            self.advance();
            let exclusive = self.advance().keyword == Kw::UPDATE;
            let tables: &[TableName<'a>] = if self.eat_kw(Kw::OF) {
                self.table_names()?
            } else {
                &[]
            };
            let wait = if self.eat_kw(Kw::NOWAIT) {
                LockWait::NoWait
            } else if self.eat_kw2(Kw::SKIP, Kw::LOCKED) {
                LockWait::SkipLocked
            } else {
                LockWait::Wait
            };
            locks.push(LockClause {
                exclusive,
                tables,
                wait,
            });
        }
    }

    /// Parses INTO from the keyword on.
    pub(super) fn destination(&mut self) -> PResult<&'a Into<'a>> {
        self.advance();
        let into = if self.eat_kw(Kw::OUTFILE) {
            let path = self.string()?;
            let charset = if self.eat_charset_words() {
                Some(self.charset_name()?)
            } else {
                None
            };
            Into::Outfile {
                path,
                charset,
                format: self.file_format()?,
            }
        } else if self.eat_kw(Kw::DUMPFILE) {
            Into::Dumpfile(self.string()?)
        } else {
            Into::Vars(self.comma_list(Self::destination_var)?)
        };
        Ok(self.alloc(into))
    }

    /// Items of ORDER BY.
    pub(super) fn order_items(&mut self) -> PResult<&'a [OrderItem<'a>]> {
        self.comma_list(|p| {
            let expr = p.expr()?;
            let desc = p.eat_any_kw(&[Kw::ASC, Kw::DESC]) == Some(Kw::DESC);
            Ok(OrderItem { expr, desc })
        })
    }

    /// An optional ORDER BY of UPDATE and DELETE.
    pub(super) fn opt_order_by(&mut self) -> PResult<&'a [OrderItem<'a>]> {
        if self.eat_kw2(Kw::ORDER, Kw::BY) {
            self.order_items()
        } else {
            Ok(&[])
        }
    }
}
