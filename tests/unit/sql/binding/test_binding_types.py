"""The types of expressions, which a test against PostgreSQL keeps true."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.errors import WaterclockError
from waterclock.sql.dialect.types import shown
from waterclock.testing.relations import KnownRelations, bound

EXPECTED = Path(__file__).parent / "expression_types.txt"
T = {
    "id": "int not null",
    "a": "int",
    "b": "text",
    "c": "numeric(10,2)",
    "n": "numeric",
    "d": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "f": "float8",
    "r": "float4",
    "bl": "bool",
    "s": "smallint",
    "big": "bigint",
    "i": "interval",
    "arr": "int[]",
    "tarr": "text[]",
    "j": "jsonb",
    "u": "uuid",
    "by": "bytea",
    "tm": "time",
    "v": "varchar(10)",
    "ch": "char(5)",
}


def expectations() -> list[tuple[str, str]]:
    lines = EXPECTED.read_text().splitlines()
    return [(e, t) for e, _, t in (line.partition("  ->  ") for line in lines)]


def test_expressions_have_the_types_of_postgres() -> None:
    relations = KnownRelations({"t": T})
    wrong = []
    for expression, expected in expectations():
        try:
            found = shown(bound(f"SELECT {expression} FROM t", relations).columns[0].type)
        except WaterclockError as error:
            found = error.sqlstate
        if found != expected:
            wrong.append(f"{expression}: {found}, not {expected}")
    assert wrong == []


@pytest.mark.parametrize(
    ("expression", "precision", "scale"),
    [
        ("1.50", 3, 2),
        ("c + 1", 11, 2),
        ("c + a", 13, 2),
        ("c + 1.555", 12, 3),
        ("c - 0.1", 11, 2),
        ("c * 1.5", 13, 3),
        ("c * c", 21, 4),
        ("1 / 3.0", 20, 20),
        ("7 / 7.0", 21, 20),
        ("100000.0 / 3", 17, 12),
        ("c ^ 2", 38, 16),
        ("c % 3", 10, 2),
        ("-c", 10, 2),
        ("sum(c)", 20, 2),
        ("sum(big)", 29, 0),
        ("round(c)", 9, 0),
        ("round(c, 1)", 10, 1),
        ("ceil(c)", 9, 0),
        ("coalesce(c, 0.00)", 10, 2),
        ("case when bl then c else 155.55 end", 10, 2),
        ("round(n, 2)", 37, 2),
        ("ceil(n)", 38, 0),
        ("a::numeric", 10, 0),
        ("c::numeric", 10, 2),
        ("a::numeric(8,3)", 8, 3),
        ("extract(second from ts)", 20, 6),
    ],
)
def test_numerics_carry_the_digits_they_have(expression: str, precision: int, scale: int) -> None:
    relations = KnownRelations({"t": T})
    modifier = bound(f"SELECT {expression} FROM t", relations).columns[0].type.modifier
    assert ((modifier - 4) >> 16, (modifier - 4) & 0xFFFF) == (precision, scale)


@pytest.mark.parametrize(
    "expression",
    [
        *("n", "n + 1", "n * c", "c / n", "sum(n)", "avg(n)", "-n", "c / 3", "avg(a)", "avg(c)"),
        *("coalesce(c, 0)", "case when bl then c else 1.5555 end", "a::text::numeric", "sqrt(c)"),
        *("greatest(c, 1)", "n % 2", "abs(n)", "f::numeric", "stddev(a)", "variance(c)"),
    ],
)
def test_values_with_scales_of_their_own(expression: str) -> None:
    relations = KnownRelations({"t": T})
    assert bound(f"SELECT {expression} FROM t", relations).columns[0].type.modifier == -1
