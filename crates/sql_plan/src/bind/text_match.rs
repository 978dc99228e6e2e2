//! Binding of MATCH ... AGAINST (manual, "Full-Text Search Functions").

use super::{Binder, Source};
use crate::error::{Result, SqlError};
use crate::expr::text_search::{SearchMode, SearchedIndex, TextMatch};
use crate::expr::{Coercibility, Expr, ExprKind};
use crate::parse::ast;
use porpoise_rows::catalog::{IndexPart, IndexState, Table};
use porpoise_types::ColumnType;
use std::sync::Arc;

impl Binder<'_> {
    /// Binds a MATCH.
    ///
    /// # Errors
    /// 1210 for columns of several tables, or a text that depends on rows; 1214 for tables that
    /// have no such indexes, 1191 if none has these columns.
    pub(super) fn text_match(&mut self, found: &ast::Match<'_>) -> Result<Expr> {
        let mut columns = Vec::with_capacity(found.columns.len());
        let mut of_slot = None;
        let mut positions = Vec::with_capacity(found.columns.len());
        for name in found.columns {
            let column = self.column(name)?;
            let ExprKind::Column {
                slot, column: at, ..
            } = &column.kind
            else {
                return Err(SqlError::wrong_arguments("MATCH"));
            };
            if *of_slot.get_or_insert(*slot) != *slot {
                return Err(SqlError::wrong_arguments("MATCH"));
            }
            positions.push(*at);
            columns.push(column);
        }
        let against = self.expr(&found.against)?;
        if !is_constant(&against) {
            return Err(SqlError::wrong_arguments("AGAINST"));
        }
        let slot = of_slot.unwrap_or_default();
        let table = self.scope.sources.get(slot).and_then(Source::table);
        let table = table.ok_or_else(|| {
            let text = "The used table type doesn't support FULLTEXT indexes";
            SqlError::new(1214, "HY000", text)
        })?;
        let index = index_of(table, &positions).ok_or_else(|| {
            let text = "Can't find FULLTEXT index matching the column list";
            SqlError::new(1191, "HY000", text)
        })?;
        let table = table.clone();
        self.add_key_columns(&table, slot, &mut columns);
        let mode = match found.mode {
            ast::MatchMode::NaturalLanguage => SearchMode::Natural,
            ast::MatchMode::QueryExpansion => SearchMode::Expansion,
            ast::MatchMode::Boolean => SearchMode::Boolean,
        };
        let searched = Arc::new(SearchedIndex { table, index, mode });
        let found = TextMatch {
            searched,
            columns,
            against,
        };
        Ok(Expr {
            kind: ExprKind::TextMatch(Box::new(found)),
            ty: ColumnType::double(),
            nullable: false,
            coercibility: Coercibility::Numeric,
        })
    }

    /// Adds the columns of the primary key, by which ranks are found. They need no privilege.
    fn add_key_columns(&self, table: &Arc<Table>, slot: usize, columns: &mut Vec<Expr>) {
        let parts = table.indexes.first().map_or(&[][..], |key| &key.parts);
        for part in parts {
            if let Some(column) = table.columns.get(part.column) {
                let kind = ExprKind::Column {
                    slot,
                    column: part.column,
                    load: crate::expr::load_of(&column.ty),
                };
                columns.push(Expr {
                    kind,
                    ty: column.ty.clone(),
                    nullable: column.nullable,
                    coercibility: Coercibility::Implicit,
                });
            }
        }
    }
}

/// The position of the FULLTEXT index with these columns, in any order.
fn index_of(table: &Table, columns: &[usize]) -> Option<usize> {
    table.indexes.iter().position(|index| {
        let has = |column: &usize| index.parts.iter().any(|part| part.column == *column);
        let all = |part: &IndexPart| columns.contains(&part.column);
        index.is_full_text()
            && index.state == IndexState::Public
            && columns.iter().all(has)
            && index.parts.iter().all(all)
    })
}

/// Whether the text is the same for all rows of an execution.
fn is_constant(against: &Expr) -> bool {
    let mut constant = true;
    against.walk(&mut |e| match &e.kind {
        ExprKind::UserVariable(_) => {}
        ExprKind::Call(f, _) => constant &= f.constant,
        ExprKind::Column { .. }
        | ExprKind::Outer { .. }
        | ExprKind::Query(_)
        | ExprKind::SessionCall(..)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::NewValue { .. }
        | ExprKind::AssignVariable(..) => constant = false,
        _ => {}
    });
    constant
}
