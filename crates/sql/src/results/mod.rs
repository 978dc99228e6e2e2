//! Results of statements: counts, rows in the client's character set, column metadata.

pub mod table;

use crate::error::Result;
use crate::exec::ResultSink;
use crate::plan::ResultColumn;
use crate::plan::select::column_flags;
use crate::vars::Settings;
use bumpalo::Bump;
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::Table;
use porpoise_types::{Charset, Collation, ColumnType, Kind, ValueRef};

/// Result of a statement, beside the rows it sent.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first id generated.
    pub last_insert_id: u64,
    /// Number of conditions that SHOW WARNINGS shows.
    pub warnings: u16,
    /// "Records: 3  Duplicates: 0  Warnings: 0" and the like.
    pub info: String,
    /// A result set was sent.
    pub had_rows: bool,
    /// Offset of the next statement of the text.
    pub rest: Option<usize>,
    /// The reply may leave when this is durable.
    pub position: CommitPosition,
    /// The connection ends after the reply (COMMIT RELEASE, KILL of itself).
    pub disconnect: bool,
}

/// Turns text into `character_set_results`.
pub struct RecodingSink<'s> {
    sink: &'s mut dyn ResultSink,
    to: Option<Collation>,
    /// The character set that a column's text has to leave.
    from: Vec<Option<Charset>>,
    needed: bool,
    arena: Bump,
}

/// Whether text of `from` is text of `to` as it stands.
fn compatible(from: Charset, to: Charset) -> bool {
    use Charset::{Ascii, Binary, Utf8mb3, Utf8mb4};
    from == to
        || matches!((from, to), (Binary, _) | (_, Binary) | (Ascii, _))
        || matches!((from, to), (Utf8mb3, Utf8mb4))
}

fn is_text(ty: &ColumnType) -> bool {
    let textual = ty.is_string() || matches!(ty.kind, Kind::Enum | Kind::Set);
    textual && ty.collation != Collation::BINARY
}

impl<'s> RecodingSink<'s> {
    /// For one result.
    pub fn new(sink: &'s mut dyn ResultSink, settings: &Settings) -> RecodingSink<'s> {
        let to = settings.results.filter(|c| *c != Charset::Binary);
        let to = to.map(|charset| {
            if settings.collation.charset() == charset {
                settings.collation
            } else {
                charset.default_collation()
            }
        });
        RecodingSink {
            sink,
            to,
            from: Vec::new(),
            needed: false,
            arena: Bump::new(),
        }
    }
}

impl ResultSink for RecodingSink<'_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        let Some(to) = self.to else {
            return self.sink.columns(columns);
        };
        let leaves = |c: &ResultColumn| is_text(&c.ty) && c.ty.collation != to;
        if !columns.iter().any(leaves) {
            return self.sink.columns(columns);
        }
        let mut told = columns.to_vec();
        self.from.clear();
        for column in &mut told {
            let from = column.ty.collation.charset();
            let recode = is_text(&column.ty) && !compatible(from, to.charset());
            self.from.push(recode.then_some(from));
            self.needed |= recode;
            if is_text(&column.ty) {
                column.ty.collation = to;
            }
        }
        self.sink.columns(&told)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let (true, Some(to)) = (self.needed, self.to) else {
            return self.sink.row(values);
        };
        self.arena.reset();
        let mut row: Vec<ValueRef<'_>> = Vec::with_capacity(values.len());
        for (value, from) in values.iter().zip(&self.from) {
            row.push(match (value, from) {
                (ValueRef::Bytes(text), Some(from)) => {
                    let (text, _) = from.convert(to.charset(), text);
                    ValueRef::Bytes(self.arena.alloc_slice_copy(&text))
                }
                (value, _) => *value,
            });
        }
        self.sink.row(&row)
    }
}

/// The columns of a table as results name them.
pub fn columns_of(table: &Table) -> Vec<ResultColumn> {
    let column = |(at, c): (usize, &porpoise_rows::catalog::Column)| ResultColumn {
        schema: table.database.clone(),
        table: table.name.clone(),
        org_table: table.name.clone(),
        name: c.name.clone(),
        org_name: c.name.clone(),
        ty: c.ty.clone(),
        flags: column_flags(table, at),
    };
    table.columns.iter().enumerate().map(column).collect()
}
