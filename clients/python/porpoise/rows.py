"""Rows."""


class Row(dict):
    """A row that was read: its columns, and its version."""

    __slots__ = ("version",)
