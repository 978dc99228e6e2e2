//! Columns of batches: those that were read, for numpy and Arrow, and those that the caller inserts.

use crate::arrow::{self, ArrowBatch};
use crate::batch::Batch;
use crate::errors::operation_error;
use crate::table::Prepared;
use crate::values::{ColumnKind, Given, given, to_python};
use arrow_buffer::MutableBuffer;
use porpoise_native_client::{
    DateTime, Encoding, Outcome, Reply, Result as NativeResult, ServerError, Time, Value, ValueRef,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList, PyString};
use smallvec::SmallVec;
use std::sync::Arc;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Numpy's NaT.
const NOT_A_TIME: i64 = i64::MIN;

/// Values of a column that was read.
pub(crate) struct ColumnData {
    pub(crate) kind: ColumnKind,
    pub(crate) name: Py<PyString>,
    pub(crate) sql_type: String,
    /// Values of a fixed size, or the bytes of strings, one after the other.
    pub(crate) bytes: MutableBuffer,
    /// Ends of strings in `bytes`.
    pub(crate) ends: Vec<i32>,
    /// For each row whether it is NULL.
    pub(crate) nulls: Vec<bool>,
}

/// The bytes of a value of a fixed size; 0 for strings and DECIMAL, which have their text.
fn width(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Int8 | Encoding::UInt8 => 1,
        Encoding::Int16 | Encoding::UInt16 => 2,
        Encoding::Int32 | Encoding::UInt32 | Encoding::Float32 | Encoding::Date => 4,
        Encoding::Int64 | Encoding::UInt64 | Encoding::Float64 => 8,
        Encoding::DateTime | Encoding::Time => 8,
        Encoding::Decimal | Encoding::Bytes => 0,
    }
}

/// The type of a column's values in numpy; dates are days and DATETIME microseconds since 1970.
fn numpy_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Int8 => "i1",
        Encoding::Int16 => "<i2",
        Encoding::Int32 => "<i4",
        Encoding::Int64 => "<i8",
        Encoding::UInt8 => "u1",
        Encoding::UInt16 => "<u2",
        Encoding::UInt32 => "<u4",
        Encoding::UInt64 => "<u8",
        Encoding::Float32 => "<f4",
        Encoding::Float64 => "<f8",
        Encoding::Date => "M8[D]",
        Encoding::DateTime => "M8[us]",
        Encoding::Time => "m8[us]",
        Encoding::Decimal | Encoding::Bytes => "O",
    }
}

impl ColumnData {
    /// Adds a value.
    fn push(&mut self, value: ValueRef<'_>) {
        let size = width(self.kind.encoding);
        let is_null = match value {
            ValueRef::Int(number) => self.put(&number.to_le_bytes(), size),
            ValueRef::UInt(number) => self.put(&number.to_le_bytes(), size),
            ValueRef::Double(number) if size == 4 => self.put(&(number as f32).to_le_bytes(), 4),
            ValueRef::Double(number) => self.put(&number.to_le_bytes(), size),
            ValueRef::Bytes(bytes) => {
                self.bytes.extend_from_slice(bytes);
                false
            }
            ValueRef::Date(date) => {
                let at = DateTime::new(date, 0, 0, 0, 0);
                let days = at.and_then(existing).map(|micros| micros.div_euclid(DAY));
                let days = days.and_then(|days| i32::try_from(days).ok());
                match days {
                    Some(days) => self.put(&days.to_le_bytes(), size),
                    None => self.put_null(),
                }
            }
            ValueRef::DateTime(at) => match existing(at) {
                Some(micros) => self.put(&micros.to_le_bytes(), size),
                None => self.put_null(),
            },
            ValueRef::Time(time) => self.put(&time.as_micros().to_le_bytes(), size),
            ValueRef::Null | ValueRef::Decimal(_) => self.put_null(),
        };
        self.nulls.push(is_null);
        if size == 0 {
            // An answer has at most 1 GiB.
            self.ends.push(self.bytes.len() as i32);
        }
    }

    /// Appends the first bytes of a number. Returns that it is not NULL.
    fn put(&mut self, bytes: &[u8], size: usize) -> bool {
        let bytes = bytes.get(..size).unwrap_or_default();
        self.bytes.extend_from_slice(bytes);
        false
    }

    /// Appends the place of a NULL. Returns that it is one.
    fn put_null(&mut self) -> bool {
        self.bytes.extend_zeros(width(self.kind.encoding));
        true
    }

    fn strings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        let mut start = 0;
        for (end, is_null) in self.ends.iter().zip(&self.nulls) {
            let end = *end as usize;
            let bytes = self.bytes.as_slice().get(start..end).unwrap_or_default();
            let value = if *is_null {
                ValueRef::Null
            } else {
                ValueRef::Bytes(bytes)
            };
            list.append(to_python(py, self.kind, value)?)?;
            start = end;
        }
        Ok(list.into_any())
    }

    fn into_numpy(self, py: Python<'_>) -> PyResult<NumpyColumn<'_>> {
        let kind = numpy_type(self.kind.encoding);
        let has_null = self.nulls.contains(&true);
        let data = match self.kind.encoding {
            Encoding::Decimal | Encoding::Bytes => self.strings(py)?,
            // Numpy's days have eight bytes.
            Encoding::Date => {
                let days = self.bytes.as_slice().as_chunks::<4>().0.iter();
                let days = days.flat_map(|day| i64::from(i32::from_le_bytes(*day)).to_le_bytes());
                PyByteArray::new(py, &days.collect::<Vec<u8>>()).into_any()
            }
            _ => PyByteArray::new(py, self.bytes.as_slice()).into_any(),
        };
        let mask = has_null.then(|| as_bytes(py, &self.nulls));
        Ok((self.name, kind, data, mask))
    }
}

/// Microseconds since 1970 of a date that exists.
fn existing(at: DateTime) -> Option<i64> {
    (at.month() > 0 && at.day() > 0).then(|| at.to_unix_micros())
}

fn as_bytes<'py>(py: Python<'py>, flags: &[bool]) -> Bound<'py, PyAny> {
    let bytes: Vec<u8> = flags.iter().map(|flag| u8::from(*flag)).collect();
    PyByteArray::new(py, &bytes).into_any()
}

/// A column for numpy: its name, its type, its values (bytes, or a list), and which are NULL, if any.
pub(crate) type NumpyColumn<'py> = (
    Py<PyString>,
    &'static str,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
);

/// Columns of the rows that a batch has read.
pub(crate) struct Columns {
    pub(crate) columns: Vec<ColumnData>,
    /// For each key whether its row exists.
    pub(crate) found: Vec<bool>,
    pub(crate) versions: Vec<u64>,
    failure: Option<ServerError>,
}

impl Columns {
    pub(crate) fn new(py: Python<'_>, prepared: &Prepared, rows: usize) -> Columns {
        let kinds = prepared.columns.iter().zip(&prepared.sql_types);
        let columns = kinds.zip(&prepared.names);
        let columns = columns.map(|((kind, sql_type), name)| ColumnData {
            kind: *kind,
            name: name.clone_ref(py),
            sql_type: sql_type.clone(),
            bytes: MutableBuffer::new(width(kind.encoding) * rows),
            ends: Vec::new(),
            nulls: Vec::with_capacity(rows),
        });
        Columns {
            columns: columns.collect(),
            found: Vec::with_capacity(rows),
            versions: Vec::with_capacity(rows),
            failure: None,
        }
    }

    /// Adds the rows of an answer.
    pub(crate) fn add(&mut self, reply: &Reply) -> NativeResult<()> {
        for outcome in reply.results() {
            match outcome? {
                Outcome::Row { version, values } => {
                    self.found.push(true);
                    self.versions.push(version);
                    for (column, value) in self.columns.iter_mut().zip(values) {
                        column.push(value);
                    }
                    continue;
                }
                Outcome::Failed(error) => self.failure = self.failure.take().or(Some(error)),
                _ => {}
            }
            self.found.push(false);
            self.versions.push(0);
            for column in &mut self.columns {
                column.push(ValueRef::Null);
            }
        }
        Ok(())
    }

    /// Raises the first failure of an operation.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        match &self.failure {
            None => Ok(()),
            Some(error) => Err(PyErr::from_value(operation_error(py, error)?)),
        }
    }

    #[allow(clippy::type_complexity, reason = "a tuple of Python")]
    pub(crate) fn into_numpy(
        self,
        py: Python<'_>,
    ) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyAny>, Vec<NumpyColumn<'_>>)> {
        let versions = self
            .versions
            .iter()
            .flat_map(|version| version.to_le_bytes());
        let versions = PyByteArray::new(py, &versions.collect::<Vec<u8>>()).into_any();
        let columns = self.columns.into_iter().map(|column| column.into_numpy(py));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        Ok((as_bytes(py, &self.found), versions, columns))
    }

    pub(crate) fn into_arrow(self) -> PyResult<ArrowBatch> {
        arrow::export(self)
    }
}

/// Adds READs of keys: those of an array of numbers, or of an iterable of values and tuples.
pub(crate) fn push_keys(
    batch: &mut Batch,
    prepared: &Arc<Prepared>,
    keys: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = keys.py();
    if prepared.key.len() == 1 {
        if let Some(numbers) = numbers::<i64>(keys)? {
            let mut numbers = numbers.into_iter();
            return numbers.try_for_each(|n| batch.push(py, prepared, &[ValueRef::Int(n)]));
        }
        if let Some(numbers) = numbers::<u64>(keys)? {
            let mut numbers = numbers.into_iter();
            return numbers.try_for_each(|n| batch.push(py, prepared, &[ValueRef::UInt(n)]));
        }
    }
    for key in keys.try_iter()? {
        batch.push_key(prepared, &key?, None, &[], &[])?;
    }
    Ok(())
}

/// The numbers of an array of this type of one dimension.
fn numbers<T: pyo3::buffer::Element>(array: &Bound<'_, PyAny>) -> PyResult<Option<Vec<T>>> {
    match PyBuffer::<T>::get(array) {
        Ok(buffer) if buffer.dimensions() == 1 => buffer.to_vec(array.py()).map(Some),
        _ => Ok(None),
    }
}

/// A column whose rows are inserted.
pub(crate) trait RowSource {
    /// The value of a row.
    fn get(&self, row: usize) -> PyResult<Given<'_>>;
}

/// Values of a column that was given by `porpoise.columns`.
enum Numbers<'py> {
    Int(Vec<i64>),
    UInt(Vec<u64>),
    Double(Vec<f64>),
    Days(Vec<i64>),
    Micros(Vec<i64>),
    Span(Vec<i64>),
    Objects(Vec<Bound<'py, PyAny>>),
}

/// A column that was given by `porpoise.columns`: a tuple of the kind of its values, the values, and the bytes of a mask or None.
pub(crate) struct Source<'py> {
    kind: ColumnKind,
    numbers: Numbers<'py>,
    mask: Option<Vec<u8>>,
}

impl<'py> Source<'py> {
    pub(crate) fn new(kind: ColumnKind, column: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
        let (form, data, mask): (String, Bound<'py, PyAny>, Option<Vec<u8>>) = column.extract()?;
        let ints = |data| PyBuffer::<i64>::get(data)?.to_vec(column.py());
        let numbers = match form.as_str() {
            "i" => Numbers::Int(ints(&data)?),
            "u" => Numbers::UInt(PyBuffer::<u64>::get(&data)?.to_vec(column.py())?),
            "f" => Numbers::Double(PyBuffer::<f64>::get(&data)?.to_vec(column.py())?),
            "D" => Numbers::Days(ints(&data)?),
            "M" => Numbers::Micros(ints(&data)?),
            "m" => Numbers::Span(ints(&data)?),
            _ => Numbers::Objects(data.try_iter()?.collect::<PyResult<Vec<_>>>()?),
        };
        Ok(Source {
            kind,
            numbers,
            mask,
        })
    }
}

/// A number of double precision for a column.
pub(crate) fn double(kind: ColumnKind, number: f64) -> Given<'static> {
    if kind.encoding == Encoding::Decimal {
        return Given::Owned(Value::Bytes(number.to_string().into_bytes()));
    }
    Given::Ref(ValueRef::Double(number))
}

/// A time in microseconds since 1970 for a column; NULL for no time.
pub(crate) fn moment(kind: ColumnKind, micros: i64) -> PyResult<Given<'static>> {
    if micros == NOT_A_TIME {
        return Ok(Given::Ref(ValueRef::Null));
    }
    let at = DateTime::from_unix_micros(micros);
    let at = at.ok_or_else(|| PyValueError::new_err("a date is out of range"))?;
    Ok(Given::Ref(if kind.encoding == Encoding::Date {
        ValueRef::Date(at.date())
    } else {
        ValueRef::DateTime(at)
    }))
}

/// A span of time in microseconds; NULL for none.
pub(crate) fn span(micros: i64) -> PyResult<Given<'static>> {
    if micros == NOT_A_TIME {
        return Ok(Given::Ref(ValueRef::Null));
    }
    let time = Time::from_micros(micros);
    let time = time.ok_or_else(|| PyValueError::new_err("a time is out of range"))?;
    Ok(Given::Ref(ValueRef::Time(time)))
}

/// Days since 1970 in microseconds.
pub(crate) fn days(days: i64) -> i64 {
    if days == NOT_A_TIME {
        return NOT_A_TIME;
    }
    days.saturating_mul(DAY)
}

impl RowSource for Source<'_> {
    fn get(&self, row: usize) -> PyResult<Given<'_>> {
        let masked = self.mask.as_ref().and_then(|mask| mask.get(row));
        if masked.is_some_and(|masked| *masked != 0) {
            return Ok(Given::Ref(ValueRef::Null));
        }
        let missing = || PyValueError::new_err("the columns must have one length");
        let at = |numbers: &Vec<i64>| numbers.get(row).copied().ok_or_else(missing);
        match &self.numbers {
            Numbers::Int(numbers) => Ok(Given::Ref(ValueRef::Int(at(numbers)?))),
            Numbers::UInt(numbers) => {
                let number = numbers.get(row).copied().ok_or_else(missing)?;
                Ok(Given::Ref(ValueRef::UInt(number)))
            }
            Numbers::Double(numbers) => {
                let number = numbers.get(row).copied().ok_or_else(missing)?;
                Ok(double(self.kind, number))
            }
            Numbers::Days(numbers) => moment(self.kind, days(at(numbers)?)),
            Numbers::Micros(numbers) => moment(self.kind, at(numbers)?),
            Numbers::Span(numbers) => span(at(numbers)?),
            Numbers::Objects(objects) => given(self.kind, objects.get(row).ok_or_else(missing)?),
        }
    }
}

/// Adds INSERTs of the rows of columns.
pub(crate) fn push_rows(
    batch: &mut Batch,
    prepared: &Arc<Prepared>,
    sources: &[impl RowSource],
    rows: usize,
    py: Python<'_>,
) -> PyResult<()> {
    for row in 0..rows {
        let given = sources.iter().map(|source| source.get(row));
        let given = given.collect::<PyResult<SmallVec<[Given<'_>; 16]>>>()?;
        let values: SmallVec<[ValueRef<'_>; 16]> = given.iter().map(Given::as_ref).collect();
        batch.push(py, prepared, &values)?;
    }
    Ok(())
}
