"""Random tables: few rows, few values, so that joins meet and groups have members."""

from __future__ import annotations

import random

from waterclock.testing.sql_oracle.arguments import Row, Value

COLUMNS: dict[str, str] = {
    "i": "int4",
    "b": "int8",
    "n": "numeric(10,2)",
    "m": "numeric",
    "f": "float8",
    "s": "text",
    "d": "date",
    "ts": "timestamp",
    "bo": "bool",
}
"""The columns of each table besides `id`, with their types."""
TABLES = ("r", "q")
_DOMAINS: dict[str, tuple[Value, ...]] = {
    "i": ("0", "1", "2", "3", "-1", "7", "12", "-5"),
    "b": ("0", "1", "2", "5000000000", "-1", "7"),
    "n": ("0.00", "1.50", "-2.25", "3.00", "10.10", "7.75"),
    "m": ("0", "1.5", "1.50", "-2.250", "3", "10.1", "0.00001", "12345.678"),
    "f": ("0", "1.5", "-2.5", "100", "0.25", "7"),
    "s": ("", "a", "abc", "Abc", "b c", "é", "x%y", "aXa"),
    "d": ("2024-02-29", "1969-12-31", "2000-01-01", "2024-03-01", "2023-12-31"),
    "ts": ("2024-02-29 12:34:56.5", "1969-12-31 23:59:59", "2000-01-01 00:00:00"),
    "bo": ("t", "f"),
}
_NULLS = 0.15
_MOST_ROWS = 14


def drawn_rows(chance: random.Random) -> list[Row]:
    """The rows of one table, without `id`."""
    count = chance.choice((0, 1, 5, _MOST_ROWS, _MOST_ROWS, _MOST_ROWS))
    return [tuple(_value(chance, name) for name in COLUMNS) for _ in range(count)]


def _value(chance: random.Random, column: str) -> Value:
    return None if chance.random() < _NULLS else chance.choice(_DOMAINS[column])
