//! FROM: tables, joins, derived tables, JSON_TABLE.
//!
//! Joins are parsed by shift and reduce, without recursion: `a JOIN b JOIN c ON x ON y` first
//! becomes a flat list. When `ON y` follows a join that has its condition, everything after the
//! last join without a condition becomes the right side of that join. A join that never gets a
//! condition stays in place, from left to right, as in MySQL.

use bumpalo::collections::Vec as BumpVec;

use super::super::ast::{
    Derived, Ident, IndexHint, IndexHintFor, IndexHintKind, Join, JoinCondition, JoinKind,
    JsonTable, JsonTableColumn, Query, Sample, TableFactor, TableName, TableRef, TableSource,
};
use super::super::error::{ParseError, ParseErrorKind};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

/// The content of a pair of parentheses in FROM.
enum FromParen<'a> {
    Query(&'a Query<'a>),
    Tables(&'a [TableRef<'a>]),
}

impl<'a> Parser<'a> {
    /// One or more table references separated by commas.
    pub(super) fn table_refs(&mut self) -> PResult<&'a [TableRef<'a>]> {
        self.comma_list(Self::table_ref)
    }

    fn table_ref(&mut self) -> PResult<TableRef<'a>> {
        if self.is(K::LeftBrace) {
            // `{ OJ table_reference }`
            self.enter()?;
            self.advance();
            self.any_word()?;
            let table = self.table_ref()?;
            self.expect(K::RightBrace)?;
            self.leave();
            return self.joins(TableFactor::Nested(std::slice::from_ref(self.alloc(table))));
        }
        let first = self.table_factor()?;
        self.joins(first)
    }

    /// Parses the joins after the first table.
    fn joins(&mut self, first: TableFactor<'a>) -> PResult<TableRef<'a>> {
        let mut joins: BumpVec<'a, Join<'a>> = self.list();
        loop {
            // If no join lacks a condition, this is the ON of ON DUPLICATE KEY UPDATE.
            if (self.is_kw(Kw::ON) || self.is_kw(Kw::USING)) && joins.iter().any(lacks_condition) {
                self.join_condition(&mut joins)?;
                continue;
            }
            let Some((kind, natural)) = self.join_words()? else {
                break;
            };
            self.count_node()?;
            let right = self.table_factor()?;
            joins.push(Join {
                kind,
                natural,
                right,
                condition: JoinCondition::None,
            });
        }
        let lacks = |join: &Join<'_>| {
            matches!(join.kind, JoinKind::Left | JoinKind::Right)
                && !join.natural
                && join.condition == JoinCondition::None
        };
        if joins.iter().any(lacks) {
            return self.error();
        }
        Ok(TableRef {
            first,
            joins: joins.into_bump_slice(),
        })
    }

    /// Parses ON or USING, for the last join without a condition.
    fn join_condition(&mut self, joins: &mut BumpVec<'a, Join<'a>>) -> PResult<()> {
        // Only joins with conditions are searched; those after `index` are moved out of the list
        // below.
        let Some(index) = joins.iter().rposition(lacks_condition) else {
            return self.error();
        };
        let condition = if self.eat_kw(Kw::ON) {
            JoinCondition::On(self.expr()?)
        } else {
            self.advance();
            JoinCondition::Using(self.paren_idents()?)
        };
        if index + 1 < joins.len() {
            self.grow()?;
            let moved: &'a [Join<'a>] = self
                .arena
                .alloc_slice_copy(joins.get(index + 1..).unwrap_or_default());
            joins.truncate(index + 1);
            if let Some(join) = joins.last_mut() {
                let inner = TableRef {
                    first: join.right,
                    joins: moved,
                };
                join.right = TableFactor::Nested(std::slice::from_ref(self.arena.alloc(inner)));
            }
        }
        if let Some(join) = joins.last_mut() {
            join.condition = condition;
        }
        Ok(())
    }

    /// The keywords of a join: its kind, and whether it is NATURAL.
    fn join_words(&mut self) -> PResult<Option<(JoinKind, bool)>> {
        let natural = self.eat_kw(Kw::NATURAL);
        let kind = match self.token.keyword {
            Kw::STRAIGHT_JOIN if !natural => {
                self.advance();
                return Ok(Some((JoinKind::Straight, false)));
            }
            Kw::JOIN => JoinKind::Inner,
            Kw::INNER => {
                self.advance();
                JoinKind::Inner
            }
            Kw::CROSS if !natural => {
                self.advance();
                JoinKind::Inner
            }
            Kw::LEFT | Kw::RIGHT => {
                let word = self.advance().keyword;
                self.eat_kw(Kw::OUTER);
                if word == Kw::LEFT {
                    JoinKind::Left
                } else {
                    JoinKind::Right
                }
            }
            _ if natural => return self.error(),
            _ => return Ok(None),
        };
        self.expect_kw(Kw::JOIN)?;
        Ok(Some((kind, natural)))
    }

    fn table_factor(&mut self) -> PResult<TableFactor<'a>> {
        let lateral = self.eat_kw(Kw::LATERAL);
        if self.is(K::LeftParen) {
            self.advance();
            return match self.tables_in_paren()? {
                FromParen::Query(query) => self.derived(query, lateral),
                FromParen::Tables(_) if lateral => self.error(),
                FromParen::Tables(tables) => Ok(TableFactor::Nested(tables)),
            };
        }
        if lateral {
            return self.error();
        }
        if self.is_kw(Kw::JSON_TABLE) {
            return self.json_table();
        }
        let source = self.table_source()?;
        Ok(TableFactor::Table(self.alloc(source)))
    }

    /// Parses the rest of a parenthesis whose opening token was consumed, with the closing one.
    fn tables_in_paren(&mut self) -> PResult<FromParen<'a>> {
        self.enter()?;
        let outer = std::mem::take(&mut self.height);
        let inner = self.tables_in_paren_inner()?;
        self.expect(K::RightParen)?;
        self.grow()?;
        self.height = self.height.max(outer);
        self.leave();
        Ok(inner)
    }

    fn tables_in_paren_inner(&mut self) -> PResult<FromParen<'a>> {
        if self.at_query() {
            return self.query_expr().map(FromParen::Query);
        }
        if !self.is(K::LeftParen) {
            return self.table_refs().map(FromParen::Tables);
        }
        let start = self.advance().start;
        let first = match self.tables_in_paren()? {
            FromParen::Query(query) if self.is(K::RightParen) => {
                return Ok(FromParen::Query(query));
            }
            FromParen::Query(query) if self.continues_query() => {
                return self.query_after(query, start).map(FromParen::Query);
            }
            FromParen::Query(query) => self.derived(query, false)?,
            FromParen::Tables(tables) => TableFactor::Nested(tables),
        };
        let first = self.joins(first)?;
        let mut tables = self.list();
        tables.push(first);
        while self.eat(K::Comma) {
            tables.push(self.table_ref()?);
        }
        Ok(FromParen::Tables(tables.into_bump_slice()))
    }

    fn derived(&mut self, query: &'a Query<'a>, lateral: bool) -> PResult<TableFactor<'a>> {
        if !self.eat_kw(Kw::AS) && !self.is_ident() {
            let span = self.token.span();
            return Err(ParseError::new(ParseErrorKind::DerivedAlias, span));
        }
        let alias = self.ident()?;
        let columns = self.opt_paren_idents()?;
        Ok(TableFactor::Derived(self.alloc(Derived {
            query,
            lateral,
            alias,
            columns,
        })))
    }

    /// `name [PARTITION (..)] [[AS] alias] [hints]`
    pub(super) fn table_source(&mut self) -> PResult<TableSource<'a>> {
        let name = self.table_name()?;
        let partitions = self.opt_partitions()?;
        let samples = self.is_kw(Kw::TABLESAMPLE)
            && matches!(self.peek().keyword, Kw::SYSTEM | Kw::BERNOULLI);
        let alias = if samples { None } else { self.opt_alias()? };
        let mut sample = None;
        if self.is_kw(Kw::TABLESAMPLE) && matches!(self.peek().keyword, Kw::SYSTEM | Kw::BERNOULLI)
        {
            self.advance();
            let bernoulli = self.advance().keyword == Kw::BERNOULLI;
            self.expect(K::LeftParen)?;
            sample = Some(Sample {
                bernoulli,
                percent: self.expr()?,
            });
            self.expect(K::RightParen)?;
        }
        let hints = self.index_hints()?;
        Ok(TableSource {
            name,
            alias,
            partitions,
            hints,
            sample,
        })
    }

    fn index_hints(&mut self) -> PResult<&'a [IndexHint<'a>]> {
        let mut hints = self.list();
        while matches!(self.token.keyword, Kw::USE | Kw::IGNORE | Kw::FORCE)
            && matches!(self.peek().keyword, Kw::INDEX | Kw::KEY)
        {
            let kind = match self.advance().keyword {
                Kw::USE => IndexHintKind::Use,
                Kw::IGNORE => IndexHintKind::Ignore,
                _ => IndexHintKind::Force,
            };
            self.advance();
            let purpose = if self.eat_kw(Kw::FOR) {
                if self.eat_kw(Kw::JOIN) {
                    IndexHintFor::Join
                } else if self.eat_kw2(Kw::ORDER, Kw::BY) {
                    IndexHintFor::OrderBy
                } else if self.eat_kw2(Kw::GROUP, Kw::BY) {
                    IndexHintFor::GroupBy
                } else {
                    return self.error();
                }
            } else {
                IndexHintFor::All
            };
            self.expect(K::LeftParen)?;
            let indexes: &[Ident<'a>] = if self.is(K::RightParen) && kind == IndexHintKind::Use {
                &[]
            } else {
                self.comma_list(Self::index_name)?
            };
            self.expect(K::RightParen)?;
            hints.push(IndexHint {
                kind,
                purpose,
                indexes,
            });
        }
        Ok(hints.into_bump_slice())
    }

    /// The name of an index; PRIMARY may be unquoted.
    pub(super) fn index_name(&mut self) -> PResult<Ident<'a>> {
        if self.is_kw(Kw::PRIMARY) {
            self.any_word()
        } else {
            self.ident()
        }
    }

    fn json_table(&mut self) -> PResult<TableFactor<'a>> {
        self.advance();
        self.expect(K::LeftParen)?;
        let doc = self.expr()?;
        self.expect(K::Comma)?;
        let path = self.string()?;
        let columns = self.json_columns()?;
        self.expect(K::RightParen)?;
        if !self.eat_kw(Kw::AS) && !self.is_ident() {
            let span = self.token.span();
            return Err(ParseError::new(ParseErrorKind::FunctionAlias, span));
        }
        let alias = self.ident()?;
        Ok(TableFactor::JsonTable(self.alloc(JsonTable {
            doc,
            path,
            columns,
            alias,
        })))
    }

    fn json_columns(&mut self) -> PResult<&'a [JsonTableColumn<'a>]> {
        self.enter()?;
        self.expect_kw(Kw::COLUMNS)?;
        let columns = self.paren_list(Self::json_column)?;
        self.leave();
        Ok(columns)
    }

    fn json_column(&mut self) -> PResult<JsonTableColumn<'a>> {
        if self.is_kw(Kw::NESTED)
            && (self.peek().keyword == Kw::PATH || self.peek().kind == K::String)
        {
            self.advance();
            self.eat_kw(Kw::PATH);
            let path = self.string()?;
            return Ok(JsonTableColumn::Nested {
                path,
                columns: self.json_columns()?,
            });
        }
        let name = self.ident()?;
        if self.eat_kw(Kw::FOR) {
            self.expect_kw(Kw::ORDINALITY)?;
            return Ok(JsonTableColumn::Ordinality(name));
        }
        let ty = self.data_type()?;
        let exists = self.eat_kw(Kw::EXISTS);
        self.expect_kw(Kw::PATH)?;
        let path = self.string()?;
        let (on_empty, on_error) = if exists {
            (None, None)
        } else {
            self.json_responses(true)?
        };
        Ok(JsonTableColumn::Path {
            name,
            ty,
            exists,
            path,
            on_empty,
            on_error,
        })
    }

    /// A table name in a multi-table DELETE: `t` or `db.t`, with or without `.*`.
    pub(super) fn delete_target(&mut self) -> PResult<TableName<'a>> {
        let first = self.ident()?;
        let mut name = TableName {
            schema: None,
            name: first,
        };
        while self.eat(K::Period) {
            if self.eat(K::Star) {
                return Ok(name);
            }
            if name.schema.is_some() {
                return self.error();
            }
            name = TableName {
                schema: Some(first),
                name: self.any_word()?,
            };
        }
        Ok(name)
    }
}

/// Whether ON or USING may still follow.
fn lacks_condition(join: &Join<'_>) -> bool {
    !join.natural && matches!(join.condition, JoinCondition::None)
}
