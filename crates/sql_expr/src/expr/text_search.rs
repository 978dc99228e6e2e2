//! MATCH ... AGAINST (manual, "Full-Text Search Functions").
//!
//! A search does not depend on rows: its index is searched once for an execution, before the first
//! row is read ([`RunQueries::search`](super::query::RunQueries::search)), and the value for a row
//! is looked up by the row's key. The key is computed from the columns of the primary key, or comes
//! with the row. Where a row is locked, and so may be newer than the search, or has no key at hand,
//! its texts are ranked instead ([`FoundTexts::by_text`]).

use super::eval::{EvalCx, KeyedRow, Slot, eval};
use super::{Expr, ExprKind, large};
use crate::error::{Result, SqlError};
use porpoise_rows::TextMatches;
use porpoise_rows::catalog::Table;
use porpoise_rows::text_index::TextIndex;
use porpoise_types::full_text::{Document, Query};
use porpoise_types::{CompareAs, Value, ValueRef};
use std::fmt;
use std::sync::Arc;

/// Search modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SearchMode {
    /// IN NATURAL LANGUAGE MODE, the default.
    Natural,
    /// WITH QUERY EXPANSION.
    Expansion,
    /// IN BOOLEAN MODE.
    Boolean,
}

/// The index that a MATCH searches. Clones of an expression share it, and thereby the result.
pub struct SearchedIndex {
    /// The table.
    pub table: Arc<Table>,
    /// Position of the index.
    pub index: usize,
    /// Mode in which the text of AGAINST is read.
    pub mode: SearchMode,
}

impl fmt::Debug for SearchedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SearchedIndex { table, index, mode } = self;
        f.debug_tuple("SearchedIndex")
            .field(&table.id)
            .field(index)
            .field(mode)
            .finish()
    }
}

/// `MATCH (columns) AGAINST (text)`.
#[derive(Clone, Debug)]
pub struct TextMatch {
    /// The index.
    pub searched: Arc<SearchedIndex>,
    /// The columns of the index, then those of the primary key, if it has any; all of one slot.
    pub columns: Vec<Expr>,
    /// The text, which is the same for all rows.
    pub against: Expr,
}

/// The result of a search.
#[derive(Debug)]
pub struct FoundTexts {
    /// The search.
    pub query: Query,
    /// The rows found.
    pub matches: TextMatches,
    /// Whether rows may be newer than the search.
    pub by_text: bool,
}

impl TextMatch {
    /// The slot of the table.
    pub fn slot(&self) -> Option<usize> {
        match self.columns.first()?.kind {
            ExprKind::Column { slot, .. } => Some(slot),
            _ => None,
        }
    }

    /// The text of AGAINST in UTF-8; `None` for NULL.
    ///
    /// # Errors
    /// The errors of its evaluation.
    pub fn text(&self, cx: &EvalCx<'_>) -> Result<Option<String>> {
        let mut text = Vec::new();
        match eval(&self.against, &[], cx)? {
            ValueRef::Null => return Ok(None),
            ValueRef::Bytes(bytes) => {
                let charset = self.against.ty.collation.charset();
                let utf8 = porpoise_types::Charset::Utf8mb4;
                let known = charset == porpoise_types::Charset::Binary || charset.is_unicode();
                match known {
                    true => text.extend_from_slice(bytes),
                    false => text.extend_from_slice(&charset.convert(utf8, bytes).0),
                }
            }
            value => porpoise_types::write_text(value, &self.against.ty, &mut text),
        }
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The relevance of a row.
    ///
    /// # Errors
    /// The errors of the search.
    pub(super) fn eval<'a>(&self, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
        let Some(slot) = self.slot().and_then(|at| row.get(at)) else {
            return Ok(ValueRef::Double(0.0));
        };
        if matches!(slot, Slot::Null) {
            return Ok(ValueRef::Double(0.0));
        }
        let none = || SqlError::internal("a search where none can run");
        let found = cx.queries.ok_or_else(none)?.search(self, cx)?;
        let rank = match (found.by_text, self.key_of(slot)) {
            (false, Some(key)) => found.matches.rank(&key),
            _ => self.rank_by_text(&found, slot)?,
        };
        Ok(ValueRef::Double(f64::from(rank.unwrap_or(0.0))))
    }

    /// The key of a row; `None` if it is not at hand.
    fn key_of(&self, slot: &Slot<'_>) -> Option<Vec<u8>> {
        if let Slot::Keyed(KeyedRow { key, .. }) = slot {
            return Some(key.to_vec());
        }
        let table = &self.searched.table;
        if table.hidden_key {
            return None;
        }
        let parts = &table.indexes.first()?.parts;
        let values: Vec<ValueRef<'_>> = parts.iter().map(|part| slot.get(part.column)).collect();
        Some(table.key_prefix(0, &values))
    }

    fn rank_by_text(&self, found: &FoundTexts, slot: &Slot<'_>) -> Result<Option<f32>> {
        let index = self.index()?;
        let mut failed = None;
        let texts = index.texts(|column| match large::complete_value(slot, column) {
            Ok(value) => value,
            Err(error) => {
                failed = Some(error);
                ValueRef::Null
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let document = Document::new(&texts, index.rules());
        let rank = found.query.rank(&document, found.matches.frequencies());
        Ok(rank)
    }

    /// The index.
    ///
    /// # Errors
    /// An internal error for an index of another kind.
    pub fn index(&self) -> Result<&Arc<TextIndex>> {
        let SearchedIndex { table, index, .. } = self.searched.as_ref();
        let found = table.text_index(*index);
        found.ok_or_else(|| SqlError::internal("a search without an index"))
    }

    /// Whether both are the same search of the same slot, if their texts are equal.
    pub fn is_same(&self, other: &TextMatch) -> bool {
        let (a, b) = (&self.searched, &other.searched);
        a.table.id == b.table.id && (a.index, a.mode) == (b.index, b.mode)
    }
}

impl Expr {
    /// The MATCH that a condition is true for if its row is found: the MATCH itself, or that it
    /// is above 0.
    pub fn as_text_condition(&self) -> Option<&Expr> {
        use super::CmpOp;
        let zero = |e: &Expr| match e.as_const() {
            Some(Value::Int(0) | Value::UInt(0)) => true,
            Some(Value::Double(v)) => *v == 0.0,
            _ => false,
        };
        let found = |e: &Expr| matches!(e.kind, ExprKind::TextMatch(_));
        match &self.kind {
            ExprKind::TextMatch(_) => Some(self),
            ExprKind::Compare(op @ (CmpOp::Gt | CmpOp::Lt), CompareAs::Double, args) => {
                let [a, b] = args.as_ref();
                let (greater, less) = if *op == CmpOp::Gt { (a, b) } else { (b, a) };
                Some(greater).filter(|e| found(e) && zero(less))
            }
            _ => None,
        }
    }
}
