"""The format of SQL tests, over a runner that knows the outcomes."""

from __future__ import annotations

import asyncio

import pytest

from waterclock.testing.slt import MalformedRecord, Outcome, compared, parsed, rewritten

GOOD = """# a comment
statement ok
CREATE TABLE t (a int)

statement ok INSERT 0 2
INSERT INTO t
VALUES (1), (2)

statement error 42P01
SELECT * FROM nowhere

query IT rowsort names
SELECT a, b FROM t
----
a  b
1  NULL
2  (empty)

query IT mask=1
SELECT now, b FROM t
----
*  two␠␠blanks
*  a⏎line

connection other role=bob

query error 22012
SELECT 1 / 0

halt

query I
SELECT never
----
"""

OUTCOMES = {
    "CREATE TABLE t (a int)": Outcome("CREATE TABLE"),
    "INSERT INTO t\nVALUES (1), (2)": Outcome("INSERT 0 2"),
    "SELECT * FROM nowhere": Outcome(sqlstate="42P01", message="no such thing"),
    "SELECT a, b FROM t": Outcome("SELECT", ("a", "b"), "IT", (("2", ""), ("1", None))),
    "SELECT now, b FROM t": Outcome(
        "SELECT", ("now", "b"), "IT", (("17", "two  blanks"), ("18", "a\nline"))
    ),
    "SELECT 1 / 0": Outcome(sqlstate="22012"),
}


class Known:
    """Implements `Runner`."""

    def __init__(self, outcomes: dict[str, Outcome]) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[str, str | None]] = []

    async def __call__(self, session: str, role: str | None, text: str) -> Outcome:
        self.asked.append((session, role))
        return self.outcomes[text]


def test_what_is_as_expected_stays_as_it_is() -> None:
    runner = Known(OUTCOMES)
    assert asyncio.run(compared(GOOD, runner)) == []
    assert runner.asked[0] == ("default", None)
    assert runner.asked[-1] == ("other", "bob")
    assert asyncio.run(rewritten(GOOD, Known(OUTCOMES))) == GOOD


@pytest.mark.parametrize(
    ("sql", "outcome"),
    [
        ("CREATE TABLE t (a int)", Outcome(sqlstate="42P07")),
        ("INSERT INTO t\nVALUES (1), (2)", Outcome("INSERT 0 1")),
        ("SELECT * FROM nowhere", Outcome(sqlstate="42601")),
        ("SELECT * FROM nowhere", Outcome("SELECT", ("a",), "I", ())),
        ("SELECT a, b FROM t", Outcome("SELECT", ("a", "b"), "IT", (("1", None),))),
        ("SELECT a, b FROM t", Outcome("SELECT", ("a", "c"), "IT", (("2", ""), ("1", None)))),
        ("SELECT a, b FROM t", Outcome("SELECT", ("a", "b"), "TT", (("2", ""), ("1", None)))),
        ("SELECT now, b FROM t", Outcome("SELECT", ("n", "b"), "IT", (("1", "x"), ("2", "y")))),
    ],
)
def test_what_is_not_is_found_and_mended(sql: str, outcome: Outcome) -> None:
    outcomes = {**OUTCOMES, sql: outcome}
    [mismatch] = asyncio.run(compared(GOOD, Known(outcomes)))
    assert mismatch.record.sql == sql
    assert str(mismatch.record.line) in str(mismatch)
    mended = asyncio.run(rewritten(GOOD, Known(outcomes)))
    assert mended != GOOD
    assert asyncio.run(compared(mended, Known(outcomes))) == []


def test_statements_alone_become_a_test() -> None:
    text = "query ?\nSELECT a, b FROM t\n\nstatement ok\nSELECT 1 / 0\n"
    made = asyncio.run(rewritten(text, Known(OUTCOMES)))
    assert made == (
        "query IT\nSELECT a, b FROM t\n----\n2  (empty)\n1  NULL\n\n"
        "statement error 22012\nSELECT 1 / 0\n"
    )


@pytest.mark.parametrize("text", ["statement\nSELECT 1", "query I", "nonsense ok\nSELECT 1"])
def test_what_is_not_in_the_format(text: str) -> None:
    with pytest.raises(MalformedRecord):
        parsed(text)
