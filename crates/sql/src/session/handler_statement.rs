//! HANDLER (manual, "HANDLER Statement"): reading a table row by row, along an index or in the order
//! of its primary key.
//!
//! Each READ is a SELECT in the order of the index: FIRST and LAST begin at its ends, a comparison at
//! the given key values, NEXT and PREV at the key of the row read last. That key is the position of an
//! open handler: the values of the index and, because several rows may have the same ones, of the
//! primary key. The SELECT returns the key after the columns, and [`PositionSink`] keeps it.
//!
//! Rows are read as by any SELECT: in a transaction from its snapshot, otherwise from a new snapshot
//! for each READ, which sees what other sessions have committed since the one before.

use super::{Outcome, SqlSession};
use crate::results::RecodingSink;
use bumpalo::Bump;
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::show::{literal, quote};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{BinaryOp, Expr, Handler, HandlerAction, HandlerStep, Limit};
use porpoise_sql_parser::{LexMode, ParseOptions, parse_one, print};
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{ColumnType, Kind, Value, ValueRef};

/// A table opened by HANDLER ... OPEN.
pub struct OpenHandler {
    /// The alias, or the table's name.
    name: String,
    database: String,
    table: String,
    id: TableId,
    position: Position,
}

/// The place of a handler in an index.
enum Position {
    /// Before the first READ, or after a READ by a key that found no row.
    Unset,
    /// On a row.
    Row {
        /// The index; `None` for the order of the primary key.
        index: Option<usize>,
        key: Vec<Value>,
        types: Vec<ColumnType>,
        /// Number of rows with this key that were read, if several rows may have it (a table without
        /// a primary key); otherwise 0.
        equal_rows: u64,
    },
    /// Beyond the last row, or before the first one.
    End { after_last: bool },
}

impl Position {
    /// The same position in a table with a primary key, where a key identifies one row.
    fn on_one_row(mut self) -> Position {
        if let Position::Row { equal_rows, .. } = &mut self {
            *equal_rows = 0;
        }
        self
    }
}

/// A part of the order in which rows are read.
struct OrderPart {
    /// The expression by which rows are compared.
    sql: String,
    descending: bool,
    /// For an ENUM: its members as SQL literals, to find the number of a key value.
    members: Option<String>,
}

/// The SELECT of a READ: its conditions, direction and offset.
#[derive(Default)]
struct Reading {
    /// Conditions that all must hold.
    conditions: Vec<String>,
    /// Values of the parameters in the conditions.
    values: Vec<Value>,
    types: Vec<ColumnType>,
    backward: bool,
    /// Rows to skip because they were read before.
    skipped: u64,
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(1109, "42S02", format!("Unknown table '{name}' in HANDLER"))
}

impl SqlSession {
    /// HANDLER.
    pub(super) fn handler(
        &mut self,
        handler: &Handler<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        if self.table_locks.is_some() {
            let text = "Can't execute the given command because you have active locked tables or \
                        an active transaction";
            return Err(SqlError::new(1192, "HY000", text));
        }
        let name = handler.table.name.name;
        match handler.action {
            HandlerAction::Open(alias) => {
                let (database, table) = self.cx.qualified(&handler.table)?;
                let name = alias.map_or(name, |alias| alias.name).to_owned();
                self.open_handler(name, database, table)
            }
            HandlerAction::Close => {
                let at = self.find_handler(name)?;
                self.handlers.remove(at);
                Ok(Outcome::default())
            }
            HandlerAction::Read {
                index,
                step,
                filter,
                limit,
            } => {
                let index = index.map(|index| index.name);
                self.read_handler(name, index, step, filter.as_ref(), limit, sink)
            }
        }
    }

    fn find_handler(&self, name: &str) -> Result<usize> {
        let mut open = self.handlers.iter();
        let found = open.position(|h| h.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| unknown(name))
    }

    fn open_handler(&mut self, name: String, database: String, table: String) -> Result<Outcome> {
        if self.find_handler(&name).is_ok() {
            let text = format!("Not unique table/alias: '{name}'");
            return Err(SqlError::new(1066, "42000", text));
        }
        let catalog = self.cx.catalog();
        if catalog.view(&database, &table).is_some() {
            let text = format!("'{database}.{table}' is not BASE TABLE");
            return Err(SqlError::new(1347, "HY000", text));
        }
        let found = catalog.table(&database, &table);
        let id = found
            .ok_or_else(|| SqlError::no_table(&database, &table))?
            .id;
        self.handlers.push(OpenHandler {
            name,
            database,
            table,
            id,
            position: Position::Unset,
        });
        Ok(Outcome::default())
    }

    fn read_handler(
        &mut self,
        name: &str,
        index: Option<&str>,
        step: HandlerStep<'_>,
        filter: Option<&Expr<'_>>,
        limit: Option<&Limit<'_>>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let at = self.find_handler(name)?;
        let (count, offset) = self.handler_limit(limit)?;
        let Some(handler) = self.handlers.get(at) else {
            return Err(unknown(name));
        };
        let catalog = self.cx.catalog();
        let table = catalog.table(&handler.database, &handler.table);
        let Some(table) = table.filter(|table| table.id == handler.id).cloned() else {
            // The table was dropped or altered: MySQL has closed its handlers.
            self.handlers.remove(at);
            return Err(unknown(name));
        };
        let index = index.map(|index| index_named(&table, index)).transpose()?;
        let order = order_of(&table, index)?;
        let mut reading = Reading::of(handler, index, &order, step)?;
        if let Some(filter) = filter {
            let filter = print::expr(filter, LexMode::default());
            reading
                .conditions
                .push(String::from_utf8_lossy(&filter).into_owned());
        }
        let text = reading.query(handler, &table, index, &order, (offset, count));
        let settings = self.cx.settings.clone();
        let mut client = RecodingSink::new(sink, &settings);
        let mut sink = PositionSink {
            sink: &mut client,
            visible: table.visible_columns().count(),
            key: Vec::new(),
            types: Vec::new(),
            rows: 0,
            equal_rows: 0,
        };
        let arena = Bump::new();
        let parsed = parse_one(&arena, text.as_bytes(), 0, &ParseOptions::default());
        let parsed = parsed.map_err(|error| SqlError::syntax(&error, text.as_bytes()))?;
        let values: Vec<ValueRef<'_>> = reading.values.iter().map(Value::as_ref).collect();
        let text = text.as_bytes();
        let done =
            self.run_statement(&parsed.statement, text, &values, &reading.types, &mut sink)?;
        let has_key = table.indexes.first().is_some_and(|i| !i.parts.is_empty());
        let position = sink.position(index, reading.skipped, count, &step);
        let position = position.map(|p| if has_key { p.on_one_row() } else { p });
        if let (Some(position), Some(handler)) = (position, self.handlers.get_mut(at)) {
            handler.position = position;
        }
        Ok(done)
    }

    /// Number of rows to read, and number to skip.
    fn handler_limit(&mut self, limit: Option<&Limit<'_>>) -> Result<(u64, u64)> {
        let Some(limit) = limit else {
            return Ok((1, 0));
        };
        let mut number = |e: &Expr<'_>| -> Result<u64> {
            let (value, _) = self.value_of(e, &[], &[])?;
            match value {
                Value::UInt(n) => Ok(n),
                Value::Int(n) => Ok(u64::try_from(n).unwrap_or(0)),
                _ => Err(SqlError::wrong_arguments("LIMIT")),
            }
        };
        let count = number(&limit.count)?;
        let offset = limit.offset.as_ref().map(&mut number).transpose()?;
        Ok((count, offset.unwrap_or(0)))
    }
}

/// The position of an index. Error 1176 if there is none of this name.
fn index_named(table: &Table, name: &str) -> Result<usize> {
    let mut indexes = table.indexes.iter();
    let found = indexes.position(|i| i.name.eq_ignore_ascii_case(name) && !i.parts.is_empty());
    found.ok_or_else(|| {
        let text = format!("Key '{name}' doesn't exist in table '{}'", table.name);
        SqlError::new(1176, "42000", text)
    })
}

/// The order of an index: its parts, then those of the primary key that it lacks.
fn order_of(table: &Table, index: Option<usize>) -> Result<Vec<OrderPart>> {
    let primary = table.indexes.first();
    let own = index.and_then(|at| table.indexes.get(at));
    let mut seen: Vec<usize> = Vec::new();
    let mut order = Vec::new();
    for part in own.into_iter().chain(primary).flat_map(|i| i.parts.iter()) {
        let Some(column) = table.columns.get(part.column) else {
            continue;
        };
        if seen.contains(&part.column) {
            continue;
        }
        if column.is_hidden() {
            return Err(SqlError::not_supported(
                "HANDLER by an index of expressions",
            ));
        }
        seen.push(part.column);
        let name = quote(&column.name);
        let sql = match column.ty.kind {
            // The index has the order of the numbers.
            Kind::Enum | Kind::Set | Kind::Bit | Kind::Year => format!("({name}+0)"),
            _ => name,
        };
        let members = column.ty.members.iter();
        let members = members.map(|m| literal(&String::from_utf8_lossy(m)));
        let members = members.collect::<Vec<_>>().join(",");
        order.push(OrderPart {
            sql,
            descending: part.desc,
            members: (column.ty.kind == Kind::Enum).then_some(members),
        });
    }
    Ok(order)
}

impl Reading {
    /// Creates the reading for a step of a handler.
    fn of(
        handler: &OpenHandler,
        index: Option<usize>,
        order: &[OrderPart],
        step: HandlerStep<'_>,
    ) -> Result<Reading> {
        let mut reading = Reading::default();
        let forward = match step {
            HandlerStep::First => return Ok(reading),
            HandlerStep::Last => {
                reading.backward = true;
                return Ok(reading);
            }
            HandlerStep::Key(op, values) => {
                reading.begin_at_key(op, values, order)?;
                return Ok(reading);
            }
            HandlerStep::Next => true,
            HandlerStep::Prev => false,
        };
        reading.backward = !forward;
        match &handler.position {
            Position::Row {
                index: read_index,
                key,
                types,
                equal_rows,
            } if *read_index == index => {
                // If several rows may have the key, NEXT reads them all again in the same order, and
                // skips those that were read.
                let inclusive = forward && *equal_rows > 0;
                if inclusive {
                    reading.skipped = *equal_rows;
                }
                reading.continue_behind((key, types), order, inclusive);
            }
            Position::End { after_last } if *after_last == forward => {
                reading.conditions.push("FALSE".to_owned());
            }
            _ => {}
        }
        Ok(reading)
    }

    /// Restricts the rows by a comparison with values for the leading parts of the order.
    fn begin_at_key(
        &mut self,
        op: BinaryOp,
        values: &[Expr<'_>],
        order: &[OrderPart],
    ) -> Result<()> {
        if values.len() > order.len() {
            let most = order.len();
            let text = format!("Too many key parts specified; max {most} parts allowed");
            return Err(SqlError::new(1070, "42000", text));
        }
        let texts = values.iter().zip(order).map(|(value, part)| {
            let text = print::expr(value, LexMode::default());
            let text = String::from_utf8_lossy(&text);
            match &part.members {
                Some(members) => format!("NULLIF(FIELD({text},{members}),0)"),
                None => format!("({text})"),
            }
        });
        let texts: Vec<String> = texts.collect();
        let parts = order.iter().zip(&texts);
        if op == BinaryOp::Eq {
            let equal = parts.map(|(part, value)| format!("{} <=> {value}", part.sql));
            self.conditions.extend(equal);
            return Ok(());
        }
        self.backward = matches!(op, BinaryOp::Less | BinaryOp::LessEq);
        let inclusive = matches!(op, BinaryOp::LessEq | BinaryOp::GreaterEq);
        let mut alternatives = Vec::new();
        let mut equal: Vec<String> = Vec::new();
        for (part, value) in parts {
            let sql = &part.sql;
            let beyond = if self.backward == part.descending {
                format!("({sql} > {value} OR {value} IS NULL AND {sql} IS NOT NULL)")
            } else {
                format!("({sql} < {value} OR {sql} IS NULL AND {value} IS NOT NULL)")
            };
            alternatives.push(conjunction(&equal, &beyond));
            equal.push(format!("{sql} <=> {value}"));
        }
        if inclusive {
            alternatives.push(conjunction(&equal, "TRUE"));
        }
        self.conditions.push(alternatives.join(" OR "));
        Ok(())
    }

    /// Restricts the rows to those after this key in the direction of the reading; with `inclusive`
    /// also to those with this key.
    fn continue_behind(
        &mut self,
        (key, types): (&[Value], &[ColumnType]),
        order: &[OrderPart],
        inclusive: bool,
    ) {
        let mut alternatives = Vec::new();
        for (at, part) in order.iter().enumerate() {
            let mut equal = Vec::new();
            let before = order.iter().zip(key).zip(types).take(at);
            for ((part, value), ty) in before {
                equal.push(format!("{} <=> ?", part.sql));
                self.values.push(value.clone());
                self.types.push(ty.clone());
            }
            let (Some(value), Some(ty)) = (key.get(at), types.get(at)) else {
                continue;
            };
            let upward = self.backward == part.descending;
            let sql = &part.sql;
            let beyond = match (upward, value) {
                (true, Value::Null) => format!("{sql} IS NOT NULL"),
                (false, Value::Null) => "FALSE".to_owned(),
                (true, _) => format!("{sql} > ?"),
                (false, _) => format!("({sql} < ? OR {sql} IS NULL)"),
            };
            if *value != Value::Null {
                self.values.push(value.clone());
                self.types.push(ty.clone());
            }
            alternatives.push(conjunction(&equal, &beyond));
        }
        if inclusive {
            let equal = order.iter().map(|part| format!("{} <=> ?", part.sql));
            let equal: Vec<String> = equal.collect();
            self.values.extend(key.iter().cloned());
            self.types.extend(types.iter().cloned());
            alternatives.push(conjunction(&equal, "TRUE"));
        }
        self.conditions.push(alternatives.join(" OR "));
    }

    /// The text of the SELECT.
    fn query(
        &self,
        handler: &OpenHandler,
        table: &Table,
        index: Option<usize>,
        order: &[OrderPart],
        (offset, count): (u64, u64),
    ) -> String {
        let columns = table.visible_columns().map(|(_, c)| quote(&c.name));
        let items = columns.chain(order.iter().map(|part| part.sql.clone()));
        let items: Vec<String> = items.collect();
        let mut text = format!(
            "SELECT {} FROM {}.{} AS {}",
            items.join(","),
            quote(&handler.database),
            quote(&handler.table),
            quote(&handler.name)
        );
        if let Some(index) = index.and_then(|at| table.indexes.get(at))
            && !index.invisible
        {
            text.push_str(&format!(" FORCE INDEX ({})", quote(&index.name)));
        }
        let conditions: Vec<String> = self.conditions.iter().map(|c| format!("({c})")).collect();
        if !conditions.is_empty() {
            text.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
        }
        let order = order.iter().map(|part| {
            let direction = if part.descending == self.backward {
                "ASC"
            } else {
                "DESC"
            };
            format!("{} {direction}", part.sql)
        });
        let order: Vec<String> = order.collect();
        if !order.is_empty() {
            text.push_str(&format!(" ORDER BY {}", order.join(",")));
        }
        let offset = offset.saturating_add(self.skipped);
        text.push_str(&format!(" LIMIT {offset},{count}"));
        text
    }
}

/// `a AND b AND last`.
fn conjunction(conditions: &[String], last: &str) -> String {
    let mut all: Vec<&str> = conditions.iter().map(String::as_str).collect();
    all.push(last);
    format!("({})", all.join(" AND "))
}

/// Passes the columns of a table on, and keeps the key of the last row.
struct PositionSink<'s, 'c> {
    sink: &'s mut RecodingSink<'c>,
    /// Number of columns that are passed on.
    visible: usize,
    key: Vec<Value>,
    types: Vec<ColumnType>,
    rows: u64,
    /// Number of rows at the end of the result that have the same key as the last one.
    equal_rows: u64,
}

impl PositionSink<'_, '_> {
    /// The position after a READ of up to `count` rows; `None` if it does not change.
    fn position(
        self,
        index: Option<usize>,
        skipped: u64,
        count: u64,
        step: &HandlerStep<'_>,
    ) -> Option<Position> {
        let is_key = matches!(step, HandlerStep::Key(BinaryOp::Eq, _));
        if count == 0 {
            return None;
        }
        if self.rows < count && !is_key {
            let after_last = match step {
                HandlerStep::First | HandlerStep::Next => true,
                HandlerStep::Key(op, _) => !matches!(op, BinaryOp::Less | BinaryOp::LessEq),
                HandlerStep::Last | HandlerStep::Prev => false,
            };
            return Some(Position::End { after_last });
        }
        if self.rows == 0 {
            return Some(Position::Unset);
        }
        let continued = if self.equal_rows == self.rows {
            skipped
        } else {
            0
        };
        Some(Position::Row {
            index,
            key: self.key,
            types: self.types,
            equal_rows: self.equal_rows.saturating_add(continued),
        })
    }
}

impl ResultSink for PositionSink<'_, '_> {
    fn is_for_client(&self) -> bool {
        false
    }

    fn buffer_until_end(&mut self) {
        self.sink.buffer_until_end();
    }

    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        let (shown, key) = columns.split_at(self.visible.min(columns.len()));
        self.types = key.iter().map(|c| c.ty.clone()).collect();
        (self.rows, self.equal_rows) = (0, 0);
        self.sink.columns(shown)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let (shown, key) = values.split_at(self.visible.min(values.len()));
        let key: Vec<Value> = key.iter().map(|value| ValueRef::to_owned(*value)).collect();
        let is_equal = self.rows > 0 && key == self.key;
        self.equal_rows = if is_equal { self.equal_rows + 1 } else { 1 };
        self.rows += 1;
        self.key = key;
        self.sink.row(shown)
    }
}
