//! Tables, and the operations that are made of them.

use crate::errors::raised;
use crate::values::ColumnKind;
use porpoise_native_client::{self as native, Operation, OperationBuilder};
use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Read,
    Insert,
    Update,
    Upsert,
    Delete,
}

/// The names that make an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Names {
    pub(crate) kind: Kind,
    pub(crate) by: Option<String>,
    /// Columns that are read or set.
    pub(crate) columns: Vec<String>,
    /// Columns that are added to.
    pub(crate) added: Vec<String>,
    /// Columns that are compared.
    pub(crate) compared: Vec<String>,
    pub(crate) has_version: bool,
}

impl Names {
    pub(crate) fn new(kind: Kind, by: Option<String>, columns: Vec<String>) -> Names {
        Names {
            kind,
            by,
            columns,
            added: Vec::new(),
            compared: Vec::new(),
            has_version: false,
        }
    }
}

/// An operation, with what conversion needs.
pub(crate) struct Prepared {
    pub(crate) operation: Operation,
    pub(crate) kind: Kind,
    /// The columns of the key, if rows begin with it.
    pub(crate) key: Vec<ColumnKind>,
    /// The columns that are read, set, added to, in their order.
    pub(crate) columns: Vec<ColumnKind>,
    pub(crate) compared: Vec<ColumnKind>,
    /// Names and types of the columns.
    pub(crate) names: Vec<Py<PyString>>,
    pub(crate) sql_types: Vec<String>,
}

/// A column of a table.
#[pyclass(frozen, get_all, module = "porpoise")]
pub(crate) struct Column {
    name: String,
    sql_type: String,
    is_nullable: bool,
    has_default: bool,
    is_generated: bool,
    is_auto_increment: bool,
}

/// A key of a table.
#[pyclass(frozen, get_all, module = "porpoise")]
pub(crate) struct Index {
    name: String,
    is_unique: bool,
    columns: Vec<String>,
}

/// A table, as of one version of its definition. After ServerError 1412 look it up again.
#[pyclass(frozen, module = "porpoise")]
pub(crate) struct Table {
    pub(crate) inner: native::Table,
    /// The operations that were made.
    prepared: Mutex<HashMap<Names, Arc<Prepared>>>,
}

/// Largest number of operations that a table keeps.
const MAX_PREPARED: usize = 256;

#[pymethods]
impl Table {
    /// The database.
    #[getter]
    fn database(&self) -> &str {
        &self.inner.database
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The columns.
    #[getter]
    fn columns(&self) -> Vec<Column> {
        let columns = self.inner.columns.iter().map(|column| Column {
            name: column.name.clone(),
            sql_type: column.sql_type.clone(),
            is_nullable: column.is_nullable,
            has_default: column.has_default,
            is_generated: column.is_generated,
            is_auto_increment: column.is_auto_increment,
        });
        columns.collect()
    }

    /// The keys.
    #[getter]
    fn indexes(&self) -> Vec<Index> {
        let name = |position: &u16| {
            let column = self.inner.column_at(*position);
            column.map_or_else(String::new, |column| column.name.clone())
        };
        let indexes = self.inner.indexes.iter().map(|index| Index {
            name: index.name.clone(),
            is_unique: index.is_unique,
            columns: index.columns.iter().map(name).collect(),
        });
        indexes.collect()
    }

    fn __repr__(&self) -> String {
        format!("<Table {}.{}>", self.inner.database, self.inner.name)
    }
}

impl Table {
    pub(crate) fn new(inner: native::Table) -> Table {
        Table {
            inner,
            prepared: Mutex::default(),
        }
    }

    /// Names of all columns.
    pub(crate) fn column_names(&self) -> Vec<String> {
        self.inner.columns.iter().map(|c| c.name.clone()).collect()
    }

    /// The columns with these names, or all of them.
    pub(crate) fn names(&self, columns: Option<Vec<String>>) -> Vec<String> {
        columns.unwrap_or_else(|| self.column_names())
    }

    /// The kind and the type in SQL of a column.
    ///
    /// # Errors
    /// LookupError.
    pub(crate) fn column(&self, name: &str) -> PyResult<(ColumnKind, String)> {
        let column = self.inner.column(name).ok_or_else(|| {
            let text = format!("table {} has no column {name}", self.inner.name);
            PyLookupError::new_err(text)
        })?;
        let kind = ColumnKind::new(column.encoding, &column.sql_type);
        Ok((kind, column.sql_type.clone()))
    }

    /// The columns of an index; `None`: the primary key.
    ///
    /// # Errors
    /// LookupError.
    pub(crate) fn index(&self, name: Option<&str>, is_unique: bool) -> PyResult<Vec<ColumnKind>> {
        let found = match name {
            Some(name) => self.inner.index(name),
            None => self.inner.primary_key(),
        };
        let found = found.filter(|index| index.is_unique || !is_unique);
        let index = found.ok_or_else(|| {
            let (what, name) = (if is_unique { "unique key" } else { "key" }, name);
            let name = name.unwrap_or("PRIMARY");
            PyLookupError::new_err(format!("table {} has no {what} {name}", self.inner.name))
        })?;
        let columns = index
            .columns
            .iter()
            .filter_map(|at| self.inner.column_at(*at));
        let kinds = columns.map(|column| ColumnKind::new(column.encoding, &column.sql_type));
        Ok(kinds.collect())
    }

    fn builder(&self, names: &Names) -> OperationBuilder {
        let table = &self.inner;
        let builder = match names.kind {
            Kind::Read => table.read(),
            Kind::Insert => table.insert().with_generated_id(),
            Kind::Update => table.update(),
            Kind::Upsert => table.upsert().with_generated_id().with_created(),
            Kind::Delete => table.delete(),
        };
        let mut builder = builder.with_version();
        for name in &names.columns {
            builder = builder.columns(&[name]);
        }
        for name in &names.added {
            builder = builder.add_to(name);
        }
        if names.has_version {
            builder = builder.if_version();
        }
        for name in &names.compared {
            builder = builder.if_equals(name);
        }
        match &names.by {
            Some(by) => builder.by(by),
            None => builder,
        }
    }

    /// The operation with these names.
    ///
    /// # Errors
    /// LookupError.
    pub(crate) fn prepared(&self, py: Python<'_>, names: Names) -> PyResult<Arc<Prepared>> {
        let lock = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&names) {
            return Ok(found.clone());
        }
        let has_key = !matches!(names.kind, Kind::Insert | Kind::Upsert);
        let key = if names.kind == Kind::Insert {
            Vec::new()
        } else {
            self.index(names.by.as_deref(), true)?
        };
        let (mut columns, mut sql_types, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for name in names.columns.iter().chain(&names.added) {
            let (kind, sql_type) = self.column(name)?;
            columns.push(kind);
            sql_types.push(sql_type);
            // As the table writes it.
            let column = self.inner.column(name);
            let name = column.map_or(name.as_str(), |column| &column.name);
            shown.push(PyString::intern(py, name).unbind());
        }
        let compared = names.compared.iter();
        let compared = compared.map(|name| Ok(self.column(name)?.0));
        let prepared = Arc::new(Prepared {
            compared: compared.collect::<PyResult<Vec<_>>>()?,
            operation: self.builder(&names).build().map_err(|e| raised(py, &e))?,
            kind: names.kind,
            key: if has_key { key } else { Vec::new() },
            columns,
            names: shown,
            sql_types,
        });
        let mut known = lock();
        if known.len() >= MAX_PREPARED {
            known.clear();
        }
        known.insert(names, prepared.clone());
        Ok(prepared)
    }
}
