//! Settings of FULLTEXT indexes: the parser, and the variables that say which words are indexed
//! (manual, "Fine-Tuning MySQL Full-Text Search"). An index keeps those of its creation.

use crate::context::StatementContext;
use porpoise_rows::catalog::{FullText, Table};
use porpoise_rows::{BeginOptions, KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{IndexDef, IndexKind, IndexOption};
use porpoise_types::full_text::TextParser;
use porpoise_types::{Charset, Kind, ValueRef};
use std::sync::Arc;

/// Name of the server's variable with the table of stopwords.
pub const STOPWORD_TABLE: &str = "innodb_ft_server_stopword_table";

/// Name of the session's variable with the table of stopwords, which takes precedence.
pub const USER_STOPWORD_TABLE: &str = "innodb_ft_user_stopword_table";

/// Name of the variable with the table whose FULLTEXT index information_schema shows.
pub const AUX_TABLE: &str = "innodb_ft_aux_table";

/// Rows of a stopword table read in one call.
const BATCH: usize = 1000;

/// Returns the settings of an index; `None` for an index of another kind.
///
/// # Errors
/// 1128 for an unknown parser; 1221 for the order of a part; those of the table of stopwords.
pub fn settings(cx: &StatementContext, def: &IndexDef<'_>) -> Result<Option<FullText>> {
    let mut parsers = def.options.iter().filter_map(|option| match option {
        IndexOption::Parser(name) => Some(name.name),
        _ => None,
    });
    let parser = parsers.next_back();
    if def.kind != IndexKind::Fulltext {
        return match parser {
            Some(_) => {
                let text =
                    "You have an error in your SQL syntax: WITH PARSER is for FULLTEXT indexes";
                Err(SqlError::new(1064, "42000", text))
            }
            None => Ok(None),
        };
    }
    if def.parts.iter().any(|part| part.has_order) {
        let text = "Incorrect usage of spatial/fulltext/hash index and explicit index order";
        return Err(SqlError::new(1221, "HY000", text));
    }
    let globals = cx.server.globals.read().clone();
    let number = |name| u32::try_from(globals.int(name)).unwrap_or(u32::MAX);
    let parser = match parser {
        None => TextParser::Words,
        Some(name) if name.eq_ignore_ascii_case("ngram") => {
            TextParser::Ngrams(number("ngram_token_size"))
        }
        Some(name) => {
            let text = format!("Function '{name}' is not defined");
            return Err(SqlError::new(1128, "HY000", text));
        }
    };
    let tables = [
        (USER_STOPWORD_TABLE, cx.values.text(USER_STOPWORD_TABLE)),
        (STOPWORD_TABLE, globals.text(STOPWORD_TABLE)),
    ];
    let named = tables.iter().find(|(_, name)| !name.is_empty());
    let stopwords = match named {
        _ if !cx.values.bool("innodb_ft_enable_stopword") => Some(Vec::new()),
        None => None,
        Some((variable, name)) => Some(words_of(cx, variable, name)?),
    };
    Ok(Some(FullText {
        parser,
        min_chars: number("innodb_ft_min_token_size"),
        max_chars: number("innodb_ft_max_token_size"),
        stopwords,
        ..FullText::default()
    }))
}

/// The table that `database/table` names.
fn table_named(cx: &StatementContext, name: &str) -> Option<Arc<Table>> {
    let (database, table) = name.split_once('/')?;
    cx.catalog().table(database, table).cloned()
}

/// The table that the variable [`AUX_TABLE`] names.
///
/// # Errors
/// 1231 unless it exists and has a FULLTEXT index.
pub fn aux_table(cx: &StatementContext, name: &str) -> Result<Arc<Table>> {
    let has_index = |table: &Arc<Table>| table.indexes.iter().any(|index| index.is_full_text());
    let table = table_named(cx, name).filter(has_index);
    table.ok_or_else(|| SqlError::wrong_variable_value(AUX_TABLE, name))
}

/// The table of stopwords that a variable names.
///
/// # Errors
/// 1231 unless it exists and has a column `value` of type VARCHAR, and no other.
pub fn stopword_table(cx: &StatementContext, variable: &str, name: &str) -> Result<Arc<Table>> {
    let wrong = || SqlError::wrong_variable_value(variable, name);
    let table = table_named(cx, name).ok_or_else(wrong)?;
    let visible: Vec<_> = table.named_columns().collect();
    match visible.as_slice() {
        [(_, column)] if column.name == "value" && column.ty.kind == Kind::VarChar => Ok(table),
        _ => Err(wrong()),
    }
}

/// The words of a table of stopwords.
fn words_of(cx: &StatementContext, variable: &str, name: &str) -> Result<Vec<String>> {
    let table = stopword_table(cx, variable, name)?;
    let Some((at, column)) = table.named_columns().next() else {
        return Ok(Vec::new());
    };
    let charset = column.ty.collation.charset();
    let mut txn = cx.server.db.begin(BeginOptions::default())?;
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut words = Vec::new();
    let mut position = ScanPosition::default();
    let mut add = |_: &[u8], row: RowRef<'_>| {
        if let ValueRef::Bytes(word) = row.get(at) {
            let word = match charset.is_kept_as_utf8() {
                true => word.to_vec(),
                false => charset.convert(Charset::Utf8mb4, word).0.into_owned(),
            };
            words.push(String::from_utf8_lossy(&word).into_owned());
        }
    };
    while !position.done() {
        porpoise_base::interrupt::check()?;
        let read = porpoise_kv::Read::SNAPSHOT;
        txn.scan(&table, &spec, read, &mut position, BATCH, &mut add)?;
    }
    txn.rollback();
    Ok(words)
}
