//! Searches of FULLTEXT indexes, and the rows that they find.
//!
//! All searches of a query run before its first row is read, because its expressions may be
//! evaluated while the engine visits rows. A result is kept until the execution ends. Equal
//! searches are run once.
//!
//! Invariant: a search reads the snapshot of the statement. On a row that is locked, which may be
//! newer, MATCH is evaluated by the row's texts.

use super::pruning::Batch;
use super::{Exec, ExecResult, Shared};
use crate::error::{Result, SqlError};
use crate::expr::eval::EvalCx;
use crate::expr::text_search::{FoundTexts, SearchMode, SearchedIndex, TextMatch};
use crate::expr::{Expr, ExprKind};
use crate::plan::QueryPlan;
use crate::plan::scan::SearchOrder;
use porpoise_kv::{Read, ReadMode};
use porpoise_rows::catalog::Table;
use porpoise_rows::text_index::TextIndex;
use porpoise_rows::{Lookup, OverflowFetch, RankOrder, RowRef, TextMatches, Txn};
use porpoise_types::full_text::Query;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of documents whose words a query expansion adds, those of the highest relevance.
const MAX_EXPANDED: usize = 1_000;

/// Documents whose words are read in one call.
const EXPANSION_BATCH: usize = 64;

/// Rows that a search found, in the order of their relevance or of their keys.
pub struct RankedRows {
    found: Rc<FoundTexts>,
    order: RankOrder,
}

impl RankedRows {
    /// The rows that a search finds.
    pub(super) fn open(
        search: &Expr,
        order: SearchOrder,
        cx: &EvalCx<'_>,
    ) -> ExecResult<RankedRows> {
        let (ExprKind::TextMatch(search), Some(queries)) = (&search.kind, cx.queries) else {
            return Err(SqlError::internal("no search to run").into());
        };
        let found = queries.search(search, cx)?;
        let order = match order {
            SearchOrder::Relevance => RankOrder::new(&found.matches),
            SearchOrder::Key => RankOrder::by_key(&found.matches),
        };
        Ok(RankedRows { found, order })
    }

    /// Passes the next rows and their primary keys to `visit`; false at the end.
    pub(super) fn next(
        &mut self,
        table: &Table,
        read: Read,
        batch: Batch<'_>,
        exec: &mut Exec<'_>,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>),
    ) -> ExecResult<bool> {
        let matches = &self.found.matches;
        let next = self.order.next(matches, batch.limit).iter();
        let wanted: Vec<&[u8]> = next.map(|at| matches.key(*at as usize)).collect();
        if wanted.is_empty() {
            return Ok(false);
        }
        let lookup = Lookup::primary(table, &wanted).overflow(batch.pruning.overflow());
        exec.txn()
            .look_up(&lookup.in_order(), read, &mut |_, found| {
                if let Some(found) = found {
                    visit(found.primary, found.row);
                }
            })?;
        Ok(true)
    }
}

/// Runs the searches of a query.
pub(super) fn prepare(plan: &QueryPlan, exec: &Exec<'_>, cx: &EvalCx<'_>) -> ExecResult<()> {
    if !plan.has_searches {
        return Ok(());
    }
    let mut locked = 0;
    plan.scans(&mut |scan| {
        if scan.lock().is_some() {
            locked |= scan.slot_bit();
        }
    });
    let mut outcome = Ok(());
    plan.expressions(&mut |e| {
        e.walk(&mut |e| {
            if let ExprKind::TextMatch(search) = &e.kind
                && outcome.is_ok()
            {
                let slot = search.slot().unwrap_or_default();
                let by_text = locked & 1u64 << (slot & 63) != 0;
                outcome = exec.shared.run_search(search, by_text, cx).map(drop);
            }
        });
    });
    Ok(outcome?)
}

impl Shared<'_> {
    /// The result of a search; it is run if it was not.
    pub(super) fn run_search(
        &self,
        search: &TextMatch,
        by_text: bool,
        cx: &EvalCx<'_>,
    ) -> Result<Rc<FoundTexts>> {
        let address = Arc::as_ptr(&search.searched).addr();
        if let Some(found) = self.states.search(address) {
            return Ok(found);
        }
        let text = search.text(cx)?.unwrap_or_default();
        let SearchedIndex { table, index, mode } = search.searched.as_ref();
        let same = (table.id, *index, *mode, by_text, text);
        if let Some(found) = self.states.same_search(&same) {
            self.states.keep_search(address, same, found.clone());
            return Ok(found);
        }
        let busy = |_| SqlError::internal("a search while rows are visited");
        let mut txn = self.txn.try_borrow_mut().map_err(busy)?;
        let run = SearchRun {
            table,
            position: *index,
            index: search.index()?,
            shared: self,
            validate: by_text && self.validate,
        };
        let before = self.states.used();
        let (query, matches) = run.run(&mut txn, *mode, &same.4)?;
        self.states.release_since(before, matches.memory() as u64);
        let found = Rc::new(FoundTexts {
            query,
            matches,
            by_text,
        });
        self.states.keep_search(address, same, found.clone());
        Ok(found)
    }
}

/// A search that is being run.
struct SearchRun<'r, 'x> {
    table: &'r Arc<Table>,
    position: usize,
    index: &'r TextIndex,
    shared: &'r Shared<'x>,
    /// Whether the entries read must not have changed when the transaction commits.
    validate: bool,
}

impl SearchRun<'_, '_> {
    fn read(&self) -> Read {
        Read {
            mode: ReadMode::Snapshot,
            mark: self.shared.mark,
            validate: self.validate,
        }
    }

    fn run(&self, txn: &mut Txn, mode: SearchMode, text: &str) -> Result<(Query, TextMatches)> {
        let rules = self.index.rules();
        let mut query = match mode {
            SearchMode::Boolean => Query::boolean(text, rules)
                .map_err(|error| SqlError::new(1064, "42000", error.to_string()))?,
            SearchMode::Natural | SearchMode::Expansion => Query::natural(text, rules),
        };
        let mut found = self.search(txn, &query)?;
        if mode == SearchMode::Expansion && !found.is_empty() {
            let words = self.words_of(txn, &found)?;
            query.expand(words.iter().map(String::as_str), rules);
            found = self.search(txn, &query)?;
        }
        Ok((query, found))
    }

    fn search(&self, txn: &mut Txn, query: &Query) -> Result<TextMatches> {
        let mut refused = None;
        let mut charge = |bytes: u64| match self.shared.states.hold(bytes) {
            Ok(()) => Ok(()),
            Err(error) => {
                refused = Some(error);
                let kind = porpoise_kv::Error::Cancelled(porpoise_base::cancel::Reason::Query);
                Err(porpoise_rows::Error::Kv(kind))
            }
        };
        let found = txn.search_text(self.table, self.position, query, self.read(), &mut charge);
        match refused {
            Some(error) => Err(error),
            None => Ok(found?),
        }
    }

    /// The indexed words of the documents found.
    fn words_of(&self, txn: &mut Txn, found: &TextMatches) -> Result<Vec<String>> {
        let (rules, mut order) = (self.index.rules(), RankOrder::new(found));
        let parts = self
            .table
            .indexes
            .get(self.position)
            .map(|index| &index.parts);
        let columns: Vec<usize> = parts
            .into_iter()
            .flatten()
            .map(|part| part.column)
            .collect();
        let mut words: Vec<String> = Vec::new();
        let first = order.next(found, MAX_EXPANDED);
        for batch in first.chunks(EXPANSION_BATCH) {
            let keys: Vec<&[u8]> = batch.iter().map(|at| found.key(*at as usize)).collect();
            let fetch = OverflowFetch::Of(&columns);
            let lookup = Lookup::primary(self.table, &keys).overflow(fetch);
            let before = words.len();
            txn.look_up(&lookup.in_order(), self.read(), &mut |_, row| {
                let Some(row) = row else { return };
                for text in self.index.texts(|column| row.row.get(column)) {
                    let all = rules.tokens(&text).filter(|word| rules.is_indexed(word));
                    words.extend(all.map(str::to_owned));
                }
            })?;
            let new = words.get(before..).unwrap_or_default();
            let bytes: usize = new
                .iter()
                .map(|word| size_of::<String>() + word.len())
                .sum();
            self.shared.states.hold(bytes as u64)?;
            porpoise_base::interrupt::check()?;
        }
        Ok(words)
    }
}
