"""The clauses of a SELECT behind its select list, and the block written with them.

The select list is known last: whoever sorts or cuts the rows adds columns to it. So what is made
here is a function of the columns. Columns that must be computed before the select list need the
syntax with pipes; such a block has no groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.sql.binding.blocks import Writer
from waterclock.sql.binding.grouping import Groups
from waterclock.sql.binding.typed import Typed

ONE_ROW = "(SELECT 1 AS c0) AS z"


@dataclass(frozen=True, slots=True)
class Clauses:
    """What stands behind the select list."""

    source: str
    where: Typed | None
    groups: Groups | None
    having: Typed | None
    extended: Sequence[str] = ()
    """What is computed of the rows first."""
    extended_first: Sequence[str] = ()
    """What is computed of the rows before WHERE."""


def writer(clauses: Clauses, is_distinct: bool) -> Writer:
    """What writes the block, given the columns of its select list."""

    def write(columns: Sequence[str]) -> str:
        if clauses.extended or clauses.extended_first:
            return _piped(clauses, columns, is_distinct)
        pieces = ["SELECT DISTINCT" if is_distinct else "SELECT", ", ".join(columns)]
        if clauses.source:
            pieces.append(f"FROM {clauses.source}")
        if clauses.where is not None:
            pieces.append(f"WHERE {clauses.where.sql}")
        if clauses.groups is not None and clauses.groups.sql is not None:
            pieces.append(f"GROUP BY {clauses.groups.sql}")
        if clauses.groups is not None and clauses.groups.is_bare:
            pieces.append("HAVING TRUE")
        if clauses.having is not None:
            pieces.append(f"HAVING {clauses.having.sql}")
        return " ".join(pieces)

    return write


def _piped(clauses: Clauses, columns: Sequence[str], is_distinct: bool) -> str:
    """The block with columns computed first, which the names of its relations stay beside."""
    pieces = [f"FROM {clauses.source or ONE_ROW}", *map(_extend, clauses.extended_first)]
    if clauses.where is not None:
        pieces.append(f"WHERE {clauses.where.sql}")
    pieces += map(_extend, dict.fromkeys(clauses.extended))
    pieces.append(f"SELECT {'DISTINCT ' if is_distinct else ''}{', '.join(columns)}")
    return " |> ".join(pieces)


def _extend(named: str) -> str:
    return f"EXTEND {named}"
