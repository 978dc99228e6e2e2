//! Builds FULLTEXT indexes from rows: a new index, one of a table whose rows are copied, and one whose
//! entries are of an older format.

use super::DdlCx;
use crate::catalog::Catalog;
use crate::db::Db;
use crate::definition::{FullText, Index, TEXT_ENTRY_FORMAT_VERSION, TableDef, TableId};
use crate::error::Result;
use crate::keys::Columns;
use crate::overflow;
use crate::row::RowRef;
use crate::table::Table;
use crate::text_index::TextIndex;
use crate::text_index::builder::TextBuilder;
use crate::text_index::entries::{STATE_KEY, State};
use crate::text_index::maintenance;
use porpoise_kv::{Check, Engine, Key, SpaceId, TxnOptions};
use std::sync::Arc;

/// Size from which collected postings are written.
const BUILD_BYTES: usize = 96 << 20;

/// Approximate size of one transaction in bytes.
const TRANSACTION_BYTES: usize = 16 << 20;

/// The build of one FULLTEXT index.
pub(super) struct TextBuild<'b> {
    engine: &'b dyn Engine,
    space: SpaceId,
    index: &'b TextIndex,
    builder: TextBuilder<'b>,
    state: State,
}

impl<'b> TextBuild<'b> {
    /// Begins a build; `None` without a space.
    pub(super) fn new(
        engine: &'b dyn Engine,
        index: &'b TextIndex,
        definition: &Index,
    ) -> Option<TextBuild<'b>> {
        Some(TextBuild {
            engine,
            space: *definition.spaces.first()?,
            index,
            builder: TextBuilder::new(index),
            state: State::default(),
        })
    }

    /// Adds a row with its overflow values. Rows are added in the order of their keys.
    pub(super) fn add_row<C: Columns + ?Sized>(&mut self, row: &C, primary: &[u8]) -> Result<()> {
        let texts = self.index.texts(|column| row.column(column));
        self.builder.add_texts(&texts, primary)?;
        if self.builder.bytes() >= BUILD_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the collected postings as one batch, in several transactions: nothing reads the index
    /// before its definition is committed.
    fn write(&mut self) -> Result<()> {
        let (engine, space) = (self.engine, self.space);
        let (batch, state) = (self.state.next_batch, &mut self.state);
        state.next_batch = batch.saturating_add(1);
        state.documents += self.builder.documents();
        let mut txn = Some(engine.begin(TxnOptions::default())?);
        let mut written = 0;
        self.builder.finish(batch, &mut |key, block| {
            if written >= TRANSACTION_BYTES
                && let Some(full) = txn.take()
            {
                full.commit()?;
                written = 0;
            }
            let open = match &mut txn {
                Some(open) => open,
                none => none.insert(engine.begin(TxnOptions::default())?),
            };
            open.put(Key::new(space, key), block, Check::Blind)?;
            written += key.len() + block.len();
            state.compacted_bytes += block.len() as u64;
            Ok(())
        })?;
        if let Some(mut last) = txn {
            let value = state.encode();
            last.put(Key::new(space, STATE_KEY), &value, Check::Blind)?;
            let commit = last.commit()?;
            engine.wait_durable(commit.position)?;
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write()
    }
}

impl Db {
    /// Writes the entries of a FULLTEXT index of `after`, for all rows of `before`.
    pub(super) fn build_text_index(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        definition: &Index,
        index: &TextIndex,
    ) -> Result<()> {
        let engine = self.engine().as_ref();
        let Some(mut build) = TextBuild::new(engine, index, definition) else {
            return Ok(());
        };
        self.for_each_batch(cx, before, |batch| {
            for (primary, bytes) in batch {
                let whole = overflow::read_complete_row(self, before, primary, bytes)?;
                let row = RowRef::new(after, whole.as_deref().unwrap_or(bytes))?;
                build.add_row(&row, primary)?;
            }
            Ok(())
        })?;
        build.finish()
    }

    /// Merges all pending documents of a table's FULLTEXT indexes, and compacts them.
    ///
    /// # Errors
    /// The engine's; a cancellation.
    pub fn optimize_text_indexes(&self, table: &Table) -> Result<()> {
        for position in 0..table.indexes.len() {
            if let Some(index) = table.text_index(position)
                && let Some(space) = table.index_spaces(position).first()
            {
                maintenance::optimize(self.engine().as_ref(), index, *space)?;
            }
        }
        Ok(())
    }

    /// Rebuilds FULLTEXT indexes whose entries are of an older format, before the database is used.
    /// After a crash in between the old entries are still there, and it begins again.
    ///
    /// # Errors
    /// The engine's; [`crate::Error::Corrupt`]; [`crate::Error::Refused`] if a prepared transaction has
    /// written to such an index.
    pub(crate) fn rebuild_old_text_indexes(&self) -> Result<()> {
        let is_old = |index: &Index| {
            let settings = index.full_text.as_ref();
            settings.is_some_and(|s| s.entry_version < TEXT_ENTRY_FORMAT_VERSION)
        };
        let old = |catalog: &Catalog| -> Vec<TableId> {
            let tables = catalog.tables.iter();
            let old = tables.filter(|(_, table)| table.indexes.iter().any(is_old));
            old.map(|(id, _)| *id).collect()
        };
        let tables = old(&self.catalog());
        if !tables.is_empty() {
            self.check_not_prepared(&tables)?;
        }
        for id in tables {
            self.define(|cx| self.rebuild_text_indexes(cx, id, &is_old))?;
        }
        Ok(())
    }

    /// Rebuilds some FULLTEXT indexes of a table.
    fn rebuild_text_indexes(
        &self,
        cx: &DdlCx<'_>,
        id: TableId,
        which: &dyn Fn(&Index) -> bool,
    ) -> Result<()> {
        let _barrier = self.barrier(cx, |_| Ok(vec![id]))?;
        let catalog = self.catalog();
        let Some(before) = catalog.tables.get(&id) else {
            return Ok(());
        };
        let name = before.quoted_name();
        tracing::info!(table = %name, "FULLTEXT indexes are rebuilt in the present format");
        let mut after: TableDef = before.definition().clone();
        let (mut fresh, mut retired) = (Vec::new(), Vec::new());
        for index in after.indexes.iter_mut().filter(|index| which(index)) {
            let specs = super::spaces::index_spaces(before, index);
            let spaces = self.engine().create_spaces(&specs)?;
            fresh.extend_from_slice(&spaces);
            retired.extend(std::mem::replace(&mut index.spaces, spaces));
            if let Some(settings) = &mut index.full_text {
                *settings = Arc::new(FullText {
                    entry_version: TEXT_ENTRY_FORMAT_VERSION,
                    ..FullText::clone(settings)
                });
            }
        }
        let after = Table::new(after);
        let built = self.build_fresh(cx, before, &after, &fresh);
        let changed = built.and_then(|()| {
            self.change_catalog(cx, |draft| {
                draft.edit(id, |table| table.clone_from(after.definition()));
                Ok(())
            })
        });
        match changed {
            Ok(position) => {
                self.engine().wait_durable(position)?;
                self.retire_spaces(&retired);
                Ok(())
            }
            Err(error) => {
                self.abandon_spaces(&fresh, &error);
                Err(error)
            }
        }
    }

    /// Builds the FULLTEXT indexes of `after` that have new spaces.
    fn build_fresh(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        fresh: &[SpaceId],
    ) -> Result<()> {
        for (position, index) in after.indexes.iter().enumerate() {
            let is_fresh = index.spaces.iter().any(|space| fresh.contains(space));
            if let Some(text_index) = after.text_index(position).filter(|_| is_fresh) {
                self.build_text_index(cx, before, after, index, text_index)?;
            }
        }
        Ok(())
    }
}
