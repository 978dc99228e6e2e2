//! Operations on rows, from names and JSON to batches of the native protocol's execution, and their
//! outcomes.

use super::problem::Problem;
use super::values::{Json, Members, column_value, put_string, put_value};
use axum::http::StatusCode;
use porpoise_native::{BatchOperation, LocalTable, OperationOutcome, member_text};
use porpoise_rows::catalog::Column;
use porpoise_types::{Kind, Value};
use porpoise_wire::native::batch::{
    Action, ColumnUse, Condition, Operation, Shape, WITH_CREATED, WITH_GENERATED_ID, WITH_VERSION,
};
use porpoise_wire::native::message::Index;
use porpoise_wire::native::value::Encoding;
use serde_json::value::RawValue;

/// Builds an operation on one row.
pub(super) struct Builder<'t> {
    table: &'t LocalTable,
    operation: Operation,
    index: Option<&'t Index>,
    key: Vec<(Encoding, Value)>,
    columns: Vec<ColumnUse>,
    /// Values of the columns.
    values: Vec<(Encoding, Value)>,
    conditions: Vec<Condition>,
    version: u64,
    /// Values of the compared columns.
    compared: Vec<(Encoding, Value)>,
}

impl<'t> Builder<'t> {
    /// An operation on rows found by the unique key `by`, or by the primary key.
    ///
    /// # Errors
    /// 1176: the table has no such key, or it is not unique.
    pub(super) fn new(
        table: &'t LocalTable,
        operation: Operation,
        by: Option<&str>,
    ) -> Result<Builder<'t>, Problem> {
        let visible = &table.visible;
        let index = match by {
            Some(name) => visible.index(name).filter(|index| index.is_unique),
            None => visible.primary_key(),
        };
        if index.is_none() && operation != Operation::Insert {
            let (name, table) = (by.unwrap_or("PRIMARY"), &visible.name);
            let text = format!("Key '{name}' doesn't exist in table '{table}', or is not unique");
            let problem = Problem::mysql(1176, "42000", text);
            return Err(problem.with_status(StatusCode::BAD_REQUEST));
        }
        Ok(Builder {
            table,
            operation,
            index,
            key: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
            conditions: Vec::new(),
            version: 0,
            compared: Vec::new(),
        })
    }

    /// Positions of the key's columns.
    pub(super) fn key_columns(&self) -> &'t [u16] {
        self.index.map_or(&[], |index| &index.columns)
    }

    /// Sets the values of the key.
    ///
    /// # Errors
    /// Their number is wrong, or one does not fit its column.
    pub(super) fn key(&mut self, values: &[Json<'_>]) -> Result<(), Problem> {
        let columns = self.key_columns();
        if columns.len() != values.len() {
            let (wanted, given) = (columns.len(), values.len());
            let text = format!("The key has {wanted} columns, and {given} values are given");
            return Err(Problem::malformed(text));
        }
        for (position, value) in columns.iter().zip(values) {
            self.key
                .push(column_value(self.table.column(*position)?, value)?);
        }
        Ok(())
    }

    /// The column of this name.
    ///
    /// # Errors
    /// 1054: there is none that the account sees.
    fn position(&self, name: &str) -> Result<u16, Problem> {
        let column = self.table.visible.column(name);
        let column = column.ok_or_else(|| {
            let text = format!("Unknown column '{name}' in '{}'", self.table.visible.name);
            Problem::mysql(1054, "42S22", text)
        })?;
        Ok(column.position)
    }

    /// Reads these columns.
    ///
    /// # Errors
    /// 1054.
    pub(super) fn read<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Result<(), Problem> {
        for name in names {
            let position = self.position(name)?;
            self.use_column(position, Action::Set, Value::Null)?;
        }
        Ok(())
    }

    /// Reads all columns that the account sees. It needs SELECT on them, as for SELECT *.
    ///
    /// # Errors
    /// None for columns of the table.
    pub(super) fn read_all(&mut self) -> Result<(), Problem> {
        for column in &self.table.visible.columns {
            self.use_column(column.position, Action::Set, Value::Null)?;
        }
        Ok(())
    }

    fn use_column(&mut self, position: u16, action: Action, value: Value) -> Result<(), Problem> {
        let encoding = Encoding::of(&self.table.column(position)?.ty);
        self.columns.push(ColumnUse { position, action });
        self.values.push((encoding, value));
        Ok(())
    }

    /// Whether a column is written.
    pub(super) fn writes(&self, position: u16) -> bool {
        self.columns.iter().any(|used| used.position == position)
    }

    /// Sets columns.
    ///
    /// # Errors
    /// 1054; a value does not fit its column.
    pub(super) fn set(&mut self, members: &Members) -> Result<(), Problem> {
        for (name, value) in &members.0 {
            let position = self.position(name)?;
            let (_, value) = column_value(self.table.column(position)?, &Json::of(value)?)?;
            self.use_column(position, Action::Set, value)?;
        }
        Ok(())
    }

    /// Adds to columns.
    ///
    /// # Errors
    /// 1054; a value is not a number.
    pub(super) fn add(&mut self, members: &Members) -> Result<(), Problem> {
        for (name, value) in &members.0 {
            let position = self.position(name)?;
            let column = self.table.column(position)?;
            let value = addend(column, value)?;
            self.use_column(position, Action::Add, value)?;
        }
        Ok(())
    }

    /// Sets a column to a value of its type.
    ///
    /// # Errors
    /// None for columns of the table.
    pub(super) fn set_value(&mut self, position: u16, value: Value) -> Result<(), Problem> {
        self.use_column(position, Action::Set, value)
    }

    /// The value that a column is set to.
    pub(super) fn value_of(&self, position: u16) -> Option<&Value> {
        let mut pairs = self.columns.iter().zip(&self.values);
        let found = pairs.find(|(used, _)| used.position == position);
        found.map(|(_, (_, value))| value)
    }

    /// The values of the key.
    pub(super) fn key_values(&self) -> &[(Encoding, Value)] {
        &self.key
    }

    /// Requires a version of the row.
    pub(super) fn if_version(&mut self, version: u64) {
        self.conditions.push(Condition::Version);
        self.version = version;
    }

    /// Requires values of columns.
    ///
    /// # Errors
    /// As [`Builder::set`].
    pub(super) fn if_equals(&mut self, members: &Members) -> Result<(), Problem> {
        for (name, value) in &members.0 {
            let position = self.position(name)?;
            let value = column_value(self.table.column(position)?, &Json::of(value)?)?;
            self.conditions.push(Condition::Equals(position));
            self.compared.push(value);
        }
        Ok(())
    }

    /// The operation.
    pub(super) fn build(self) -> BatchOperation {
        let flags = match self.operation {
            Operation::Insert => WITH_VERSION | WITH_GENERATED_ID,
            Operation::Upsert => WITH_VERSION | WITH_GENERATED_ID | WITH_CREATED,
            _ => WITH_VERSION,
        };
        let shape = Shape {
            operation: self.operation,
            flags,
            index: self.index.map_or(0, |index| index.position),
            table: self.table.visible.id,
            version: self.table.visible.version,
            columns: self.columns,
            conditions: self.conditions,
        };
        let has_key = self.operation.has_key();
        let mut values = self.values;
        values.extend(self.compared);
        BatchOperation {
            shape,
            key: if has_key { self.key } else { Vec::new() },
            version: self.version,
            values,
        }
    }
}

/// A number to add to a column. It is not converted to the column's range: the sum is checked.
fn addend(column: &Column, value: &RawValue) -> Result<Value, Problem> {
    let json = Json::of(value)?;
    let text = match &json {
        Json::Number(text) => Some(*text),
        Json::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let number = text
        .and_then(super::values::number_of)
        .map(|number| number.to_owned());
    number.ok_or_else(|| {
        let text = format!("Column '{}': only a number can be added", column.name);
        Problem::mysql(1366, "HY000", text)
    })
}

/// Appends the row of a READ: an object of its columns.
///
/// # Errors
/// A stored value that its column's type does not allow.
pub(super) fn put_row(
    out: &mut Vec<u8>,
    table: &LocalTable,
    shape: &Shape,
    values: &[Value],
) -> Result<(), Problem> {
    out.push(b'{');
    for (n, (used, value)) in shape.columns.iter().zip(values).enumerate() {
        if n > 0 {
            out.push(b',');
        }
        let column = table.column(used.position)?;
        put_string(out, &column.name);
        out.push(b':');
        if matches!(column.ty.kind, Kind::Enum | Kind::Set) && *value != Value::Null {
            let text = member_text(column, value.as_ref())?;
            put_value(out, text.as_ref(), &porpoise_types::ColumnType::json());
        } else {
            put_value(out, value.as_ref(), &column.ty);
        }
    }
    out.push(b'}');
    Ok(())
}

/// Appends the version and the generated id of a written row.
pub(super) fn put_written(out: &mut Vec<u8>, version: u64, generated_id: u64) {
    out.extend_from_slice(format!("\"version\":\"{version}\"").as_bytes());
    if generated_id != 0 {
        out.extend_from_slice(format!(",\"generated_id\":\"{generated_id}\"").as_bytes());
    }
}

/// The problem of an outcome that is a failure.
pub(super) fn problem_of(outcome: &OperationOutcome) -> Option<Problem> {
    Some(match outcome {
        OperationOutcome::Row { .. } | OperationOutcome::Written { .. } => return None,
        OperationOutcome::NotFound => Problem::new(StatusCode::NOT_FOUND, "No row has this key"),
        OperationOutcome::ConditionFailed => Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "The row does not have the required version or values",
        ),
        OperationOutcome::Failed {
            code,
            sqlstate,
            message,
        } => Problem::mysql(*code, sqlstate, message.clone()),
        OperationOutcome::Aborted => Problem::new(
            StatusCode::CONFLICT,
            "Another operation of the batch has failed",
        ),
    })
}
