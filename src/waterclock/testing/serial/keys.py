"""Which keys of a history are promised what.

A key is named `source:name`, and a source that shares its order upstream `order.source:name`. Those
of tables are named `table:name`, and belong to all others.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.testing.serial.history import History, Key, keys_of

TABLES = "table"


def source_of(key: Key) -> str:
    """The source that the key belongs to, or `TABLES`."""
    return key.partition(":")[0]


def order_of(key: Key) -> str:
    """What has all sources of its order in common."""
    return source_of(key).partition(".")[0]


def sources_of(history: History) -> list[frozenset[Key]]:
    """The keys of each source, with those of the tables."""
    return _groups(history, source_of)


def orders_of(history: History) -> list[frozenset[Key]]:
    """The keys of all sources of each order, with those of the tables."""
    return _groups(history, order_of)


def _groups(history: History, group_of: Callable[[Key], str]) -> list[frozenset[Key]]:
    keys = keys_of(history)
    tables = frozenset(key for key in keys if group_of(key) == TABLES)
    names = sorted({group_of(key) for key in keys - tables})
    found = [frozenset(k for k in keys if group_of(k) == name) | tables for name in names]
    return found or [tables]
