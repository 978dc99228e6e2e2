//! Conversion between Python's values and those of the protocol.

use crate::errors::classes;
use porpoise_native_client::{Date, DateTime, Encoding, Time, Value, ValueRef};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyString, PyTimeAccess,
    PyTzInfo, PyTzInfoAccess,
};

/// The properties of a column on which the conversion of its values depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnKind {
    pub(crate) encoding: Encoding,
    /// Whether strings are bytes.
    pub(crate) is_binary: bool,
}

impl ColumnKind {
    /// The kind of a column with this type in SQL.
    pub(crate) fn new(encoding: Encoding, sql_type: &str) -> ColumnKind {
        let word = sql_type.split(['(', ' ']).next().unwrap_or_default();
        ColumnKind {
            encoding,
            is_binary: word.ends_with("blob") || matches!(word, "binary" | "varbinary"),
        }
    }
}

/// A value that was given: borrowed from a Python object where possible.
pub(crate) enum Given<'a> {
    Ref(ValueRef<'a>),
    Owned(Value),
}

impl Given<'_> {
    pub(crate) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Given::Ref(value) => *value,
            Given::Owned(value) => value.as_ref(),
        }
    }
}

/// Converts a value for a column. Dates and times may also be texts, as MySQL writes them.
///
/// # Errors
/// The value is of a type that the column does not take.
pub(crate) fn given<'a>(kind: ColumnKind, value: &'a Bound<'_, PyAny>) -> PyResult<Given<'a>> {
    if value.is_none() {
        return Ok(Given::Ref(ValueRef::Null));
    }
    Ok(match kind.encoding {
        Encoding::Bytes => return bytes(value),
        Encoding::Float32 | Encoding::Float64 => Given::Ref(ValueRef::Double(value.extract()?)),
        Encoding::Decimal => Given::Owned(decimal(value)?),
        Encoding::Date | Encoding::DateTime | Encoding::Time => {
            if let Ok(text) = value.cast::<PyString>() {
                return Ok(Given::Ref(ValueRef::Bytes(text.to_str()?.as_bytes())));
            }
            Given::Owned(temporal(kind.encoding, value)?)
        }
        _ => Given::Ref(integer(value)?),
    })
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ValueRef<'static>> {
    match value.extract::<i64>() {
        Ok(number) => Ok(ValueRef::Int(number)),
        Err(error) => match value.extract::<u64>() {
            Ok(number) => Ok(ValueRef::UInt(number)),
            Err(_) if value.cast::<pyo3::types::PyInt>().is_ok() => {
                Err(PyValueError::new_err("a number is out of range"))
            }
            Err(_) => Err(error),
        },
    }
}

fn bytes<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Given<'a>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Given::Ref(ValueRef::Bytes(text.to_str()?.as_bytes())));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Given::Ref(ValueRef::Bytes(bytes.as_bytes())));
    }
    let buffer = PyBuffer::<u8>::get(value)?;
    Ok(Given::Owned(Value::Bytes(buffer.to_vec(value.py())?)))
}

/// A number as decimal digits, which the server converts to the column's type.
fn decimal(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = value.py();
    let number = classes(py)?.decimal.bind(py).call1((value,))?;
    let text = number.call_method1("__format__", ("f",))?;
    Ok(Value::Bytes(text.extract::<String>()?.into_bytes()))
}

fn temporal(encoding: Encoding, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let unfit = || PyValueError::new_err("a date or time is out of range");
    if encoding == Encoding::Time {
        let span = value.cast::<PyDelta>()?;
        let seconds = i64::from(span.get_days()) * 86_400 + i64::from(span.get_seconds());
        let micros = seconds * 1_000_000 + i64::from(span.get_microseconds());
        return Ok(Value::Time(Time::from_micros(micros).ok_or_else(unfit)?));
    }
    let utc;
    let mut day = value.cast::<PyDate>()?;
    let mut at = value.cast::<PyDateTime>().ok();
    if let Some(zoned) = at.filter(|at| at.get_tzinfo().is_some()) {
        let zone = PyTzInfo::utc(value.py())?;
        utc = zoned.call_method1("astimezone", (zone,))?;
        (day, at) = (utc.cast::<PyDate>()?, utc.cast::<PyDateTime>().ok());
    }
    let year = u16::try_from(day.get_year()).map_err(|_| unfit())?;
    let date = Date::new(year, day.get_month(), day.get_day()).ok_or_else(unfit)?;
    if encoding == Encoding::Date {
        return Ok(Value::Date(date));
    }
    let at = match at {
        None => DateTime::new(date, 0, 0, 0, 0),
        Some(at) => DateTime::new(
            date,
            at.get_hour(),
            at.get_minute(),
            at.get_second(),
            at.get_microsecond(),
        ),
    };
    Ok(Value::DateTime(at.ok_or_else(unfit)?))
}

/// Converts a value of the server. A date that Python does not have, such as the zero date, is None.
///
/// # Errors
/// A text that is not UTF-8.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    kind: ColumnKind,
    value: ValueRef<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ValueRef::Null => py.None().into_bound(py),
        ValueRef::Int(number) => number.into_pyobject(py)?.into_any(),
        ValueRef::UInt(number) => number.into_pyobject(py)?.into_any(),
        ValueRef::Double(number) => number.into_pyobject(py)?.into_any(),
        ValueRef::Bytes(bytes) if kind.encoding == Encoding::Decimal => {
            let text = text_of(bytes)?;
            classes(py)?.decimal.bind(py).call1((text,))?
        }
        ValueRef::Bytes(bytes) if kind.is_binary => PyBytes::new(py, bytes).into_any(),
        ValueRef::Bytes(bytes) => PyString::new(py, text_of(bytes)?).into_any(),
        ValueRef::Decimal(number) => {
            let text = number.to_string();
            classes(py)?.decimal.bind(py).call1((text,))?
        }
        ValueRef::Date(date) => date_to_python(py, date),
        ValueRef::DateTime(at) => datetime_to_python(py, at),
        ValueRef::Time(time) => {
            let micros = time.as_micros();
            let days = micros.div_euclid(86_400_000_000);
            let rest = micros.rem_euclid(86_400_000_000);
            // A TIME has at most 35 days.
            let parts = (
                days as i32,
                (rest / 1_000_000) as i32,
                (rest % 1_000_000) as i32,
            );
            PyDelta::new(py, parts.0, parts.1, parts.2, false)?.into_any()
        }
    })
}

fn text_of(bytes: &[u8]) -> PyResult<&str> {
    std::str::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn date_to_python(py: Python<'_>, date: Date) -> Bound<'_, PyAny> {
    let (year, month, day) = (i32::from(date.year()), date.month(), date.day());
    match PyDate::new(py, year, month, day) {
        Ok(date) => date.into_any(),
        Err(_) => py.None().into_bound(py),
    }
}

fn datetime_to_python(py: Python<'_>, at: DateTime) -> Bound<'_, PyAny> {
    let (year, micros) = (i32::from(at.year()), at.micros());
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    let made = PyDateTime::new(
        py,
        year,
        at.month(),
        at.day(),
        hour,
        minute,
        second,
        micros,
        None,
    );
    match made {
        Ok(at) => at.into_any(),
        Err(_) => py.None().into_bound(py),
    }
}
