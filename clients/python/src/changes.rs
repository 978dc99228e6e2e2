//! Subscriptions.

use crate::connection::{Exclusive, Interruption, seconds};
use crate::values::{ColumnKind, to_python};
use porpoise_native_client::{
    Change as NativeChange, ChangedRow, ChangedTransaction, SubscribeRequest,
    Subscription as NativeSubscription, Target, Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::time::Duration;

/// Longest wait of one call of the client.
const WAIT: Duration = Duration::from_secs(60);

/// A change: "insert", "update", "delete", with the row before and after; or a statement that has changed the table ("create",
/// "alter", "truncate": all rows were removed, "drop", "rename", "unknown"). A row has the columns that the table had then.
#[pyclass(frozen, get_all, module = "porpoise")]
pub(crate) struct Change {
    kind: Py<PyString>,
    before: Option<Py<PyDict>>,
    after: Option<Py<PyDict>>,
}

#[pymethods]
impl Change {
    fn __repr__(&self) -> String {
        let shown = |row: &Option<Py<PyDict>>| {
            row.as_ref()
                .map_or_else(|| "None".to_owned(), |r| r.to_string())
        };
        let (before, after) = (shown(&self.before), shown(&self.after));
        format!("Change({}, before={before}, after={after})", self.kind)
    }
}

/// The changes of one transaction; `gtid` is empty if it has none, `micros` the time of its commit since 1970 UTC, `position` the
/// position after it.
#[pyclass(frozen, get_all, module = "porpoise")]
pub(crate) struct Transaction {
    changes: Py<PyList>,
    gtid: String,
    micros: u64,
    position: String,
}

fn row(py: Python<'_>, row: &ChangedRow) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    for (column, value) in row.columns().iter().zip(row.values()) {
        // Columns that the log does not have are left out.
        if let Some(value) = value {
            let kind = ColumnKind::new(column.encoding, &column.sql_type);
            let value = to_python(py, kind, Value::as_ref(value))?;
            dict.set_item(PyString::intern(py, &column.name), value)?;
        }
    }
    Ok(dict.unbind())
}

fn change(py: Python<'_>, change: &NativeChange) -> PyResult<Change> {
    let (kind, before, after) = match change {
        NativeChange::Insert(after) => ("insert", None, Some(after)),
        NativeChange::Update { before, after } => ("update", Some(before), Some(after)),
        NativeChange::Delete(before) => ("delete", Some(before), None),
        NativeChange::Definition(kind) => (kind.as_str(), None, None),
    };
    Ok(Change {
        kind: PyString::intern(py, kind).unbind(),
        before: before.map(|before| row(py, before)).transpose()?,
        after: after.map(|after| row(py, after)).transpose()?,
    })
}

fn transaction(py: Python<'_>, received: ChangedTransaction) -> PyResult<Transaction> {
    let changes = received.changes.iter().map(|received| change(py, received));
    let changes = changes.collect::<PyResult<Vec<_>>>()?;
    Ok(Transaction {
        changes: PyList::new(py, changes)?.unbind(),
        gtid: received.gtid,
        micros: received.micros,
        position: received.position,
    })
}

/// Changes of the rows of a table: an iterator that waits for the next transaction. Its connection is opened again when it breaks;
/// a ServerError ends it (1142 after REVOKE, 1236 if the log has lost the position, 1317 or 3169 after KILL).
#[pyclass(frozen, module = "porpoise")]
pub(crate) struct Subscription {
    inner: Exclusive<NativeSubscription>,
    interruption: Interruption,
}

impl Subscription {
    pub(crate) fn open(
        py: Python<'_>,
        target: &Target,
        request: SubscribeRequest,
    ) -> PyResult<Subscription> {
        let interruption = Interruption::default();
        let hook = interruption.hook();
        let opened = py.detach(|| NativeSubscription::open_with(target, request, Some(hook)));
        let opened = opened.map_err(|error| interruption.exception(py, &error).0)?;
        Ok(Subscription {
            inner: Exclusive::new(opened),
            interruption,
        })
    }

    /// The next transaction within `wait`. An interruption by a signal breaks the connection, which the next call opens again.
    fn wait(&self, py: Python<'_>, wait: Duration) -> PyResult<Option<Transaction>> {
        let next = py.detach(|| self.inner.with(|subscription| subscription.next(wait)));
        match next {
            Ok(received) => received
                .map(|received| transaction(py, received))
                .transpose(),
            Err(error) => Err(self.interruption.exception(py, &error).0),
        }
    }
}

#[pymethods]
impl Subscription {
    /// The next transaction; None if there is none within `timeout` seconds. Without `timeout` it waits forever.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Transaction>> {
        match timeout {
            Some(timeout) => self.wait(py, seconds(timeout)?),
            None => self.__next__(py).map(Some),
        }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Transaction> {
        loop {
            if let Some(transaction) = self.wait(py, WAIT)? {
                return Ok(transaction);
            }
        }
    }

    /// The position after the transactions that were returned, and after those of other rows up to the next one.
    #[getter]
    fn position(&self, py: Python<'_>) -> String {
        let position = |inner: &mut NativeSubscription| Ok(inner.position().to_owned());
        py.detach(|| self.inner.with(position).unwrap_or_default())
    }

    /// Id of its connection, for KILL; 0 while there is none.
    #[getter]
    fn id(&self, py: Python<'_>) -> u64 {
        let id = |inner: &mut NativeSubscription| Ok(inner.id());
        py.detach(|| self.inner.with(id).unwrap_or_default())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    /// Ends the subscription.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}
