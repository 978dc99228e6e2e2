//! Converts constants to the form in which the column that they are compared with stores them.

use super::Binder;
use super::literal::integer;
use crate::error::Result;
use crate::expr::{Expr, ExprKind};
use crate::functions::column_constants::has_year;
use porpoise_types::Kind;
use porpoise_types::column_type::NOT_FIXED_DECIMALS;

impl Binder<'_> {
    /// The operands of a comparison; a constant that is compared with a column is converted to the column's form.
    pub(super) fn convert_constants(&self, a: Expr, b: Expr) -> Result<(Expr, Expr)> {
        let b = self.convert_constant(&a, b)?;
        let a = self.convert_constant(&b, a)?;
        Ok((a, b))
    }

    /// A constant in the form in which a column stores it; any other expression as it is.
    pub(super) fn convert_constant(&self, column: &Expr, constant: Expr) -> Result<Expr> {
        if !matches!(column.kind, ExprKind::Column { .. }) {
            return Ok(constant);
        }
        match column.ty.kind {
            Kind::Year if has_year(constant.ty.kind) && constant.is_constant() => {
                self.call("YEAR CONSTANT", vec![constant])
            }
            Kind::Float
                if column.ty.decimals < NOT_FIXED_DECIMALS
                    && constant.ty.is_numeric()
                    && constant.is_constant() =>
            {
                let digits = integer(u64::from(column.ty.decimals));
                self.call("FLOAT CONSTANT", vec![constant, digits])
            }
            _ => Ok(constant),
        }
    }
}
