//! Plans of LOAD DATA: an INSERT whose rows are the lines of a file.

use super::dml::{bind_assignments, generated_value, target_table, view_check_of};
use super::insert::{check_no_duplicates, column_named};
use super::placement::set_named_partitions;
use super::select::PlanCx;
use super::sinks::{FieldTarget, FileRows, Insert, InsertRows, LineFormat};
use crate::bind::nodes::{charset_named, variable_name};
use crate::bind::{Scope, Source};
use crate::error::{Result, SqlError};
use crate::parse::ast::{FileFormat, IntoVar, LoadData, OnDuplicateRow};
use porpoise_access::Privileges;
use porpoise_rows::InsertMode;
use porpoise_rows::catalog::Table;
use porpoise_types::{Charset, Collation, SqlMode};

/// Plans LOAD DATA.
///
/// # Errors
/// 1235 for LOAD XML, lines without delimiters and character sets of two or four bytes a character;
/// 1083 for delimiters; errors of binding.
pub(super) fn plan_load(load: &LoadData<'_>, cx: &PlanCx<'_>) -> Result<Insert> {
    if load.xml {
        return Err(SqlError::not_supported("LOAD XML"));
    }
    let mut named = cx.target_source(&load.table, None, "LOAD")?;
    let mut wanted = Privileges::INSERT;
    if load.duplicates == OnDuplicateRow::Replace {
        wanted = wanted.with(Privileges::DELETE);
    }
    cx.reads.uses.require_insert(named.use_index, wanted);
    let table = target_table(&named)?;
    set_named_partitions(&mut named, load.partitions)?;
    let fields = field_targets(load, &named, &table)?;
    let scope = Scope::of(named.clone());
    let set = bind_assignments(load.set, &table, &scope, cx, false)?;
    let filled = fields.iter().filter_map(|field| match field {
        FieldTarget::Column(at) => Some(*at),
        FieldTarget::Variable(_) => None,
    });
    let filled: Vec<usize> = filled.collect();
    check_no_duplicates(&filled, &table)?;
    let mut columns = filled;
    for (at, _) in &set {
        if !columns.contains(at) {
            columns.push(*at);
        }
    }
    cx.note_writes(&named, columns.iter().copied(), Privileges::INSERT);
    let file = FileRows {
        path: load.path.to_vec(),
        collation: file_collation(load, cx)?,
        format: line_format(&load.format, cx.env.mode)?,
        skipped_lines: load.ignore_lines,
        fields,
        set,
    };
    // A client cannot be told to stop: LOCAL treats duplicates as IGNORE does.
    let mode = match load.duplicates {
        OnDuplicateRow::Replace => InsertMode::Replace,
        OnDuplicateRow::Ignore => InsertMode::Ignore,
        OnDuplicateRow::Error if load.local => InsertMode::Ignore,
        OnDuplicateRow::Error => InsertMode::Plain,
    };
    Ok(Insert {
        columns,
        rows: InsertRows::File(Box::new(file)),
        mode,
        on_duplicate: Vec::new(),
        select_columns: Vec::new(),
        partitions: named.partitions.clone(),
        check: view_check_of(&named, 0),
        target_source: named,
        default_expressions: table.has_default_expressions(),
        table,
        nested_tables: cx.reads.tables.take(),
    })
}

/// Destinations of the fields: those listed, or all columns.
fn field_targets(load: &LoadData<'_>, named: &Source, table: &Table) -> Result<Vec<FieldTarget>> {
    if load.fields.is_empty() {
        let all = named.star_columns();
        let stored = |at: &usize| {
            let column = table.columns.get(*at);
            column.is_some_and(|c| c.generated.is_none())
        };
        return Ok(all
            .into_iter()
            .filter(stored)
            .map(FieldTarget::Column)
            .collect());
    }
    let target = |field: &IntoVar<'_>| match field {
        IntoVar::User(name) => Ok(FieldTarget::Variable(variable_name(name))),
        IntoVar::Local { name, .. } => {
            let at = column_named(named, name.name)?;
            match table.columns.get(at) {
                Some(column) if column.generated.is_some() => {
                    Err(generated_value(table, &column.name))
                }
                _ => Ok(FieldTarget::Column(at)),
            }
        }
    };
    load.fields.iter().map(target).collect()
}

/// The collation that stands for the file's character set: the one given, or that of the default
/// database.
fn file_collation(load: &LoadData<'_>, cx: &PlanCx<'_>) -> Result<Collation> {
    let charset = match load.charset {
        Some(name) => charset_named(name.name)?,
        None => {
            let database = cx.env.database.as_deref();
            let found = database.and_then(|name| cx.catalog.database(name));
            found.map_or(Charset::Utf8mb4, |d| d.collation.charset())
        }
    };
    match charset {
        Charset::Unicode(_) => {
            let what = format!("LOAD DATA with CHARACTER SET {}", charset.name());
            Err(SqlError::not_supported(&what))
        }
        _ => Ok(charset.default_collation()),
    }
}

/// The format of the lines of a file, with MySQL's defaults. An empty `line_end` means that lines
/// end as fields do.
///
/// # Errors
/// 1083 for an enclosure or escape of more than one byte; 1235 for fields with fixed widths.
pub fn line_format(given: &FileFormat<'_>, mode: SqlMode) -> Result<LineFormat> {
    let single = |text: Option<&[u8]>| match text {
        None | Some([]) => Ok(None),
        Some([byte]) => Ok(Some(*byte)),
        Some(_) => {
            let text = "Field separator argument is not what is expected; check the manual";
            Err(SqlError::new(1083, "42000", text))
        }
    };
    let escape = match given.escaped {
        None if mode.contains(SqlMode::NO_BACKSLASH_ESCAPES) => None,
        None => Some(b'\\'),
        given => single(given)?,
    };
    let mut format = LineFormat {
        field_end: given.field_terminator.unwrap_or(b"\t").to_vec(),
        enclosure: single(given.enclosed)?,
        escape,
        line_start: given.line_start.unwrap_or_default().to_vec(),
        line_end: given.line_terminator.unwrap_or(b"\n").to_vec(),
    };
    if format.field_end.is_empty() && format.enclosure.is_none() {
        let what = "fields with fixed widths (FIELDS TERMINATED BY '' ENCLOSED BY '')";
        return Err(SqlError::not_supported(what));
    }
    // Lines then end after as many fields as there are destinations.
    if format.line_end == format.field_end {
        format.line_end.clear();
    }
    Ok(format)
}
