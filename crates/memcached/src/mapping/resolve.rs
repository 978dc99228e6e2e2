//! Resolves rows of the configuration to policies and containers, or to an error text.
//!
//! `ndbmemcache.status` shows the error texts to the administrator who wrote the row, so they name
//! columns and tables and describe the expected value.

use crate::container::chunked_values::ChunkedValues;
use crate::container::field_codec::FieldCodec;
use crate::container::{
    Container, ExpiryForm, Flags, KeyPart, ValueFormat, column_without_default,
};
use crate::mapping::{Access, Policy};
use porpoise_access::is_system_table;
use porpoise_access::ndbmemcache::DATABASE;
use porpoise_access::ndbmemcache::schema::DEFAULT_TABLE;
use porpoise_rows::catalog::{Catalog, Column, Index, IndexKind, IndexState, Table, TableId};
use porpoise_rows::ttl::ExpiryZone;
use porpoise_types::Kind;
use std::collections::HashMap;
use std::sync::Arc;

/// A row of the configuration: texts by column name in lower case.
#[derive(Clone, Debug, Default, Hash)]
pub struct Row(Vec<(String, Option<String>)>);

impl Row {
    pub(crate) fn new(texts: Vec<(String, Option<String>)>) -> Row {
        Row(texts)
    }

    /// The text of a column that exists and is not NULL.
    pub fn text(&self, column: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == column)?;
        found.1.as_deref()
    }

    /// The column as a number.
    pub fn number(&self, column: &str) -> Option<i64> {
        self.text(column)?.trim().parse().ok()
    }

    /// The trimmed text of a column; `None` if it is empty.
    fn nonempty(&self, column: &str) -> Option<&str> {
        self.text(column).map(str::trim).filter(|t| !t.is_empty())
    }
}

type Resolved<T> = Result<T, String>;

/// Parses the access of an operation. `caching` means the same as `ndb_only`: rows are in this
/// server's memory already, and a second copy could only be older.
fn access(row: &Row, column: &str) -> Resolved<Access> {
    match row.text(column).unwrap_or_default() {
        "ndb_only" | "caching" => Ok(Access::Table),
        "cache_only" => Ok(Access::CacheOnly),
        "disabled" => Ok(Access::Disabled),
        other => Err(format!("{column} '{other}' is unknown")),
    }
}

fn policy(row: &Row) -> Resolved<Policy> {
    Ok(Policy {
        get: access(row, "get_policy")?,
        set: access(row, "set_policy")?,
        delete: access(row, "delete_policy")?,
        flush: row.text("flush_from_db") == Some("true"),
    })
}

/// Parses the rows of `cache_policies`. Returns the policies, or their error texts, by name.
pub(crate) fn policies(rows: &[Row]) -> HashMap<String, Resolved<Policy>> {
    rows.iter()
        .filter_map(|row| Some((row.text("policy_name")?.to_owned(), policy(row))))
        .collect()
}

/// Resolves a row of `key_prefixes` to policy and container, with a remark for the status. There is
/// no container if the policy does not use a table.
///
/// # Errors
/// The reason why keys with the prefix are not served.
pub(crate) fn prefix(
    row: &Row,
    policies: &HashMap<String, Resolved<Policy>>,
    containers: &[Row],
    options: &[Row],
    catalog: &Catalog,
) -> Resolved<(Policy, Option<(Container, String)>)> {
    let cluster = row.number("cluster_id").unwrap_or(0);
    if cluster != 0 {
        return Err(format!(
            "cluster_id {cluster}: only cluster 0, this server, is served"
        ));
    }
    let name = row.text("policy").unwrap_or_default();
    let policy = policies
        .get(name)
        .ok_or_else(|| format!("policy '{name}' is not in cache_policies"))?
        .clone()?;
    let uses_table = [policy.get, policy.set, policy.delete].contains(&Access::Table);
    if !uses_table {
        return Ok((policy, None));
    }
    let name = row.nonempty("container").ok_or("no container is named")?;
    let found = containers.iter().find(|c| c.text("name") == Some(name));
    let found = found.ok_or_else(|| format!("container '{name}' is not in containers"))?;
    let none = Row::default();
    let options = options.iter().find(|o| o.text("name") == Some(name));
    let (container, note) = container(name, found, options.unwrap_or(&none), catalog)?;
    Ok((policy, Some((container, note))))
}

fn add_note(note: &mut String, more: &str) {
    if !note.is_empty() {
        note.push_str("; ");
    }
    note.push_str(more);
}

/// Resolves the container of keys without a configured prefix.
///
/// # Errors
/// The table does not exist, or lacks the expected columns.
pub(crate) fn default_container(catalog: &Catalog) -> Resolved<Container> {
    let row = |column: &str, text: &str| (column.to_owned(), Some(text.to_owned()));
    let row = Row(vec![
        row("db_schema", DATABASE),
        row("db_table", DEFAULT_TABLE),
        row("key_columns", "mkey"),
        row("value_columns", "value"),
        row("flags", "flags"),
        row("expire_time_column", "expire_time"),
    ]);
    container("", &row, &Row::default(), catalog).map(|(container, _)| container)
}

/// Resolves columns by name, and records them, so that none is used twice.
struct Columns<'a> {
    table: &'a Table,
    /// Positions of the columns resolved so far.
    used: Vec<usize>,
}

impl Columns<'_> {
    fn find(&mut self, name: &str) -> Resolved<usize> {
        let position = self.table.column(name).ok_or_else(|| {
            format!(
                "table {} has no column '{name}'",
                qualified_name(self.table)
            )
        })?;
        if self.used.contains(&position) {
            return Err(format!("column '{name}' is named twice"));
        }
        self.used.push(position);
        Ok(position)
    }

    fn list(&mut self, names: &str) -> Resolved<Vec<usize>> {
        names.split(',').map(|n| self.find(n.trim())).collect()
    }

    /// Resolves a column that the container writes, which must not be a generated column. `purpose`
    /// is the column's purpose, for the error text.
    fn filled_column(&mut self, purpose: &str, name: &str) -> Resolved<usize> {
        let position = self.find(name)?;
        let column = self.table.columns.get(position);
        if column.is_some_and(|c| c.generated.is_some()) {
            Err(format!("{purpose} '{name}' is a generated column"))
        } else {
            Ok(position)
        }
    }

    fn kind(&self, position: usize) -> Kind {
        let column = self.table.columns.get(position);
        column.map_or(Kind::Null, |c| c.ty.kind)
    }

    fn is_integer(&self, position: usize) -> bool {
        let column = self.table.columns.get(position);
        column.is_some_and(|c| c.ty.is_integer())
    }
}

fn qualified_name(table: &Table) -> String {
    format!("{}.{}", table.database, table.name)
}

/// The table that a row of `containers` names.
fn mapped_table<'c>(row: &Row, catalog: &'c Catalog) -> Resolved<&'c Arc<Table>> {
    let (database, table) = (row.nonempty("db_schema"), row.nonempty("db_table"));
    let (Some(database), Some(table_name)) = (database, table) else {
        return Err("db_schema and db_table must be given".to_owned());
    };
    if is_system_table(database, table_name) {
        return Err(format!(
            "table {database}.{table_name} is a system table and cannot be mapped"
        ));
    }
    let table = catalog.table(database, table_name);
    table.ok_or_else(|| format!("table {database}.{table_name} does not exist"))
}

/// Resolves a row of `containers`, with its options from `container_options`.
fn container(
    name: &str,
    row: &Row,
    options: &Row,
    catalog: &Catalog,
) -> Resolved<(Container, String)> {
    let table = mapped_table(row, catalog)?;
    let mut columns = Columns {
        table,
        used: Vec::new(),
    };
    let mut note = String::new();
    let (value_codec, key_codec, format) = codecs(options)?;
    let (index, key) = key_parts(row, table, &mut columns)?;
    let mut values = match row.nonempty("value_columns") {
        Some(names) => columns.list(names)?,
        None => Vec::new(),
    };
    let increment = increment(row, &mut columns)?;
    // A JSON object has all columns that have no other role.
    let uses_all_columns = values.is_empty() && format == ValueFormat::Json;
    if values.is_empty() && increment.is_none() && !uses_all_columns {
        return Err("neither value_columns nor increment_column is given".to_owned());
    }
    let flags = flags(row, &mut columns)?;
    let cas = cas(row, &mut columns, &mut note)?;
    let expiry = expiry(row, &mut columns)?;
    let chunked_values = chunked_values(row, catalog, &values, &mut columns)?;
    if uses_all_columns {
        let has_other_role = |n: &usize| {
            flags == Flags::Column(*n) || cas == Some(*n) || expiry.map(|e| e.0) == Some(*n)
        };
        let visible = table.visible_columns().map(|(n, _)| n);
        values = visible.filter(|n| !has_other_role(n)).collect();
        columns.used.extend_from_slice(&values);
    }
    let (write_set, may_fire_triggers) = write_set(table, chunked_values.as_ref(), catalog);
    let mut container = Container {
        name: name.to_owned(),
        table: Arc::clone(table),
        index,
        key,
        key_codec,
        value_codec,
        format,
        values,
        flags,
        increment,
        cas,
        expiry,
        expiry_zone: ExpiryZone::default(),
        write_set,
        may_fire_triggers,
        chunked_values,
        column_without_value: column_without_default(table, &columns.used),
        replaces_rows: false,
        statistics: Vec::new(),
    };
    container.replaces_rows = container.can_replace_rows();
    no_default_note(container.column_without_value.as_deref(), &mut note);
    Ok((container, note))
}

/// Adds the note that a column has no default, if there is one.
fn no_default_note(column: Option<&str>, note: &mut String) {
    if let Some(column) = column {
        let text = format!("new rows are refused: column '{column}' has no default");
        add_note(note, &text);
    }
}

/// Returns the tables that a write may read or change, in order of their ids, and whether one of
/// them has a trigger.
fn write_set(
    table: &Table,
    large: Option<&ChunkedValues>,
    catalog: &Catalog,
) -> (Vec<TableId>, bool) {
    let mut set = table.write_set.to_vec();
    set.extend(large.iter().flat_map(|l| l.table.write_set.iter()));
    set.sort_unstable();
    set.dedup();
    let mut tables = set.iter().filter_map(|id| catalog.table_by_id(*id));
    let may_fire_triggers = tables.any(|table| !table.triggers.is_empty());
    (set, may_fire_triggers)
}

/// Resolves `large_values_table` (`schema.table`), the table of chunked values.
fn chunked_values(
    row: &Row,
    catalog: &Catalog,
    values: &[usize],
    columns: &mut Columns<'_>,
) -> Resolved<Option<ChunkedValues>> {
    let Some(name) = row.nonempty("large_values_table") else {
        return Ok(None);
    };
    let chunks = name
        .split_once('.')
        .map(|(database, table)| (database.trim(), table.trim()))
        .filter(|(database, table)| !is_system_table(database, table))
        .and_then(|(database, table)| catalog.table(database, table))
        .ok_or_else(|| format!("large_values_table '{name}' does not exist"))?;
    let [value] = values else {
        return Err("large_values_table needs exactly one value column".to_owned());
    };
    // Maximum length in bytes of a binary column.
    let max_length = |column: &Column| {
        let is_binary = column.ty.is_binary();
        is_binary.then(|| column.ty.max_bytes() as usize)
    };
    let value_column = columns.table.columns.get(*value);
    let max_inline = value_column
        .filter(|c| c.nullable && c.generated.is_none())
        .and_then(max_length)
        .ok_or("large_values_table needs a binary value column that allows NULL")?;
    let find = |column: &str| {
        let found = chunks.column(column);
        found.ok_or_else(|| format!("large_values_table '{name}' has no column '{column}'"))
    };
    let (id, part, content) = (find("id")?, find("part")?, find("content")?);
    let key: Vec<usize> = chunks
        .indexes
        .first()
        .map_or(Vec::new(), |i| i.parts.iter().map(|p| p.column).collect());
    if key != [id, part] || chunks.auto_increment() != Some(id) {
        return Err(format!(
            "large_values_table '{name}' needs the primary key (id, part) and an AUTO_INCREMENT id"
        ));
    }
    let content_column = chunks.columns.get(content);
    let part_size = content_column
        .and_then(max_length)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("column 'content' of large_values_table '{name}' is not binary"))?;
    Ok(Some(ChunkedValues {
        table: Arc::clone(chunks),
        id,
        part,
        content,
        ext_id: columns.filled_column("large_values_table column", "ext_id")?,
        ext_size: columns.filled_column("large_values_table column", "ext_size")?,
        max_inline,
        // A chunk has at most 1 MiB, or less if the column is smaller.
        part_size: part_size.min(1 << 20),
    }))
}

/// Parses the codecs of values and of keys, and the format of values (text or JSON).
fn codecs(options: &Row) -> Resolved<(FieldCodec, FieldCodec, ValueFormat)> {
    let bytes = |column| options.text(column).map(str::as_bytes);
    let escape = bytes("escape");
    let codec = FieldCodec::new(bytes("separator"), escape, bytes("null_token"))?;
    let separator = bytes("key_separator").or(bytes("separator"));
    let key_codec = FieldCodec::new(separator, escape, None)?;
    let format = match options.text("value_format") {
        None | Some("text") => ValueFormat::Text,
        Some("json") => ValueFormat::Json,
        Some(other) => return Err(format!("value_format '{other}' is neither text nor json")),
    };
    Ok((codec, key_codec, format))
}

/// Finds the unique index of the `key_columns`. Returns its number and parts.
fn key_parts(
    row: &Row,
    table: &Table,
    columns: &mut Columns<'_>,
) -> Resolved<(usize, Vec<KeyPart>)> {
    let names = row
        .nonempty("key_columns")
        .ok_or("no key_columns are given")?;
    let given = columns.list(names)?;
    let matching = |(n, index): (usize, &Index)| Some((n, parts_of(n, index, table, &given)?));
    let mut indexes = table.indexes.iter().enumerate().filter_map(matching);
    indexes.next().ok_or_else(|| {
        format!(
            "key_columns '{names}' are neither the primary key of {} nor a unique key",
            qualified_name(table)
        )
    })
}

/// Returns the key parts of the index with number `n`, if the index is unique and its columns are
/// exactly the given ones, without prefix lengths.
fn parts_of(n: usize, index: &Index, table: &Table, given: &[usize]) -> Option<Vec<KeyPart>> {
    let unique = match index.kind {
        IndexKind::Primary => n == 0 && !table.hidden_key,
        IndexKind::Unique => index.state == IndexState::Public,
        IndexKind::Plain | IndexKind::FullText => false,
    };
    if !unique || index.parts.len() != given.len() || given.is_empty() {
        return None;
    }
    let part = |part: &porpoise_rows::catalog::IndexPart| {
        let piece = given.iter().position(|c| *c == part.column)?;
        part.prefix.is_none().then_some(KeyPart {
            column: part.column,
            piece,
            desc: part.desc,
        })
    };
    index.parts.iter().map(part).collect()
}

fn increment(row: &Row, columns: &mut Columns<'_>) -> Resolved<Option<usize>> {
    let Some(name) = row.nonempty("increment_column") else {
        return Ok(None);
    };
    let position = columns.filled_column("increment_column", name)?;
    if !columns.is_integer(position) {
        return Err(format!("increment_column '{name}' is not an integer"));
    }
    Ok(Some(position))
}

fn flags(row: &Row, columns: &mut Columns<'_>) -> Resolved<Flags> {
    let Some(text) = row.nonempty("flags") else {
        return Ok(Flags::Constant(0));
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let constant = text.parse().map(Flags::Constant);
        return constant.map_err(|_| format!("flags '{text}' do not fit into 32 bits"));
    }
    let position = columns.filled_column("flags column", text)?;
    if !columns.is_integer(position) {
        return Err(format!("flags column '{text}' is not an integer"));
    }
    Ok(Flags::Column(position))
}

fn cas(row: &Row, columns: &mut Columns<'_>, note: &mut String) -> Resolved<Option<usize>> {
    let Some(name) = row.nonempty("cas_column") else {
        return Ok(None);
    };
    let position = columns.filled_column("cas_column", name)?;
    if columns.kind(position) == Kind::BigInt {
        return Ok(Some(position));
    }
    let text = format!("cas_column '{name}' is narrower than 64 bits and left as it is");
    add_note(note, &text);
    Ok(None)
}

fn expiry(row: &Row, columns: &mut Columns<'_>) -> Resolved<Option<(usize, ExpiryForm)>> {
    let Some(name) = row.nonempty("expire_time_column") else {
        return Ok(None);
    };
    let position = columns.filled_column("expire_time_column", name)?;
    let nullable = columns
        .table
        .columns
        .get(position)
        .is_some_and(|c| c.nullable);
    match columns.kind(position) {
        _ if columns.is_integer(position) => Ok(Some((position, ExpiryForm::Seconds))),
        Kind::Timestamp | Kind::DateTime if nullable => Ok(Some((position, ExpiryForm::Time))),
        Kind::Timestamp | Kind::DateTime => {
            Err(format!("expire_time_column '{name}' must allow NULL"))
        }
        _ => Err(format!(
            "expire_time_column '{name}' is neither integer nor TIMESTAMP nor DATETIME"
        )),
    }
}
