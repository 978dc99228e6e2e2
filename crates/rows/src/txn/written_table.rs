//! Checks and notes of a transaction about the tables that it writes.

use super::Txn;
use crate::Result;
use crate::definition::TableId;
use crate::table::Table;

/// Properties of the table written last. They are kept for the next transaction ([`Txn::restart`]), which usually writes to the
/// same table.
#[derive(Clone, Copy)]
pub(super) struct WrittenTable {
    id: TableId,
    /// Versions of the catalog and of the subscriptions.
    versions: (u64, u64),
    /// Whether this session may write to it while the database is read-only: it is a system or temporary table.
    is_exempt: bool,
    /// Whether there is a subscriber to its changes.
    is_subscribed: bool,
}

impl Txn {
    /// Fails with error 1290 if the database is read-only for this transaction and table.
    #[inline]
    pub(crate) fn check_writable(&mut self, table: &Table) -> Result<()> {
        if self.settings.replicates {
            return Ok(());
        }
        if self.wrote_rows && self.db.read_only.is_off() {
            return Ok(());
        }
        self.check_read_only(table)
    }

    #[inline(never)]
    fn check_read_only(&mut self, table: &Table) -> Result<()> {
        if self.written_table(table).is_exempt {
            return Ok(());
        }
        self.wrote_rows = true;
        self.db.read_only.check(self.settings.is_privileged)
    }

    /// Records that a row of `table` was written, for subscribers to its changes.
    pub(super) fn note_written(&mut self, table: &Table) {
        if self.last_written == Some(table.id) {
            return;
        }
        self.last_written = Some(table.id);
        if self.written_table(table).is_subscribed && !self.subscribed.contains(&table.id) {
            self.subscribed.push(table.id);
        }
    }

    /// The properties of a table that each write to it checks.
    fn written_table(&mut self, table: &Table) -> WrittenTable {
        // Read before the values that are valid at these versions, so that a change meanwhile is noticed.
        let versions = (self.db.catalog_version(), self.db.change_notifier.version());
        if let Some(known) = self.written_table
            && known.id == table.id
            && known.versions == versions
        {
            return known;
        }
        let is_system = ["mysql", "sys"].iter().any(|name| *name == table.database);
        let is_own = is_system && !self.settings.is_sql;
        *self.written_table.insert(WrittenTable {
            id: table.id,
            versions,
            is_exempt: is_own || !self.db.catalog().tables.contains_key(&table.id),
            is_subscribed: self.db.change_notifier.is_subscribed(table.id),
        })
    }
}
