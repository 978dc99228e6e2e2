//! Databases, tables, columns, indexes: SHOW and information_schema.

use super::definition_text;
use super::table::{
    Rows, long_column, number_column, text, text_column, text_or_null, typed_column,
};
use crate::context::StatementContext;
use porpoise_access::Privileges;
use porpoise_rows::catalog::{
    Catalog, Column, ColumnDefault, GeneratedKind, Index, IndexKind, IndexPart, Table, View,
};
use porpoise_rows::sample::TableBytes;
use porpoise_rows::show as ddl;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::TableName;
use porpoise_sql_plan::virtual_tables::{self, SystemTable, VirtualTable};
use porpoise_types::{Collation, ColumnType, DateTime, Kind, TimeZone, Value, write_text};
use std::sync::Arc;

/// All databases by name, those of virtual tables included.
pub(crate) fn database_names(catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<String> = catalog.databases.keys().cloned().collect();
    let of_tables = virtual_tables::all().map(|t| t.database);
    let only_virtual = of_tables.filter(|name| virtual_tables::is_database(name));
    names.extend(only_virtual.map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// SHOW DATABASES.
pub fn databases(cx: &StatementContext, like: Option<&str>) -> Result<Rows> {
    let name = match like {
        Some(pattern) => format!("Database ({pattern})"),
        None => "Database".to_owned(),
    };
    let mut rows = Rows::new(vec![text_column(&name, 64)]);
    let rights = cx.rights();
    let all = rights.global().has(Privileges::SHOW_DATABASES);
    let names = database_names(&cx.server.db.catalog()).into_iter();
    // mariadb-dump would try to dump its tables, as it does not know that they are computed.
    let listed = names.filter(|n| n != "sys");
    for name in listed.filter(|n| all || rights.sees_database(n)) {
        rows.push(vec![text(name)]);
    }
    Ok(rows)
}

/// The given or default database. Error 1046 without one, 1049 if it does not exist.
fn database_of(cx: &StatementContext, given: Option<&str>) -> Result<String> {
    let name = given.map(str::to_owned).or_else(|| cx.env.database.clone());
    let name = name.ok_or_else(SqlError::no_database_selected)?;
    let catalog = cx.server.db.catalog();
    if catalog.database(&name).is_some() || virtual_tables::is_database(&name) {
        Ok(name)
    } else {
        Err(SqlError::unknown_database(&name))
    }
}

fn stored_tables(catalog: &Catalog, database: &str) -> Vec<Arc<Table>> {
    let tables = catalog.database(database).map(|d| &d.tables);
    let ids = tables.into_iter().flat_map(|t| t.values());
    ids.filter_map(|id| catalog.table_by_id(*id).cloned())
        .collect()
}

fn virtual_tables_of(database: &str) -> impl Iterator<Item = &'static VirtualTable> {
    virtual_tables::all().filter(move |t| t.database.eq_ignore_ascii_case(database))
}

/// Table_type of a virtual table in SHOW FULL TABLES.
pub(crate) fn virtual_type(table: &VirtualTable) -> &'static str {
    match table.database {
        "information_schema" => "SYSTEM VIEW",
        _ if virtual_tables::system_table(table).is_some() => "BASE TABLE",
        _ => "VIEW",
    }
}

/// Whether SHOW TABLES and SHOW TABLE STATUS list a table. Of the server's own tables in `mysql`, and of virtual
/// tables outside of information_schema, they list only the logs: a dump of all databases would drop and create the others where it is loaded, also in a server of
/// another kind, which has other tables of these names. Accounts are dumped by SHOW CREATE USER and SHOW GRANTS.
fn is_listed(database: &str, name: &str) -> bool {
    match virtual_tables::find(database, name) {
        Some(_) if virtual_tables::is_database(database) => true,
        Some(table) => virtual_tables::system_table(table).is_some_and(SystemTable::is_log),
        None => !porpoise_access::is_unlisted_table(database, name),
    }
}

/// `SHOW [FULL] TABLES`.
pub fn table_names(
    cx: &StatementContext,
    database: Option<&str>,
    full: bool,
    like: Option<&str>,
) -> Result<Rows> {
    let database = database_of(cx, database)?;
    let name = match like {
        Some(pattern) => format!("Tables_in_{database} ({pattern})"),
        None => format!("Tables_in_{database}"),
    };
    let mut columns = vec![text_column(&name, 64)];
    if full {
        columns.push(text_column("Table_type", 11));
    }
    let catalog = cx.server.db.catalog();
    let stored = stored_tables(&catalog, &database);
    let mut names: Vec<(String, &str)> = stored
        .iter()
        .map(|t| (t.name.clone(), "BASE TABLE"))
        .collect();
    let views = catalog.views.values().filter(|v| v.database == database);
    names.extend(views.map(|v| (v.name.clone(), "VIEW")));
    names.extend(virtual_tables_of(&database).map(|t| (t.name.to_owned(), virtual_type(t))));
    names.sort();
    let rights = cx.rights();
    let seen = |n: &str| {
        let found = virtual_tables::find(&database, n);
        found.is_some_and(|t| cx.sees_virtual(t)) || rights.sees_table(&database, n)
    };
    names.retain(|(name, _)| is_listed(&database, name) && seen(name));
    let mut rows = Rows::new(columns);
    for (name, kind) in names {
        let mut row = vec![text(name)];
        if full {
            row.push(text(kind));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn created(table: &Table) -> Value {
    let at = DateTime::from_unix_micros(table.options.created);
    at.map_or(Value::Null, Value::DateTime)
}

/// AVG_ROW_LENGTH, DATA_LENGTH, MAX_DATA_LENGTH, INDEX_LENGTH and DATA_FREE of a table or partition;
/// NULL where the engine does not count bytes. There is no limit and no free space inside of a table,
/// for which InnoDB shows 0.
pub(crate) fn size_cells(rows: Option<u64>, bytes: Option<TableBytes>) -> [Value; 5] {
    let Some(bytes) = bytes else {
        return [const { Value::Null }; 5];
    };
    let average = bytes.data.checked_div(rows.unwrap_or_default());
    [average.unwrap_or_default(), bytes.data, 0, bytes.indexes, 0].map(Value::UInt)
}

/// SHOW TABLE STATUS. `Rows` is the engine's count or the last sample's; sizes in bytes are the
/// engine's, or NULL if it does not count them.
pub fn table_status(cx: &StatementContext, database: Option<&str>) -> Result<Rows> {
    let database = database_of(cx, database)?;
    let mut rows = Rows::new(vec![
        text_column("Name", 64),
        text_column("Engine", 64),
        number_column("Version"),
        text_column("Row_format", 10),
        number_column("Rows"),
        number_column("Avg_row_length"),
        number_column("Data_length"),
        number_column("Max_data_length"),
        number_column("Index_length"),
        number_column("Data_free"),
        number_column("Auto_increment"),
        typed_column("Create_time", ColumnType::datetime(0)),
        typed_column("Update_time", ColumnType::datetime(0)),
        typed_column("Check_time", ColumnType::datetime(0)),
        text_column("Collation", 64),
        number_column("Checksum"),
        text_column("Create_options", 256),
        text_column("Comment", 2048),
    ]);
    let db = &cx.server.db;
    let mut tables = stored_tables(&cx.visible_catalog(), &database);
    tables.retain(|table| is_listed(&database, &table.name));
    for table in tables {
        let next = match table.auto_increment() {
            Some(_) => Value::UInt(db.next_auto_increment(&table)?),
            None => Value::Null,
        };
        let options = table.options.other.iter().map(|(n, v)| format!("{n}={v}"));
        let mut options: Vec<String> = options.collect();
        if table.partitioning.is_some() {
            options.push("partitioned".to_owned());
        }
        let bytes = db.table_bytes(&table);
        let [average, data, limit, indexes, free] = size_cells(db.approximate_rows(&table), bytes);
        rows.push(vec![
            text(&table.name),
            text(&table.options.engine),
            // MySQL shows version 10 for every table.
            Value::UInt(10),
            text("Dynamic"),
            cx.server.statistics.rows(db, &table),
            average,
            data,
            limit,
            indexes,
            free,
            next,
            created(&table),
            Value::Null,
            Value::Null,
            text(table.options.collation.name()),
            Value::Null,
            text(options.join(" ").to_lowercase()),
            text(&table.options.comment),
        ]);
    }
    Ok(rows)
}

/// A stored table by its name in a statement. Error 1146 if it does not exist.
fn stored_table(cx: &StatementContext, name: &TableName<'_>) -> Result<Arc<Table>> {
    let database = database_of(cx, name.schema.map(|s| s.name))?;
    let catalog = cx.catalog();
    let table = catalog.table(&database, name.name.name).cloned();
    table.ok_or_else(|| SqlError::no_table(&database, name.name.name))
}

/// SHOW CREATE TABLE.
pub fn create_table(cx: &StatementContext, name: &TableName<'_>) -> Result<Rows> {
    if let Some(rows) = create_view(cx, name)? {
        return Ok(rows);
    }
    let database = database_of(cx, name.schema.map(|s| s.name))?;
    if let Some(table) = virtual_tables::find(&database, name.name.name)
        && let Some(details) = virtual_tables::system_table(table)
    {
        let mut rows = create_table_header();
        rows.push(vec![
            text(table.name),
            text(create_system_table(table, details)),
        ]);
        return Ok(rows);
    }
    let table = stored_table(cx, name)?;
    let next = match table.auto_increment() {
        Some(_) => Some(cx.server.db.next_auto_increment(&table)?),
        None => None,
    };
    let mut shown = table.definition().clone();
    shown.remove_unfinished();
    shown.foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
    shown.checks.sort_by(|a, b| a.name.cmp(&b.name));
    for column in &mut shown.columns {
        if let (Kind::Timestamp, ColumnDefault::Literal(Value::DateTime(at))) =
            (column.ty.kind, &mut column.default)
        {
            *at = cx.settings.time_zone.utc_to_local(*at);
        }
    }
    definition_text::show_expressions(&mut shown);
    let mut rows = create_table_header();
    let mut created = ddl::create_table(&shown, next);
    if cx.temporary.contains_id(table.id) {
        created = created.replacen("CREATE TABLE", "CREATE TEMPORARY TABLE", 1);
    }
    rows.push(vec![text(&table.name), text(created)]);
    Ok(rows)
}

fn create_table_header() -> Rows {
    Rows::new(vec![text_column("Table", 64), long_column("Create Table")])
}

/// The statement that would create a virtual table of `mysql`.
fn create_system_table(table: &VirtualTable, details: &SystemTable) -> String {
    let default = |name: &str| {
        let mut defaults = details.defaults.iter();
        defaults.find(|(column, _)| *column == name)
    };
    let mut lines: Vec<String> = Vec::new();
    for column in (table.columns)() {
        let mut line = format!("{} {}", ddl::quote(&column.name), column.ty.sql());
        let collation = column.ty.collation;
        if has_collation(&column.ty) && collation != details.collation {
            line.push_str(&format!(" CHARACTER SET {}", collation.charset().name()));
            if collation.charset().default_collation() != collation {
                line.push_str(&format!(" COLLATE {}", collation.name()));
            }
        }
        line.push_str(" NOT NULL");
        if let Some((_, clause)) = default(&column.name) {
            line.push(' ');
            line.push_str(clause);
        }
        lines.push(line);
    }
    if !details.key.is_empty() {
        let key: Vec<String> = details.key.iter().map(|name| ddl::quote(name)).collect();
        lines.push(format!("PRIMARY KEY ({})", key.join(",")));
    }
    let charset = details.collation.charset();
    let collate = if charset.default_collation() == details.collation {
        String::new()
    } else {
        format!(" COLLATE={}", details.collation.name())
    };
    format!(
        "CREATE TABLE {} (\n  {}\n) ENGINE={} DEFAULT CHARSET={}{collate} COMMENT={}",
        ddl::quote(table.name),
        lines.join(",\n  "),
        details.engine,
        charset.name(),
        ddl::literal(details.comment)
    )
}

/// SHOW CREATE VIEW. Returns `None` if there is no view of that name.
pub fn create_view(cx: &StatementContext, name: &TableName<'_>) -> Result<Option<Rows>> {
    let database = database_of(cx, name.schema.map(|s| s.name))?;
    let catalog = cx.catalog();
    let Some(view) = catalog.view(&database, name.name.name) else {
        return Ok(None);
    };
    let mut rows = Rows::new(vec![
        text_column("View", 64),
        long_column("Create View"),
        text_column("character_set_client", 32),
        text_column("collation_connection", 32),
    ]);
    rows.push(vec![
        text(&view.name),
        text(porpoise_sql_plan::plan::views::create_text(
            view,
            cx.env.database.as_deref(),
        )),
        text(&view.charset),
        text(&view.collation),
    ]);
    Ok(Some(rows))
}

/// SHOW CREATE DATABASE.
pub fn create_database(cx: &StatementContext, name: &str, if_not_exists: bool) -> Result<Rows> {
    let catalog = cx.server.db.catalog();
    let database = catalog.database(name);
    let database = database.ok_or_else(|| SqlError::unknown_database(name))?;
    let clause = if if_not_exists {
        "/*!32312 IF NOT EXISTS*/ "
    } else {
        ""
    };
    let collation = database.collation;
    let charset = collation.charset();
    let collate = if charset.default_collation() == collation && charset.name() != "utf8mb4" {
        String::new()
    } else {
        format!(" COLLATE {}", collation.name())
    };
    let create = format!(
        "CREATE DATABASE {clause}{} /*!40100 DEFAULT CHARACTER SET {}{collate} */ /*!80016 \
         DEFAULT ENCRYPTION='N' */",
        ddl::quote(name),
        charset.name()
    );
    let mut rows = Rows::new(vec![
        text_column("Database", 64),
        text_column("Create Database", 1024),
    ]);
    rows.push(vec![text(name), text(create)]);
    Ok(rows)
}

/// Whether the type is text with a non-binary collation.
pub(crate) fn has_collation(ty: &ColumnType) -> bool {
    let textual = ty.is_string() || matches!(ty.kind, Kind::Enum | Kind::Set);
    textual && ty.collation != Collation::BINARY
}

/// The Key cell of DESCRIBE.
pub(crate) fn key_cell(table: &Table, column: usize) -> &'static str {
    // Whether the column is part `at`, or any part for `None`, of an index of this kind.
    let is_part = |kind: IndexKind, at: Option<usize>| {
        let mut indexes = table.indexes.iter().filter(|i| i.kind == kind);
        indexes.any(|i| match at {
            Some(at) => i.parts.get(at).is_some_and(|p| p.column == column),
            None => i.parts.iter().any(|p| p.column == column),
        })
    };
    let whole_unique = table.indexes.iter().any(|i| {
        let first = i.parts.first().is_some_and(|p| p.column == column);
        i.kind == IndexKind::Unique && i.parts.len() == 1 && first
    });
    let is_first_part = || {
        let kinds = [IndexKind::Unique, IndexKind::Plain, IndexKind::FullText];
        kinds.iter().any(|kind| is_part(*kind, Some(0)))
    };
    let implicit = table.implicit_primary_key();
    let is_in_implicit = implicit.is_some_and(|i| i.parts.iter().any(|p| p.column == column));
    if is_part(IndexKind::Primary, None) || is_in_implicit {
        "PRI"
    } else if whole_unique {
        "UNI"
    } else if is_first_part() {
        "MUL"
    } else {
        ""
    }
}

/// CURRENT_TIMESTAMP with the column's precision.
fn now_text(column: &Column) -> String {
    match column.ty.decimals {
        0 => "CURRENT_TIMESTAMP".to_owned(),
        fsp => format!("CURRENT_TIMESTAMP({fsp})"),
    }
}

/// The Default cell of DESCRIBE.
pub(crate) fn default_cell(zone: &TimeZone, column: &Column) -> Value {
    match &column.default {
        ColumnDefault::None | ColumnDefault::Null => Value::Null,
        ColumnDefault::Expr(e) => text(definition_text::escaped(&e.text)),
        ColumnDefault::Now => text(now_text(column)),
        ColumnDefault::Literal(Value::DateTime(utc)) if column.ty.kind == Kind::Timestamp => {
            let local = Value::DateTime(zone.utc_to_local(*utc));
            let mut out = Vec::new();
            write_text(local.as_ref(), &column.ty, &mut out);
            Value::Bytes(out)
        }
        ColumnDefault::Literal(Value::UInt(bits)) if column.ty.kind == Kind::Bit => {
            text(format!("b'{bits:b}'"))
        }
        ColumnDefault::Literal(value) => {
            let mut out = Vec::new();
            write_text(value.as_ref(), &column.ty, &mut out);
            Value::Bytes(out)
        }
    }
}

/// The Extra cell of DESCRIBE.
pub(crate) fn extra_cell(column: &Column) -> String {
    let mut extra = Vec::new();
    if column.auto_increment {
        extra.push("auto_increment".to_owned());
    }
    if let Some(generated) = &column.generated {
        let kind = match generated.kind {
            GeneratedKind::Stored => "STORED",
            GeneratedKind::Virtual | GeneratedKind::KeyPart | GeneratedKind::ArrayPart => "VIRTUAL",
        };
        extra.push(format!("{kind} GENERATED"));
    } else if matches!(column.default, ColumnDefault::Now | ColumnDefault::Expr(_)) {
        extra.push("DEFAULT_GENERATED".to_owned());
    }
    if column.on_update_now {
        extra.push(format!("on update {}", now_text(column)));
    }
    if column.invisible {
        extra.push("INVISIBLE".to_owned());
    }
    extra.join(" ")
}

/// `SHOW [FULL] COLUMNS`, DESCRIBE.
pub fn columns(cx: &StatementContext, name: &TableName<'_>, full: bool) -> Result<Rows> {
    let mut header = vec![text_column("Field", 64), long_column("Type")];
    if full {
        header.push(text_column("Collation", 64));
    }
    header.extend([
        text_column("Null", 3),
        text_column("Key", 3),
        long_column("Default"),
        text_column("Extra", 256),
    ]);
    if full {
        header.extend([text_column("Privileges", 154), long_column("Comment")]);
    }
    let mut rows = Rows::new(header);
    let database = database_of(cx, name.schema.map(|s| s.name))?;
    if let Some(table) = virtual_tables::find(&database, name.name.name) {
        for column in (table.columns)() {
            let mut row = vec![text(&column.name), text(column.ty.sql())];
            if full {
                row.push(text(column.ty.collation.name()));
            }
            let nullable = if column.nullable { "YES" } else { "NO" };
            row.extend([text(nullable), text(""), Value::Null, text("")]);
            if full {
                row.extend([text("select"), text("")]);
            }
            rows.push(row);
        }
        return Ok(rows);
    }
    let catalog = cx.catalog();
    let rights = cx.rights();
    if let Some(view) = catalog.view(&database, name.name.name) {
        view_columns(cx, view, full, &mut rows)?;
        return Ok(rows);
    }
    let table = stored_table(cx, name)?;
    let is_temporary = cx.temporary.contains_id(table.id);
    for (at, column) in table.named_columns() {
        let privileges = if is_temporary {
            "select,insert,update,references".to_owned()
        } else {
            rights.column_privileges(&table.database, &table.name, &column.name)
        };
        if privileges.is_empty() {
            continue;
        }
        let mut row = vec![text(&column.name), text(column.ty.sql())];
        if full {
            let textual = has_collation(&column.ty);
            row.push(text_or_null(textual.then(|| column.ty.collation.name())));
        }
        row.extend([
            text(if column.nullable { "YES" } else { "NO" }),
            text(key_cell(&table, at)),
            default_cell(&cx.settings.time_zone, column),
            text(extra_cell(column)),
        ]);
        if full {
            row.extend([text(privileges), text(&column.comment)]);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn view_columns(cx: &StatementContext, view: &View, full: bool, rows: &mut Rows) -> Result<()> {
    let rights = cx.rights();
    for column in porpoise_sql_plan::plan::views::describe(&cx.catalog(), view, cx)?.columns {
        let privileges = rights.column_privileges(&view.database, &view.name, &column.name);
        if privileges.is_empty() {
            continue;
        }
        let mut row = vec![text(&column.name), text(column.ty.sql())];
        if full {
            let textual = column.ty.is_string() && !column.ty.is_binary();
            row.push(text_or_null(textual.then(|| column.ty.collation.name())));
        }
        let nullable = if column.nullable { "YES" } else { "NO" };
        row.extend([text(nullable), text(""), Value::Null, text("")]);
        if full {
            row.extend([text(privileges), text("")]);
        }
        rows.push(row);
    }
    Ok(())
}

/// The type of an index, as SHOW INDEX names it.
pub(crate) fn index_type(index: &Index) -> &'static str {
    if index.is_full_text() {
        "FULLTEXT"
    } else if index.using_hash {
        "HASH"
    } else {
        "BTREE"
    }
}

/// The expression of an index part, if it is not a column.
pub(crate) fn key_expression(column: Option<&Column>) -> Option<String> {
    let expression = column.and_then(Column::key_part)?;
    Some(definition_text::escaped(&expression.text))
}

/// The direction of an index part; NULL for an index without an order.
pub(crate) fn collation_cell(index: &Index, part: &IndexPart) -> Value {
    match (index.is_full_text(), part.desc) {
        (true, _) => Value::Null,
        (false, true) => text("D"),
        (false, false) => text("A"),
    }
}

/// SHOW INDEX.
pub fn indexes(cx: &StatementContext, name: &TableName<'_>) -> Result<Rows> {
    let mut rows = Rows::new(vec![
        text_column("Table", 64),
        number_column("Non_unique"),
        text_column("Key_name", 64),
        number_column("Seq_in_index"),
        text_column("Column_name", 64),
        text_column("Collation", 1),
        number_column("Cardinality"),
        number_column("Sub_part"),
        text_column("Packed", 10),
        text_column("Null", 3),
        text_column("Index_type", 11),
        text_column("Comment", 8),
        text_column("Index_comment", 2048),
        text_column("Visible", 3),
        long_column("Expression"),
    ]);
    let database = database_of(cx, name.schema.map(|s| s.name))?;
    if cx.catalog().view(&database, name.name.name).is_some() {
        return Ok(rows);
    }
    let table = stored_table(cx, name)?;
    let statistics = cx.server.statistics.of(&cx.server.db, &table);
    let hidden = &table.unfinished.indexes;
    let indexes = table.indexes.iter().enumerate();
    for (position, index) in indexes.filter(|(_, index)| !hidden.contains(&index.id)) {
        for (at, part) in (1u64..).zip(&index.parts) {
            let column = table.columns.get(part.column);
            let nullable = column.is_some_and(|c| c.nullable);
            rows.push(vec![
                text(&table.name),
                Value::UInt(u64::from(!index.kind.is_unique())),
                text(&index.name),
                Value::UInt(at),
                text_or_null(column.filter(|c| !c.is_hidden()).map(|c| c.name.as_str())),
                collation_cell(index, part),
                Value::UInt(statistics.cardinality(position, at)),
                part.prefix
                    .map_or(Value::Null, |n| Value::UInt(u64::from(n))),
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
    Ok(rows)
}
