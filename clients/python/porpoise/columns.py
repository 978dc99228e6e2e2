"""Columns of batches as numpy arrays."""

import numpy

DAYS, MICROSECONDS, SPAN = "M8[D]", "M8[us]", "m8[us]"


class Columns(dict):
    """Columns of rows: a masked array for each name, whose masked values are NULL or of rows that do not exist.
    `found` says for each key whether its row exists, `versions` has the rows' versions."""

    found = None
    versions = None


def objects(values):
    """An array of Python's objects."""
    array = numpy.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_columns(connection, table, keys, columns=None, by=None):
    """Reads columns of the rows with these keys, in one batch."""
    if isinstance(keys, numpy.ndarray) and (keys.ndim != 1 or keys.dtype.kind not in "iu"):
        keys = keys.tolist()
    found, versions, read = connection._read_columns(table, keys, columns, by)
    result = Columns()
    for name, form, data, mask in read:
        values = objects(data) if form == "O" else numpy.frombuffer(data, dtype=form)
        mask = numpy.ma.nomask if mask is None else numpy.frombuffer(mask, dtype=bool)
        result[name] = numpy.ma.masked_array(values, mask=mask)
    result.found = numpy.frombuffer(found, dtype=bool)
    result.versions = numpy.frombuffer(versions, dtype="<u8")
    return result


def source(values):
    """A column for the module: the kind of its values, the values, and which are NULL."""
    mask = None
    if isinstance(values, numpy.ma.MaskedArray):
        if numpy.ma.is_masked(values):
            mask = numpy.ma.getmaskarray(values).tobytes()
        values = numpy.ma.getdata(values)
    if not isinstance(values, numpy.ndarray):
        return "O", values, mask
    kind = values.dtype.kind
    if kind in "ib":
        return "i", values.astype("<i8"), mask
    if kind == "u":
        return "u", values.astype("<u8"), mask
    if kind == "f":
        return "f", values.astype("<f8"), mask
    if kind == "M":
        is_day = numpy.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D")
        form = DAYS if is_day else MICROSECONDS
        return ("D" if is_day else "M"), values.astype(form).astype("<i8"), mask
    if kind == "m":
        return "m", values.astype(SPAN).astype("<i8"), mask
    return "O", values.tolist(), mask


def insert_columns(connection, table, columns):
    """Inserts rows given as columns of one length: all of them or none. Raises the first failure."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError("the columns must have one length")
    given = [(name, source(values)) for name, values in columns.items()]
    return connection._insert_columns(table, given, lengths.pop())
