//! Operations: the shapes of batches' parts, built from names.

use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_types::temporal::DateRules;
use porpoise_types::{DateTime, Time, ValueRef};
use porpoise_wire::native::batch::{
    Action, ColumnUse, Condition, FOR_UPDATE, Operation as Kind, Shape, WITH_CREATED,
    WITH_GENERATED_ID, WITH_VERSION,
};
use porpoise_wire::native::value::{self, Encoding};
use std::sync::Arc;

/// An operation, ready for batches. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Operation(Arc<Definition>);

#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) shape: Shape,
    /// The shape, encoded.
    pub(crate) encoded: Vec<u8>,
    /// Encodings of the key's values.
    pub(crate) key: Vec<Encoding>,
    /// Encodings of the values after the key: columns, then compared columns.
    pub(crate) values: Vec<Encoding>,
    /// Encodings of the columns.
    pub(crate) columns: Vec<Encoding>,
}

impl Operation {
    pub(crate) fn definition(&self) -> &Definition {
        &self.0
    }

    pub(crate) fn is_same(&self, other: &Operation) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the operation only reads.
    pub fn is_read(&self) -> bool {
        self.0.shape.operation == Kind::Read && self.0.shape.flags & FOR_UPDATE == 0
    }

    /// Number of values that each row has.
    pub fn value_count(&self) -> usize {
        let version = usize::from(self.0.shape.compares_version());
        let values = if self.0.shape.operation == Kind::Read {
            0
        } else {
            self.0.values.len()
        };
        self.0.key.len() + version + values
    }

    /// Appends a row: the key's values, the version to compare with, the columns' values, the values to
    /// compare with.
    pub(crate) fn put_row(&self, out: &mut Vec<u8>, values: &[ValueRef<'_>]) -> Result<()> {
        let definition = self.definition();
        let unfit = |_| Error::Usage("a value does not fit its column's type".to_owned());
        if values.len() != self.value_count() {
            let (has, wants) = (values.len(), self.value_count());
            return Err(Error::Usage(format!(
                "the operation has {wants} values in each row, not {has}"
            )));
        }
        let (key, mut rest) = values
            .split_at_checked(definition.key.len())
            .unwrap_or_default();
        for (encoding, value) in definition.key.iter().zip(key) {
            value::put(out, *encoding, of_text(*encoding, *value)).map_err(unfit)?;
        }
        if definition.shape.compares_version() {
            let (first, others) = rest.split_first().ok_or(Error::Protocol("version"))?;
            value::put(out, Encoding::UInt64, *first).map_err(unfit)?;
            rest = others;
        }
        if !rest.is_empty() {
            let pairs = definition.values.iter().zip(rest);
            let pairs = pairs.map(|(encoding, value)| (*encoding, of_text(*encoding, *value)));
            value::put_row(out, rest.len(), pairs).map_err(unfit)?;
        }
        Ok(())
    }
}

/// Parses a date or time that is given as text. Other values, and texts that cannot be parsed, are returned
/// unchanged.
#[inline]
pub(crate) fn of_text(encoding: Encoding, value: ValueRef<'_>) -> ValueRef<'_> {
    match (encoding, value) {
        (Encoding::Date | Encoding::DateTime | Encoding::Time, ValueRef::Bytes(text)) => {
            parsed(encoding, text).unwrap_or(value)
        }
        _ => value,
    }
}

/// A date or time, if the whole text is one.
fn parsed(encoding: Encoding, text: &[u8]) -> Option<ValueRef<'static>> {
    if encoding == Encoding::Time {
        let parsed = Time::parse(text).filter(|p| !p.truncated && !p.clipped)?;
        return Some(ValueRef::Time(parsed.value));
    }
    let parsed = DateTime::parse(text, DateRules::LENIENT)?;
    if parsed.truncated || parsed.offset.is_some() {
        return None;
    }
    match encoding {
        Encoding::DateTime => Some(ValueRef::DateTime(parsed.value)),
        _ if parsed.date_only => Some(ValueRef::Date(parsed.value.date())),
        _ => None,
    }
}

impl Table {
    /// An operation that reads rows by the primary key.
    pub fn read(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Read)
    }

    /// An operation that inserts rows.
    pub fn insert(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Insert)
    }

    /// An operation that changes rows, found by the primary key.
    pub fn update(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Update)
    }

    /// An operation that inserts rows, or changes those with the same primary key.
    pub fn upsert(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Upsert)
    }

    /// An operation that deletes rows, found by the primary key.
    pub fn delete(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Delete)
    }
}

/// Builds an [`Operation`] from names.
#[derive(Clone, Debug)]
pub struct OperationBuilder {
    table: Table,
    kind: Kind,
    flags: u8,
    index: Option<String>,
    columns: Vec<(String, Action)>,
    conditions: Vec<Option<String>>,
}

impl OperationBuilder {
    fn new(table: &Table, kind: Kind) -> OperationBuilder {
        OperationBuilder {
            table: table.clone(),
            kind,
            flags: 0,
            index: None,
            columns: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// Finds rows by this unique key instead of the primary key.
    #[must_use]
    pub fn by(mut self, index: &str) -> Self {
        self.index = Some(index.to_owned());
        self
    }

    /// Reads or sets these columns.
    #[must_use]
    pub fn columns(mut self, names: &[&str]) -> Self {
        let names = names.iter().map(|name| ((*name).to_owned(), Action::Set));
        self.columns.extend(names);
        self
    }

    /// Reads or sets all columns, without generated ones where it sets them.
    #[must_use]
    pub fn all_columns(mut self) -> Self {
        let is_read = self.kind == Kind::Read;
        let columns = self.table.columns.iter();
        let columns = columns.filter(|column| is_read || !column.is_generated);
        let names: Vec<_> = columns.map(|c| (c.name.clone(), Action::Set)).collect();
        self.columns.extend(names);
        self
    }

    /// Adds to this column.
    #[must_use]
    pub fn add_to(mut self, name: &str) -> Self {
        self.columns.push((name.to_owned(), Action::Add));
        self
    }

    /// Requires that the row has a given version.
    #[must_use]
    pub fn if_version(mut self) -> Self {
        self.conditions.push(None);
        self
    }

    /// Requires that the column has a given value.
    #[must_use]
    pub fn if_equals(mut self, name: &str) -> Self {
        self.conditions.push(Some(name.to_owned()));
        self
    }

    /// Returns the version of each row.
    #[must_use]
    pub fn with_version(mut self) -> Self {
        self.flags |= WITH_VERSION;
        self
    }

    /// Returns the id generated for each inserted row.
    #[must_use]
    pub fn with_generated_id(mut self) -> Self {
        self.flags |= WITH_GENERATED_ID;
        self
    }

    /// Returns whether an UPSERT has inserted its row.
    #[must_use]
    pub fn with_created(mut self) -> Self {
        self.flags |= WITH_CREATED;
        self
    }

    /// Locks the rows that are read until the end of the transaction.
    #[must_use]
    pub fn for_update(mut self) -> Self {
        self.flags |= FOR_UPDATE;
        self
    }

    fn column(&self, name: &str) -> Result<(u16, Encoding)> {
        let column = self.table.column(name);
        let column = column.ok_or_else(|| {
            Error::Usage(format!("table {} has no column {name}", self.table.name))
        })?;
        Ok((column.position, column.encoding))
    }

    /// Resolves the names.
    ///
    /// # Errors
    /// A name does not exist.
    pub fn build(&self) -> Result<Operation> {
        let table = &self.table;
        let index = match &self.index {
            Some(name) => table.index(name),
            None => table.primary_key(),
        };
        let key = match (index, self.kind) {
            (Some(index), _) => index.columns.as_slice(),
            (None, Kind::Insert) => &[],
            (None, _) => {
                let name = self.index.as_deref().unwrap_or("PRIMARY");
                return Err(Error::Usage(format!(
                    "table {} has no key {name}",
                    table.name
                )));
            }
        };
        let encoding_at = |position: &u16| table.column_at(*position).map(|c| c.encoding);
        let key: Option<Vec<_>> = key.iter().map(encoding_at).collect();
        let key = key.ok_or(Error::Protocol("a key of unknown columns"))?;
        let (mut uses, mut columns) = (Vec::new(), Vec::new());
        for (name, action) in &self.columns {
            let (position, encoding) = self.column(name)?;
            uses.push(ColumnUse {
                position,
                action: *action,
            });
            columns.push(encoding);
        }
        let (mut conditions, mut values) = (Vec::new(), columns.clone());
        for condition in &self.conditions {
            conditions.push(match condition {
                None => Condition::Version,
                Some(name) => {
                    let (position, encoding) = self.column(name)?;
                    values.push(encoding);
                    Condition::Equals(position)
                }
            });
        }
        let shape = Shape {
            operation: self.kind,
            flags: self.flags,
            index: index.map_or(0, |index| index.position),
            table: table.id,
            version: table.version,
            columns: uses,
            conditions,
        };
        let mut encoded = Vec::new();
        shape.put(&mut encoded);
        let key = if self.kind.has_key() { key } else { Vec::new() };
        Ok(Operation(Arc::new(Definition {
            shape,
            encoded,
            key,
            values,
            columns,
        })))
    }
}
