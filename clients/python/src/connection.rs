//! Connections.

use crate::arrow::{self, ArrowBatch};
use crate::batch::{Batch, Parts};
use crate::changes::Subscription;
use crate::columns::{self, NumpyColumn, Source};
use crate::errors::raised;
use crate::results::results;
use crate::scan::{Scan, bound, ranges};
use crate::table::{Kind, Names, Table};
use porpoise_native_client::{
    Address, Connection as NativeConnection, Error, Isolation, Reply, Result as NativeResult,
    SignalHook, Target, TlsMode,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// Longest timeout in seconds.
const MAX_TIMEOUT: f64 = 1e9;

/// The exception that a signal handler has raised during a wait.
#[derive(Clone, Default)]
pub(crate) struct Interruption(Arc<Mutex<Option<PyErr>>>);

impl Interruption {
    /// The hook that runs Python's signal handlers.
    pub(crate) fn hook(&self) -> SignalHook {
        let interruption = self.clone();
        SignalHook::new(move || {
            let Err(error) = Python::attach(|py| py.check_signals()) else {
                return Ok(());
            };
            *lock(&interruption.0) = Some(error);
            Err(io::ErrorKind::Interrupted.into())
        })
    }

    /// The exception of a request that failed, and whether a signal handler has raised it.
    pub(crate) fn exception(&self, py: Python<'_>, error: &Error) -> (PyErr, bool) {
        match lock(&self.0).take() {
            Some(interruption) => (interruption, true),
            None => (raised(py, error), false),
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that one thread uses at a time; `None` once it was closed.
pub(crate) struct Exclusive<T> {
    inner: Mutex<Option<T>>,
    /// The thread that uses it. A signal handler that runs during a wait must not wait for its own thread.
    user: Mutex<Option<ThreadId>>,
}

impl<T> Exclusive<T> {
    pub(crate) fn new(inner: T) -> Exclusive<T> {
        Exclusive {
            inner: Mutex::new(Some(inner)),
            user: Mutex::default(),
        }
    }

    /// Calls a function with it. The caller is detached from the interpreter.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut T) -> NativeResult<R>) -> NativeResult<R> {
        let thread = std::thread::current().id();
        if *lock(&self.user) == Some(thread) {
            let text = "a signal handler cannot use the connection that it interrupts";
            return Err(Error::Usage(text.to_owned()));
        }
        let mut inner = lock(&self.inner);
        let Some(inner) = inner.as_mut() else {
            return Err(Error::Broken(io::ErrorKind::NotConnected.into()));
        };
        *lock(&self.user) = Some(thread);
        let done = call(inner);
        *lock(&self.user) = None;
        done
    }

    /// Closes it. In a signal handler that interrupts its use, nothing happens.
    pub(crate) fn close(&self) {
        if *lock(&self.user) != Some(std::thread::current().id()) {
            *lock(&self.inner) = None;
        }
    }
}

/// A time in seconds.
///
/// # Errors
/// ValueError for a number that is not a time.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    let seconds = seconds.min(MAX_TIMEOUT);
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A logged-in connection.
#[pyclass(frozen, module = "porpoise")]
pub(crate) struct Connection {
    target: Target,
    inner: Exclusive<NativeConnection>,
    /// The operations of the batches that were sent and not received.
    sent: Mutex<VecDeque<Parts>>,
    interruption: Interruption,
    /// Id of the connection, for KILL.
    #[pyo3(get)]
    id: u64,
    /// Version of the server.
    #[pyo3(get)]
    server_version: String,
}

/// Connects and logs in. `tls` is None, "required" (the certificate is not verified), "verify-ca" or "verify-identity", which
/// need `ca`, a file of certificates. `timeout` is in seconds, for the connection and for each answer; None waits forever for
/// answers. `socket` is the path of a Unix socket in place of host and port.
#[pyfunction]
#[pyo3(signature = (host="127.0.0.1", port=3310, user="root", password="", tls=None, ca=None, timeout=Some(60.0), socket=None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn connect(
    py: Python<'_>,
    host: &str,
    port: u16,
    user: &str,
    password: &str,
    tls: Option<&str>,
    ca: Option<PathBuf>,
    timeout: Option<f64>,
    socket: Option<PathBuf>,
) -> PyResult<Connection> {
    let address = match socket {
        Some(path) => Address::Unix(path),
        None => Address::Tcp(host.to_owned(), port),
    };
    let mut target = Target::new(address, user, password);
    target.program = "porpoise-python".to_owned();
    target.tls.mode = match tls {
        None => TlsMode::Disabled,
        Some("required") => TlsMode::Required,
        Some("verify-ca") => TlsMode::VerifyCa,
        Some("verify-identity") => TlsMode::VerifyIdentity,
        Some(other) => {
            let text =
                format!("tls is None, 'required', 'verify-ca' or 'verify-identity', not {other:?}");
            return Err(PyValueError::new_err(text));
        }
    };
    target.tls.authorities = ca;
    if let Some(timeout) = timeout {
        let timeout = seconds(timeout)?;
        (target.connect_timeout, target.read_timeout) = (timeout, Some(timeout));
    }
    let connected = py.detach(|| NativeConnection::connect(&target));
    let mut inner = connected.map_err(|error| raised(py, &error))?;
    let interruption = Interruption::default();
    inner.set_on_signal(interruption.hook());
    Ok(Connection {
        id: inner.id(),
        server_version: inner.server_version().to_owned(),
        target,
        inner: Exclusive::new(inner),
        sent: Mutex::default(),
        interruption,
    })
}

impl Connection {
    /// Calls a function with the connection, detached from the interpreter.
    ///
    /// # Errors
    /// The function's, as an exception.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut NativeConnection) -> NativeResult<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.inner.with(call));
        done.map_err(|error| {
            let (exception, is_interruption) = self.interruption.exception(py, &error);
            if is_interruption {
                // An answer is still on its way.
                self.inner.close();
            }
            exception
        })
    }

    fn run_batch(&self, py: Python<'_>, batch: &Batch) -> PyResult<Reply> {
        let inner = &batch.inner;
        self.with(py, |connection| connection.run(inner))
    }
}

#[pymethods]
impl Connection {
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    /// Closes the connection. An open transaction is rolled back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }

    /// Waits for an answer of the server.
    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, NativeConnection::ping)
    }

    /// Looks a table up.
    fn table(&self, py: Python<'_>, database: &str, name: &str) -> PyResult<Table> {
        let table = self.with(py, |connection| connection.table(database, name))?;
        Ok(Table::new(table))
    }

    /// Executes a batch. Returns for each operation a Row, Written, None if no row has the key, or an error, which is
    /// not raised: OperationError, ConditionFailed, Aborted.
    fn run<'py>(&self, py: Python<'py>, batch: PyRef<'_, Batch>) -> PyResult<Bound<'py, PyList>> {
        let reply = self.run_batch(py, &batch)?;
        results(py, &batch.parts, &reply, false)
    }

    /// Sends a batch; `receive` returns its results. Several may be in flight, and are answered in order.
    fn send(&self, py: Python<'_>, batch: PyRef<'_, Batch>) -> PyResult<()> {
        let inner = &batch.inner;
        self.with(py, |connection| {
            connection.send(inner)?;
            connection.flush()
        })?;
        lock(&self.sent).push_back(batch.parts.clone());
        Ok(())
    }

    /// The results of the oldest batch that was sent, as those of `run`.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let parts = lock(&self.sent).pop_front();
        let parts = parts.ok_or_else(|| PyValueError::new_err("no batch was sent"))?;
        let reply = self.with(py, NativeConnection::receive)?;
        results(py, &parts, &reply, false)
    }

    /// Reads rows by their keys, in one batch; None for keys without a row.
    #[pyo3(signature = (table, keys, columns=None, by=None))]
    fn read<'py>(
        &self,
        table: &Bound<'py, Table>,
        keys: &Bound<'py, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (py, columns) = (table.py(), table.get().names(columns));
        let names = Names::new(Kind::Read, by, columns);
        let prepared = table.get().prepared(py, names)?;
        let mut batch = Batch::new(false, 0);
        for key in keys.try_iter()? {
            batch.push_key(&prepared, &key?, None, &[], &[])?;
        }
        let reply = self.run_batch(py, &batch)?;
        results(py, &batch.parts, &reply, true)
    }

    /// The row with a key, or None.
    #[pyo3(signature = (table, key, columns=None, by=None))]
    fn get<'py>(
        &self,
        table: &Bound<'py, Table>,
        key: &Bound<'py, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, columns) = (table.py(), table.get().names(columns));
        let names = Names::new(Kind::Read, by, columns);
        let prepared = table.get().prepared(py, names)?;
        let mut batch = Batch::new(false, 0);
        batch.push_key(&prepared, key, None, &[], &[])?;
        let reply = self.run_batch(py, &batch)?;
        results(py, &batch.parts, &reply, true)?.get_item(0)
    }

    /// Inserts all rows, or none; raises the first failure.
    fn insert<'py>(
        &self,
        table: &Bound<'py, Table>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut batch = Batch::new(true, 0);
        for row in rows.try_iter()? {
            batch.insert(table, &row?)?;
        }
        let reply = self.run_batch(table.py(), &batch)?;
        results(table.py(), &batch.parts, &reply, true)
    }

    /// Reads columns as numpy arrays (`porpoise.columns.Columns`), in one batch. Needs numpy.
    #[pyo3(signature = (table, keys, columns=None, by=None))]
    fn read_columns<'py>(
        slf: &Bound<'py, Self>,
        table: &Bound<'py, Table>,
        keys: &Bound<'py, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("porpoise.columns")?;
        module.call_method1("read_columns", (slf, table, keys, columns, by))
    }

    /// Inserts rows, given as a mapping of numpy arrays of one length: all of them or none. Needs numpy.
    fn insert_columns<'py>(
        slf: &Bound<'py, Self>,
        table: &Bound<'py, Table>,
        columns: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("porpoise.columns")?;
        module.call_method1("insert_columns", (slf, table, columns))
    }

    /// Columns for `porpoise.columns`: bytes of `found`, bytes of the versions, and for each column its name, its type in numpy,
    /// its values and which are NULL.
    fn _read_columns<'py>(
        &self,
        table: &Bound<'py, Table>,
        keys: &Bound<'py, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<NumpyColumn<'py>>)> {
        let read = self.read_table(table, keys, columns, by)?;
        read.into_numpy(table.py())
    }

    /// Inserts columns of `porpoise.columns`.
    fn _insert_columns<'py>(
        &self,
        table: &Bound<'py, Table>,
        columns: Vec<(String, Bound<'py, PyAny>)>,
        rows: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = table.py();
        let (names, given): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let prepared = table
            .get()
            .prepared(py, Names::new(Kind::Insert, None, names))?;
        let kinds = prepared.columns.iter().zip(&given);
        let sources = kinds.map(|(kind, column)| Source::new(*kind, column));
        let sources = sources.collect::<PyResult<Vec<_>>>()?;
        let mut batch = Batch::new(true, 0);
        columns::push_rows(&mut batch, &prepared, &sources, rows, py)?;
        let reply = self.run_batch(py, &batch)?;
        results(py, &batch.parts, &reply, true)
    }

    /// Reads columns in the form of Arrow, in one batch: `pyarrow.record_batch(...)` and others take the result. Rows that do not
    /// exist are NULL in all columns.
    #[pyo3(signature = (table, keys, columns=None, by=None))]
    fn read_arrow<'py>(
        &self,
        table: &Bound<'py, Table>,
        keys: &Bound<'py, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<ArrowBatch> {
        self.read_table(table, keys, columns, by)?.into_arrow()
    }

    /// Inserts the rows of an object with Arrow's interface (a pyarrow RecordBatch or Table, a data frame of polars): all of them
    /// or none.
    fn insert_arrow<'py>(
        &self,
        table: &Bound<'py, Table>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let batch = arrow::batch_of(table, data)?;
        let reply = self.run_batch(table.py(), &batch)?;
        results(table.py(), &batch.parts, &reply, true)
    }

    /// An iterator over the rows of a range of a key, in its order: from `lower` to in front of `upper`. The bounds are a value,
    /// or a tuple of values of the first columns of `index` (the primary key). Pages of `page_rows` rows are read when they are
    /// needed, outside of a transaction each in a snapshot of its own.
    #[pyo3(signature = (table, lower=None, upper=None, columns=None, index=None, reverse=false, page_rows=0, exclude_lower=false, include_upper=false))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn scan(
        slf: &Bound<'_, Self>,
        table: &Bound<'_, Table>,
        lower: Option<&Bound<'_, PyAny>>,
        upper: Option<&Bound<'_, PyAny>>,
        columns: Option<Vec<String>>,
        index: Option<&str>,
        reverse: bool,
        page_rows: u32,
        exclude_lower: bool,
        include_upper: bool,
    ) -> PyResult<Scan> {
        let py = slf.py();
        let key = table.get().index(index, false)?;
        let (lower, upper) = (
            bound(&key, lower, !exclude_lower)?,
            bound(&key, upper, include_upper)?,
        );
        let names = table.get().names(columns);
        let wanted = Names::new(Kind::Read, None, names.clone());
        let prepared = table.get().prepared(py, wanted)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let scan = table.get().inner.scan().columns(&names).range(lower, upper);
        let mut scan = scan.limit(page_rows).with_version();
        if reverse {
            scan = scan.reverse();
        }
        if let Some(index) = index {
            scan = scan.index(index);
        }
        Ok(Scan::new(slf.clone().unbind(), scan, prepared))
    }

    /// Begins a transaction of several batches.
    #[pyo3(signature = (serializable=false))]
    fn begin(&self, py: Python<'_>, serializable: bool) -> PyResult<()> {
        let isolation = if serializable {
            Isolation::Serializable
        } else {
            Isolation::Snapshot
        };
        self.with(py, |connection| connection.begin(isolation))
    }

    /// Commits the transaction.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, NativeConnection::commit)
    }

    /// Rolls the transaction back.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, NativeConnection::rollback)
    }

    /// Subscribes to changes of a table's rows, over a connection of its own: of all rows, or of those whose primary key is in one
    /// of `ranges`, pairs of bounds as those of `scan`. `position` is "now", "first", that of a transaction, or FILE:POSITION of
    /// the binary log.
    #[pyo3(signature = (table, ranges=None, position="now"))]
    fn subscribe(
        &self,
        table: &Bound<'_, Table>,
        ranges: Option<&Bound<'_, PyAny>>,
        position: &str,
    ) -> PyResult<Subscription> {
        let request = table.get().inner.subscribe().position(position);
        let request = self::ranges(table, ranges, request)?;
        Subscription::open(table.py(), &self.target, request)
    }
}

impl Connection {
    /// Reads columns of rows.
    fn read_table(
        &self,
        table: &Bound<'_, Table>,
        keys: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        by: Option<String>,
    ) -> PyResult<columns::Columns> {
        let (py, columns) = (table.py(), table.get().names(columns));
        let names = Names::new(Kind::Read, by, columns);
        let prepared = table.get().prepared(py, names)?;
        let mut batch = Batch::new(false, 0);
        columns::push_keys(&mut batch, &prepared, keys)?;
        let mut read = columns::Columns::new(py, &prepared, batch.inner.len());
        if !batch.inner.is_empty() {
            let inner = &batch.inner;
            let read = &mut read;
            self.with(py, move |connection| read.add(&connection.run(inner)?))?;
        }
        read.check(py)?;
        Ok(read)
    }
}
