"""Errors of the client."""


class Error(Exception):
    """Base of all errors."""


class ProtocolError(Error):
    """The server has sent bytes that are not of the protocol."""


class Disconnected(Error, ConnectionError):
    """The connection could not be opened, or broke before the request had an effect."""


class UnknownOutcome(Error):
    """The connection broke after a write was sent: it may or may not have been executed."""


class ServerError(Error):
    """A request failed: MySQL's number, SQLSTATE and text."""

    def __init__(self, code, sqlstate, message):
        super().__init__(f"{code} ({sqlstate}): {message}")
        self.code = code
        self.sqlstate = sqlstate
        self.message = message


class OperationError(ServerError):
    """One operation of a batch failed."""


class ConditionFailed(Error):
    """The row does not have the required version or values."""


class Aborted(Error):
    """The operation was not executed, or was undone, because another one of its atomic batch failed."""
