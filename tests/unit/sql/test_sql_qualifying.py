"""Complete names in the text of a query."""

from __future__ import annotations

import pytest

from waterclock.sql.qualifying import qualified

NAMES = {"t": ("d", "public", "t"), "s.u": ("d", "s", "u"), "T": ("d", "public", "T")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t", "SELECT * FROM d.public.t AS t"),
        ("select T.a from T", "select T.a from d.public.t AS t"),
        ("SELECT * FROM t x, S.U", "SELECT * FROM d.public.t x, d.s.u AS u"),
        ('SELECT 1 FROM "T" -- t\n', 'SELECT 1 FROM d.public."T" AS "T" -- t\n'),
        ("SELECT t.a FROM t AS t (a)", "SELECT t.a FROM d.public.t AS t (a)"),
        (
            "SELECT 't' FROM other JOIN t ON true",
            "SELECT 't' FROM other JOIN d.public.t AS t ON true",
        ),
        ("SELECT (SELECT max(a) FROM t)", "SELECT (SELECT max(a) FROM d.public.t AS t)"),
        ("WITH t AS (SELECT 1) SELECT * FROM t", "WITH t AS (SELECT 1) SELECT * FROM t"),
        ("not a query (", "not a query ("),
    ],
)
def test_names_of_relations_are_completed(text: str, expected: str) -> None:
    assert qualified(text, NAMES) == expected
