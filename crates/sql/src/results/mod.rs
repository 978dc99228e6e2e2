//! Results of statements: counts, rows in the client's character set, and column metadata.

pub mod table;

use crate::vars::Settings;
use bumpalo::Bump;
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::Table;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::Result;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_sql_plan::plan::select::column_flags;
use porpoise_types::{Charset, Collation, ColumnType, Kind, ValueRef};

/// The result of a statement, besides its rows.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first id generated.
    pub last_insert_id: u64,
    /// Number of conditions that SHOW WARNINGS lists.
    pub warnings: u16,
    /// "Records: 3  Duplicates: 0  Warnings: 0" and the like.
    pub info: String,
    /// Whether a result set was sent.
    pub had_rows: bool,
    /// Offset of the next statement in the text.
    pub rest: Option<usize>,
    /// Commit position at which the reply may be sent.
    pub position: CommitPosition,
    /// Whether the connection ends after the reply (COMMIT RELEASE, KILL of itself).
    pub disconnect: bool,
}

/// A sink that converts text to `character_set_results`.
pub struct RecodingSink<'s> {
    sink: &'s mut dyn ResultSink,
    to: Option<Collation>,
    /// The character set from which each column's text is converted.
    from: Vec<Option<Charset>>,
    needed: bool,
    arena: Bump,
}

/// Whether text in `from` is valid text in `to` without conversion.
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
    /// Creates a sink for one result.
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

/// The columns of a table as result metadata.
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
