//! Routing: maps a row's values or a key to its leaf (partition or subpartition) and space.
//!
//! Both use a canonical form, the partitioning columns' keys (nullable, ascending): a row's values
//! are encoded in it, and a key's parts are converted to it.
//!
//! Invariants:
//! 1. A row and all its keys route to the same leaf.
//! 2. A key whose values belong to no partition routes to the first leaf. No such key exists,
//!    because rows without a partition are refused (1526).
//! 3. All code that turns table, index and key into a space goes through
//!    [`Table::space`].

pub mod prune;

use crate::definition::{Index, IndexPart};
use crate::error::{Error, Result};
use crate::keys::Columns;
use crate::partition::Method;
use crate::table::Table;
use crate::table::router::{CanonicalKeys, ColumnLocation, Router};
use porpoise_kv::SpaceId;
use porpoise_types::{Value, take_key_part};
use smallvec::SmallVec;

impl Table {
    /// Returns the space of a complete key of the index at a position. All routing of keys to
    /// spaces goes through this function.
    #[inline]
    pub fn space(&self, index: usize, key: &[u8]) -> SpaceId {
        let spaces = self.index_spaces(index);
        let at = if self.partitioning.is_none() {
            0
        } else {
            self.partition_of(index, key)
        };
        spaces.get(at).copied().unwrap_or(SpaceId(u64::MAX))
    }

    fn router(&self) -> Option<&Router> {
        self.derived().router.as_ref()
    }

    /// The leaf into which a row goes by its values.
    ///
    /// # Errors
    /// [`Error::NoPartition`] if it belongs to none.
    pub fn partition_of_row(&self, values: &[Value]) -> Result<usize> {
        self.partition_of_columns(values)
    }

    pub(crate) fn partition_of_columns<C: Columns + ?Sized>(&self, row: &C) -> Result<usize> {
        let Some(router) = self.router() else {
            return Ok(0);
        };
        let columns = router.columns.iter().map(|(c, _)| row.column(*c));
        router
            .leaf_of_values(columns)
            .ok_or_else(|| self.no_partition(row))
    }

    fn no_partition<C: Columns + ?Sized>(&self, row: &C) -> Error {
        let value = match &self.partitioning {
            Some(by) if matches!(by.method, Method::Range | Method::List) => {
                let value = by.expr.as_ref().and_then(|e| e.eval(&|at| row.column(at)));
                value.map_or_else(|| "NULL".to_owned(), |v| v.to_string())
            }
            _ => "from column_list".to_owned(),
        };
        Error::NoPartition { value }
    }

    /// The leaf of a whole key of an index; 0 for a table that is not
    /// partitioned.
    pub fn partition_of(&self, index: usize, key: &[u8]) -> usize {
        match self.router() {
            None => 0,
            Some(router) => self.route(router, index, key).unwrap_or(0),
        }
    }

    /// Returns the leaf of all keys of an index that start with these complete parts, if the
    /// parts determine it.
    pub(crate) fn partition_of_prefix(&self, index: usize, prefix: &[u8]) -> Option<usize> {
        let Some(router) = self.router() else {
            return Some(0);
        };
        match router.locations.get(index)? {
            ColumnLocation::Parts(parts) => {
                self.route_parts(router, self.indexes.get(index)?, parts, prefix)
            }
            ColumnLocation::Hidden | ColumnLocation::Primary => None,
        }
    }

    fn route(&self, router: &Router, index: usize, key: &[u8]) -> Option<usize> {
        match router.locations.get(index)? {
            ColumnLocation::Hidden => self.hidden_partition(key),
            ColumnLocation::Parts(parts) => {
                let index = self.maintained_index(index)?;
                self.route_parts(router, index, parts, key)
            }
            ColumnLocation::Primary => {
                let index = self.maintained_index(index)?;
                let mut rest = key;
                let mut scrap = Vec::new();
                for part in &index.parts {
                    self.take_part(part, &mut rest, &mut scrap)?;
                }
                self.route(router, 0, rest)
            }
        }
    }

    fn route_parts(
        &self,
        router: &Router,
        index: &Index,
        parts: &[usize],
        key: &[u8],
    ) -> Option<usize> {
        let last = parts.iter().copied().max()?;
        let mut rest = key;
        let mut bytes = Vec::with_capacity(key.len() + 4);
        let mut ends: SmallVec<[usize; 8]> = SmallVec::new();
        for part in index.parts.iter().take(last + 1) {
            self.take_part(part, &mut rest, &mut bytes)?;
            ends.push(bytes.len());
        }
        let slice = |n: usize| {
            let start = match n.checked_sub(1) {
                None => 0,
                Some(before) => *ends.get(before)?,
            };
            bytes.get(start..*ends.get(n)?)
        };
        let mut canon = CanonicalKeys::default();
        for n in parts {
            canon.push(slice(*n)?, router);
        }
        router.leaf_of_canonical(&canon)
    }

    fn take_part(&self, part: &IndexPart, rest: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
        let column = self.columns.get(part.column)?;
        take_key_part(&column.ty, column.nullable, part.desc, rest, out)
    }

    fn hidden_partition(&self, key: &[u8]) -> Option<usize> {
        let id = key.last_chunk::<4>().map(|b| u32::from_be_bytes(*b))?;
        self.partitioning.as_ref()?.leaf_of_id(id)
    }

    /// The space of the overflow values of the row with this primary key; `None`
    /// for a table without such columns.
    pub(crate) fn overflow_space(&self, primary: &[u8]) -> Option<SpaceId> {
        match self.overflow_spaces.as_slice() {
            [] => None,
            [one] => Some(*one),
            several => several.get(self.partition_of(0, primary)).copied(),
        }
    }

    /// Appends the id of a row's leaf, by its values, to the hidden key of a table without a
    /// declared primary key.
    pub(crate) fn append_hidden_partition(&self, values: &[Value], out: &mut Vec<u8>) {
        if let Some(by) = &self.partitioning {
            let at = self.partition_of_row(values).unwrap_or(0);
            let id = by.leaf_id(at).unwrap_or(0);
            out.extend_from_slice(&id.to_be_bytes());
        }
    }

    /// Returns the primary key of a row with new values, given the old key.
    ///
    /// # Errors
    /// [`Error::NoPartition`] if it belongs to no partition.
    pub(crate) fn changed_key(&self, old: &[u8], values: &[Value]) -> Result<Vec<u8>> {
        if self.partitioning.is_some() {
            self.partition_of_row(values)?;
        }
        if !self.hidden_key {
            return Ok(self.primary_key(values));
        }
        let mut key = old.to_vec();
        if self.partitioning.is_some() {
            key.truncate(8);
            self.append_hidden_partition(values, &mut key);
        }
        Ok(key)
    }

    /// Returns the spaces that may have entries of an index with this prefix (complete parts).
    pub(crate) fn prefix_spaces(&self, index: usize, prefix: &[u8]) -> Vec<SpaceId> {
        let all = self.index_spaces(index);
        match self.partition_of_prefix(index, prefix) {
            Some(at) => all.get(at).copied().into_iter().collect(),
            None => all.to_vec(),
        }
    }
}
