//! The values that an aggregate of DISTINCT values has seen.
//!
//! Values are told apart by the bytes that groups are found by; where they are
//! plain integers, by those.
//!
//! Invariant: what was seen in one of the two forms is not new in the other.

use super::append_key;
use crate::error::SqlError;
use crate::exec::state::States;
use crate::expr::Expr;
use crate::expr::number::{Found, Unit, of_value, to_value};
use foldhash::fast::RandomState;
use porpoise_types::{ColumnType, ValueRef};
use std::collections::HashSet;

/// Values that DISTINCT has seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) keys: HashSet<Vec<u8>, RandomState>,
    /// Numbers that no key stands for.
    pub(super) numbers: HashSet<i64, RandomState>,
    /// Unit of the numbers, if there are any.
    pub(super) unit: Option<Unit>,
    /// The key at hand.
    key: Vec<u8>,
}

impl Seen {
    /// Notes a number; whether it has not come before.
    pub(super) fn is_new(
        &mut self,
        (number, unit): (i64, Unit),
        ty: &ColumnType,
        states: &States,
    ) -> Result<bool, SqlError> {
        self.unit = Some(unit);
        if self.numbers.contains(&number) {
            return Ok(false);
        }
        // Values came before numbers were made of them.
        if !self.keys.is_empty()
            && let Some(value) = to_value(number, unit, ty)
        {
            self.key.clear();
            append_key(value.as_ref(), ty, &mut self.key);
            if self.keys.contains(&self.key) {
                return Ok(false);
            }
        }
        states.hold(16)?;
        Ok(self.numbers.insert(number))
    }

    /// Notes values, one of each argument; whether they have not come before
    /// together.
    pub(super) fn are_new(
        &mut self,
        values: &[ValueRef<'_>],
        args: &[Expr],
        states: &States,
    ) -> Result<bool, SqlError> {
        self.key.clear();
        for (value, arg) in values.iter().zip(args) {
            append_key(*value, &arg.ty, &mut self.key);
        }
        let number = match (self.unit, values.first()) {
            (Some(unit), Some(value)) => of_value(*value, unit),
            _ => Found::Elsewhere,
        };
        let numbered = matches!(number, Found::Value(v) if self.numbers.contains(&v));
        if numbered || self.keys.contains(&self.key) {
            return Ok(false);
        }
        states.hold(48 + self.key.len() as u64)?;
        Ok(self.keys.insert(self.key.clone()))
    }
}
