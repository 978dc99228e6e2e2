//! Exceptions, whose classes are in `porpoise/errors.py`.

use porpoise_native_client::{Error, ServerError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Classes of the Python part of the package.
pub(crate) struct Classes {
    server: Py<PyAny>,
    operation: Py<PyAny>,
    pub(crate) condition_failed: Py<PyAny>,
    pub(crate) aborted: Py<PyAny>,
    protocol: Py<PyAny>,
    disconnected: Py<PyAny>,
    unknown_outcome: Py<PyAny>,
    pub(crate) row: Py<PyAny>,
    pub(crate) decimal: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

pub(crate) fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    CLASSES.get_or_try_init(py, || {
        let errors = py.import("porpoise.errors")?;
        let class = |name: &str| errors.getattr(name).map(Bound::unbind);
        Ok(Classes {
            server: class("ServerError")?,
            operation: class("OperationError")?,
            condition_failed: class("ConditionFailed")?,
            aborted: class("Aborted")?,
            protocol: class("ProtocolError")?,
            disconnected: class("Disconnected")?,
            unknown_outcome: class("UnknownOutcome")?,
            row: py.import("porpoise.rows")?.getattr("Row")?.unbind(),
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
        })
    })
}

/// The exception for a request that failed.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).unwrap_or_else(|failure| failure)
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let classes = classes(py)?;
    let class = match error {
        Error::Server(error) => return server_error(py, &classes.server, error),
        Error::Usage(text) => return Ok(PyValueError::new_err(text.clone())),
        Error::Protocol(_) => &classes.protocol,
        Error::Connect(_) | Error::Broken(_) => &classes.disconnected,
        Error::UnknownOutcome(_) => &classes.unknown_outcome,
    };
    let value = class.bind(py).call1((error.to_string(),))?;
    Ok(PyErr::from_value(value))
}

fn server_error(py: Python<'_>, class: &Py<PyAny>, error: &ServerError) -> PyResult<PyErr> {
    let parts = (error.code, &error.sqlstate, &error.message);
    Ok(PyErr::from_value(class.bind(py).call1(parts)?))
}

/// The error of one operation, which is a result of its batch.
pub(crate) fn operation_error<'py>(
    py: Python<'py>,
    error: &ServerError,
) -> PyResult<Bound<'py, PyAny>> {
    let class = classes(py)?.operation.bind(py);
    class.call1((error.code, &error.sqlstate, &error.message))
}
