//! Bodies of stored programs, and resolution of their variables.
//!
//! While a body is parsed, [`Scopes`] has the variables that are visible at the current token. An
//! unqualified name in an expression that is one of them, and a row variable (`NEW.c`, `OLD.c`),
//! becomes a parameter of the enclosing expression or statement ([`Parser::variable`]). A list of
//! variables grows and shrinks with the blocks; a slot is never used twice, so that a frame is one
//! array.
//!
//! The statements of a body may also be parsed again one by one. [`super::super::Literals::Variables`]
//! then has the positions of the variables that were found when the whole body was parsed.

use bumpalo::collections::Vec as BumpVec;

use super::super::ast::{
    Assign, Block, Body, CaseStatement, ConditionValue, Declaration, Expr, ExprKind, Ident,
    IfStatement, IntoVar, Loop, LoopKind, Parameter, ProgramExpr, ProgramKind, ProgramSql,
    ProgramStatement, ProgramStatementKind as Step, RowVariables, SetItem, Statement, Variable,
    VariableKind, VariableUse,
};
use super::super::error::{ParseError, ParseErrorKind};
use super::super::keyword::Keyword as Kw;
use super::super::lexer::Lexer;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

/// The variables of a body that is parsed.
pub(super) struct Scopes<'a> {
    /// All variables by slot.
    variables: BumpVec<'a, Variable<'a>>,
    /// Slots of those that are visible, innermost last.
    visible: BumpVec<'a, u32>,
    /// Row variables that may be used.
    rows: RowVariables,
    /// Uses in the current expression or statement.
    uses: BumpVec<'a, VariableUse>,
}

impl<'a> Scopes<'a> {
    /// The slot of a visible variable.
    fn find(&self, name: &str) -> Option<u32> {
        let named = |slot: &&u32| {
            let variable = self.variables.get(**slot as usize);
            variable.is_some_and(|v| v.name.name.to_lowercase() == name.to_lowercase())
        };
        self.visible.iter().rev().find(named).copied()
    }

    fn add(&mut self, name: Ident<'a>, kind: VariableKind<'a>) -> u32 {
        let slot = self.variables.len() as u32;
        self.variables.push(Variable { name, kind });
        slot
    }

    /// The slot of `NEW.name` or `OLD.name`.
    fn row_variable(&mut self, row: Ident<'a>, name: Ident<'a>) -> Option<u32> {
        let kind = match () {
            () if self.rows.new && row.name.eq_ignore_ascii_case("NEW") => VariableKind::New,
            () if self.rows.old && row.name.eq_ignore_ascii_case("OLD") => VariableKind::Old,
            () => return None,
        };
        let same = |v: &Variable<'_>| {
            v.kind == kind && v.name.name.to_lowercase() == name.name.to_lowercase()
        };
        let found = self.variables.iter().position(same);
        Some(match found {
            Some(at) => at as u32,
            None => self.add(name, kind),
        })
    }
}

impl<'a> Parser<'a> {
    /// The parameter that takes the place of a name, if the name is that of a variable.
    pub(super) fn variable(
        &mut self,
        qualifier: Option<Ident<'a>>,
        name: Ident<'a>,
    ) -> Option<ExprKind<'a>> {
        let start = qualifier.unwrap_or(name).span.start;
        if let Some(places) = self.variables {
            let next = places.get(self.params as usize)?;
            return (next.start == start).then(|| self.next_param());
        }
        let scopes = self.program.as_mut()?;
        let slot = match qualifier {
            Some(row) => scopes.row_variable(row, name)?,
            None => scopes.find(name.name)?,
        };
        let span = Span::new(start, self.last_end);
        scopes.uses.push(VariableUse { slot, span });
        Some(self.next_param())
    }

    fn next_param(&mut self) -> ExprKind<'a> {
        let index = self.params;
        self.params += 1;
        ExprKind::Param(index)
    }

    /// The slot of a visible variable, for a target of an assignment.
    pub(super) fn slot_of(&self, name: &Ident<'_>) -> Option<u32> {
        self.program.as_ref()?.find(name.name)
    }

    /// The body of a program with these parameters and row variables.
    pub(super) fn program_body(
        &mut self,
        kind: ProgramKind,
        parameters: &[Parameter<'a>],
        rows: RowVariables,
    ) -> PResult<Body<'a>> {
        if self.program.is_some() {
            return Err(ParseError::new(
                ParseErrorKind::NestedProgram(kind),
                self.token.span(),
            ));
        }
        let mut scopes = Scopes {
            variables: self.list(),
            visible: self.list(),
            rows,
            uses: self.list(),
        };
        for parameter in parameters {
            let slot = scopes.add(parameter.name, VariableKind::Parameter(parameter.ty));
            scopes.visible.push(slot);
        }
        self.program = Some(scopes);
        let literals = self.literals.take();
        let params = std::mem::take(&mut self.params);
        let start = self.token.start;
        let root = self.program_statement()?;
        self.params = params;
        self.literals = literals;
        let span = Span::new(start, self.last_end);
        let scopes = self.program.take();
        Ok(Body {
            root,
            variables: scopes.map_or(&[][..], |s| s.variables.into_bump_slice()),
            text: self.verbatim(span)?,
            span,
        })
    }

    /// The text of a span that is stored as written: a version comment must not begin or end in it.
    pub(super) fn verbatim(&mut self, span: Span) -> PResult<&'a [u8]> {
        let text = self.slice(span);
        let mut lexer = Lexer::new(text, 0, self.mode);
        let mut before = lexer.next_token();
        while before.kind != K::End {
            let token = lexer.next_token();
            let comment_ends =
                before.kind == K::Star && token.kind == K::Slash && token.start == before.end;
            if before.kind == K::Invalid || comment_ends || self.pacer.leaves() {
                return self.error_at(span);
            }
            before = token;
        }
        Ok(text)
    }

    /// The text of a span.
    pub(super) fn slice(&self, span: Span) -> &'a [u8] {
        let text = self.text.get(span.start as usize..span.end as usize);
        text.unwrap_or_default()
    }

    /// Applies a rule with parameters of its own, and returns the variables that it used.
    pub(super) fn with_uses<T>(
        &mut self,
        rule: impl FnOnce(&mut Self) -> PResult<T>,
    ) -> PResult<(T, &'a [VariableUse])> {
        let empty = self.list();
        let outer = self
            .program
            .as_mut()
            .map(|s| std::mem::replace(&mut s.uses, empty));
        let params = self.params;
        if outer.is_some() {
            self.params = 0;
        }
        let made = rule(self)?;
        let (Some(outer), Some(scopes)) = (outer, self.program.as_mut()) else {
            return Ok((made, &[]));
        };
        self.params = params;
        let uses = std::mem::replace(&mut scopes.uses, outer);
        Ok((made, uses.into_bump_slice()))
    }

    /// An expression with the variables that it uses.
    pub(super) fn program_expr(&mut self) -> PResult<ProgramExpr<'a>> {
        let start = self.token.start;
        let (expr, uses): (Expr<'a>, _) = self.with_uses(Self::expr)?;
        let span = Span::new(start, self.last_end);
        Ok(ProgramExpr { expr, uses, span })
    }

    fn program_sql(&mut self) -> PResult<ProgramSql<'a>> {
        let start = self.token.start;
        let (statement, uses) = self.with_uses(Self::statement)?;
        let span = Span::new(start, self.last_end);
        Ok(ProgramSql {
            statement,
            uses,
            span,
        })
    }

    /// A statement of a body, without its semicolon.
    fn program_statement(&mut self) -> PResult<ProgramStatement<'a>> {
        self.enter()?;
        self.count_node()?;
        let start = self.token.start;
        let labelled = self.is_ident() && self.peek().kind == K::Colon;
        let label = if labelled {
            let label = self.ident()?;
            self.advance();
            Some(label)
        } else {
            None
        };
        let kind = match self.token.keyword {
            Kw::BEGIN => self.block(label)?,
            Kw::LOOP | Kw::WHILE | Kw::REPEAT => self.loop_statement(label)?,
            _ if labelled => return self.error(),
            _ => self.simple_statement()?,
        };
        self.leave();
        let span = Span::new(start, self.last_end);
        Ok(ProgramStatement { kind, span })
    }

    /// A statement that takes no label.
    fn simple_statement(&mut self) -> PResult<Step<'a>> {
        let assigns = self.is_kw(Kw::SET) && !self.assigns_no_variable();
        match self.token.keyword {
            Kw::IF => self.if_statement(),
            Kw::CASE => self.case_statement(),
            Kw::LEAVE => {
                self.advance();
                Ok(Step::Leave(self.ident()?))
            }
            Kw::ITERATE => {
                self.advance();
                Ok(Step::Iterate(self.ident()?))
            }
            Kw::RETURN => {
                self.advance();
                let value = self.program_expr()?;
                Ok(Step::Return(self.alloc(value)))
            }
            Kw::OPEN => {
                self.advance();
                Ok(Step::Open(self.ident()?))
            }
            Kw::CLOSE => {
                self.advance();
                Ok(Step::Close(self.ident()?))
            }
            Kw::FETCH => {
                self.advance();
                if self.eat_kw(Kw::NEXT) {
                    self.expect_kw(Kw::FROM)?;
                } else {
                    self.eat_kw(Kw::FROM);
                }
                let cursor = self.ident()?;
                self.expect_kw(Kw::INTO)?;
                let into = self.comma_list(Self::destination_var)?;
                Ok(Step::Fetch { cursor, into })
            }
            Kw::SET if assigns => {
                self.advance();
                Ok(Step::Set(self.comma_list(Self::assign_item)?))
            }
            _ => {
                let sql = self.program_sql()?;
                Ok(Step::Sql(self.alloc(sql)))
            }
        }
    }

    /// Whether SET at the current token assigns no variables: SET TRANSACTION, PASSWORD, ROLE.
    fn assigns_no_variable(&mut self) -> bool {
        let next = self.peek();
        match next.keyword {
            Kw::TRANSACTION | Kw::PASSWORD | Kw::ROLE | Kw::DEFAULT => true,
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL => {
                // SET SESSION TRANSACTION: the parser sees only one token ahead, so the text is searched.
                let rest = self.text.get(next.end as usize..).unwrap_or_default();
                let word = rest.trim_ascii_start().get(..11);
                word.is_some_and(|word| word.eq_ignore_ascii_case(b"TRANSACTION"))
            }
            _ => false,
        }
    }

    /// One assignment of SET.
    fn assign_item(&mut self) -> PResult<Assign<'a>> {
        if self.is(K::UserVar) {
            let name = self.user_var()?;
            self.assign()?;
            return Ok(Assign::User(name, self.program_expr()?));
        }
        if let Some(slot) = self.assigned_variable()? {
            self.assign()?;
            return Ok(Assign::Local(slot, self.program_expr()?));
        }
        let start = self.token.start;
        let (item, uses): (SetItem<'a>, _) = self.with_uses(Self::set_item)?;
        let span = Span::new(start, self.last_end);
        Ok(Assign::Other { item, uses, span })
    }

    /// Consumes the name of a variable of the body before `=`, and returns its slot.
    fn assigned_variable(&mut self) -> PResult<Option<u32>> {
        if !self.is_ident() {
            return Ok(None);
        }
        let next = self.peek().kind;
        if matches!(next, K::Eq | K::Assign) {
            let name = self.name_of(self.token)?;
            let slot = self.slot_of(&name);
            if slot.is_some() {
                self.advance();
            }
            return Ok(slot);
        }
        let row = self.name_of(self.token)?;
        let rows = self.program.as_ref().map(|s| s.rows).unwrap_or_default();
        let is_row = rows.new && row.name.eq_ignore_ascii_case("NEW")
            || rows.old && row.name.eq_ignore_ascii_case("OLD");
        if next != K::Period || !is_row {
            return Ok(None);
        }
        self.advance();
        self.advance();
        let column = self.any_word()?;
        let scopes = self.program.as_mut();
        Ok(scopes.and_then(|s| s.row_variable(row, column)))
    }

    /// Statements, each with its semicolon, up to one of the keywords.
    fn statements(&mut self, ends: &[Kw]) -> PResult<&'a [ProgramStatement<'a>]> {
        let mut list = self.list();
        while !self.is_any_kw(ends) || self.peek().kind == K::Colon {
            list.push(self.program_statement()?);
            self.expect(K::Semicolon)?;
        }
        Ok(list.into_bump_slice())
    }

    /// At least one statement.
    fn some_statements(&mut self, ends: &[Kw]) -> PResult<&'a [ProgramStatement<'a>]> {
        let list = self.statements(ends)?;
        if list.is_empty() {
            return self.error();
        }
        Ok(list)
    }

    /// At BEGIN.
    fn block(&mut self, label: Option<Ident<'a>>) -> PResult<Step<'a>> {
        self.advance();
        let visible = self.program.as_ref().map_or(0, |s| s.visible.len());
        let mut declarations = self.list();
        while self.eat_kw(Kw::DECLARE) {
            self.count_node()?;
            declarations.push(self.declaration()?);
            self.expect(K::Semicolon)?;
        }
        let statements = self.statements(&[Kw::END])?;
        self.expect_kw(Kw::END)?;
        let end_label = self.end_label()?;
        if let Some(scopes) = &mut self.program {
            scopes.visible.truncate(visible);
        }
        let declarations = declarations.into_bump_slice();
        Ok(Step::Block(self.alloc(Block {
            label,
            declarations,
            statements,
            end_label,
        })))
    }

    /// The label after END.
    fn end_label(&mut self) -> PResult<Option<Ident<'a>>> {
        if self.is_ident() {
            self.ident().map(Some)
        } else {
            Ok(None)
        }
    }

    /// After DECLARE.
    fn declaration(&mut self) -> PResult<Declaration<'a>> {
        if matches!(self.token.keyword, Kw::CONTINUE | Kw::EXIT) {
            let exit = self.advance().keyword == Kw::EXIT;
            self.expect_kw(Kw::HANDLER)?;
            self.expect_kw(Kw::FOR)?;
            let conditions = self.comma_list(Self::handled_condition)?;
            let statement = self.program_statement()?;
            return Ok(Declaration::Handler {
                exit,
                conditions,
                statement: self.alloc(statement),
            });
        }
        let name = self.ident()?;
        if self.eat_kw(Kw::CONDITION) {
            self.expect_kw(Kw::FOR)?;
            let value = if self.is_kw(Kw::SQLSTATE) {
                self.sqlstate()?
            } else {
                ConditionValue::Code(self.uint()?)
            };
            return Ok(Declaration::Condition { name, value });
        }
        if self.eat_kw(Kw::CURSOR) {
            self.expect_kw(Kw::FOR)?;
            let query = self.program_sql()?;
            if !matches!(query.statement, Statement::Query(_)) {
                return self.error_at(query.span);
            }
            return Ok(Declaration::Cursor { name, query });
        }
        self.variables(name)
    }

    /// After the first name of a declaration of variables.
    fn variables(&mut self, first: Ident<'a>) -> PResult<Declaration<'a>> {
        let mut names = self.list();
        names.push(first);
        while self.eat(K::Comma) {
            names.push(self.ident()?);
        }
        let ty = self.data_type()?;
        let ty = self.collated(ty)?;
        // The variables are not visible in their own default.
        let default = if self.eat_kw(Kw::DEFAULT) {
            Some(self.program_expr()?)
        } else {
            None
        };
        let mut slots = self.list();
        for name in names {
            if let Some(scopes) = &mut self.program {
                let slot = scopes.add(name, VariableKind::Local(ty));
                scopes.visible.push(slot);
                slots.push(slot);
            }
        }
        Ok(Declaration::Variables {
            slots: slots.into_bump_slice(),
            default,
        })
    }

    /// `SQLSTATE [VALUE] 'x'`
    pub(super) fn sqlstate(&mut self) -> PResult<ConditionValue<'a>> {
        self.expect_kw(Kw::SQLSTATE)?;
        self.eat_kw(Kw::VALUE);
        Ok(ConditionValue::SqlState(self.string()?))
    }

    fn handled_condition(&mut self) -> PResult<ConditionValue<'a>> {
        match self.token.keyword {
            Kw::SQLSTATE => self.sqlstate(),
            Kw::SQLWARNING => {
                self.advance();
                Ok(ConditionValue::SqlWarning)
            }
            Kw::SQLEXCEPTION => {
                self.advance();
                Ok(ConditionValue::SqlException)
            }
            Kw::NOT => {
                self.advance();
                self.expect_kw(Kw::FOUND)?;
                Ok(ConditionValue::NotFound)
            }
            _ if self.is(K::Int) => Ok(ConditionValue::Code(self.uint()?)),
            _ => Ok(ConditionValue::Name(self.ident()?)),
        }
    }

    /// At IF.
    fn if_statement(&mut self) -> PResult<Step<'a>> {
        self.advance();
        let mut arms = self.list();
        loop {
            let condition = self.program_expr()?;
            self.expect_kw(Kw::THEN)?;
            let list = self.some_statements(&[Kw::ELSEIF, Kw::ELSE, Kw::END])?;
            arms.push((condition, list));
            if !self.eat_kw(Kw::ELSEIF) {
                break;
            }
        }
        let otherwise = self.otherwise()?;
        self.expect_kw(Kw::END)?;
        self.expect_kw(Kw::IF)?;
        let arms = arms.into_bump_slice();
        Ok(Step::If(self.alloc(IfStatement { arms, otherwise })))
    }

    fn otherwise(&mut self) -> PResult<Option<&'a [ProgramStatement<'a>]>> {
        if self.eat_kw(Kw::ELSE) {
            self.some_statements(&[Kw::END]).map(Some)
        } else {
            Ok(None)
        }
    }

    /// At CASE.
    fn case_statement(&mut self) -> PResult<Step<'a>> {
        self.advance();
        let operand = if self.is_kw(Kw::WHEN) {
            None
        } else {
            Some(self.program_expr()?)
        };
        let mut arms = self.list();
        while self.eat_kw(Kw::WHEN) {
            let condition = self.program_expr()?;
            self.expect_kw(Kw::THEN)?;
            let list = self.some_statements(&[Kw::WHEN, Kw::ELSE, Kw::END])?;
            arms.push((condition, list));
        }
        if arms.is_empty() {
            return self.error();
        }
        let otherwise = self.otherwise()?;
        self.expect_kw(Kw::END)?;
        self.expect_kw(Kw::CASE)?;
        let arms = arms.into_bump_slice();
        Ok(Step::Case(self.alloc(CaseStatement {
            operand,
            arms,
            otherwise,
        })))
    }

    /// At LOOP, WHILE or REPEAT.
    fn loop_statement(&mut self, label: Option<Ident<'a>>) -> PResult<Step<'a>> {
        let word = self.advance().keyword;
        let (kind, statements) = match word {
            Kw::LOOP => (LoopKind::Forever, self.some_statements(&[Kw::END])?),
            Kw::WHILE => {
                let condition = self.program_expr()?;
                self.expect_kw(Kw::DO)?;
                (
                    LoopKind::While(condition),
                    self.some_statements(&[Kw::END])?,
                )
            }
            _ => {
                let statements = self.some_statements(&[Kw::UNTIL])?;
                self.expect_kw(Kw::UNTIL)?;
                (LoopKind::Until(self.program_expr()?), statements)
            }
        };
        self.expect_kw(Kw::END)?;
        self.expect_kw(word)?;
        let end_label = self.end_label()?;
        Ok(Step::Loop(self.alloc(Loop {
            label,
            kind,
            statements,
            end_label,
        })))
    }

    /// A target of INTO and FETCH.
    pub(super) fn destination_var(&mut self) -> PResult<IntoVar<'a>> {
        if self.is(K::UserVar) {
            return self.user_var().map(IntoVar::User);
        }
        let name = self.ident()?;
        if self.program.is_some() && self.eat(K::Period) {
            let column = self.any_word()?;
            let scopes = self.program.as_mut();
            let slot = scopes.and_then(|s| s.row_variable(name, column));
            return Ok(IntoVar::Local { name: column, slot });
        }
        let slot = self.slot_of(&name);
        Ok(IntoVar::Local { name, slot })
    }
}
