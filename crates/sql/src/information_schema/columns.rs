//! COLUMNS, COLUMN_STATISTICS and STATISTICS.

use crate::context::StatementContext;
use crate::results::table::{text, text_or_null};
use crate::show::definition_text::escaped;
use crate::show::schema::{
    collation_cell, default_cell, extra_cell, has_collation, index_type, key_cell, key_expression,
};
use porpoise_sql_plan::virtual_tables;
use porpoise_types::{ColumnType, Kind, TimeZone, Value};

fn number(n: impl Into<u64>) -> Value {
    Value::UInt(n.into())
}

/// Length in characters of the longest ENUM member, or of all SET members with their commas.
fn member_chars(ty: &ColumnType) -> u64 {
    let lengths = ty.members.iter().map(|m| {
        let text = String::from_utf8_lossy(m);
        text.chars().count() as u64
    });
    match ty.kind {
        Kind::Set => lengths.sum::<u64>() + (ty.members.len() as u64).saturating_sub(1),
        _ => lengths.max().unwrap_or(0),
    }
}

/// CHARACTER_MAXIMUM_LENGTH and CHARACTER_OCTET_LENGTH.
fn lengths(ty: &ColumnType) -> [Value; 2] {
    let width = u64::from(ty.collation.charset().max_len().max(1));
    match ty.kind {
        Kind::Char | Kind::VarChar => [number(ty.length), number(u64::from(ty.length) * width)],
        Kind::Binary | Kind::VarBinary => [number(ty.length), number(ty.length)],
        Kind::Enum | Kind::Set => {
            let chars = member_chars(ty);
            [number(chars), number(chars * width)]
        }
        // Both are in bytes, also for the TEXT types.
        _ if ty.is_blob() => [number(ty.max_bytes()), number(ty.max_bytes())],
        _ => [Value::Null, Value::Null],
    }
}

/// NUMERIC_PRECISION, NUMERIC_SCALE and DATETIME_PRECISION.
fn precisions(ty: &ColumnType) -> [Value; 3] {
    let integer = |digits: u64| [number(digits), number(0u64), Value::Null];
    match ty.kind {
        Kind::TinyInt => integer(3),
        Kind::SmallInt => integer(5),
        Kind::MediumInt => integer(7),
        Kind::Int => integer(10),
        Kind::BigInt if ty.unsigned => integer(20),
        Kind::BigInt => integer(19),
        Kind::Bit => [number(ty.length), Value::Null, Value::Null],
        Kind::Decimal => [number(ty.length), number(ty.decimals), Value::Null],
        Kind::Float => [number(12u64), Value::Null, Value::Null],
        Kind::Double => [number(22u64), Value::Null, Value::Null],
        Kind::DateTime | Kind::Timestamp | Kind::Time => {
            [Value::Null, Value::Null, number(ty.decimals)]
        }
        _ => [Value::Null, Value::Null, Value::Null],
    }
}

/// The type's name alone: COLUMN_TYPE up to the parenthesis or attributes.
fn data_type(ty: &ColumnType) -> String {
    let sql = ty.sql();
    let end = sql.find(['(', ' ']).unwrap_or(sql.len());
    sql.get(..end).unwrap_or_default().to_owned()
}

/// DATA_TYPE, the lengths and precisions, character set, collation and DTD_IDENTIFIER of a type.
pub(super) fn type_description(ty: &ColumnType) -> Vec<Value> {
    let textual = has_collation(ty);
    let mut row = vec![text(data_type(ty))];
    row.extend(lengths(ty));
    row.extend(precisions(ty));
    row.extend([
        text_or_null(textual.then(|| ty.collation.charset().name())),
        text_or_null(textual.then(|| ty.collation.name())),
        text(ty.sql()),
    ]);
    row
}

struct ColumnDescription<'c> {
    database: &'c str,
    table: &'c str,
    name: &'c str,
    ty: &'c ColumnType,
    default: Value,
    nullable: bool,
    key: &'c str,
    extra: String,
    privileges: &'c str,
    comment: &'c str,
    generation: &'c str,
}

fn row(ordinal: u64, c: ColumnDescription<'_>) -> Vec<Value> {
    let textual = has_collation(c.ty);
    let mut row = vec![
        text("def"),
        text(c.database),
        text(c.table),
        text(c.name),
        Value::UInt(ordinal),
        c.default,
        text(if c.nullable { "YES" } else { "NO" }),
        text(data_type(c.ty)),
    ];
    row.extend(lengths(c.ty));
    row.extend(precisions(c.ty));
    row.extend([
        text_or_null(textual.then(|| c.ty.collation.charset().name())),
        text_or_null(textual.then(|| c.ty.collation.name())),
        text(c.ty.sql()),
        text(c.key),
        text(c.extra),
        text(c.privileges),
        text(c.comment),
        text(c.generation),
        Value::Null,
    ]);
    row
}

/// Rows of COLUMNS.
pub(super) fn rows(cx: &StatementContext) -> Vec<Vec<Value>> {
    let catalog = cx.visible_catalog();
    let rights = cx.rights();
    let utc = TimeZone::Fixed(0);
    let mut rows = Vec::new();
    for table in super::tables(&catalog) {
        for (ordinal, (at, column)) in (1u64..).zip(table.named_columns()) {
            let privileges = rights.column_privileges(&table.database, &table.name, &column.name);
            if privileges.is_empty() {
                continue;
            }
            let generated = column.generated.as_ref();
            let generation = generated.map(|g| escaped(&g.expression.text));
            let generation = generation.unwrap_or_default();
            let described = ColumnDescription {
                database: &table.database,
                table: &table.name,
                name: &column.name,
                ty: &column.ty,
                default: default_cell(&utc, column),
                nullable: column.nullable,
                key: key_cell(table, at),
                extra: extra_cell(column),
                privileges: &privileges,
                comment: &column.comment,
                generation: &generation,
            };
            rows.push(row(ordinal, described));
        }
    }
    view_rows(cx, &mut rows);
    for table in virtual_tables::all().filter(|t| cx.sees_virtual(t)) {
        for (at, column) in (1u64..).zip((table.columns)()) {
            let described = ColumnDescription {
                database: table.database,
                table: table.name,
                name: &column.name,
                ty: &column.ty,
                default: Value::Null,
                nullable: column.nullable,
                key: "",
                extra: String::new(),
                privileges: "select",
                comment: "",
                generation: "",
            };
            rows.push(row(at, described));
        }
    }
    rows
}

fn view_rows(cx: &StatementContext, rows: &mut Vec<Vec<Value>>) {
    let catalog = cx.visible_catalog();
    let full_catalog = cx.server.db().catalog();
    let rights = cx.rights();
    for view in catalog.views.values() {
        let Ok(described) = porpoise_sql_plan::plan::views::describe(&full_catalog, view, cx)
        else {
            continue;
        };
        for (at, column) in (1u64..).zip(described.columns) {
            let privileges = rights.column_privileges(&view.database, &view.name, &column.name);
            if privileges.is_empty() {
                continue;
            }
            let described = ColumnDescription {
                database: &view.database,
                table: &view.name,
                name: &column.name,
                ty: &column.ty,
                default: Value::Null,
                nullable: column.nullable,
                key: "",
                extra: String::new(),
                privileges: &privileges,
                comment: "",
                generation: "",
            };
            rows.push(row(at, described));
        }
    }
}

/// Rows of COLUMN_STATISTICS.
pub(super) fn histograms(cx: &StatementContext) -> Vec<Vec<Value>> {
    let catalog = cx.visible_catalog();
    let mut rows = Vec::new();
    for table in super::tables(&catalog) {
        for (at, histogram) in &table.histograms {
            rows.push(vec![
                text(&table.database),
                text(&table.name),
                text_or_null(table.columns.get(*at).map(|c| c.name.as_str())),
                text(histogram.to_document().to_text()),
            ]);
        }
    }
    rows
}

/// Rows of STATISTICS.
pub(super) fn statistics(cx: &StatementContext) -> Vec<Vec<Value>> {
    let server = &cx.server;
    let catalog = cx.visible_catalog();
    let mut rows = Vec::new();
    for table in super::tables(&catalog) {
        let table_statistics = server.statistics.of(server.db(), table);
        let hidden = &table.unfinished.indexes;
        let indexes = table.indexes.iter().enumerate();
        for (position, index) in indexes.filter(|(_, index)| !hidden.contains(&index.id)) {
            for (at, part) in (1u64..).zip(&index.parts) {
                let column = table.columns.get(part.column);
                let nullable = column.is_some_and(|c| c.nullable);
                rows.push(vec![
                    text("def"),
                    text(&table.database),
                    text(&table.name),
                    Value::Int(i64::from(!index.kind.is_unique())),
                    text(&table.database),
                    text(&index.name),
                    Value::UInt(at),
                    text_or_null(column.filter(|c| !c.is_hidden()).map(|c| c.name.as_str())),
                    collation_cell(index, part),
                    Value::Int(
                        i64::try_from(table_statistics.cardinality(position, at))
                            .unwrap_or(i64::MAX),
                    ),
                    part.prefix
                        .map_or(Value::Null, |n| Value::Int(i64::from(n))),
                    Value::Null,
                    text(if nullable { "YES" } else { "" }),
                    text(index_type(index)),
                    text(""),
                    text(&index.comment),
                    text(if index.invisible { "NO" } else { "YES" }),
                    text_or_null(key_expression(column).as_deref()),
                ]);
            }
        }
    }
    rows
}
