//! A row as an item of the protocol.

use super::container::{Container, ExpiryForm};
use porpoise_rows::RowRef;
use porpoise_types::ValueRef;
use porpoise_wire::memcached::command::Item;

impl Container {
    /// When a row expires, in seconds since 1970; 0: never.
    pub fn expires_of(&self, row: &RowRef<'_>) -> i64 {
        let Some((position, form)) = self.expiry else {
            return 0;
        };
        match (form, row.get(position)) {
            (ExpiryForm::Seconds, ValueRef::Int(s)) => s,
            (ExpiryForm::Seconds, ValueRef::UInt(s)) => i64::try_from(s).unwrap_or(i64::MAX),
            // A part of a second counts whole: the row is there until its end.
            (ExpiryForm::Time, ValueRef::DateTime(t)) => t
                .to_unix_micros()
                .saturating_add(999_999)
                .div_euclid(1_000_000),
            _ => 0,
        }
    }

    /// A row as an item; its value lies in the row, or is put together in
    /// `scratch`.
    #[inline]
    pub fn item_of<'a>(&self, row: &RowRef<'a>, scratch: &'a mut Vec<u8>) -> Item<'a> {
        Item {
            flags: self.flags_of(row),
            version: row.version(),
            expires: self.expires_of(row),
            value: self.value_of(row, scratch),
        }
    }
}
