//! PARTITION BY and the definitions of partitions.

use super::super::ast::{
    Ident, PartitionBy, PartitionDef, PartitionScheme, PartitionValues, TableOption,
};
use super::super::error::{ParseError, ParseErrorKind};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// At PARTITION BY.
    pub(super) fn partition_by(&mut self) -> PResult<&'a PartitionBy<'a>> {
        self.advance();
        self.expect_kw(Kw::BY)?;
        let scheme = self.partition_scheme()?;
        let mut by = PartitionBy {
            scheme,
            count: None,
            sub_scheme: None,
            sub_count: None,
            partitions: &[],
        };
        if self.eat_kw(Kw::PARTITIONS) {
            by.count = Some(self.uint()?);
        }
        if self.eat_kw(Kw::SUBPARTITION) {
            self.expect_kw(Kw::BY)?;
            let sub = self.partition_scheme()?;
            if !matches!(
                sub,
                PartitionScheme::Hash { .. } | PartitionScheme::Key { .. }
            ) {
                return self.error();
            }
            by.sub_scheme = Some(sub);
            if self.eat_kw(Kw::SUBPARTITIONS) {
                by.sub_count = Some(self.uint()?);
            }
        }
        if self.is(K::LeftParen) {
            by.partitions = self.partition_defs(by.sub_count)?;
        }
        Ok(self.alloc(by))
    }

    fn partition_scheme(&mut self) -> PResult<PartitionScheme<'a>> {
        let linear = self.eat_kw(Kw::LINEAR);
        match self.eat_any_kw(&[Kw::HASH, Kw::KEY, Kw::RANGE, Kw::LIST]) {
            Some(Kw::HASH) => Ok(PartitionScheme::Hash {
                linear,
                expr: self.paren_expr()?,
            }),
            Some(Kw::KEY) => {
                let mut algorithm = None;
                if self.eat_kw(Kw::ALGORITHM) {
                    self.opt_eq();
                    algorithm = Some(self.uint()?);
                }
                self.expect(K::LeftParen)?;
                let columns: &[Ident<'a>] = if self.is(K::RightParen) {
                    &[]
                } else {
                    self.comma_list(Self::ident)?
                };
                self.expect(K::RightParen)?;
                Ok(PartitionScheme::Key {
                    linear,
                    algorithm,
                    columns,
                })
            }
            Some(word) if !linear => {
                let range = word == Kw::RANGE;
                if self.eat_kw(Kw::COLUMNS) {
                    let columns = self.paren_idents()?;
                    return Ok(if range {
                        PartitionScheme::RangeColumns(columns)
                    } else {
                        PartitionScheme::ListColumns(columns)
                    });
                }
                let expr = self.paren_expr()?;
                Ok(if range {
                    PartitionScheme::Range(expr)
                } else {
                    PartitionScheme::List(expr)
                })
            }
            _ => self.error(),
        }
    }

    fn paren_expr(&mut self) -> PResult<super::super::ast::Expr<'a>> {
        self.expect(K::LeftParen)?;
        let expr = self.expr()?;
        self.expect(K::RightParen)?;
        Ok(expr)
    }

    /// `(PARTITION ..., PARTITION ...)`; `sub_count` is the number of subpartitions given before.
    /// All partitions name as many subpartitions as it says, or as the first partition names.
    pub(super) fn partition_defs(
        &mut self,
        sub_count: Option<u64>,
    ) -> PResult<&'a [PartitionDef<'a>]> {
        let mut named: Option<u64> = None;
        self.paren_list(|p| {
            p.expect_kw(Kw::PARTITION)?;
            let name = p.ident()?;
            let values = p.partition_values()?;
            let options = p.partition_options()?;
            let start = p.token.span();
            let subpartitions: &[(Ident<'a>, &[TableOption<'a>])] = if p.is(K::LeftParen) {
                p.paren_list(|p| {
                    p.expect_kw(Kw::SUBPARTITION)?;
                    Ok((p.ident_or_string()?, p.partition_options()?))
                })?
            } else {
                &[]
            };
            let count = subpartitions.len() as u64;
            let is_other = named.is_some_and(|named| named != count)
                || count > 0 && sub_count.is_some_and(|given| given != count);
            if is_other {
                return Err(ParseError::new(ParseErrorKind::SubpartitionCount, start));
            }
            named = Some(count);
            Ok(PartitionDef {
                name,
                values,
                options,
                subpartitions,
            })
        })
    }

    fn partition_values(&mut self) -> PResult<PartitionValues<'a>> {
        if !self.eat_kw(Kw::VALUES) {
            return Ok(PartitionValues::None);
        }
        if self.eat_kw(Kw::IN) {
            return Ok(PartitionValues::In(self.paren_list(Self::expr)?));
        }
        self.expect_kw(Kw::LESS)?;
        self.expect_kw(Kw::THAN)?;
        if self.eat_kw(Kw::MAXVALUE) {
            return Ok(PartitionValues::LessThan(&[None]));
        }
        Ok(PartitionValues::LessThan(self.paren_list(|p| {
            if p.eat_kw(Kw::MAXVALUE) {
                Ok(None)
            } else {
                p.expr().map(Some)
            }
        })?))
    }

    fn partition_options(&mut self) -> PResult<&'a [TableOption<'a>]> {
        let mut options = self.list();
        loop {
            if self.is_kw2(Kw::STORAGE, Kw::ENGINE) {
                self.advance();
            }
            match self.opt_table_option()? {
                Some(option) => options.push(option),
                None => return Ok(options.into_bump_slice()),
            }
        }
    }
}
