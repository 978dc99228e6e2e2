//! CREATE PROCEDURE, FUNCTION, TRIGGER and EVENT: parsed up to the name; the rest is kept as text.
//!
//! The rest extends to the end of the text, because a body contains semicolons. Only its tokens are
//! checked, which finds unterminated strings.

use super::super::ast::{Account, CreateProgram, ProgramKind, Statement};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// At PROCEDURE, FUNCTION, TRIGGER or EVENT.
    pub(super) fn create_program(
        &mut self,
        definer: Option<Account<'a>>,
    ) -> PResult<Statement<'a>> {
        let kind = match self.advance().keyword {
            Kw::PROCEDURE => ProgramKind::Procedure,
            Kw::FUNCTION => ProgramKind::Function,
            Kw::TRIGGER => ProgramKind::Trigger,
            _ => ProgramKind::Event,
        };
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        let heads = match kind {
            ProgramKind::Procedure | ProgramKind::Function => self.is(K::LeftParen),
            ProgramKind::Trigger => self.is_any_kw(&[Kw::BEFORE, Kw::AFTER]),
            ProgramKind::Event => self.is_kw(Kw::ON),
        };
        if !heads {
            return self.error();
        }
        let start = self.token.start;
        while !self.is(K::End) {
            if self.is(K::Invalid) {
                return self.error();
            }
            self.advance();
        }
        let span = Span::new(start, self.last_end);
        let rest = self
            .text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default();
        let program = CreateProgram {
            kind,
            definer,
            if_not_exists,
            name,
            rest,
            span,
        };
        Ok(Statement::CreateProgram(self.alloc(program)))
    }
}
