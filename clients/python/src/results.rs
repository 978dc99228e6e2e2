//! Results of operations.

use crate::batch::Parts;
use crate::errors::{classes, operation_error, raised};
use crate::table::{Kind, Prepared};
use crate::values::to_python;
use porpoise_native_client::{Outcome, Reply, RowValues};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A row that was written: its version, the generated id (0: none), and whether it is new.
#[pyclass(frozen, get_all, module = "porpoise")]
pub(crate) struct Written {
    version: u64,
    generated_id: u64,
    created: bool,
}

#[pymethods]
impl Written {
    fn __repr__(&self) -> String {
        let created = if self.created { "True" } else { "False" };
        format!(
            "Written(version={}, generated_id={}, created={created})",
            self.version, self.generated_id
        )
    }
}

/// A row as a `porpoise.Row`.
pub(crate) fn row<'py>(
    py: Python<'py>,
    prepared: &Prepared,
    version: u64,
    values: RowValues<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = classes(py)?.row.bind(py).call0()?;
    let dict = made.cast::<PyDict>()?;
    let columns = prepared.names.iter().zip(&prepared.columns);
    for ((name, kind), value) in columns.zip(values) {
        dict.set_item(name, to_python(py, *kind, value)?)?;
    }
    made.setattr(intern!(py, "version"), version)?;
    Ok(made)
}

/// The result of an operation: a row, Written, None if no row has the key, or an exception.
fn result<'py>(
    py: Python<'py>,
    prepared: &Prepared,
    outcome: Outcome<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    match outcome {
        Outcome::Row { version, values } => row(py, prepared, version, values),
        Outcome::Written {
            version,
            generated_id,
            is_new,
        } => {
            let written = Written {
                version,
                generated_id,
                created: is_new || prepared.kind == Kind::Insert,
            };
            Ok(Bound::new(py, written)?.into_any())
        }
        Outcome::NotFound => Ok(py.None().into_bound(py)),
        Outcome::ConditionFailed => {
            let class = classes(py)?.condition_failed.bind(py);
            class.call1(("the row does not have the required version or values",))
        }
        Outcome::Failed(error) => operation_error(py, &error),
        Outcome::Aborted => {
            let class = classes(py)?.aborted.bind(py);
            class.call1(("another operation of the batch has failed",))
        }
    }
}

/// The results of a batch. With `raises`, the first failure is raised.
pub(crate) fn results<'py>(
    py: Python<'py>,
    parts: &Parts,
    reply: &Reply,
    raises: bool,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let prepared = parts.iter();
    let mut prepared =
        prepared.flat_map(|(prepared, rows)| std::iter::repeat_n(prepared, *rows as usize));
    for outcome in reply.results() {
        let outcome = outcome.map_err(|error| raised(py, &error))?;
        let prepared = prepared.next();
        let prepared = prepared.ok_or_else(|| PyValueError::new_err("a result too many"))?;
        let is_failure = matches!(outcome, Outcome::Failed(_) | Outcome::ConditionFailed);
        let made = result(py, prepared, outcome)?;
        if raises && is_failure {
            return Err(PyErr::from_value(made));
        }
        list.append(made)?;
    }
    Ok(list)
}
