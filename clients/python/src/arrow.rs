//! Arrow's C data interface: columns that were read, and rows of tables and data frames that are inserted.

#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::columns::{ColumnData, Columns, RowSource, days, double, moment, push_rows, span};
use crate::table::{Kind, Names, Table};
use crate::values::{ColumnKind, Given};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, TimeUnit};
use porpoise_native_client::{Encoding, Value, ValueRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Most digits of a Decimal128: a DECIMAL with more is text.
const MAX_DIGITS: u8 = 38;

fn failed(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Columns of rows that were read, with Arrow's C data interface: a row for each key, NULL in all columns if the key has none.
#[pyclass(frozen, module = "porpoise")]
pub(crate) struct ArrowBatch {
    data: ArrayData,
    schema: Schema,
    /// For each key whether its row exists.
    #[pyo3(get)]
    found: Vec<bool>,
    /// The rows' versions; 0 for keys without a row.
    #[pyo3(get)]
    versions: Vec<u64>,
}

#[pymethods]
impl ArrowBatch {
    fn __len__(&self) -> usize {
        self.found.len()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&self.schema).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface lets a producer ignore the wish.
        drop(requested_schema);
        let array = FFI_ArrowArray::new(&self.data);
        let array = PyCapsule::new_with_value(py, array, ARRAY)?;
        Ok((self.__arrow_c_schema__(py)?, array))
    }
}

/// Precision and scale of a DECIMAL, parsed from its SQL type.
fn digits(sql_type: &str) -> Option<(u8, i8)> {
    let inner = sql_type.split_once('(')?.1.split_once(')')?.0;
    let (digits, scale) = inner.split_once(',').unwrap_or((inner, "0"));
    Some((digits.trim().parse().ok()?, scale.trim().parse().ok()?))
}

fn data_type(column: &ColumnData) -> DataType {
    match column.kind.encoding {
        Encoding::Int8 => DataType::Int8,
        Encoding::Int16 => DataType::Int16,
        Encoding::Int32 => DataType::Int32,
        Encoding::Int64 => DataType::Int64,
        Encoding::UInt8 => DataType::UInt8,
        Encoding::UInt16 => DataType::UInt16,
        Encoding::UInt32 => DataType::UInt32,
        Encoding::UInt64 => DataType::UInt64,
        Encoding::Float32 => DataType::Float32,
        Encoding::Float64 => DataType::Float64,
        Encoding::Date => DataType::Date32,
        Encoding::DateTime => {
            let is_zoned = column.sql_type.starts_with("timestamp");
            DataType::Timestamp(TimeUnit::Microsecond, is_zoned.then(|| "UTC".into()))
        }
        Encoding::Time => DataType::Duration(TimeUnit::Microsecond),
        Encoding::Decimal => match digits(&column.sql_type) {
            Some((digits, scale)) if digits <= MAX_DIGITS => DataType::Decimal128(digits, scale),
            _ => DataType::Utf8,
        },
        Encoding::Bytes if column.kind.is_binary => DataType::Binary,
        Encoding::Bytes => DataType::Utf8,
    }
}

/// A decimal number as an integer, in units of `10^-scale`.
fn unscaled(text: &str, scale: i8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let missing = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    let digits = format!("{whole}{fraction}{}", "0".repeat(missing));
    digits.parse().ok()
}

impl ColumnData {
    fn text(&self, row: usize) -> &[u8] {
        let end = |row: usize| self.ends.get(row).map_or(0, |end| *end as usize);
        let start = row.checked_sub(1).map_or(0, end);
        let bytes = self.bytes.as_slice().get(start..end(row));
        bytes.unwrap_or_default()
    }

    /// The values of a DECIMAL as integers.
    fn decimals(&self, scale: i8) -> PyResult<Buffer> {
        let mut numbers = Vec::with_capacity(self.nulls.len());
        for (row, is_null) in self.nulls.iter().enumerate() {
            let text = std::str::from_utf8(self.text(row)).ok();
            let number = text.and_then(|text| unscaled(text, scale));
            let number = number.or(is_null.then_some(0));
            numbers.push(number.ok_or_else(|| PyValueError::new_err("a DECIMAL is no number"))?);
        }
        Ok(Buffer::from_vec(numbers))
    }

    fn into_array(self, data_type: &DataType) -> PyResult<ArrayRef> {
        let (rows, has_null) = (self.nulls.len(), self.nulls.contains(&true));
        let nulls = has_null.then(|| self.nulls.iter().map(|null| !null).collect::<NullBuffer>());
        let builder = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
        let builder = match data_type {
            DataType::Decimal128(_, scale) => builder.add_buffer(self.decimals(*scale)?),
            DataType::Utf8 | DataType::Binary => {
                let ends = std::iter::once(0).chain(self.ends);
                let offsets = OffsetBuffer::new(ends.collect::<ScalarBuffer<i32>>());
                let builder = builder.add_buffer(offsets.into_inner().into_inner());
                builder.add_buffer(self.bytes.into())
            }
            _ => builder.add_buffer(self.bytes.into()),
        };
        Ok(make_array(builder.build().map_err(failed)?))
    }
}

/// The columns in the form of Arrow.
pub(crate) fn export(read: Columns) -> PyResult<ArrowBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in read.columns {
        let data_type = data_type(&column);
        let name = column.name.to_string();
        arrays.push(column.into_array(&data_type)?);
        fields.push(Field::new(name, data_type, true));
    }
    let fields = Fields::from(fields);
    let rows = read.found.len();
    let array = StructArray::try_new_with_length(fields.clone(), arrays, None, rows);
    Ok(ArrowBatch {
        data: array.map_err(failed)?.into_data(),
        schema: Schema::new(fields),
        found: read.found,
        versions: read.versions,
    })
}

/// The value of a row that is not NULL.
type Reader<'a> = Box<dyn Fn(usize) -> PyResult<Given<'a>> + 'a>;

/// A column of an Arrow array.
struct ArrowColumn<'a> {
    array: &'a dyn Array,
    reader: Reader<'a>,
}

impl RowSource for ArrowColumn<'_> {
    fn get(&self, row: usize) -> PyResult<Given<'_>> {
        if self.array.is_null(row) {
            return Ok(Given::Ref(ValueRef::Null));
        }
        (self.reader)(row)
    }
}

/// A reader of numbers that are converted to values.
fn numbers<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    convert: impl Fn(T::Native) -> PyResult<Given<'a>> + 'a,
) -> Reader<'a> {
    let array = array.as_primitive::<T>();
    Box::new(move |row| convert(array.value(row)))
}

fn int<'a>(number: i64) -> PyResult<Given<'a>> {
    Ok(Given::Ref(ValueRef::Int(number)))
}

fn uint<'a>(number: u64) -> PyResult<Given<'a>> {
    Ok(Given::Ref(ValueRef::UInt(number)))
}

fn bytes<'a>(bytes: &'a [u8]) -> PyResult<Given<'a>> {
    Ok(Given::Ref(ValueRef::Bytes(bytes)))
}

fn text<'a>(text: String) -> PyResult<Given<'a>> {
    Ok(Given::Owned(Value::Bytes(text.into_bytes())))
}

fn number_reader<'a>(kind: ColumnKind, array: &'a dyn Array) -> Option<Reader<'a>> {
    Some(match array.data_type() {
        DataType::Int8 => numbers::<Int8Type>(array, |n| int(n.into())),
        DataType::Int16 => numbers::<Int16Type>(array, |n| int(n.into())),
        DataType::Int32 => numbers::<Int32Type>(array, |n| int(n.into())),
        DataType::Int64 => numbers::<Int64Type>(array, int),
        DataType::UInt8 => numbers::<UInt8Type>(array, |n| uint(n.into())),
        DataType::UInt16 => numbers::<UInt16Type>(array, |n| uint(n.into())),
        DataType::UInt32 => numbers::<UInt32Type>(array, |n| uint(n.into())),
        DataType::UInt64 => numbers::<UInt64Type>(array, uint),
        DataType::Float32 => numbers::<Float32Type>(array, move |n| Ok(double(kind, n.into()))),
        DataType::Float64 => numbers::<Float64Type>(array, move |n| Ok(double(kind, n))),
        DataType::Decimal128(..) => {
            let array = array.as_primitive::<Decimal128Type>();
            Box::new(|row| text(array.value_as_string(row)))
        }
        DataType::Decimal256(..) => {
            let array = array.as_primitive::<Decimal256Type>();
            Box::new(|row| text(array.value_as_string(row)))
        }
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(|row| int(array.value(row).into()))
        }
        _ => return None,
    })
}

fn time_reader<'a>(kind: ColumnKind, array: &'a dyn Array) -> Option<Reader<'a>> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let at = move |micros: Option<i64>| moment(kind, micros.unwrap_or(i64::MAX));
    let time = |micros: Option<i64>| span(micros.unwrap_or(i64::MAX));
    Some(match array.data_type() {
        DataType::Date32 => numbers::<Date32Type>(array, move |n| moment(kind, days(n.into()))),
        DataType::Date64 => numbers::<Date64Type>(array, move |n| at(n.checked_mul(1000))),
        DataType::Timestamp(Second, _) => {
            numbers::<TimestampSecondType>(array, move |n| at(n.checked_mul(1_000_000)))
        }
        DataType::Timestamp(Millisecond, _) => {
            numbers::<TimestampMillisecondType>(array, move |n| at(n.checked_mul(1000)))
        }
        DataType::Timestamp(Microsecond, _) => {
            numbers::<TimestampMicrosecondType>(array, move |n| at(Some(n)))
        }
        DataType::Timestamp(Nanosecond, _) => {
            numbers::<TimestampNanosecondType>(array, move |n| at(Some(n.div_euclid(1000))))
        }
        DataType::Time32(Second) => {
            numbers::<Time32SecondType>(array, move |n| time(Some(i64::from(n) * 1_000_000)))
        }
        DataType::Time32(_) => {
            numbers::<Time32MillisecondType>(array, move |n| time(Some(i64::from(n) * 1000)))
        }
        DataType::Time64(Nanosecond) => {
            numbers::<Time64NanosecondType>(array, move |n| time(Some(n.div_euclid(1000))))
        }
        DataType::Time64(_) => numbers::<Time64MicrosecondType>(array, move |n| time(Some(n))),
        DataType::Duration(Second) => {
            numbers::<DurationSecondType>(array, move |n| time(n.checked_mul(1_000_000)))
        }
        DataType::Duration(Millisecond) => {
            numbers::<DurationMillisecondType>(array, move |n| time(n.checked_mul(1000)))
        }
        DataType::Duration(Microsecond) => {
            numbers::<DurationMicrosecondType>(array, move |n| time(Some(n)))
        }
        DataType::Duration(Nanosecond) => {
            numbers::<DurationNanosecondType>(array, move |n| time(Some(n.div_euclid(1000))))
        }
        _ => return None,
    })
}

fn text_reader<'a>(array: &'a dyn Array) -> Option<Reader<'a>> {
    macro_rules! reader {
        ($array:expr, $bytes:expr) => {{
            let array = $array;
            Box::new(move |row| bytes($bytes(array.value(row))))
        }};
    }
    Some(match array.data_type() {
        DataType::Utf8 => reader!(array.as_string::<i32>(), str::as_bytes),
        DataType::LargeUtf8 => reader!(array.as_string::<i64>(), str::as_bytes),
        DataType::Utf8View => reader!(array.as_string_view(), str::as_bytes),
        DataType::Binary => reader!(array.as_binary::<i32>(), std::convert::identity),
        DataType::LargeBinary => reader!(array.as_binary::<i64>(), std::convert::identity),
        DataType::BinaryView => reader!(array.as_binary_view(), std::convert::identity),
        DataType::FixedSizeBinary(_) => {
            reader!(array.as_fixed_size_binary(), std::convert::identity)
        }
        _ => return None,
    })
}

fn reader<'a>(kind: ColumnKind, array: &'a dyn Array) -> PyResult<Reader<'a>> {
    let reader = number_reader(kind, array)
        .or_else(|| time_reader(kind, array))
        .or_else(|| text_reader(array));
    if let Some(reader) = reader {
        return Ok(reader);
    }
    match array.data_type() {
        DataType::Null => Ok(Box::new(|_| Ok(Given::Ref(ValueRef::Null)))),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let (keys, values) = (dictionary.normalized_keys(), dictionary.values().as_ref());
            let value = reader_of_values(kind, values)?;
            Ok(Box::new(move |row| {
                value(keys.get(row).copied().unwrap_or(0))
            }))
        }
        other => {
            let text = format!("columns of Arrow's type {other} cannot be inserted");
            Err(PyTypeError::new_err(text))
        }
    }
}

/// The reader of a dictionary's values, which may be NULL.
fn reader_of_values<'a>(kind: ColumnKind, values: &'a dyn Array) -> PyResult<Reader<'a>> {
    let value = reader(kind, values)?;
    Ok(Box::new(move |at| {
        if values.is_null(at) {
            return Ok(Given::Ref(ValueRef::Null));
        }
        value(at)
    }))
}

/// The pointer of a capsule with this name.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

/// The batches of an object with Arrow's interface.
fn batches(data: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?;
        let stream = pointer::<FFI_ArrowArrayStream>(&capsule, STREAM)?;
        // SAFETY: a capsule of this name has such a stream, which is taken out of it.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        let reader = RecordBatchStreamReader::try_new(stream).map_err(failed)?;
        return reader.collect::<Result<Vec<_>, _>>().map_err(failed);
    }
    if !data.hasattr("__arrow_c_array__")? {
        let text =
            "an object with Arrow's interface is needed: __arrow_c_stream__ or __arrow_c_array__";
        return Err(PyTypeError::new_err(text));
    }
    let capsules = data.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = capsules.extract()?;
    let schema = pointer::<FFI_ArrowSchema>(&schema, SCHEMA)?;
    let array = pointer::<FFI_ArrowArray>(&array, ARRAY)?;
    // SAFETY: capsules of these names have such structures, and live during this call. The array is taken out of its capsule;
    // what it points to is as its producer says, which the interface demands.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array), &*schema) };
    let data = data.map_err(failed)?;
    if !matches!(data.data_type(), DataType::Struct(_)) || data.null_count() > 0 {
        return Err(PyTypeError::new_err("the array has no columns"));
    }
    Ok(vec![RecordBatch::from(StructArray::from(data))])
}

/// An atomic batch of INSERTs of the rows of an object with Arrow's interface.
pub(crate) fn batch_of(table: &Bound<'_, Table>, data: &Bound<'_, PyAny>) -> PyResult<Batch> {
    let py = table.py();
    let mut batch = Batch::new(true, 0);
    for rows in batches(data)? {
        let schema = rows.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        let names = Names::new(Kind::Insert, None, names.collect());
        let prepared = table.get().prepared(py, names)?;
        let kinds = prepared.columns.iter().zip(rows.columns());
        let sources = kinds.map(|(kind, array)| {
            Ok(ArrowColumn {
                array: array.as_ref(),
                reader: reader(*kind, array.as_ref())?,
            })
        });
        let sources = sources.collect::<PyResult<Vec<_>>>()?;
        push_rows(&mut batch, &prepared, &sources, rows.num_rows(), py)?;
    }
    Ok(batch)
}
