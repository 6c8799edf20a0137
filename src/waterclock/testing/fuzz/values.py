"""The types that relations are made of, and small pools of values for them.

Pools are small so that rows meet: in joins, in groups, and as duplicates. Floating-point numbers
are multiples of a quarter, whose sums and products are exact in any order, or no numbers at all.
`edge` values are those at the end of a type's range, where arithmetic overflows.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

UTC = datetime.UTC
_DAY = datetime.date(2020, 1, 30)
_MOMENT = datetime.datetime(2020, 1, 30, 22, 30, tzinfo=UTC)
_TEXTS = ("", "a", "b", "ab", "A", " b", "a%", "x_y", "é", "10")


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: its name in SQL, random values of it, and how values are written."""

    sql: str
    draw: Callable[[random.Random], Any]
    edges: tuple[Any, ...]
    literal: Callable[[Any], str]
    parse: Callable[[Any], Any]
    """From what JSON holds, which is the value's text unless JSON has the type."""


def _same(value: Any) -> Any:
    return value


def _decimal(pick: random.Random) -> decimal.Decimal:
    return decimal.Decimal(pick.randrange(-8, 20) * 25).scaleb(-2)


def _double(pick: random.Random) -> float:
    if pick.random() < 0.12:
        return pick.choice((-0.0, math.nan, math.inf, -math.inf))
    return pick.randrange(-8, 20) / 4


def _doubles(pick: random.Random) -> tuple[float | None, ...]:
    return tuple(pick.choice((0.0, 1.5, math.nan, None)) for _ in range(pick.randrange(3)))


def _parsed(held: float | None) -> Any:
    """The number; NaN as the one that equals itself because it is the same object."""
    return math.nan if held is not None and math.isnan(held) else held


def _double_literal(value: float) -> str:
    return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"


def _moment(pick: random.Random) -> datetime.datetime:
    return _MOMENT + datetime.timedelta(minutes=45 * pick.randrange(5))


def _element(value: float | None) -> str:
    return "NULL" if value is None else _double_literal(value)


_WIDE = tuple(decimal.Decimal(n).scaleb(-4) for n in (0, 1, 2**64, -(2**64), 10**37, -(10**37)))

KINDS: Mapping[str, Kind] = {
    "int": Kind("INT", lambda p: p.randrange(-3, 8), (2**31 - 1, -(2**31)), str, int),
    "bigint": Kind(
        "BIGINT", lambda p: p.randrange(-3, 8), (2**63 - 1, -(2**63)), lambda v: f"{v}L", int
    ),
    "decimal": Kind(
        "DECIMAL(10,2)",
        _decimal,
        (decimal.Decimal("99999999.99"), decimal.Decimal("-99999999.99")),
        lambda v: f"{v}BD",
        lambda text: decimal.Decimal(text),
    ),
    "string": Kind("STRING", lambda p: p.choice(_TEXTS), ("zz",), lambda v: f"'{v}'", _same),
    "boolean": Kind(
        "BOOLEAN", lambda p: p.random() < 0.5, (True,), lambda v: "true" if v else "false", bool
    ),
    "date": Kind(
        "DATE",
        lambda p: _DAY + datetime.timedelta(days=p.randrange(4)),
        (datetime.date(9999, 12, 31),),
        lambda v: f"DATE'{v.isoformat()}'",
        datetime.date.fromisoformat,
    ),
    "timestamp": Kind(
        "TIMESTAMP",
        _moment,
        (datetime.datetime(1, 1, 1, tzinfo=UTC),),
        lambda v: f"TIMESTAMP'{v.replace(tzinfo=None).isoformat(sep=' ')}'",
        datetime.datetime.fromisoformat,
    ),
    "double": Kind("DOUBLE", _double, (1e300, -1e300), _double_literal, _parsed),
    "wide": Kind(
        "DECIMAL(38,4)",
        lambda p: p.choice(_WIDE),
        _WIDE[-2:],
        lambda v: f"CAST('{v}' AS DECIMAL(38,4))",
        lambda text: decimal.Decimal(text),
    ),
    "binary": Kind(
        "BINARY",
        lambda p: p.choice((b"", b"\0", b"\0\0", b"\xff", b"ab")),
        (b"\xff" * 40,),
        lambda v: f"X'{v.hex()}'",
        bytes.fromhex,
    ),
    "doubles": Kind(
        "ARRAY<DOUBLE>",
        _doubles,
        ((1e300,),),
        lambda v: f"CAST(array({', '.join(map(_element, v))}) AS ARRAY<DOUBLE>)",
        lambda held: tuple(map(_parsed, held)),
    ),
}

PLAIN_LITERALS: Mapping[str, str] = {
    "int": "1",
    "bigint": "1L",
    "decimal": "1.00BD",
    "string": "'a'",
    "boolean": "true",
    "date": "DATE'2020-01-30'",
    "timestamp": "TIMESTAMP'2020-01-30 22:30:00'",
    "double": "1.0D",
}


def value(pick: random.Random, kind: str, *, edge: float = 0.0) -> Any:
    """A value that is not null; with probability `edge`, one at the end of the range."""
    if edge and pick.random() < edge:
        return pick.choice(KINDS[kind].edges)
    return KINDS[kind].draw(pick)


def literal(pick: random.Random, kind: str) -> str:
    """A constant in SQL; now and then it is null."""
    if pick.random() < 0.06:
        return f"CAST(NULL AS {KINDS[kind].sql})"
    text = KINDS[kind].literal(value(pick, kind))
    return f"({text})" if text.startswith("-") else text


def to_json(held: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(held, datetime.datetime | datetime.date):
        return held.isoformat()
    if isinstance(held, bytes):
        return held.hex()
    return str(held) if isinstance(held, decimal.Decimal) else held


def from_json(kind: str, held: Any) -> Any:
    return None if held is None else KINDS[kind].parse(held)
