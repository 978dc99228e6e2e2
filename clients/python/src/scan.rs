//! Scans of ranges, and the bounds of ranges.

use crate::connection::Connection;
use crate::errors::raised;
use crate::results::row;
use crate::table::{Prepared, Table};
use crate::values::{ColumnKind, given};
use porpoise_native_client::{Bound as NativeBound, ScanRequest, SubscribeRequest};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::VecDeque;
use std::sync::Arc;

/// A bound: a value, or a tuple of values of the first columns of the key.
pub(crate) fn bound(
    key: &[ColumnKind],
    values: Option<&Bound<'_, PyAny>>,
    is_inclusive: bool,
) -> PyResult<NativeBound> {
    let Some(values) = values.filter(|values| !values.is_none()) else {
        return Ok(NativeBound::None);
    };
    let objects: Vec<Bound<'_, PyAny>> = match values.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![values.clone()],
    };
    if objects.len() > key.len() || objects.is_empty() {
        let text = format!("a bound has at most {} values", key.len());
        return Err(PyValueError::new_err(text));
    }
    let pairs = key.iter().zip(&objects);
    let owned = pairs.map(|(kind, object)| Ok(given(*kind, object)?.as_ref().to_owned()));
    let owned = owned.collect::<PyResult<Vec<_>>>()?;
    Ok(if is_inclusive {
        NativeBound::Inclusive(owned)
    } else {
        NativeBound::Exclusive(owned)
    })
}

/// Adds the ranges of a subscription to its request.
pub(crate) fn ranges(
    table: &Bound<'_, Table>,
    ranges: Option<&Bound<'_, PyAny>>,
    mut request: SubscribeRequest,
) -> PyResult<SubscribeRequest> {
    let Some(ranges) = ranges else {
        return Ok(request);
    };
    let key = table.get().index(None, true)?;
    for range in ranges.try_iter()? {
        let (lower, upper): (Bound<'_, PyAny>, Bound<'_, PyAny>) = range?.extract()?;
        let lower = bound(&key, Some(&lower), true)?;
        request = request.range(lower, bound(&key, Some(&upper), false)?);
    }
    Ok(request)
}

/// An iterator over the rows of a scan.
#[pyclass(module = "porpoise")]
pub(crate) struct Scan {
    connection: Py<Connection>,
    request: ScanRequest,
    prepared: Arc<Prepared>,
    rows: VecDeque<Py<PyAny>>,
    /// Where the next page begins; `None` after the last one.
    continuation: Option<Vec<u8>>,
}

impl Scan {
    pub(crate) fn new(
        connection: Py<Connection>,
        request: ScanRequest,
        prepared: Arc<Prepared>,
    ) -> Scan {
        Scan {
            connection,
            request,
            prepared,
            rows: VecDeque::new(),
            continuation: Some(Vec::new()),
        }
    }

    /// Reads the next page.
    fn fill(&mut self, py: Python<'_>, continuation: &[u8]) -> PyResult<()> {
        let request = &self.request;
        let connection = self.connection.get();
        let page = connection.with(py, |connection| connection.scan(request, continuation))?;
        for (version, values) in page.rows().map_err(|error| raised(py, &error))? {
            let row = row(py, &self.prepared, version, values)?;
            self.rows.push_back(row.unbind());
        }
        self.continuation = Some(page.continuation).filter(|next| !next.is_empty());
        Ok(())
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            let Some(continuation) = self.continuation.take() else {
                return Ok(None);
            };
            self.fill(py, &continuation)?;
        }
    }
}
