//! Window specifications, in OVER and in the WINDOW clause.

use super::super::ast::{
    Expr, ExprKind, Frame, FrameBound, FrameExclusion, FrameUnit, Literal, OrderItem, WindowSpec,
};
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
        let frame = match self.eat_any_kw(&[Kw::ROWS, Kw::RANGE, Kw::GROUPS]) {
            Some(Kw::ROWS) => Some(self.frame(FrameUnit::Rows)?),
            Some(Kw::RANGE) => Some(self.frame(FrameUnit::Range)?),
            Some(_) => Some(self.frame(FrameUnit::Groups)?),
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

    fn frame(&mut self, unit: FrameUnit) -> PResult<Frame<'a>> {
        let (start, end) = if self.eat_kw(Kw::BETWEEN) {
            let start = self.frame_bound()?;
            self.expect_kw(Kw::AND)?;
            (start, Some(self.frame_bound()?))
        } else {
            let start = self.frame_bound()?;
            if matches!(
                start,
                FrameBound::Following(..) | FrameBound::UnboundedFollowing
            ) {
                return self.error();
            }
            (start, None)
        };
        let exclude = if self.eat_kw(Kw::EXCLUDE) {
            Some(self.frame_exclusion()?)
        } else {
            None
        };
        Ok(Frame {
            unit,
            start,
            end,
            exclude,
        })
    }

    fn frame_exclusion(&mut self) -> PResult<FrameExclusion> {
        if self.eat_kw(Kw::CURRENT) {
            self.expect_kw(Kw::ROW)?;
            return Ok(FrameExclusion::CurrentRow);
        }
        if self.eat_kw(Kw::NO) {
            self.expect_kw(Kw::OTHERS)?;
            return Ok(FrameExclusion::NoOthers);
        }
        match self.eat_any_kw(&[Kw::GROUP, Kw::TIES]) {
            Some(Kw::GROUP) => Ok(FrameExclusion::Group),
            Some(_) => Ok(FrameExclusion::Ties),
            None => self.error(),
        }
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
        let span = self.token.span();
        let (amount, unit) = if self.eat_kw(Kw::INTERVAL) {
            (self.expr()?, Some(self.interval_unit()?))
        } else {
            (self.simple_expr()?, None)
        };
        let is_number = matches!(
            amount.kind,
            ExprKind::Literal(Literal::Int(_) | Literal::Decimal(_) | Literal::Float(_))
                | ExprKind::Param(_)
        );
        if unit.is_none() && !is_number {
            return self.error_at(span);
        }
        match self.eat_any_kw(&[Kw::PRECEDING, Kw::FOLLOWING]) {
            Some(Kw::PRECEDING) => Ok(FrameBound::Preceding(amount, unit)),
            Some(_) => Ok(FrameBound::Following(amount, unit)),
            None => self.error(),
        }
    }
}
