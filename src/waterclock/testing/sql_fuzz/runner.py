"""One seed: tables in both systems, some queries over them, and what differs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from waterclock.testing.sql_fuzz.data import COLUMNS, TABLES, drawn_rows
from waterclock.testing.sql_fuzz.queries import drawn_query
from waterclock.testing.sql_oracle.arguments import Row
from waterclock.testing.sql_oracle.engine import Engine
from waterclock.testing.sql_oracle.oracle import Oracle

_REFUSED = ("!0A000", "!42883")
_FOR_ONE_SEED = 8

_CHOOSING = ("distinct", "group by", "union", "intersect", "except", "max(", "min(")
"""What shows one of several values that are equal."""


@dataclass(slots=True)
class Findings:
    """What came out of some seeds."""

    queries: int = 0
    rows: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{self.queries} queries, {self.rows} rows, {self.refused} not supported,"
            f" {len(self.differences)} differences"
        )


def check_seed(engine: Engine, oracle: Oracle, seed: int, findings: Findings) -> None:
    """Draw tables and queries of a seed, and compare them."""
    chance = random.Random(seed)
    for name in TABLES:
        rows = drawn_rows(chance)
        engine.create_named(name, COLUMNS, rows)
        oracle.create_named(name, COLUMNS, rows)
    for _ in range(_FOR_ONE_SEED):
        check_query(engine, oracle, drawn_query(chance), seed, findings)


def check_query(engine: Engine, oracle: Oracle, query: str, seed: int, findings: Findings) -> None:
    findings.queries += 1
    theirs = oracle.texts(query)
    ours = engine.rows(query)
    if isinstance(ours, str) and ours in _REFUSED:
        findings.refused += 1
        return
    if isinstance(ours, str) or isinstance(theirs, str):
        mine = ours if isinstance(ours, str) else "rows"
        other = theirs if isinstance(theirs, str) else "rows"
        if mine[:3] != other[:3]:
            findings.differences.append(f"seed {seed}: {query}\n    {mine}, not {other}")
        return
    findings.rows += len(theirs)
    _, rows = ours
    is_ordered = " order by 1" in query
    chooses = any(word in query.lower() for word in _CHOOSING)
    found = difference(rows, theirs, is_ordered=is_ordered, is_strict=not chooses)
    if found is not None:
        findings.differences.append(f"seed {seed}: {query}\n    {found}")


def difference(
    ours: Sequence[Row], theirs: Sequence[Row], *, is_ordered: bool, is_strict: bool = False
) -> str | None:
    """What differs between two results; None if nothing does."""
    left, right = list(map(_normal, ours)), list(map(_normal, theirs))
    found, wanted = Counter(ours if is_strict else left), Counter(theirs if is_strict else right)
    more, fewer = found - wanted, wanted - found
    if more or fewer:
        return f"{list(more.items())[:4]}, not {list(fewer.items())[:4]}"
    if is_ordered and left != right:  # which of equal numbers comes first is not said
        return "the rows are in another order"
    return None


def _normal(row: Row) -> Row:
    """Numbers in one form: of equal ones another may be chosen, with more or fewer zeros."""
    return tuple(None if value is None else _number(value) for value in row)


def _number(text: str) -> str:
    if not text[-1:].isdigit():
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return text if not number.is_finite() else f"{number.normalize():f}"
