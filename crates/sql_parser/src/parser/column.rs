//! Column definitions.

use super::super::ast::{ColumnAttr, ColumnDef, Expr, ExprKind, Literal, UnaryOp};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// A column definition with its name.
    pub(super) fn column_def(&mut self) -> PResult<ColumnDef<'a>> {
        let name = self.ident()?;
        let ty = self.data_type()?;
        let mut attrs = self.list();
        while let Some(attr) = self.opt_column_attr()? {
            attrs.push(attr);
        }
        Ok(ColumnDef {
            name,
            ty,
            attrs: attrs.into_bump_slice(),
        })
    }

    fn opt_column_attr(&mut self) -> PResult<Option<ColumnAttr<'a>>> {
        let attr = match self.token.keyword {
            Kw::NULL => self.simple_attr(ColumnAttr::Null),
            Kw::NOT => {
                self.advance();
                self.expect_kw(Kw::NULL)?;
                ColumnAttr::NotNull
            }
            Kw::DEFAULT => {
                self.advance();
                self.column_default()?
            }
            Kw::ON => {
                self.advance();
                self.expect_kw(Kw::UPDATE)?;
                ColumnAttr::OnUpdateNow(self.now_digits()?)
            }
            Kw::AUTO_INCREMENT => self.simple_attr(ColumnAttr::AutoIncrement),
            Kw::SERIAL => {
                self.advance();
                self.expect_kw(Kw::DEFAULT)?;
                self.expect_kw(Kw::VALUE)?;
                ColumnAttr::SerialDefault
            }
            Kw::PRIMARY => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                ColumnAttr::PrimaryKey
            }
            Kw::KEY => self.simple_attr(ColumnAttr::PrimaryKey),
            Kw::UNIQUE => {
                self.advance();
                self.eat_kw(Kw::KEY);
                ColumnAttr::Unique
            }
            Kw::COMMENT => {
                self.advance();
                ColumnAttr::Comment(self.string()?)
            }
            Kw::COLLATE => {
                self.advance();
                ColumnAttr::Collate(self.ident_or_string()?)
            }
            Kw::GENERATED | Kw::AS => self.generated()?,
            Kw::CHECK => ColumnAttr::Check(self.check(None)?),
            Kw::CONSTRAINT => {
                self.advance();
                let name = if self.is_ident() {
                    Some(self.ident()?)
                } else {
                    None
                };
                if !self.is_kw(Kw::CHECK) {
                    return self.error();
                }
                ColumnAttr::Check(self.check(name)?)
            }
            Kw::REFERENCES => ColumnAttr::References(self.references()?),
            Kw::VISIBLE => self.simple_attr(ColumnAttr::Visible(true)),
            Kw::INVISIBLE => self.simple_attr(ColumnAttr::Visible(false)),
            _ => return self.opt_storage_attr(),
        };
        Ok(Some(attr))
    }

    fn simple_attr(&mut self, attr: ColumnAttr<'a>) -> ColumnAttr<'a> {
        self.advance();
        attr
    }

    /// Attributes that concern the storage engine.
    fn opt_storage_attr(&mut self) -> PResult<Option<ColumnAttr<'a>>> {
        let keyword = self.token.keyword;
        if !matches!(
            keyword,
            Kw::COLUMN_FORMAT
                | Kw::STORAGE
                | Kw::SRID
                | Kw::ENGINE_ATTRIBUTE
                | Kw::SECONDARY_ENGINE_ATTRIBUTE
        ) {
            return Ok(None);
        }
        self.advance();
        let attr = match keyword {
            Kw::COLUMN_FORMAT => ColumnAttr::ColumnFormat(self.any_word()?),
            Kw::STORAGE => ColumnAttr::Storage(self.any_word()?),
            Kw::SRID => ColumnAttr::Srid(self.uint()?),
            _ => {
                self.opt_eq();
                let text = self.string()?;
                if keyword == Kw::ENGINE_ATTRIBUTE {
                    ColumnAttr::EngineAttribute(text)
                } else {
                    ColumnAttr::SecondaryEngineAttribute(text)
                }
            }
        };
        Ok(Some(attr))
    }

    /// Value of DEFAULT.
    fn column_default(&mut self) -> PResult<ColumnAttr<'a>> {
        if self.eat(K::LeftParen) {
            let expr = self.expr()?;
            self.expect(K::RightParen)?;
            return Ok(ColumnAttr::DefaultExpr(expr));
        }
        Ok(ColumnAttr::Default(self.default_literal()?))
    }

    /// A literal with an optional sign, or a synonym of NOW.
    pub(super) fn default_literal(&mut self) -> PResult<Expr<'a>> {
        let signed = matches!(self.token.kind, K::Minus | K::Plus);
        let expr = self.uncollated_operand()?;
        let valid = match expr.kind {
            ExprKind::Literal(_) => true,
            ExprKind::Unary(UnaryOp::Neg | UnaryOp::Plus, inner) => {
                signed
                    && matches!(
                        inner.kind,
                        ExprKind::Literal(
                            Literal::Int(_) | Literal::Decimal(_) | Literal::Float(_)
                        )
                    )
            }
            ExprKind::Func(func) => {
                is_now(func.name.name) && func.schema.is_none() && func.over.is_none()
            }
            _ => false,
        };
        if valid {
            Ok(expr)
        } else {
            self.error_at(expr.span)
        }
    }

    /// A synonym of NOW with its fractional digits.
    fn now_digits(&mut self) -> PResult<u64> {
        let expr = self.simple_expr()?;
        if let ExprKind::Func(func) = expr.kind
            && is_now(func.name.name)
        {
            return match func.args {
                [] => Ok(0),
                [
                    Expr {
                        kind: ExprKind::Literal(Literal::Int(digits)),
                        ..
                    },
                ] => Ok(*digits),
                _ => self.error_at(expr.span),
            };
        }
        self.error_at(expr.span)
    }

    fn generated(&mut self) -> PResult<ColumnAttr<'a>> {
        if self.eat_kw(Kw::GENERATED) {
            self.expect_kw(Kw::ALWAYS)?;
        }
        self.expect_kw(Kw::AS)?;
        self.expect(K::LeftParen)?;
        let expr = self.expr()?;
        self.expect(K::RightParen)?;
        let stored = match self.eat_any_kw(&[Kw::STORED, Kw::VIRTUAL]) {
            Some(word) => word == Kw::STORED,
            // MariaDB's keyword for STORED.
            None => self.eat_word("PERSISTENT"),
        };
        Ok(ColumnAttr::Generated { expr, stored })
    }
}

fn is_now(name: &str) -> bool {
    ["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"]
        .iter()
        .any(|now| now.eq_ignore_ascii_case(name))
}
