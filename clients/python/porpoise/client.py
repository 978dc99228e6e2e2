"""Connections, tables and batches."""

import socket
import struct

from . import login
from .errors import Aborted, ConditionFailed, OperationError, ProtocolError, ServerError
from .values import Reader, get_nullable, put_bytes, put_nullable, put_value

PREAMBLE = b"PRPN\x01\x01\x00\x00"
LOGIN, AUTHENTICATION, OPEN_TABLE, BATCH, BEGIN, COMMIT, ROLLBACK = 0x01, 0x02, 0x11, 0x20, 0x30, 0x31, 0x32
GREETING, READY, DONE, TABLE, RESULTS, ERROR = 0x80, 0x81, 0x82, 0x83, 0x84, 0xFF
READ, INSERT, UPDATE, UPSERT, DELETE = 1, 2, 3, 4, 5
WITH_VERSION, WITH_GENERATED_ID, WITH_CREATED = 1, 2, 8
LAST, CONNECTION_ENDS = 1, 2
LARGEST_ANSWER = 1 << 30
MAX_ROWS, MAX_PARTS = 65_536, 32


class Column:
    """A column of a table."""

    def __init__(self, reader):
        self.position = reader.number("<H")
        self.encoding = reader.number("<B")
        flags = reader.number("<B")
        self.is_nullable, self.has_default = bool(flags & 1), bool(flags & 2)
        self.is_generated, self.is_auto_increment = bool(flags & 4), bool(flags & 8)
        self.name = reader.text()
        self.sql_type = reader.text()
        word = self.sql_type.split("(")[0].split(" ")[0]
        self.is_binary = word.endswith("blob") or word in ("binary", "varbinary")


class Index:
    """A key of a table."""

    def __init__(self, reader):
        self.position = reader.number("<H")
        self.is_unique = bool(reader.number("<B"))
        self.name = reader.text()
        self.columns = [reader.number("<H") for _ in range(reader.number("<H"))]


class Table:
    """A table, as of one version of its definition. After ServerError 1412 look it up again."""

    def __init__(self, body):
        reader = Reader(body)
        self.id, self.version = reader.number("<Q"), reader.number("<I")
        self.database, self.name = reader.text(), reader.text()
        self.columns = [Column(reader) for _ in range(reader.number("<H"))]
        self.indexes = [Index(reader) for _ in range(reader.number("<H"))]
        self._by_name = {column.name.lower(): column for column in self.columns}
        self._by_position = {column.position: column for column in self.columns}

    def column(self, name):
        """The column of this name."""
        try:
            return self._by_name[name.lower()]
        except KeyError:
            raise LookupError(f"table {self.name} has no column {name}") from None

    def key(self, name):
        """Position and columns of the primary key, or of the unique key of this name."""
        for index in self.indexes:
            is_found = index.position == 0 if name is None else index.name.lower() == name.lower()
            if is_found and index.is_unique:
                return index.position, [self._by_position[at] for at in index.columns]
        raise LookupError(f"table {self.name} has no unique key {name or 'PRIMARY'}")


class Row(dict):
    """A row that was read: its columns, and its version."""

    version = 0


class Written:
    """A row that was written: its version, the generated id (0: none), and whether an upsert has made it."""

    def __init__(self, version, generated_id=0, created=False):
        self.version = version
        self.generated_id = generated_id
        self.created = created

    def __repr__(self):
        return f"Written(version={self.version}, generated_id={self.generated_id}, created={self.created})"


class Part:
    """Operations of one shape."""

    def __init__(self, shape, kind, key, columns):
        self.shape, self.kind, self.key, self.columns = shape, kind, key, columns
        self.rows, self.data = 0, bytearray()


class Batch:
    """Operations that are executed in their order, in one transaction."""

    def __init__(self, atomic=False, time_limit_ms=0):
        self.is_atomic = atomic
        self.time_limit_ms = time_limit_ms
        self.parts = []

    def _part(self, table, kind, by, names, has_version):
        if kind == INSERT:
            index, key = 0, []
        else:
            index, key = table.key(by)
        columns = [table.column(name) for name in names]
        flags = WITH_VERSION
        if kind in (INSERT, UPSERT):
            flags |= WITH_GENERATED_ID
            key = []
        if kind == UPSERT:
            flags |= WITH_CREATED
        shape = bytearray(struct.pack("<BBHQIH", kind, flags, index, table.id, table.version, len(columns)))
        for column in columns:
            shape += struct.pack("<HB", column.position, 0)
        shape += b"\x01\x01\x00\x00" if has_version else b"\x00"
        shape = bytes(shape)
        if not self.parts or self.parts[-1].shape != shape:
            if len(self.parts) >= MAX_PARTS:
                raise ValueError(f"a batch has at most {MAX_PARTS} parts of one kind")
            self.parts.append(Part(shape, kind, key, columns))
        if sum(part.rows for part in self.parts) >= MAX_ROWS:
            raise ValueError(f"a batch has at most {MAX_ROWS} rows")
        return self.parts[-1]

    def _add(self, part, key, version, values):
        row = bytearray()
        if part.kind not in (INSERT, UPSERT):
            key = key if isinstance(key, (tuple, list)) else (key,)
            if len(key) != len(part.key):
                raise ValueError(f"the key has {len(part.key)} columns, not {len(key)}")
            for column, value in zip(part.key, key):
                put_value(row, column, value)
        if version is not None:
            row += struct.pack("<Q", version)
        if part.kind != READ and part.columns:
            put_nullable(row, part.columns, values)
        part.data += row
        part.rows += 1

    def read(self, table, key, columns=None, by=None):
        """Reads a row; `key` is a value, or a tuple for a key of several columns."""
        names = columns if columns is not None else [column.name for column in table.columns]
        self._add(self._part(table, READ, by, names, False), key, None, ())

    def insert(self, table, row):
        """Inserts a row, given as a mapping of columns."""
        self._add(self._part(table, INSERT, None, row, False), None, None, row.values())

    def upsert(self, table, row, by=None):
        """Inserts a row, or changes the row with its key."""
        self._add(self._part(table, UPSERT, by, row, False), None, None, row.values())

    def update(self, table, key, changes, version=None, by=None):
        """Changes columns of a row, with `version` only if the row has it."""
        self._add(self._part(table, UPDATE, by, changes, version is not None), key, version, changes.values())

    def delete(self, table, key, version=None, by=None):
        """Deletes a row, with `version` only if the row has it."""
        self._add(self._part(table, DELETE, by, (), version is not None), key, version, ())

    def _encoded(self):
        out = bytearray(struct.pack("<BIH", int(self.is_atomic), self.time_limit_ms, len(self.parts)))
        for part in self.parts:
            put_bytes(out, part.shape)
            out += struct.pack("<I", part.rows)
            put_bytes(out, part.data)
        return out


def read_error(reader, kind):
    code, sqlstate = reader.number("<H"), reader.take(5).decode("ascii", "replace")
    return kind(code, sqlstate, reader.text())


def read_result(reader, part):
    status = reader.number("<B")
    if status == 1:
        return None
    if status == 2:
        return ConditionFailed("the row does not have the required version")
    if status == 3:
        return read_error(reader, OperationError)
    if status == 4:
        return Aborted("another operation of the batch has failed")
    if status != 0:
        raise ProtocolError("an unknown status")
    version = reader.number("<Q")
    if part.kind == READ:
        row = Row(zip((column.name for column in part.columns), get_nullable(reader, part.columns)))
        row.version = version
        return row
    generated_id = reader.number("<Q") if part.kind in (INSERT, UPSERT) else 0
    created = bool(reader.number("<B")) if part.kind == UPSERT else part.kind == INSERT
    return Written(version, generated_id, created)


class Connection:
    """A logged-in connection. Use it from one thread at a time."""

    def __init__(self, host, port, user, password="", tls=None, timeout=60.0):
        """`tls` is an ssl.SSLContext, or None for no TLS; `timeout` is in seconds, for each message."""
        self._request = 0
        self._socket = socket.create_connection((host, port), timeout=timeout)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            self._socket.sendall(PREAMBLE)
            self._log_in(user, password, tls is not None)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the connection. An open transaction is rolled back."""
        self._socket.close()

    def _receive(self, length):
        received = bytearray()
        while len(received) < length:
            more = self._socket.recv(min(length - len(received), 1 << 20))
            if not more:
                raise ConnectionError("the server has closed the connection")
            received += more
        return bytes(received)

    def _frame(self):
        length, request, kind, flags, _ = struct.unpack("<IIBBH", self._receive(12))
        if length > LARGEST_ANSWER:
            raise ProtocolError("a frame is too long")
        return kind, request, flags, self._receive(length)

    def _send(self, kind, body, request=0):
        self._socket.sendall(struct.pack("<IIBBH", len(body), request, kind, LAST, 0) + bytes(body))

    def _log_in(self, user, password, is_secure):
        kind, _, _, body = self._frame()
        if kind == ERROR:
            raise self._failure(body)
        if kind != GREETING:
            raise ProtocolError("a greeting was expected")
        reader = Reader(body)
        reader.number("<B")
        self.id = reader.number("<Q")
        salt = reader.take(20)
        self.max_body = reader.number("<I")
        reader.number("<I")
        self.server_version = reader.text()
        request = bytearray()
        put_bytes(request, user.encode())
        put_bytes(request, login.answer(password, salt))
        put_bytes(request, b"porpoise-python")
        self._send(LOGIN, request)
        exchange = login.Exchange(password, salt, is_secure)
        while True:
            kind, _, _, body = self._frame()
            if kind == READY:
                return
            if kind == ERROR:
                raise self._failure(body)
            if kind != AUTHENTICATION:
                raise ProtocolError("login: another frame was expected")
            reply = exchange.reply(body)
            if reply is not None:
                self._send(AUTHENTICATION, reply)

    def _failure(self, body):
        reader = Reader(body)
        if reader.number("<B") & CONNECTION_ENDS:
            self._socket.close()
        return read_error(reader, ServerError)

    def _call(self, kind, body, expected):
        """Sends a request. Returns the bodies of its answer, one after the other."""
        if len(body) > self.max_body:
            raise ValueError(f"the request has {len(body)} bytes, and the server accepts {self.max_body}")
        self._request = self._request + 1 & 0xFFFFFFFF or 1
        self._send(kind, body, self._request)
        answer = bytearray()
        while True:
            kind, request, flags, body = self._frame()
            if kind == ERROR:
                raise self._failure(body)
            if kind != expected or request != self._request:
                raise ProtocolError("an answer of another kind")
            answer += body
            if flags & LAST:
                return bytes(answer)

    def table(self, database, name):
        """Looks a table up."""
        body = bytearray()
        put_bytes(body, database.encode())
        put_bytes(body, name.encode())
        return Table(self._call(OPEN_TABLE, body, TABLE))

    def run(self, batch):
        """Executes a batch. Returns for each operation a Row, Written, None if no row has the key, or an error, which is
        not raised: OperationError, ConditionFailed, Aborted."""
        reader = Reader(self._call(BATCH, batch._encoded(), RESULTS))
        return [read_result(reader, part) for part in batch.parts for _ in range(part.rows)]

    def _run_whole(self, batch):
        """Executes a batch whose first failure is raised."""
        results = self.run(batch)
        failures = [result for result in results if isinstance(result, Exception)]
        for failure in failures:
            if not isinstance(failure, Aborted):
                raise failure
        return results

    def read(self, table, keys, columns=None, by=None):
        """Reads rows by their keys, in one batch; None for keys without a row."""
        batch = Batch()
        for key in keys:
            batch.read(table, key, columns, by)
        return self._run_whole(batch)

    def insert(self, table, rows):
        """Inserts all rows, or none; raises the first failure."""
        batch = Batch(atomic=True)
        for row in rows:
            batch.insert(table, row)
        return self._run_whole(batch)

    def read_columns(self, table, keys, columns=None, by=None):
        """Reads columns as numpy arrays (`porpoise.columns.Columns`), in one batch. Needs numpy."""
        from . import columns as arrays

        return arrays.read_columns(self, table, keys, columns, by)

    def insert_columns(self, table, columns):
        """Inserts rows, given as a mapping of numpy arrays of one length: all of them or none. Needs numpy."""
        from . import columns as arrays

        return arrays.insert_columns(self, table, columns)

    def begin(self, serializable=False):
        """Begins a transaction of several batches."""
        self._call(BEGIN, bytes([int(serializable)]), DONE)

    def commit(self):
        """Commits the transaction."""
        self._call(COMMIT, b"", DONE)

    def rollback(self):
        """Rolls the transaction back."""
        self._call(ROLLBACK, b"", DONE)


def connect(host, port, user, password="", tls=None, timeout=60.0):
    """Connects and logs in."""
    return Connection(host, port, user, password, tls, timeout)
