//! CREATE and ALTER PROCEDURE and FUNCTION, SIGNAL, RESIGNAL and GET DIAGNOSTICS.

use super::super::ast::{
    Account, AlterRoutine, Characteristics, ConditionValue, CreateRoutine, CreateTrigger,
    DataAccess, DataType, DiagnosticsItem, Expr, ExprKind, GetDiagnostics, Parameter,
    ParameterMode, ProgramExpr, ProgramKind, RowVariables, Signal, Statement, TriggerEvent,
    TriggerOrder,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// At PROCEDURE, FUNCTION, TRIGGER or EVENT.
    pub(super) fn create_program(
        &mut self,
        definer: Option<Account<'a>>,
    ) -> PResult<Statement<'a>> {
        match self.advance().keyword {
            Kw::PROCEDURE => self.create_routine(ProgramKind::Procedure, definer),
            Kw::FUNCTION => self.create_routine(ProgramKind::Function, definer),
            Kw::TRIGGER => self.create_trigger(definer),
            _ => self.event_statement(false, definer),
        }
    }

    /// After TRIGGER.
    fn create_trigger(&mut self, definer: Option<Account<'a>>) -> PResult<Statement<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        let after = match self.eat_any_kw(&[Kw::BEFORE, Kw::AFTER]) {
            Some(time) => time == Kw::AFTER,
            None => return self.error(),
        };
        let event = match self.eat_any_kw(&[Kw::INSERT, Kw::UPDATE, Kw::DELETE]) {
            Some(Kw::INSERT) => TriggerEvent::Insert,
            Some(Kw::UPDATE) => TriggerEvent::Update,
            Some(_) => TriggerEvent::Delete,
            None => return self.error(),
        };
        self.expect_kw(Kw::ON)?;
        let table = self.table_name()?;
        self.expect_kw(Kw::FOR)?;
        self.expect_kw(Kw::EACH)?;
        self.expect_kw(Kw::ROW)?;
        let order = match self.eat_any_kw(&[Kw::FOLLOWS, Kw::PRECEDES]) {
            Some(Kw::FOLLOWS) => Some(TriggerOrder::Follows(self.ident()?)),
            Some(_) => Some(TriggerOrder::Precedes(self.ident()?)),
            None => None,
        };
        // The check that the event has the row follows when the body is compiled.
        let rows = RowVariables {
            old: true,
            new: true,
        };
        let body = self.program_body(ProgramKind::Trigger, &[], rows)?;
        Ok(Statement::CreateTrigger(self.alloc(CreateTrigger {
            definer,
            if_not_exists,
            name,
            after,
            event,
            table,
            order,
            body,
        })))
    }

    /// After PROCEDURE or FUNCTION.
    fn create_routine(
        &mut self,
        kind: ProgramKind,
        definer: Option<Account<'a>>,
    ) -> PResult<Statement<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        let is_function = kind == ProgramKind::Function;
        let start = self.expect(K::LeftParen)?.end;
        let parameters: &[Parameter<'a>] = if self.is(K::RightParen) {
            &[]
        } else {
            self.comma_list(|p| p.parameter(is_function))?
        };
        let end = self.expect(K::RightParen)?.start;
        let returns = if is_function {
            self.expect_kw(Kw::RETURNS)?;
            let ty = self.data_type()?;
            Some(self.collated(ty)?)
        } else {
            None
        };
        let characteristics = self.characteristics(true)?;
        let body = self.program_body(kind, parameters, RowVariables::default())?;
        let parameters_text = self.verbatim(Span::new(start, end))?.trim_ascii();
        Ok(Statement::CreateRoutine(self.alloc(CreateRoutine {
            kind,
            definer,
            if_not_exists,
            name,
            parameters,
            parameters_text,
            returns,
            characteristics,
            body,
        })))
    }

    fn parameter(&mut self, is_function: bool) -> PResult<Parameter<'a>> {
        let mode = match self.token.keyword {
            Kw::IN | Kw::OUT | Kw::INOUT if is_function => return self.error(),
            Kw::OUT => ParameterMode::Out,
            Kw::INOUT => ParameterMode::InOut,
            _ => ParameterMode::In,
        };
        self.eat_any_kw(&[Kw::IN, Kw::OUT, Kw::INOUT]);
        let name = self.ident()?;
        let ty = self.data_type()?;
        let ty = self.collated(ty)?;
        Ok(Parameter { mode, name, ty })
    }

    /// An optional COLLATE after a type of a program.
    pub(super) fn collated(&mut self, mut ty: DataType<'a>) -> PResult<DataType<'a>> {
        if ty.collation.is_none() && self.eat_kw(Kw::COLLATE) {
            ty.collation = Some(self.collation_name()?);
            ty.span = Span::new(ty.span.start, self.last_end);
        }
        Ok(ty)
    }

    /// Characteristics of a routine; DETERMINISTIC only in CREATE.
    fn characteristics(&mut self, create: bool) -> PResult<Characteristics<'a>> {
        let mut found = Characteristics::default();
        loop {
            match self.token.keyword {
                Kw::COMMENT => {
                    self.advance();
                    found.comment = Some(self.string()?);
                }
                Kw::LANGUAGE => {
                    self.advance();
                    self.expect_kw(Kw::SQL)?;
                }
                Kw::NOT if create => {
                    self.advance();
                    self.expect_kw(Kw::DETERMINISTIC)?;
                    found.deterministic = Some(false);
                }
                Kw::DETERMINISTIC if create => {
                    self.advance();
                    found.deterministic = Some(true);
                }
                Kw::CONTAINS | Kw::NO => {
                    let contains = self.advance().keyword == Kw::CONTAINS;
                    self.expect_kw(Kw::SQL)?;
                    found.access = Some(if contains {
                        DataAccess::ContainsSql
                    } else {
                        DataAccess::NoSql
                    });
                }
                Kw::READS | Kw::MODIFIES => {
                    let reads = self.advance().keyword == Kw::READS;
                    self.expect_kw(Kw::SQL)?;
                    self.expect_kw(Kw::DATA)?;
                    found.access = Some(if reads {
                        DataAccess::ReadsSqlData
                    } else {
                        DataAccess::ModifiesSqlData
                    });
                }
                Kw::SQL => {
                    self.advance();
                    self.expect_kw(Kw::SECURITY)?;
                    let who = self.eat_any_kw(&[Kw::DEFINER, Kw::INVOKER]);
                    match who {
                        Some(word) => found.invoker = Some(word == Kw::INVOKER),
                        None => return self.error(),
                    }
                }
                _ => return Ok(found),
            }
        }
    }

    /// ALTER, at PROCEDURE or FUNCTION.
    pub(super) fn alter_routine(&mut self) -> PResult<Statement<'a>> {
        let kind = match self.advance().keyword {
            Kw::PROCEDURE => ProgramKind::Procedure,
            _ => ProgramKind::Function,
        };
        let name = self.table_name()?;
        let characteristics = self.characteristics(false)?;
        Ok(Statement::AlterRoutine(self.alloc(AlterRoutine {
            kind,
            name,
            characteristics,
        })))
    }

    /// At SIGNAL or RESIGNAL.
    pub(super) fn signal(&mut self) -> PResult<Statement<'a>> {
        let again = self.advance().keyword == Kw::RESIGNAL;
        let condition = match self.token.keyword {
            Kw::SQLSTATE => Some(self.sqlstate()?),
            Kw::SET if again => None,
            _ if again && self.token.ends_statement() => None,
            _ => Some(ConditionValue::Name(self.ident()?)),
        };
        let items: &[(&str, ProgramExpr<'a>)] = if self.eat_kw(Kw::SET) {
            self.comma_list(|p| {
                let name = p.item_name(&SIGNAL_ITEMS)?;
                p.expect(K::Eq)?;
                Ok((name, p.simple_value()?))
            })?
        } else {
            &[]
        };
        Ok(Statement::Signal(self.alloc(Signal {
            again,
            condition,
            items,
        })))
    }

    /// A value of SIGNAL or GET DIAGNOSTICS: a literal, a variable or a name, and no other expression.
    fn simple_value(&mut self) -> PResult<ProgramExpr<'a>> {
        let start = self.token.start;
        let (expr, uses): (Expr<'a>, _) = self.with_uses(|p| {
            let is_call = p.peek().kind == K::LeftParen;
            match p.token.kind {
                K::UserVar => {
                    let start = p.token.start;
                    let name = p.user_var()?;
                    return Ok(p.node(start, ExprKind::UserVar(name)));
                }
                K::Word | K::QuotedIdent if is_call => {
                    p.advance();
                    return p.error();
                }
                K::Word | K::QuotedIdent | K::AtAt => {}
                _ if p.is_literal() => {}
                _ => return p.error(),
            }
            let refused = p.token.span();
            let value = p.primary()?;
            match value.kind {
                ExprKind::Literal(_)
                | ExprKind::Param(_)
                | ExprKind::Column(_)
                | ExprKind::SystemVar(_) => Ok(value),
                _ => p.error_at(refused),
            }
        })?;
        let span = Span::new(start, self.last_end);
        Ok(ProgramExpr { expr, uses, span })
    }

    /// One of these names; returned as in the list.
    fn item_name(&mut self, names: &[&'static str]) -> PResult<&'a str> {
        let word = self.token.span().slice(self.text);
        let found = names
            .iter()
            .find(|name| name.as_bytes().eq_ignore_ascii_case(word));
        match found {
            Some(name) if self.is(K::Word) => {
                self.advance();
                Ok(name)
            }
            _ => self.error(),
        }
    }

    /// At GET.
    pub(super) fn get_diagnostics(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let stacked = self.eat_any_kw(&[Kw::CURRENT, Kw::STACKED]) == Some(Kw::STACKED);
        self.expect_kw(Kw::DIAGNOSTICS)?;
        let condition = if self.eat_kw(Kw::CONDITION) {
            Some(self.simple_value()?)
        } else {
            None
        };
        let names: &[&'static str] = if condition.is_some() {
            &CONDITION_ITEMS
        } else {
            &STATEMENT_ITEMS
        };
        let items: &[DiagnosticsItem<'a>] = self.comma_list(|p| {
            let target = p.destination_var()?;
            p.expect(K::Eq)?;
            Ok((target, p.item_name(names)?))
        })?;
        Ok(Statement::GetDiagnostics(self.alloc(GetDiagnostics {
            stacked,
            condition,
            items,
        })))
    }
}

/// Items that SIGNAL and RESIGNAL set.
const SIGNAL_ITEMS: [&str; 12] = [
    "CLASS_ORIGIN",
    "SUBCLASS_ORIGIN",
    "MESSAGE_TEXT",
    "MYSQL_ERRNO",
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "CATALOG_NAME",
    "SCHEMA_NAME",
    "TABLE_NAME",
    "COLUMN_NAME",
    "CURSOR_NAME",
];

/// Items of a condition that GET DIAGNOSTICS reads.
const CONDITION_ITEMS: [&str; 13] = [
    "CLASS_ORIGIN",
    "SUBCLASS_ORIGIN",
    "RETURNED_SQLSTATE",
    "MESSAGE_TEXT",
    "MYSQL_ERRNO",
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "CATALOG_NAME",
    "SCHEMA_NAME",
    "TABLE_NAME",
    "COLUMN_NAME",
    "CURSOR_NAME",
];

/// Items of the statement that GET DIAGNOSTICS reads.
const STATEMENT_ITEMS: [&str; 2] = ["NUMBER", "ROW_COUNT"];
