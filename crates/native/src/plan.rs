//! Shapes of operations, resolved: table, index, columns with their encodings, privileges.
//!
//! A connection caches the plans of its most recent shapes by the shapes' bytes, so that a batch
//! with a known shape costs a comparison of a few dozen bytes. A plan is valid while the catalog
//! and access control have the versions at which it was resolved.

use crate::convert::{Converter, default_of, now_of};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::operation_statistics::{self, OperationStatistics};
use crate::schema;
use porpoise_access::{Privileges, Rights, is_system_schema};
use porpoise_rows::catalog::{Catalog, Column, Table, TableId};
use porpoise_rows::{Db, Error};
use porpoise_types::Value;
use porpoise_wire::native::batch::{Action, Operation, Shape};
use porpoise_wire::native::value::Encoding;
use std::sync::Arc;

/// Maximum number of plans that a connection caches.
const MAX_PLANS: usize = 32;

/// A column of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanColumn {
    pub(crate) position: usize,
    pub(crate) encoding: Encoding,
    pub(crate) action: Action,
    pub(crate) converter: Converter,
}

impl PlanColumn {
    pub(crate) fn new(table: &Table, position: usize, action: Action) -> Option<PlanColumn> {
        let column = table.columns.get(position).filter(|c| !c.is_hidden())?;
        Some(PlanColumn {
            position,
            encoding: Encoding::of(&column.ty),
            action,
            converter: Converter::of(column),
        })
    }
}

/// A shape, resolved.
pub(crate) struct Plan {
    pub(crate) table: Arc<Table>,
    pub(crate) shape: Shape,
    /// Position of the index.
    pub(crate) index: usize,
    /// The columns of the index.
    pub(crate) key: Vec<PlanColumn>,
    /// The columns that are read or written.
    pub(crate) columns: Vec<PlanColumn>,
    /// The columns that conditions compare.
    pub(crate) compared: Vec<PlanColumn>,
    /// Encodings of the values after the key, in their order.
    pub(crate) encodings: Vec<Encoding>,
    /// For each column of the index, the position of its value in `columns` (UPSERT).
    pub(crate) key_places: Vec<usize>,
    /// Default values of a new row; those that depend on the time are set later. Error 1364 if a
    /// column without a given value has no default.
    defaults: Result<Vec<Value>, Error>,
    /// Columns whose default is the present time.
    now_columns: Vec<usize>,
    /// Text of the operation in the process list.
    pub(crate) info: Vec<u8>,
    /// Counters of the operation on the table, if statistics are on.
    pub(crate) statistics: Option<Arc<OperationStatistics>>,
    catalog_version: u64,
    access_version: u64,
}

impl Plan {
    /// A new row of default values, before the given values are set.
    ///
    /// # Errors
    /// 1364: a column without a given value has no default.
    pub(crate) fn new_row(&self, now: i64) -> Result<Vec<Value>, Error> {
        let mut row = self.defaults.clone()?;
        for position in &self.now_columns {
            if let (Some(place), Some(column)) =
                (row.get_mut(*position), self.table.columns.get(*position))
            {
                *place = now_of(column, now);
            }
        }
        Ok(row)
    }

    /// Whether the operation writes the column at a position.
    pub(crate) fn writes(&self, position: usize) -> bool {
        self.columns.iter().any(|c| c.position == position)
    }

    /// The definition of a column.
    ///
    /// # Errors
    /// None in a plan of its own table.
    pub(crate) fn column(&self, position: usize) -> Result<&Column, Error> {
        let column = self.table.columns.get(position);
        column.ok_or(Error::DefinitionChanged)
    }
}

/// The cached plans of a connection. Each use moves a plan one place towards the front.
#[derive(Default)]
pub(crate) struct Plans(Vec<(Vec<u8>, Arc<Plan>)>);

impl Plans {
    /// The plan of a shape.
    ///
    /// # Errors
    /// The table, a column or a privilege is missing, or the definition has changed.
    pub(crate) fn find(
        &mut self,
        db: &Db,
        identity: &mut Identity,
        bytes: &[u8],
    ) -> Result<Arc<Plan>, Failure> {
        let found = self.0.iter().position(|(known, _)| known == bytes);
        if let Some(at) = found
            && let Some((_, plan)) = self.0.get(at)
            && plan.catalog_version == db.catalog_version()
            && plan.access_version == identity.rights().1
        {
            let plan = plan.clone();
            if at > 0 {
                self.0.swap(at, at - 1);
            }
            return Ok(plan);
        }
        let plan = Arc::new(resolve(db, identity, Shape::parse(bytes)?)?);
        if let Some((_, old)) = found.and_then(|at| self.0.get_mut(at)) {
            *old = plan.clone();
        } else {
            if self.0.len() >= MAX_PLANS {
                self.0.pop();
            }
            self.0.insert(0, (bytes.to_vec(), plan.clone()));
        }
        Ok(plan)
    }
}

/// Finds a table by id, and checks the version of its definition. To an account without any privilege
/// on the table nothing about it is revealed, not even whether it exists.
///
/// # Errors
/// 1142, 1146, 1412.
pub(crate) fn find_table(
    catalog: &Catalog,
    identity: &mut Identity,
    id: u64,
    version: u32,
) -> Result<Arc<Table>, Error> {
    let rights = identity.rights().0.clone();
    let table = catalog.table_by_id(TableId(id));
    let table = table.filter(|table| rights.sees_table(&table.database, &table.name));
    let Some(table) = table else {
        return Err(if rights.sees_table("", "") {
            Error::NoSuchTable {
                database: "native".to_owned(),
                table: format!("#{id}"),
            }
        } else {
            let shown = identity.shown();
            let text = format!("SELECT command denied to user {shown} for table '#{id}'");
            Error::refused(1142, "42000", text)
        });
    };
    if is_system_schema(&table.database) {
        let text = "Access to system schemas is not supported by the native protocol";
        return Err(Error::refused(1235, "42000", text));
    }
    if table.version != version {
        return Err(Error::DefinitionChanged);
    }
    Ok(table.clone())
}

fn unknown_column(table: &Table, position: u16) -> Error {
    let text = format!("Unknown column '#{position}' in '{}'", table.name);
    Error::refused(1054, "42S22", text)
}

/// The columns of an index.
///
/// # Errors
/// There is no such index, or operations cannot use it.
pub(crate) fn index_columns(table: &Table, index: u16) -> Result<Vec<PlanColumn>, Error> {
    let found = table.indexes.get(usize::from(index));
    let found = found.filter(|index| schema::is_usable(table, index));
    let found = found.ok_or_else(|| {
        let text = format!("Key '#{index}' doesn't exist in table '{}'", table.name);
        Error::refused(1176, "42000", text)
    })?;
    let parts = found.parts.iter();
    let columns = parts.map(|part| PlanColumn::new(table, part.column, Action::Set));
    columns
        .collect::<Option<Vec<_>>>()
        .ok_or(Error::DefinitionChanged)
}

/// The columns at these positions.
///
/// # Errors
/// A column does not exist, or is named twice. Refusing duplicates bounds the size of a row.
pub(crate) fn columns_at(
    table: &Table,
    positions: impl Iterator<Item = (u16, Action)>,
) -> Result<Vec<PlanColumn>, Error> {
    let mut is_named = vec![false; table.columns.len()];
    positions
        .map(|(position, action)| {
            let column = PlanColumn::new(table, usize::from(position), action)
                .ok_or_else(|| unknown_column(table, position))?;
            if let Some(is_named) = is_named.get_mut(column.position)
                && std::mem::replace(is_named, true)
            {
                let text = format!("Column '#{position}' specified twice");
                return Err(Error::refused(1110, "42000", text));
            }
            Ok(column)
        })
        .collect()
}

fn resolve(db: &Db, identity: &mut Identity, shape: Shape) -> Result<Plan, Failure> {
    // Read before the catalog, so that a plan is never older than the version it records.
    let catalog_version = db.catalog_version();
    let table = find_table(&db.catalog(), identity, shape.table, shape.version)?;
    check_conditions(&shape)?;
    let key = index_columns(&table, shape.index)?;
    let index = usize::from(shape.index);
    let is_unique = table.indexes.get(index).is_some_and(|i| i.kind.is_unique());
    if shape.operation != Operation::Insert && (!is_unique || key.is_empty()) {
        let text = format!("Key '#{index}' of table '{}' is not unique", table.name);
        return Err(Error::refused(1176, "42000", text).into());
    }
    let columns = shape.columns.iter().map(|c| (c.position, c.action));
    let columns = columns_at(&table, columns)?;
    let compared = shape.compared_columns().map(|c| (c, Action::Set));
    let compared = columns_at(&table, compared)?;
    let (rights, access_version) = identity.rights();
    let rights = rights.clone();
    check_privileges(
        &rights,
        identity,
        &table,
        &shape,
        [&key, &columns, &compared],
    )?;
    check_columns(&table, &shape, &columns)?;
    let all = columns.iter().chain(&compared);
    let (defaults, now_columns) = new_row_of(&table, &columns);
    let info = info_of(&table, &shape);
    Ok(Plan {
        encodings: all.map(|c| c.encoding).collect(),
        key_places: key_places(&table, &shape, &key, &columns)?,
        statistics: operation_statistics::of(&info, &table.database),
        info: info.into_bytes(),
        table,
        shape,
        index,
        key,
        columns,
        compared,
        defaults,
        now_columns,
        catalog_version,
        access_version,
    })
}

fn info_of(table: &Table, shape: &Shape) -> String {
    let word = match shape.operation {
        Operation::Read => "READ",
        Operation::Insert => "INSERT",
        Operation::Update => "UPDATE",
        Operation::Upsert => "UPSERT",
        Operation::Delete => "DELETE",
    };
    format!("{word} {}", table.quoted_name())
}

/// Defaults of a new row, and the columns whose default is the present time.
fn new_row_of(table: &Table, given: &[PlanColumn]) -> (Result<Vec<Value>, Error>, Vec<usize>) {
    let mut row = Vec::with_capacity(table.columns.len());
    let mut now_columns = Vec::new();
    for (position, column) in table.columns.iter().enumerate() {
        if given.iter().any(|c| c.position == position) {
            row.push(Value::Null);
            continue;
        }
        if column.default == porpoise_rows::catalog::ColumnDefault::Now {
            now_columns.push(position);
        }
        let Some(value) = default_of(column, 0) else {
            let text = format!("Field '{}' doesn't have a default value", column.name);
            return (Err(Error::refused(1364, "HY000", text)), Vec::new());
        };
        row.push(value);
    }
    (Ok(row), now_columns)
}

/// Checks that an operation with conditions is one that supports them.
fn check_conditions(shape: &Shape) -> Result<(), Error> {
    let compares = !matches!(shape.operation, Operation::Read | Operation::Insert);
    if compares || shape.conditions.is_empty() {
        return Ok(());
    }
    let text = "Conditions of READ and INSERT are not supported by the native protocol";
    Err(Error::refused(1235, "42000", text))
}

/// Checks that each written column can be written.
fn check_columns(table: &Table, shape: &Shape, columns: &[PlanColumn]) -> Result<(), Error> {
    if matches!(shape.operation, Operation::Read) {
        return Ok(());
    }
    for used in columns {
        let Some(column) = table.columns.get(used.position) else {
            return Err(Error::DefinitionChanged);
        };
        let name = &column.name;
        if column.generated.is_some() {
            let text = format!(
                "The value specified for generated column '{name}' in table '{}' is not allowed.",
                table.name
            );
            return Err(Error::refused(3105, "HY000", text));
        }
        if used.action == Action::Add && shape.operation != Operation::Update {
            let text = format!("Column '{name}': only UPDATE adds to a column");
            return Err(Error::refused(1235, "42000", text));
        }
    }
    Ok(())
}

/// For an UPSERT, the positions of the key's values in `columns`.
fn key_places(
    table: &Table,
    shape: &Shape,
    key: &[PlanColumn],
    columns: &[PlanColumn],
) -> Result<Vec<usize>, Error> {
    if shape.operation != Operation::Upsert {
        return Ok(Vec::new());
    }
    let place = |part: &PlanColumn| {
        let place = columns.iter().position(|c| c.position == part.position);
        place.ok_or_else(|| {
            let name = table.columns.get(part.position).map_or("", |c| &c.name);
            let text = format!("Column '{name}' of the key has no value");
            Error::refused(1364, "HY000", text)
        })
    };
    key.iter().map(place).collect()
}

/// Checks privileges as SQL does: SELECT on columns that are read or compared, INSERT and UPDATE on
/// columns that are written, DELETE on the table.
fn check_privileges(
    rights: &Rights,
    identity: &Identity,
    table: &Table,
    shape: &Shape,
    [key, columns, compared]: [&[PlanColumn]; 3],
) -> Result<(), Failure> {
    let check = Check {
        rights,
        identity,
        table,
    };
    match shape.operation {
        Operation::Read => {
            check.columns(Privileges::SELECT, key)?;
            check.columns(Privileges::SELECT, columns)?;
        }
        Operation::Insert => check.columns(Privileges::INSERT, columns)?,
        Operation::Upsert => {
            check.columns(Privileges::INSERT, columns)?;
            check.columns(Privileges::UPDATE, columns)?;
        }
        Operation::Update => {
            check.columns(Privileges::SELECT, key)?;
            check.columns(Privileges::UPDATE, columns)?;
            let added = columns.iter().filter(|c| c.action == Action::Add);
            let added: Vec<PlanColumn> = added.copied().collect();
            check.read_columns(&added)?;
        }
        Operation::Delete => {
            check.columns(Privileges::SELECT, key)?;
            check.table(Privileges::DELETE)?;
        }
    }
    if shape.flags & porpoise_wire::native::batch::FOR_UPDATE != 0 {
        check.locking()?;
    }
    check.read_columns(compared)
}

/// Check of privileges on a table.
pub(crate) struct Check<'a> {
    pub(crate) rights: &'a Rights,
    pub(crate) identity: &'a Identity,
    pub(crate) table: &'a Table,
}

impl Check<'_> {
    /// Checks a privilege on the table.
    ///
    /// # Errors
    /// 1142.
    pub(crate) fn table(&self, wanted: Privileges) -> Result<(), Failure> {
        let (database, name) = (&self.table.database, &self.table.name);
        if self.rights.on_table(database, name).has(wanted) {
            return Ok(());
        }
        let word = wanted.names().next().unwrap_or("SELECT");
        let shown = self.identity.shown();
        let text = format!("{word} command denied to user {shown} for table '{name}'");
        Err(Error::refused(1142, "42000", text).into())
    }

    /// Checks the privileges of SELECT ... FOR UPDATE beside SELECT: one of UPDATE, DELETE and LOCK
    /// TABLES.
    fn locking(&self) -> Result<(), Failure> {
        let some = Privileges::UPDATE
            .with(Privileges::DELETE)
            .with(Privileges::LOCK_TABLES);
        let (database, name) = (&self.table.database, &self.table.name);
        if self.rights.on_any_column(database, name).intersects(some) {
            return Ok(());
        }
        let shown = self.identity.shown();
        let text =
            format!("SELECT with locking clause command denied to user {shown} for table '{name}'");
        Err(Error::refused(1142, "42000", text).into())
    }

    /// Checks SELECT on columns that an operation reads beside its key, if there are any.
    fn read_columns(&self, columns: &[PlanColumn]) -> Result<(), Failure> {
        if columns.is_empty() {
            return Ok(());
        }
        self.columns(Privileges::SELECT, columns)
    }

    /// Checks a privilege on the table or on all of these columns.
    ///
    /// # Errors
    /// 1142, or 1143 if it is held on other columns.
    pub(crate) fn columns(
        &self,
        wanted: Privileges,
        columns: &[PlanColumn],
    ) -> Result<(), Failure> {
        let (database, name) = (&self.table.database, &self.table.name);
        if self.rights.on_table(database, name).has(wanted) {
            return Ok(());
        }
        if !self.rights.on_any_column(database, name).has(wanted) {
            return self.table(wanted);
        }
        for used in columns {
            let column = self.table.columns.get(used.position);
            let column = column.map_or("", |c| c.name.as_str());
            let held = self.rights.on_column(database, name, column);
            if !held.has(wanted) {
                // The name of a column is shown to those who have any privilege on it.
                let number = format!("#{}", used.position);
                let column = if held.intersects(Privileges::COLUMN) {
                    column
                } else {
                    &number
                };
                let word = wanted.names().next().unwrap_or("SELECT");
                let shown = self.identity.shown();
                let text = format!(
                    "{word} command denied to user {shown} for column '{column}' in table '{name}'"
                );
                return Err(Error::refused(1143, "42000", text).into());
            }
        }
        Ok(())
    }
}
