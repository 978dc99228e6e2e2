//! Changes of rows: the request of a subscription, and the contents of its answers.
//!
//! ```text
//! SubscribeRequest --> Connection::subscribe, Connection::next_changes --> ChangesPage      one answer each
//!                  --> Subscription, AsyncSubscription                 --> ChangedTransaction
//! ```

use crate::error::{Error, Result};
use crate::scan::{Bound, put_bound};
use crate::table::Table;
use porpoise_types::{Value, ValueRef};
use porpoise_wire::native::changes::{ChangedColumn, MAX_RANGES, Subscribe};
use porpoise_wire::native::value::Encoding;
use std::sync::Arc;

/// A subscription to a table, looked up before.
#[derive(Clone, Debug)]
pub struct SubscribeRequest {
    pub(crate) table: Table,
    ranges: Vec<(Bound, Bound)>,
    pub(crate) position: String,
}

impl Table {
    /// A subscription to the changes of all rows, beginning with the next transaction.
    pub fn subscribe(&self) -> SubscribeRequest {
        SubscribeRequest {
            table: self.clone(),
            ranges: Vec::new(),
            position: "now".to_owned(),
        }
    }
}

impl SubscribeRequest {
    /// Adds a range of the primary key: the subscription has changes of rows whose key before or after the change is in
    /// one of its ranges.
    #[must_use]
    pub fn range(mut self, lower: Bound, upper: Bound) -> Self {
        self.ranges.push((lower, upper));
        self
    }

    /// Begins at this position: `first`, `now`, that of a transaction ([`ChangedTransaction::position`]), or FILE:POSITION
    /// of the binary log.
    #[must_use]
    pub fn position(mut self, position: &str) -> Self {
        position.clone_into(&mut self.position);
        self
    }

    /// Appends the message.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        let table = &self.table;
        let key = table.primary_key().map(|key| key.columns.iter());
        let key = key.into_iter().flatten().map(|at| table.column_at(*at));
        let key: Option<Vec<Encoding>> = key.map(|column| column.map(|c| c.encoding)).collect();
        let key = key.ok_or(Error::Protocol("a key of unknown columns"))?;
        let count = u16::try_from(self.ranges.len()).unwrap_or(u16::MAX);
        if count > MAX_RANGES {
            let text = format!("a subscription has at most {MAX_RANGES} ranges");
            return Err(Error::Usage(text));
        }
        let mut bounds = Vec::new();
        for (lower, upper) in &self.ranges {
            put_bound(&mut bounds, lower, &key)?;
            put_bound(&mut bounds, upper, &key)?;
        }
        Subscribe {
            table: table.id,
            version: table.version,
            position: &self.position,
            ranges: count,
            bounds: &bounds,
        }
        .put(out);
        Ok(())
    }
}

/// A row of a change.
#[derive(Clone, Debug)]
pub struct ChangedRow {
    columns: Arc<[ChangedColumn]>,
    values: Vec<Option<Value>>,
}

impl ChangedRow {
    pub(crate) fn new(
        columns: &Arc<[ChangedColumn]>,
        values: &[Option<ValueRef<'_>>],
    ) -> ChangedRow {
        let values = values.iter().map(|value| value.map(|v| v.to_owned()));
        ChangedRow {
            columns: columns.clone(),
            values: values.collect(),
        }
    }

    /// The columns that the table had when the change was logged.
    pub fn columns(&self) -> &[ChangedColumn] {
        &self.columns
    }

    /// The values, in the order of the columns; `None` for one that the log does not have (`binlog_row_image`).
    pub fn values(&self) -> &[Option<Value>] {
        &self.values
    }

    /// The value of a column.
    pub fn get(&self, column: &str) -> Option<&Value> {
        let mut columns = self.columns.iter();
        let at = columns.position(|c| c.name.eq_ignore_ascii_case(column))?;
        self.values.get(at)?.as_ref()
    }
}

/// A change.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row was inserted.
    Insert(ChangedRow),
    /// A row was changed.
    Update {
        /// The row before.
        before: ChangedRow,
        /// The row after.
        after: ChangedRow,
    },
    /// A row was deleted.
    Delete(ChangedRow),
    /// The table was changed by a statement of this kind: `create`, `alter`, `truncate` (all rows were removed), `drop`,
    /// `rename`, or `unknown`. The rows that follow may have other columns.
    Definition(String),
}

/// The changes of one transaction.
#[derive(Clone, Debug, Default)]
pub struct ChangedTransaction {
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// Identifier of the transaction; empty if it has none.
    pub gtid: String,
    /// Time of the commit in microseconds since 1970 UTC.
    pub micros: u64,
    /// The position after the transaction.
    pub position: String,
}

/// One answer to a subscription: the records of the protocol, as received.
#[derive(Clone, Debug, Default)]
pub struct ChangesPage(pub(crate) Vec<u8>);

impl ChangesPage {
    /// Whether the answer has no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
