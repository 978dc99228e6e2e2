//! Results of statements: counts, rows in the client's character set, and column metadata.

pub mod table;

use crate::vars::Settings;
use bumpalo::Bump;
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::Table;
use porpoise_sql_exec::exec::{ResultEnd, ResultSink};
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
    /// Offset of the next statement in the text; `None` after the last.
    pub rest: Option<usize>,
    /// Commit position at which the reply may be sent.
    pub position: CommitPosition,
    /// Whether the connection ends after the reply (COMMIT RELEASE, KILL of itself).
    pub disconnect: bool,
}

/// A sink that converts text to `character_set_results`.
pub struct RecodingSink<'s> {
    sink: &'s mut dyn ResultSink,
    /// Collation of all texts in the result; `None` sends each text in its own.
    to: Option<Collation>,
    /// The character sets from which and to which each column's text is converted; `None` for a
    /// column that is sent as it is.
    recodings: Vec<Option<(Charset, Charset)>>,
    /// Whether any column is converted.
    needed: bool,
    arena: Bump,
}

/// A sink that discards its rows.
pub(crate) struct NullSink;

impl ResultSink for NullSink {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<()> {
        Ok(())
    }
}

/// Whether text in `from` is valid text in `to` without conversion.
fn compatible(from: Charset, to: Charset) -> bool {
    use Charset::{Ascii, Binary, Utf8mb3, Utf8mb4};
    from == to && !to.is_kept_as_utf8()
        || matches!((from, to), (Binary, _) | (_, Binary))
        || from == Ascii && !to.is_kept_as_utf8()
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
            recodings: Vec::new(),
            needed: false,
            arena: Bump::new(),
        }
    }
}

impl ResultSink for RecodingSink<'_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        let target = |ty: &ColumnType| is_text(ty).then(|| self.to.unwrap_or(ty.collation));
        let unchanged = |c: &ResultColumn| {
            target(&c.ty).is_none_or(|to| to == c.ty.collation && !to.charset().is_kept_as_utf8())
        };
        if columns.iter().all(unchanged) {
            return self.sink.columns(columns);
        }
        let mut sent = columns.to_vec();
        self.recodings.clear();
        for column in &mut sent {
            let Some(to) = target(&column.ty) else {
                self.recodings.push(None);
                continue;
            };
            let charsets = (column.ty.collation.charset(), to.charset());
            let recode = !compatible(charsets.0, charsets.1);
            self.recodings.push(recode.then_some(charsets));
            self.needed |= recode;
            column.ty.collation = to;
        }
        self.sink.columns(&sent)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        if !self.needed {
            return self.sink.row(values);
        }
        self.arena.reset();
        let mut row: Vec<ValueRef<'_>> = Vec::with_capacity(values.len());
        for (value, recoding) in values.iter().zip(&self.recodings) {
            row.push(match (value, recoding) {
                (ValueRef::Bytes(text), Some((from, to))) => {
                    let (text, _) = from.convert(*to, text);
                    ValueRef::Bytes(self.arena.alloc_slice_copy(&to.encoded(&text)))
                }
                (value, _) => *value,
            });
        }
        self.sink.row(&row)
    }

    fn end_result(&mut self, end: &ResultEnd) -> Result<()> {
        self.sink.end_result(end)
    }

    fn open_file(&mut self, name: &[u8]) -> Result<()> {
        self.sink.open_file(name)
    }

    fn read_file(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.sink.read_file(out)
    }
}

/// The columns of a table as result metadata.
pub fn table_columns(table: &Table) -> Vec<ResultColumn> {
    let column = |(at, c): (usize, &porpoise_rows::catalog::Column)| ResultColumn {
        schema: table.database.clone(),
        table: table.name.clone(),
        org_table: table.name.clone(),
        org_name: c.name.clone(),
        ..ResultColumn::without_table(c.name.clone(), c.ty.clone(), column_flags(table, at))
    };
    table.named_columns().map(column).collect()
}
