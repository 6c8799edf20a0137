"""Numbers with scales of their own, as SQL: what is written once, and what not at all."""

from __future__ import annotations

import pytest

from waterclock.model.exact import Exact
from waterclock.model.pg_types import INT4, NUMERIC, PgType, numeric
from waterclock.sql.dialect import divisions, scaled
from waterclock.sql.dialect.types import bounded


def test_a_quotient_of_a_quotient_is_held_once() -> None:
    inner = divisions.quotient_sql("a", NUMERIC, "b", NUMERIC)
    outer = divisions.quotient_sql(inner, NUMERIC, "c", numeric(12, 2))
    assert outer.count(Exact.HELD) == 1
    assert outer.count(Exact.READ) == 2
    assert outer.count(f"{Exact.OF_DECIMAL}(c)") == 1


@pytest.mark.parametrize(
    "value",
    [
        f"{Exact.HELD}(a).v.w + {Exact.HELD}(b)",
        f"{Exact.HELD}(a) + f(b)",
        f"COALESCE({Exact.HELD}(a), b)",
        "n",
    ],
)
def test_what_only_begins_like_one_is_read(value: str) -> None:
    assert scaled.number_of(value, NUMERIC) == f"{Exact.READ}({value})"


@pytest.mark.parametrize("text", ["')'", "'\\')'", "`)`", "'('"])
def test_brackets_in_texts_and_names_do_not_count(text: str) -> None:
    inside = f"{Exact.PARSED}({text})"
    assert scaled.number_of(scaled.held(inside), NUMERIC) == inside


@pytest.mark.parametrize(
    ("value", "declared", "parts"),
    [
        ("CAST(1.50BD AS DECIMAL(3,2))", numeric(3, 2), "'w', 1BD, 'f', 0.50BD), 's', 2S"),
        ("CAST((-1.5BD) AS DECIMAL(3,2))", numeric(3, 2), "'w', (-1BD), 'f', (-0.50BD)), 's', 2S"),
        ("7", INT4, "'w', 7BD, 'f', 0BD), 's', 0S"),
        ("(-7)", INT4, "'w', (-7BD), 'f', 0BD), 's', 0S"),
        ("9" * 38 + "BD", bounded(38, 0), f"'w', {'9' * 38}BD, 'f', 0BD), 's', 0S"),
    ],
)
def test_a_constant_is_written_as_what_holds_it(value: str, declared: PgType, parts: str) -> None:
    assert parts in scaled.from_exact(value, declared)


def test_a_column_needs_no_function() -> None:
    assert "wc_exact" not in scaled.from_exact("t1.c2", numeric(12, 2))
    assert "wc_exact" not in scaled.to_exact("t1.c2", numeric(12, 2))


def test_more_digits_than_there_is_room_for_are_an_error() -> None:
    assert "RAISE_ERROR" in scaled.from_exact("a", bounded(38, 37))
