//! Batches.

use crate::errors::raised;
use crate::table::{Kind, Names, Prepared, Table};
use crate::values::{ColumnKind, Given, given};
use porpoise_native_client::{Batch as NativeBatch, ValueRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// The operations of a batch, by runs of one shape.
pub(crate) type Parts = Vec<(Arc<Prepared>, u32)>;

type Objects<'py> = SmallVec<[Bound<'py, PyAny>; 16]>;

/// Operations that are executed in their order, in one transaction. If the batch is atomic, all of them take effect or none.
#[pyclass(module = "porpoise")]
pub(crate) struct Batch {
    pub(crate) inner: NativeBatch,
    pub(crate) parts: Parts,
    last: Option<LastShape>,
}

/// The names of the last INSERT or UPSERT, so that rows with the same names need no look-up.
struct LastShape {
    table: Py<Table>,
    kind: Kind,
    by: Option<String>,
    names: Vec<Py<PyAny>>,
    prepared: Arc<Prepared>,
}

impl LastShape {
    fn is(
        &self,
        table: &Bound<'_, Table>,
        kind: Kind,
        by: Option<&str>,
        names: &[Bound<'_, PyAny>],
    ) -> bool {
        let py = table.py();
        self.table.is(table)
            && self.kind == kind
            && self.by.as_deref() == by
            && self.names.len() == names.len()
            && self
                .names
                .iter()
                .zip(names)
                .all(|(known, name)| known.is(name) || known.bind(py).eq(name).unwrap_or(false))
    }
}

/// Appends values for columns to the values of an operation.
fn convert<'a>(
    kinds: &[ColumnKind],
    objects: &'a [Bound<'_, PyAny>],
    into: &mut SmallVec<[Given<'a>; 16]>,
) -> PyResult<()> {
    for (kind, object) in kinds.iter().zip(objects) {
        into.push(given(*kind, object)?);
    }
    Ok(())
}

/// The values of a key: of a tuple or list, or of one column.
fn key_objects<'py>(key: &Bound<'py, PyAny>, columns: usize) -> PyResult<Objects<'py>> {
    let objects: Objects<'py> = if let Ok(tuple) = key.cast::<PyTuple>() {
        tuple.iter().collect()
    } else if let Ok(list) = key.cast::<PyList>() {
        list.iter().collect()
    } else {
        std::iter::once(key.clone()).collect()
    };
    if objects.len() != columns {
        let text = format!("the key has {columns} columns, not {}", objects.len());
        return Err(PyValueError::new_err(text));
    }
    Ok(objects)
}

/// Names and values of a mapping.
fn items<'py>(row: &Bound<'py, PyAny>) -> PyResult<(Objects<'py>, Objects<'py>)> {
    let (mut names, mut values) = (SmallVec::new(), SmallVec::new());
    if let Ok(dict) = row.cast::<PyDict>() {
        for (name, value) in dict.iter() {
            names.push(name);
            values.push(value);
        }
        return Ok((names, values));
    }
    let row = row.cast::<PyMapping>()?;
    for item in row.items()?.iter() {
        let (name, value) = item.extract()?;
        names.push(name);
        values.push(value);
    }
    Ok((names, values))
}

fn texts(names: &[Bound<'_, PyAny>]) -> PyResult<Vec<String>> {
    names.iter().map(PyAnyMethods::extract).collect()
}

/// Names and values of an optional mapping.
fn optional_items<'py>(row: Option<&Bound<'py, PyAny>>) -> PyResult<(Vec<String>, Objects<'py>)> {
    let Some(row) = row else {
        return Ok((Vec::new(), SmallVec::new()));
    };
    let (names, values) = items(row)?;
    Ok((texts(&names)?, values))
}

#[pymethods]
impl Batch {
    /// An empty batch.
    #[new]
    #[pyo3(signature = (atomic=false, time_limit_ms=0))]
    pub(crate) fn new(atomic: bool, time_limit_ms: u32) -> Batch {
        let mut inner = if atomic {
            NativeBatch::atomic()
        } else {
            NativeBatch::new()
        };
        if time_limit_ms > 0 {
            inner.set_time_limit(Duration::from_millis(u64::from(time_limit_ms)));
        }
        Batch {
            inner,
            parts: Vec::new(),
            last: None,
        }
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// Reads a row; `key` is a value, or a tuple for a key of several columns.
    #[pyo3(signature = (table, key, columns=None, by=None))]
    fn read(
        &mut self,
        table: &Bound<'_, Table>,
        key: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<()> {
        let columns = table.get().names(columns);
        let names = Names::new(Kind::Read, by, columns);
        let prepared = table.get().prepared(table.py(), names)?;
        self.push_key(&prepared, key, None, &[], &[])
    }

    /// Inserts a row, given as a mapping of columns.
    pub(crate) fn insert(
        &mut self,
        table: &Bound<'_, Table>,
        row: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.push_row(table, Kind::Insert, None, row)
    }

    /// Inserts a row, or changes the row with its key.
    #[pyo3(signature = (table, row, by=None))]
    fn upsert(
        &mut self,
        table: &Bound<'_, Table>,
        row: &Bound<'_, PyAny>,
        by: Option<&str>,
    ) -> PyResult<()> {
        self.push_row(table, Kind::Upsert, by, row)
    }

    /// Changes columns of a row: sets `changes`, adds `add` to columns. With `version` only if the row has it, with `where` only
    /// if its columns have these values.
    #[pyo3(signature = (table, key, changes=None, version=None, by=None, add=None, r#where=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn update(
        &mut self,
        table: &Bound<'_, Table>,
        key: &Bound<'_, PyAny>,
        changes: Option<&Bound<'_, PyAny>>,
        version: Option<u64>,
        by: Option<String>,
        add: Option<&Bound<'_, PyAny>>,
        r#where: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (columns, mut values) = optional_items(changes)?;
        let (added, addends) = optional_items(add)?;
        let (compared, wanted) = optional_items(r#where)?;
        values.extend(addends);
        let names = Names {
            added,
            compared,
            has_version: version.is_some(),
            ..Names::new(Kind::Update, by, columns)
        };
        let prepared = table.get().prepared(table.py(), names)?;
        self.push_key(&prepared, key, version, &values, &wanted)
    }

    /// Deletes a row, with `version` only if the row has it, with `where` only if its columns have these values.
    #[pyo3(signature = (table, key, version=None, by=None, r#where=None))]
    fn delete(
        &mut self,
        table: &Bound<'_, Table>,
        key: &Bound<'_, PyAny>,
        version: Option<u64>,
        by: Option<String>,
        r#where: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (compared, wanted) = optional_items(r#where)?;
        let names = Names {
            compared,
            has_version: version.is_some(),
            ..Names::new(Kind::Delete, by, Vec::new())
        };
        let prepared = table.get().prepared(table.py(), names)?;
        self.push_key(&prepared, key, version, &[], &wanted)
    }
}

impl Batch {
    fn push_row(
        &mut self,
        table: &Bound<'_, Table>,
        kind: Kind,
        by: Option<&str>,
        row: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (names, values) = items(row)?;
        let last = self.last.as_ref();
        let known = last.filter(|last| last.is(table, kind, by, &names));
        let prepared = match known {
            Some(last) => last.prepared.clone(),
            None => {
                let wanted = Names::new(kind, by.map(str::to_owned), texts(&names)?);
                let prepared = table.get().prepared(table.py(), wanted)?;
                self.last = Some(LastShape {
                    table: table.clone().unbind(),
                    kind,
                    by: by.map(str::to_owned),
                    names: names.into_iter().map(Bound::unbind).collect(),
                    prepared: prepared.clone(),
                });
                prepared
            }
        };
        let mut given = SmallVec::new();
        convert(&prepared.columns, &values, &mut given)?;
        let given: SmallVec<[ValueRef<'_>; 16]> = given.iter().map(Given::as_ref).collect();
        self.push(table.py(), &prepared, &given)
    }

    /// Adds an operation on the row with a key.
    pub(crate) fn push_key(
        &mut self,
        prepared: &Arc<Prepared>,
        key: &Bound<'_, PyAny>,
        version: Option<u64>,
        columns: &[Bound<'_, PyAny>],
        compared: &[Bound<'_, PyAny>],
    ) -> PyResult<()> {
        let objects = key_objects(key, prepared.key.len())?;
        let mut given = SmallVec::new();
        convert(&prepared.key, &objects, &mut given)?;
        given.extend(version.map(|version| Given::Ref(ValueRef::UInt(version))));
        convert(&prepared.columns, columns, &mut given)?;
        convert(&prepared.compared, compared, &mut given)?;
        let given: SmallVec<[ValueRef<'_>; 16]> = given.iter().map(Given::as_ref).collect();
        self.push(key.py(), prepared, &given)
    }

    /// Adds an operation.
    pub(crate) fn push(
        &mut self,
        py: Python<'_>,
        prepared: &Arc<Prepared>,
        values: &[ValueRef<'_>],
    ) -> PyResult<()> {
        let pushed = self.inner.push(&prepared.operation, values);
        pushed.map_err(|error| raised(py, &error))?;
        match self.parts.last_mut() {
            Some((last, rows)) if Arc::ptr_eq(last, prepared) => *rows += 1,
            _ => self.parts.push((prepared.clone(), 1)),
        }
        Ok(())
    }
}
