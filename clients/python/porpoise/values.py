"""Values and messages of the protocol (docs/formats.md, "Native protocol")."""

import datetime
import decimal
import struct

from .errors import ProtocolError

INTEGERS = {1: "<b", 2: "<h", 3: "<i", 4: "<q", 5: "<B", 6: "<H", 7: "<I", 8: "<Q"}
FLOATS = {9: "<f", 10: "<d"}
DECIMAL, BYTES, DATE, DATETIME, TIME = 11, 12, 13, 14, 15


def put_bytes(out, value):
    """Appends a length as LEB128, and the bytes."""
    length = len(value)
    while length >= 0x80:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    out += value


class Reader:
    """Reads fields from received bytes."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, length):
        end = self.at + length
        if end > len(self.data):
            raise ProtocolError("a message ends too early")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def bytes(self):
        length = shift = 0
        while True:
            byte = self.number("<B")
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                return bytes(self.take(length))
            shift += 7
            if shift > 28:
                raise ProtocolError("a length is too large")

    def text(self):
        return self.bytes().decode("utf-8")


def put_value(out, column, value):
    """Appends a value that is not None."""
    encoding = column.encoding
    if encoding in INTEGERS:
        out += struct.pack(INTEGERS[encoding], value)
    elif encoding in FLOATS:
        out += struct.pack(FLOATS[encoding], value)
    elif encoding == DECIMAL:
        put_bytes(out, format(decimal.Decimal(value), "f").encode())
    elif encoding == BYTES:
        put_bytes(out, value.encode() if isinstance(value, str) else bytes(value))
    elif encoding == DATE:
        out += struct.pack("<HBB", value.year, value.month, value.day)
    elif encoding == DATETIME:
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime(value.year, value.month, value.day)
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc)
        out += struct.pack("<HBBBBB", value.year, value.month, value.day, value.hour, value.minute, value.second)
        out += struct.pack("<I", value.microsecond)
    elif encoding == TIME:
        out += struct.pack("<q", value // datetime.timedelta(microseconds=1))
    else:
        raise ProtocolError(f"unknown encoding {encoding}")


def get_value(reader, column):
    """Reads a value that is not NULL."""
    encoding = column.encoding
    if encoding in INTEGERS:
        return reader.number(INTEGERS[encoding])
    if encoding in FLOATS:
        return reader.number(FLOATS[encoding])
    if encoding == DECIMAL:
        return decimal.Decimal(reader.text())
    if encoding == BYTES:
        value = reader.bytes()
        return value if column.is_binary else value.decode("utf-8")
    if encoding == DATE:
        return as_date(datetime.date, struct.unpack("<HBB", reader.take(4)))
    if encoding == DATETIME:
        return as_date(datetime.datetime, struct.unpack("<HBBBBBI", reader.take(11)))
    if encoding == TIME:
        return datetime.timedelta(microseconds=reader.number("<q"))
    raise ProtocolError(f"unknown encoding {encoding}")


def as_date(kind, parts):
    try:
        return kind(*parts)
    except ValueError:
        # A zero date, or one with a zero month or day.
        return None


def put_nullable(out, columns, values):
    """Appends a bitmap of NULLs, and the other values."""
    bitmap = bytearray((len(columns) + 7) // 8)
    body = bytearray()
    for n, (column, value) in enumerate(zip(columns, values)):
        if value is None:
            bitmap[n // 8] |= 1 << n % 8
        else:
            put_value(body, column, value)
    out += bitmap
    out += body


def get_nullable(reader, columns):
    bitmap = reader.take((len(columns) + 7) // 8)
    return [
        None if bitmap[n // 8] >> n % 8 & 1 else get_value(reader, column) for n, column in enumerate(columns)
    ]
