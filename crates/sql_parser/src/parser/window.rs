//! Window specifications, in OVER and in the WINDOW clause.

use super::super::ast::{Expr, Frame, FrameBound, OrderItem, WindowSpec};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// `([base] [PARTITION BY ...] [ORDER BY ...] [frame])`
    pub(super) fn window_spec(&mut self) -> PResult<WindowSpec<'a>> {
        self.expect(K::LeftParen)?;
        let base = if self.is_ident() {
            Some(self.ident()?)
        } else {
            None
        };
        let partition_by: &[Expr<'a>] = if self.eat_kw2(Kw::PARTITION, Kw::BY) {
            self.comma_list(Self::expr)?
        } else {
            &[]
        };
        let order_by: &[OrderItem<'a>] = if self.eat_kw2(Kw::ORDER, Kw::BY) {
            self.order_items()?
        } else {
            &[]
        };
        let frame = match self.eat_any_kw(&[Kw::ROWS, Kw::RANGE]) {
            Some(word) => Some(self.frame(word == Kw::RANGE)?),
            None => None,
        };
        self.expect(K::RightParen)?;
        Ok(WindowSpec {
            base,
            partition_by,
            order_by,
            frame,
        })
    }

    fn frame(&mut self, range: bool) -> PResult<Frame<'a>> {
        if self.eat_kw(Kw::BETWEEN) {
            let start = self.frame_bound()?;
            self.expect_kw(Kw::AND)?;
            return Ok(Frame {
                range,
                start,
                end: Some(self.frame_bound()?),
            });
        }
        Ok(Frame {
            range,
            start: self.frame_bound()?,
            end: None,
        })
    }

    fn frame_bound(&mut self) -> PResult<FrameBound<'a>> {
        if self.eat_kw(Kw::CURRENT) {
            self.expect_kw(Kw::ROW)?;
            return Ok(FrameBound::CurrentRow);
        }
        if self.eat_kw(Kw::UNBOUNDED) {
            return match self.eat_any_kw(&[Kw::PRECEDING, Kw::FOLLOWING]) {
                Some(Kw::PRECEDING) => Ok(FrameBound::UnboundedPreceding),
                Some(_) => Ok(FrameBound::UnboundedFollowing),
                None => self.error(),
            };
        }
        let interval = self.eat_kw(Kw::INTERVAL);
        let amount = if interval {
            self.expr()?
        } else {
            self.simple_expr()?
        };
        let unit = if interval {
            Some(self.interval_unit()?)
        } else {
            None
        };
        match self.eat_any_kw(&[Kw::PRECEDING, Kw::FOLLOWING]) {
            Some(Kw::PRECEDING) => Ok(FrameBound::Preceding(amount, unit)),
            Some(_) => Ok(FrameBound::Following(amount, unit)),
            None => self.error(),
        }
    }
}
