"""Columns of batches as numpy arrays.

Values of a fixed size (numbers, dates and times) are encoded and decoded by numpy, without a loop over rows, if none of
them is NULL and every row exists. Other batches are decoded row by row.
"""

import numpy

from .client import BATCH, INSERT, MAX_ROWS, READ, RESULTS, Batch, Row, read_result
from .errors import Aborted
from .values import BYTES, DATE, DATETIME, DECIMAL, FLOATS, INTEGERS, TIME, Reader

DATE_FIELDS = [("year", "<u2"), ("month", "u1"), ("day", "u1")]
TIME_FIELDS = [("hour", "u1"), ("minute", "u1"), ("second", "u1"), ("micros", "<u4")]
DAY, MICROSECOND, SPAN = "M8[D]", "M8[us]", "m8[us]"


class Columns(dict):
    """Columns of rows: a masked array for each name, whose masked values are NULL or of rows that do not exist.
    `found` says for each key whether its row exists, `versions` has the rows' versions."""

    found = None
    versions = None


def wire_type(column):
    """The type of a column's values in messages; None if they have no fixed size."""
    encoding = column.encoding
    if encoding in INTEGERS or encoding in FLOATS:
        return numpy.dtype((INTEGERS.get(encoding) or FLOATS[encoding]))
    if encoding == DATE:
        return numpy.dtype(DATE_FIELDS)
    if encoding == DATETIME:
        return numpy.dtype(DATE_FIELDS + TIME_FIELDS)
    return numpy.dtype("<i8") if encoding == TIME else None


def array_type(column):
    """The type of a column's array."""
    if column.encoding in (DECIMAL, BYTES):
        return numpy.dtype(object)
    return {DATE: numpy.dtype(DAY), DATETIME: numpy.dtype(MICROSECOND), TIME: numpy.dtype(SPAN)}.get(
        column.encoding
    ) or wire_type(column)


def days_of(values):
    """Dates of year, month and day; those with a zero part are NaT."""
    exists = (values["month"] > 0) & (values["day"] > 0)
    years = (values["year"].astype("i8") - 1970).astype("M8[Y]").astype("M8[M]")
    months = years + (values["month"].astype("i8") - 1).astype("m8[M]")
    days = months.astype(DAY) + (values["day"].astype("i8") - 1).astype("m8[D]")
    return numpy.where(exists, days, numpy.datetime64("NaT"))


def from_wire(column, values):
    """The array of a column's values in messages."""
    if column.encoding == DATE:
        return days_of(values)
    if column.encoding == DATETIME:
        seconds = (values["hour"].astype("i8") * 60 + values["minute"]) * 60 + values["second"]
        micros = seconds * 1_000_000 + values["micros"]
        return days_of(values).astype(MICROSECOND) + micros.astype(SPAN)
    return values.astype(SPAN) if column.encoding == TIME else values.copy()


def to_wire(column, values):
    """The values of a column in messages; None if they cannot be encoded as a whole."""
    wanted = wire_type(column)
    if wanted is None or numpy.ma.is_masked(values):
        return None
    values = numpy.ma.getdata(values) if isinstance(values, numpy.ma.MaskedArray) else numpy.asarray(values)
    if column.encoding in INTEGERS:
        if values.dtype.kind not in "iu":
            return None
        limits = numpy.iinfo(wanted)
        if len(values) and (int(values.min()) < limits.min or int(values.max()) > limits.max):
            raise ValueError(f"column {column.name}: a value is out of range")
        return values.astype(wanted)
    if column.encoding in FLOATS:
        return values.astype(wanted) if values.dtype.kind in "iuf" else None
    return values.astype(SPAN).astype("<i8") if values.dtype.kind == "m" else None


def read_columns(connection, table, keys, columns=None, by=None):
    """Reads columns of the rows with these keys, in one batch."""
    batch = Batch()
    names = list(columns) if columns is not None else [column.name for column in table.columns]
    part = batch._part(table, READ, by, names, False)
    whole = to_wire(part.key[0], keys) if len(part.key) == 1 and isinstance(keys, numpy.ndarray) else None
    if whole is not None:
        part.data += whole.tobytes()
        part.rows = len(whole)
    else:
        keys = keys.tolist() if isinstance(keys, numpy.ndarray) else keys
        for key in keys:
            batch._add(part, key, None, ())
    if part.rows > MAX_ROWS:
        raise ValueError(f"a batch has at most {MAX_ROWS} rows")
    if part.rows == 0:
        return by_row(part, b"")
    return decode(part, connection._call(BATCH, batch._encoded(), RESULTS))


def decode(part, answer):
    types = [wire_type(column) for column in part.columns]
    if all(kind is not None for kind in types):
        fields = [("status", "u1"), ("version", "<u8"), ("nulls", "u1", ((len(types) + 7) // 8,))]
        fields += [(f"c{n}", kind) for n, kind in enumerate(types)]
        form = numpy.dtype(fields)
        if len(answer) == form.itemsize * part.rows:
            rows = numpy.frombuffer(answer, dtype=form)
            if not rows["status"].any() and not rows["nulls"].any():
                return whole(part, rows)
    return by_row(part, answer)


def whole(part, rows):
    columns = Columns()
    for n, column in enumerate(part.columns):
        columns[column.name] = numpy.ma.masked_array(from_wire(column, rows[f"c{n}"]))
    columns.found = numpy.ones(len(rows), dtype=bool)
    columns.versions = rows["version"].copy()
    return columns


def by_row(part, answer):
    reader = Reader(answer)
    results = [read_result(reader, part) for _ in range(part.rows)]
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, Aborted):
            raise result
    columns = Columns()
    columns.found = numpy.array([isinstance(row, Row) for row in results], dtype=bool)
    columns.versions = numpy.array([row.version if isinstance(row, Row) else 0 for row in results], dtype="<u8")
    for column in part.columns:
        values = [row[column.name] if isinstance(row, Row) else None for row in results]
        mask = [value is None for value in values]
        kind = array_type(column)
        array = numpy.zeros(len(values), dtype=kind) if kind != object else numpy.empty(len(values), dtype=object)
        for n, value in enumerate(values):
            if value is not None:
                array[n] = value
        columns[column.name] = numpy.ma.masked_array(array, mask=mask)
    return columns


def insert_columns(connection, table, columns):
    """Inserts rows given as columns of one length: all of them or none. Raises the first failure."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError("the columns must have one length")
    batch = Batch(atomic=True)
    part = batch._part(table, INSERT, None, columns, False)
    encoded = [to_wire(column, values) for column, values in zip(part.columns, columns.values())]
    if all(values is not None for values in encoded):
        fields = [("nulls", "u1", ((len(encoded) + 7) // 8,))]
        fields += [(f"c{n}", values.dtype) for n, values in enumerate(encoded)]
        rows = numpy.zeros(lengths.pop(), dtype=numpy.dtype(fields))
        for n, values in enumerate(encoded):
            rows[f"c{n}"] = values
        part.data += rows.tobytes()
        part.rows = len(rows)
    else:
        for row in zip(*(plain(values) for values in columns.values())):
            batch._add(part, None, None, row)
    if part.rows > MAX_ROWS:
        raise ValueError(f"a batch has at most {MAX_ROWS} rows")
    return connection._run_whole(batch) if part.rows else []


def plain(values):
    """Python's values of an array; None for masked ones."""
    return values.tolist() if isinstance(values, numpy.ndarray) else list(values)
