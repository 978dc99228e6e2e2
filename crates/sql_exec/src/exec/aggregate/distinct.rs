//! The set of values that an aggregate with DISTINCT has seen.
//!
//! Plain integers are stored as integers, other values by the bytes of their group key.
//!
//! Invariant: a value seen in one form is not new in the other.

use super::append_key;
use crate::error::SqlError;
use crate::exec::state::States;
use crate::expr::Expr;
use crate::expr::number::{NumberResult, Unit, of_value, to_value};
use foldhash::fast::RandomState;
use porpoise_types::{ColumnType, ValueRef};
use std::collections::HashSet;

/// Values that DISTINCT has seen.
#[derive(Default)]
pub(super) struct DistinctValues {
    pub(super) keys: HashSet<Vec<u8>, RandomState>,
    /// Numbers that are not in `keys`.
    pub(super) numbers: HashSet<i64, RandomState>,
    /// Unit of the numbers, if there are any.
    pub(super) unit: Option<Unit>,
    /// Scratch buffer for the key of the current value.
    key: Vec<u8>,
}

impl DistinctValues {
    /// Adds a number. Returns whether it is new.
    pub(super) fn insert_number(
        &mut self,
        number: i64,
        unit: Unit,
        ty: &ColumnType,
        states: &States,
    ) -> Result<bool, SqlError> {
        self.unit = Some(unit);
        if self.numbers.contains(&number) {
            return Ok(false);
        }
        // Values were added before the first number: check the number against their keys.
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

    /// Adds values, one for each argument. Returns whether the combination is new.
    pub(super) fn insert_values(
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
            _ => NumberResult::NotApplicable,
        };
        let numbered = matches!(number, NumberResult::Value(v) if self.numbers.contains(&v));
        if numbered || self.keys.contains(&self.key) {
            return Ok(false);
        }
        states.hold(48 + self.key.len() as u64)?;
        Ok(self.keys.insert(self.key.clone()))
    }
}
