//! INSERT, REPLACE, UPDATE, DELETE, LOAD DATA, HANDLER, DO, CALL.

use super::super::ast::{
    Assignment, BinaryOp, Call, Delete, DeleteTarget, FileFormat, Handler, HandlerAction,
    HandlerStep, Insert, InsertSource, IntoVar, LoadData, OnDuplicateRow, Priority, Statement,
    TableRef, Update, With,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses INSERT or REPLACE from the keyword on.
    pub(super) fn insert(&mut self) -> PResult<Statement<'a>> {
        let replace = self.advance().keyword == Kw::REPLACE;
        let priority = match self.eat_any_kw(&[Kw::LOW_PRIORITY, Kw::DELAYED, Kw::HIGH_PRIORITY]) {
            Some(Kw::LOW_PRIORITY) => Priority::Low,
            Some(Kw::DELAYED) => Priority::Delayed,
            Some(_) if replace => return self.error(),
            Some(_) => Priority::High,
            None => Priority::Default,
        };
        let ignore = !replace && self.eat_kw(Kw::IGNORE);
        self.eat_kw(Kw::INTO);
        let table = self.table_name()?;
        let partitions = self.opt_partitions()?;
        let mut insert = Insert {
            replace,
            priority,
            ignore,
            table,
            partitions,
            columns: &[],
            columns_given: false,
            source: InsertSource::Values(&[]),
            row_alias: None,
            column_aliases: &[],
            on_duplicate: &[],
        };
        self.insert_source(&mut insert)?;
        if !replace && !matches!(insert.source, InsertSource::Query(_)) && self.eat_kw(Kw::AS) {
            insert.row_alias = Some(self.ident()?);
            insert.column_aliases = self.opt_paren_idents()?;
        }
        if !replace && self.eat_kw(Kw::ON) {
            self.expect_kw(Kw::DUPLICATE)?;
            self.expect_kw(Kw::KEY)?;
            self.expect_kw(Kw::UPDATE)?;
            insert.on_duplicate = self.assignments()?;
        }
        Ok(Statement::Insert(self.alloc(insert)))
    }

    /// Columns and rows.
    fn insert_source(&mut self, insert: &mut Insert<'a>) -> PResult<()> {
        if self.eat_kw(Kw::SET) {
            insert.source = InsertSource::Set(self.assignments()?);
            return Ok(());
        }
        if self.is(K::LeftParen) {
            let next = self.peek();
            let query = matches!(next.keyword, Kw::SELECT | Kw::WITH | Kw::TABLE | Kw::VALUES)
                || next.kind == K::LeftParen;
            if !query {
                insert.columns = self.paren_columns()?;
                insert.columns_given = true;
            }
        }
        if self.is_any_kw(&[Kw::VALUES, Kw::VALUE]) {
            self.advance();
            insert.source = InsertSource::Values(if self.is_kw(Kw::ROW) {
                self.row_constructors()?
            } else {
                self.comma_list(Self::value_row)?
            });
            return Ok(());
        }
        if !self.at_query() && !self.is(K::LeftParen) {
            return self.error();
        }
        insert.source = InsertSource::Query(self.query_expr()?);
        Ok(())
    }

    /// `a = 1, b = DEFAULT`
    pub(super) fn assignments(&mut self) -> PResult<&'a [Assignment<'a>]> {
        self.comma_list(|p| {
            let column = p.column_name()?;
            if !p.eat(K::Assign) {
                p.expect(K::Eq)?;
            }
            Ok(Assignment {
                column,
                value: p.expr()?,
            })
        })
    }

    /// Parses UPDATE from the keyword on.
    pub(super) fn update(&mut self, with: Option<&'a With<'a>>) -> PResult<Statement<'a>> {
        self.advance();
        let low_priority = self.eat_kw(Kw::LOW_PRIORITY);
        let ignore = self.eat_kw(Kw::IGNORE);
        let tables = self.table_refs()?;
        self.expect_kw(Kw::SET)?;
        let set = self.assignments()?;
        let filter = if self.eat_kw(Kw::WHERE) {
            Some(self.expr()?)
        } else {
            None
        };
        let order_by = self.opt_order_by()?;
        let limit = self.opt_limit()?;
        let update = Update {
            with,
            low_priority,
            ignore,
            tables,
            set,
            filter,
            order_by,
            limit,
        };
        Ok(Statement::Update(self.alloc(update)))
    }

    /// Parses DELETE from the keyword on.
    pub(super) fn delete(&mut self, with: Option<&'a With<'a>>) -> PResult<Statement<'a>> {
        self.advance();
        let (mut low_priority, mut quick, mut ignore) = (false, false, false);
        loop {
            match self.token.keyword {
                Kw::LOW_PRIORITY => low_priority = true,
                Kw::QUICK => quick = true,
                Kw::IGNORE => ignore = true,
                _ => break,
            }
            self.advance();
        }
        let (target, many) = self.delete_tables()?;
        let filter = if self.eat_kw(Kw::WHERE) {
            Some(self.expr()?)
        } else {
            None
        };
        let order_by = if many { &[] } else { self.opt_order_by()? };
        let limit = if many { None } else { self.opt_limit()? };
        let delete = Delete {
            with,
            low_priority,
            quick,
            ignore,
            target,
            filter,
            order_by,
            limit,
        };
        Ok(Statement::Delete(self.alloc(delete)))
    }

    /// The tables of DELETE. Returns whether the syntax is that of a multi-table DELETE.
    fn delete_tables(&mut self) -> PResult<(DeleteTarget<'a>, bool)> {
        if !self.eat_kw(Kw::FROM) {
            let targets = self.comma_list(Self::delete_target)?;
            self.expect_kw(Kw::FROM)?;
            let tables = self.table_refs()?;
            return Ok((DeleteTarget::Many { targets, tables }, true));
        }
        let source = self.table_source_or_star()?;
        if let Some(source) = source
            && !self.is(K::Comma)
            && !self.is_kw(Kw::USING)
        {
            return Ok((DeleteTarget::One(self.alloc(source)), false));
        }
        let mut targets = self.list();
        match source {
            Some(source) if source.alias.is_none() && source.partitions.is_empty() => {
                targets.push(source.name)
            }
            Some(_) => return self.error(),
            None => {}
        }
        if source.is_none() {
            targets.push(self.delete_target()?);
        }
        while self.eat(K::Comma) {
            targets.push(self.delete_target()?);
        }
        self.expect_kw(Kw::USING)?;
        let tables: &'a [TableRef<'a>] = self.table_refs()?;
        Ok((
            DeleteTarget::Many {
                targets: targets.into_bump_slice(),
                tables,
            },
            true,
        ))
    }

    /// A table with its alias; `None`, without consuming tokens, if the name ends in `.*`.
    fn table_source_or_star(&mut self) -> PResult<Option<super::super::ast::TableSource<'a>>> {
        let mut next = self.peek();
        let mut ahead = self.lexer.clone();
        // At most `db . t . *`.
        for _ in 0..2 {
            if next.kind != K::Period {
                break;
            }
            if ahead.next_token().kind == K::Star {
                return Ok(None);
            }
            next = ahead.next_token();
        }
        self.table_source().map(Some)
    }

    /// `FIELDS ... LINES ...`
    pub(super) fn file_format(&mut self) -> PResult<FileFormat<'a>> {
        let mut format = FileFormat::default();
        if self.eat_any_kw(&[Kw::FIELDS, Kw::COLUMNS]).is_some() {
            loop {
                let optionally = self.eat_kw(Kw::OPTIONALLY);
                match self.eat_any_kw(&[Kw::TERMINATED, Kw::ENCLOSED, Kw::ESCAPED]) {
                    Some(word) => {
                        self.expect_kw(Kw::BY)?;
                        let text = Some(self.string()?);
                        match word {
                            Kw::TERMINATED => format.field_terminator = text,
                            Kw::ENCLOSED => {
                                format.enclosed = text;
                                format.optionally = optionally;
                            }
                            _ => format.escaped = text,
                        }
                    }
                    None if optionally => return self.error(),
                    None => break,
                }
            }
        }
        if self.eat_kw(Kw::LINES) {
            while let Some(word) = self.eat_any_kw(&[Kw::STARTING, Kw::TERMINATED]) {
                self.expect_kw(Kw::BY)?;
                let text = Some(self.string()?);
                if word == Kw::STARTING {
                    format.line_start = text;
                } else {
                    format.line_terminator = text;
                }
            }
        }
        Ok(format)
    }

    /// Parses LOAD DATA from the keyword LOAD on.
    pub(super) fn load_data(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let xml = match self.eat_any_kw(&[Kw::DATA, Kw::XML]) {
            Some(word) => word == Kw::XML,
            None => return self.error(),
        };
        let word = self.eat_any_kw(&[Kw::LOW_PRIORITY, Kw::CONCURRENT]);
        let priority = if word == Some(Kw::LOW_PRIORITY) {
            Priority::Low
        } else {
            Priority::Default
        };
        let concurrent = word == Some(Kw::CONCURRENT);
        let local = self.eat_kw(Kw::LOCAL);
        self.expect_kw(Kw::INFILE)?;
        let path = self.string()?;
        let duplicates = self.on_duplicate_row();
        self.expect_kw(Kw::INTO)?;
        self.expect_kw(Kw::TABLE)?;
        let table = self.table_name()?;
        let partitions = self.opt_partitions()?;
        let charset = if self.eat_charset_words() {
            Some(self.charset_name()?)
        } else {
            None
        };
        let rows_identified = if self.eat_kw2(Kw::ROWS, Kw::IDENTIFIED) {
            self.expect_kw(Kw::BY)?;
            Some(self.string()?)
        } else {
            None
        };
        let format = self.file_format()?;
        let mut ignore_lines = 0;
        if self.eat_kw(Kw::IGNORE) {
            ignore_lines = self.uint()?;
            if self.eat_any_kw(&[Kw::LINES, Kw::ROWS]).is_none() {
                return self.error();
            }
        }
        let fields: &[IntoVar<'a>] = if self.is(K::LeftParen) {
            self.paren_list(Self::destination_var)?
        } else {
            &[]
        };
        let set = if self.eat_kw(Kw::SET) {
            self.assignments()?
        } else {
            &[]
        };
        let load = LoadData {
            xml,
            priority,
            concurrent,
            local,
            path,
            duplicates,
            table,
            partitions,
            charset,
            rows_identified,
            format,
            ignore_lines,
            fields,
            set,
        };
        Ok(Statement::LoadData(self.alloc(load)))
    }

    /// REPLACE, IGNORE or neither.
    pub(super) fn on_duplicate_row(&mut self) -> OnDuplicateRow {
        match self.eat_any_kw(&[Kw::REPLACE, Kw::IGNORE]) {
            Some(Kw::REPLACE) => OnDuplicateRow::Replace,
            Some(_) => OnDuplicateRow::Ignore,
            None => OnDuplicateRow::Error,
        }
    }

    /// Parses HANDLER from the keyword on.
    pub(super) fn handler(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let table = self.table_name()?;
        let action = match self.eat_any_kw(&[Kw::OPEN, Kw::CLOSE, Kw::READ]) {
            Some(Kw::OPEN) => HandlerAction::Open(self.opt_alias()?),
            // READ and CLOSE name an open handler, without a database.
            Some(_) if table.schema.is_some() => return self.error(),
            Some(Kw::CLOSE) => HandlerAction::Close,
            Some(_) => self.handler_read()?,
            None => return self.error(),
        };
        Ok(Statement::Handler(self.alloc(Handler { table, action })))
    }

    fn handler_read(&mut self) -> PResult<HandlerAction<'a>> {
        let is_step = |word: Kw| matches!(word, Kw::FIRST | Kw::NEXT | Kw::PREV | Kw::LAST);
        let next = self.peek();
        let natural = is_step(self.token.keyword)
            && (next.ends_statement() || matches!(next.keyword, Kw::WHERE | Kw::LIMIT));
        let index = if natural {
            None
        } else {
            Some(self.index_name()?)
        };
        let step = match self.eat_any_kw(&[Kw::FIRST, Kw::NEXT, Kw::PREV, Kw::LAST]) {
            Some(Kw::FIRST) => HandlerStep::First,
            Some(Kw::NEXT) => HandlerStep::Next,
            Some(Kw::PREV) => HandlerStep::Prev,
            Some(_) => HandlerStep::Last,
            None => {
                let op = match self.token.kind {
                    K::Eq => BinaryOp::Eq,
                    K::Less => BinaryOp::Less,
                    K::LessEq => BinaryOp::LessEq,
                    K::Greater => BinaryOp::Greater,
                    K::GreaterEq => BinaryOp::GreaterEq,
                    _ => return self.error(),
                };
                self.advance();
                HandlerStep::Key(op, self.paren_list(Self::expr)?)
            }
        };
        let filter = if self.eat_kw(Kw::WHERE) {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(HandlerAction::Read {
            index,
            step,
            filter,
            limit: self.opt_limit()?,
        })
    }

    /// Parses DO from the keyword on.
    pub(super) fn do_statement(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        Ok(Statement::Do(self.comma_list(Self::expr)?))
    }

    /// Parses CALL from the keyword on.
    pub(super) fn call_statement(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let name = self.table_name()?;
        let args = if self.is(K::LeftParen) {
            self.value_row()?
        } else {
            &[]
        };
        Ok(Statement::Call(self.alloc(Call { name, args })))
    }
}
