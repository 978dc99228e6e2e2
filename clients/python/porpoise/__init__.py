"""Client of Porpoise's native protocol: rows by key in batches, without SQL text.

    import porpoise

    with porpoise.connect("127.0.0.1", 3310, "root") as connection:
        items = connection.table("shop", "items")
        connection.insert(items, [{"id": 1, "name": "fin"}, {"id": 2, "name": "tail"}])
        connection.read(items, [1, 2, 3])   # [Row(...), Row(...), None]

Integers are int, DECIMAL is decimal.Decimal, strings are str, binary strings bytes, dates the types of datetime
(TIME: timedelta, TIMESTAMP: datetime in UTC), a member of ENUM its number, a SET and BIT an int of bits, JSON
its text. A zero date, which datetime does not have, is None. Connection.read_columns and insert_columns take and
return numpy arrays, read_arrow and insert_arrow columns of Arrow. Connection.subscribe follows changes.

A connection may be used by several threads, one at a time; while one waits for the server, others run.
"""

from ._native import (
    ArrowBatch,
    Batch,
    Change,
    Column,
    Connection,
    Index,
    Scan,
    Subscription,
    Table,
    Transaction,
    Written,
    connect,
)
from .errors import (
    Aborted,
    ConditionFailed,
    Disconnected,
    Error,
    OperationError,
    ProtocolError,
    ServerError,
    UnknownOutcome,
)
from .rows import Row

__all__ = [
    "Aborted",
    "ArrowBatch",
    "Batch",
    "Change",
    "Column",
    "ConditionFailed",
    "Connection",
    "Disconnected",
    "Error",
    "Index",
    "OperationError",
    "ProtocolError",
    "Row",
    "Scan",
    "ServerError",
    "Subscription",
    "Table",
    "Transaction",
    "UnknownOutcome",
    "Written",
    "connect",
]
