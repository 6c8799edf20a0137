"""Expressions that have been understood: their Spark SQL, their type, what they are made of.

A string constant, NULL or parameter may still be without a type; it gets one from where it is used
(`coercion`). Everything else has the type that PostgreSQL gives it.

`sql` can be put anywhere an operand may stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from waterclock.model.pg_types import PgType
from waterclock.persist.numerics import python_value
from waterclock.sql.binding.api import Comparison
from waterclock.sql.dialect.types import UNKNOWN
from waterclock.sql.errors import FeatureNotSupported

_ATOM = re.compile(r"[\w.`]+|-?[0-9][\w.]*")


ANY_OF_GROUP = "ANY_VALUE("
"""How what is the same for all rows of a group, without being a key, is taken from one of them."""


class Role(Enum):
    """What an expression is at its top."""

    PLAIN = "plain"
    AGGREGATE = "aggregate function"
    GROUPING = "GROUPING"
    WINDOW = "window function"
    SET = "set-returning function"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class Known:
    """A constant: the text of one without a type, or the value of one with. Null has neither."""

    text: str | None = None
    scalar: pa.Scalar | None = None
    is_number: bool = False
    """Whether the text is a number, of more digits than a numeric has: only a float can be it."""
    number: int | None = None
    """The relation's OID, if the text is the name of a relation."""

    @property
    def is_null(self) -> bool:
        return self.text is None and (self.scalar is None or not self.scalar.is_valid)


@dataclass(frozen=True, slots=True)
class Column:
    """A column in scope. `scope` is the number of the query it belongs to."""

    name: str
    sql: str
    type: PgType
    scope: int
    nullable: bool = True
    table: str | None = None
    """The name by which the relation is known."""
    table_oid: int = 0
    number: int = 0
    stored_as: str | None = None
    """What a collection calls it, if it is a column of one, unchanged."""
    is_declared: bool = False
    """Whether the modifier of its type was written for it."""

    @property
    def is_plain(self) -> bool:
        return self.stored_as is not None


@dataclass(frozen=True, slots=True)
class Composite:
    """What a row is beside its fields, which are the parts of the expression."""

    names: tuple[str, ...]
    is_made: bool = False
    """Whether it is made by ROW(...): else it is the whole row of a relation."""
    is_padded: bool = False
    """Whether a join may have no row."""
    witness: str | None = None
    """The SQL of a field that is null only where there is no row."""
    relation: str | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression. `parts` are those it is computed from."""

    sql: str
    type: PgType
    at: int
    parts: tuple[Typed, ...] = ()
    nullable: bool = True
    known: Known | None = None
    column: Column | None = None
    parameter: int | None = None
    role: Role = Role.PLAIN
    test: tuple[Comparison, ...] | None = None
    """What it asks of columns of a collection, if that is all it does."""
    composite: Composite | None = None
    """Of a row. It has no SQL of its own until it is settled as a value of type record."""

    @property
    def is_unknown(self) -> bool:
        return self.type.oid == UNKNOWN.oid

    @property
    def text(self) -> str | None:
        """The value, if it is a constant string."""
        if self.known is None:
            return None
        if self.known.text is not None:
            return self.known.text
        scalar = self.known.scalar
        is_text = scalar is not None and scalar.is_valid and pa.types.is_string(scalar.type)
        return str(scalar.as_py()) if is_text and scalar is not None else None

    @property
    def value(self) -> Any:
        """The value, if it is a constant of a type and not null, as Python has it.

        None also for times that Python has not: infinity, and years beyond 9999.
        """
        scalar = None if self.known is None else self.known.scalar
        try:
            return None if scalar is None else python_value(scalar)
        except (OverflowError, ValueError):
            return None

    def walk(self) -> Iterator[Typed]:
        """It and all it is computed from."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def at_position(self, at: int) -> Typed:
        return replace(self, at=at)


def missing_sql(row: Typed) -> str | None:
    """SQL that is true where there is no row; None if there always is one. Raises if unknown."""
    composite = row.composite
    if composite is None or not composite.is_padded:
        return None
    if composite.witness is None:
        raise FeatureNotSupported(
            f'the whole row of "{composite.relation}", for which a join may have none, as a value'
            " is not supported",
            row.at,
            hint="It is, if the relation has a column that is declared as NOT NULL.",
        )
    return f"({composite.witness} IS NULL)"


def operand(sql: str) -> str:
    """The SQL in brackets, unless it needs none."""
    if _ATOM.fullmatch(sql) or _is_enclosed(sql):
        return sql
    return f"({sql})"


def _is_enclosed(sql: str) -> bool:
    """Whether it is one call, or in brackets, or one string."""
    if sql[-1] == "'" and sql.count("'") == 2 and sql[0] in "'X":
        return True
    if sql[-1] != ")":
        return False
    opening = re.match(r"\w*\(", sql)
    if opening is None:
        return False
    depth, at, end = 0, opening.end() - 1, len(sql)
    while at < end:
        character = sql[at]
        if character == "'":
            at = _behind_string(sql, at)
            continue
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return at == end - 1
        at += 1
    raise AssertionError("brackets match")


def _behind_string(sql: str, at: int) -> int:
    at += 1
    while sql[at] != "'":
        at += 2 if sql[at] == "\\" else 1
    return at + 1
