//! Locations of columns in a row: the resolved form of [`LayoutDef`].
//!
//! A row does not contain column ids; its table version identifies the layout in which it was
//! written. A [`Layout`] maps a column *position of the present table definition* to the slot of
//! its value in rows of that layout, or to none if the column is newer; then its backfill value
//! applies.
//!
//! Invariants:
//! 1. A layout depends on nothing but the `LayoutDef` and the table's columns.
//! 2. The widths in [`Storage::of`] are a disk format (docs/formats.md,
//!    "Rows"): a kind's storage never changes within one row format.
//!
//! Rejected: self-describing rows (a type byte and an id per column cost a byte or more of memory
//! per value and a search per read).

use crate::definition::{LayoutDef, TableDef};
use porpoise_types::{ColumnType, Kind};

/// Storage format of one column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Little-endian two's complement with a number of bytes.
    Int(u8),
    /// Unsigned little-endian with a number of bytes.
    UInt(u8),
    /// IEEE single.
    Float,
    /// IEEE double.
    Double,
    /// The packed form, 4 bytes.
    Date,
    /// The packed form, 8 bytes.
    DateTime,
    /// Microseconds, 8 bytes.
    Time,
    /// Memory-comparable bytes.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
        /// Bytes.
        width: u8,
    },
    /// Bytes of any length, in the variable section.
    Bytes,
}

impl Storage {
    /// The storage of a column type.
    pub(crate) fn of(ty: &ColumnType) -> Storage {
        let int = |width| {
            if ty.unsigned {
                Storage::UInt(width)
            } else {
                Storage::Int(width)
            }
        };
        match ty.kind {
            Kind::TinyInt => int(1),
            Kind::SmallInt => int(2),
            Kind::MediumInt => int(3),
            Kind::Int => int(4),
            Kind::BigInt => int(8),
            Kind::Float => Storage::Float,
            Kind::Double => Storage::Double,
            Kind::Decimal => {
                let precision = u8::try_from(ty.length.min(65)).unwrap_or(65);
                let width = porpoise_types::Decimal::encoded_len(precision);
                Storage::Decimal {
                    precision,
                    scale: ty.decimals,
                    width: u8::try_from(width).unwrap_or(u8::MAX),
                }
            }
            Kind::Bit | Kind::Set => Storage::UInt(8),
            Kind::Year | Kind::Enum => Storage::UInt(2),
            Kind::Date => Storage::Date,
            Kind::DateTime | Kind::Timestamp => Storage::DateTime,
            Kind::Time => Storage::Time,
            Kind::Char
            | Kind::VarChar
            | Kind::TinyText
            | Kind::Text
            | Kind::MediumText
            | Kind::LongText
            | Kind::Binary
            | Kind::VarBinary
            | Kind::TinyBlob
            | Kind::Blob
            | Kind::MediumBlob
            | Kind::LongBlob
            | Kind::Json
            | Kind::Null => Storage::Bytes,
        }
    }

    /// Bytes in the fixed section; none for variable ones.
    pub(crate) fn width(self) -> usize {
        match self {
            Storage::Int(w) | Storage::UInt(w) => usize::from(w),
            Storage::Float | Storage::Date => 4,
            Storage::Double | Storage::DateTime | Storage::Time => 8,
            Storage::Decimal { width, .. } => usize::from(width),
            Storage::Bytes => 0,
        }
    }
}

/// Location of a column's value in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Number in storage order, which is its bit in the null bitmap.
    pub(crate) number: usize,
    /// The storage format.
    pub(crate) storage: Storage,
    /// For fixed width, the offset from the body's start; for variable width, the number among the
    /// variable columns.
    pub(crate) at: usize,
}

/// A resolved layout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The first table version with it.
    pub(crate) version: u32,
    /// Slots by column position of the present definition; `None` for columns that rows of this
    /// layout lack.
    pub(crate) by_position: Vec<Option<Slot>>,
    /// Bytes of null bitmap and fixed section.
    pub(crate) fixed: usize,
    /// Number of variable columns.
    pub(crate) variable: usize,
    /// Position of each variable column, in storage order; `None` for a
    /// column that the present definition no longer has.
    pub(crate) variable_positions: Vec<Option<usize>>,
}

impl Layout {
    pub(super) fn resolve(table: &TableDef, def: &LayoutDef) -> Layout {
        let bitmap = def.columns.len().div_ceil(8);
        let mut fixed = bitmap;
        let mut by_position = vec![None; table.columns.len()];
        let mut variable_positions = Vec::new();
        for (number, (id, ty)) in def.columns.iter().enumerate() {
            let position = table.columns.iter().position(|c| c.id == *id);
            let storage = Storage::of(ty);
            let at = if storage == Storage::Bytes {
                variable_positions.push(position);
                variable_positions.len() - 1
            } else {
                fixed += storage.width();
                fixed - storage.width()
            };
            let slot = Slot {
                number,
                storage,
                at,
            };
            if let Some(place) = position.and_then(|p| by_position.get_mut(p)) {
                *place = Some(slot);
            }
        }
        Layout {
            version: def.version,
            by_position,
            fixed,
            variable: variable_positions.len(),
            variable_positions,
        }
    }

    /// The slot of a column position.
    #[inline]
    pub(crate) fn slot(&self, position: usize) -> Option<&Slot> {
        self.by_position.get(position)?.as_ref()
    }
}
