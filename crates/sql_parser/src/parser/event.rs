//! CREATE EVENT and ALTER EVENT.

use super::super::ast::{
    Account, EventStatement, EventStatus, ProgramKind, RowVariables, Schedule, Statement,
};
use super::super::keyword::Keyword as Kw;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// After EVENT.
    pub(super) fn event_statement(
        &mut self,
        alter: bool,
        definer: Option<Account<'a>>,
    ) -> PResult<Statement<'a>> {
        let if_not_exists = !alter && self.if_not_exists()?;
        let mut event = EventStatement {
            alter,
            definer,
            if_not_exists,
            name: self.table_name()?,
            schedule: None,
            preserve: None,
            rename: None,
            status: None,
            comment: None,
            body: None,
        };
        if self.is_kw(Kw::ON) && self.peek().keyword == Kw::SCHEDULE {
            self.advance();
            self.advance();
            event.schedule = Some(self.schedule()?);
        } else if !alter {
            return self.error();
        }
        if self.eat_kw(Kw::ON) {
            self.expect_kw(Kw::COMPLETION)?;
            event.preserve = Some(!self.eat_kw(Kw::NOT));
            self.expect_kw(Kw::PRESERVE)?;
        }
        if alter && self.eat_kw(Kw::RENAME) {
            self.expect_kw(Kw::TO)?;
            event.rename = Some(self.table_name()?);
        }
        event.status = self.event_status()?;
        if self.eat_kw(Kw::COMMENT) {
            event.comment = Some(self.string()?);
        }
        if self.eat_kw(Kw::DO) {
            event.body =
                Some(self.program_body(ProgramKind::Event, &[], RowVariables::default())?);
        } else if !alter {
            return self.error();
        }
        Ok(Statement::Event(self.alloc(event)))
    }

    fn event_status(&mut self) -> PResult<Option<EventStatus>> {
        if self.eat_kw(Kw::ENABLE) {
            return Ok(Some(EventStatus::Enabled));
        }
        if !self.eat_kw(Kw::DISABLE) {
            return Ok(None);
        }
        if !self.eat_kw(Kw::ON) {
            return Ok(Some(EventStatus::Disabled));
        }
        if self.eat_any_kw(&[Kw::REPLICA, Kw::SLAVE]).is_none() {
            return self.error();
        }
        Ok(Some(EventStatus::DisabledOnReplica))
    }

    /// After ON SCHEDULE.
    fn schedule(&mut self) -> PResult<Schedule<'a>> {
        if self.eat_kw(Kw::AT) {
            return Ok(Schedule::At(self.expr()?));
        }
        self.expect_kw(Kw::EVERY)?;
        let amount = self.expr()?;
        let unit = self.interval_unit()?;
        let starts = if self.eat_kw(Kw::STARTS) {
            Some(self.expr()?)
        } else {
            None
        };
        let ends = if self.eat_kw(Kw::ENDS) {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(Schedule::Every {
            amount,
            unit,
            starts,
            ends,
        })
    }
}
