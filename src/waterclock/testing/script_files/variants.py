"""PostgreSQL's other answers to a query, which show what SQL leaves open.

The tables that the query names are stored in another order, and the planner does without the
methods that it preferred. A query whose rows then differ is ambiguous: LIMIT without a total order,
row_number over peers, the rounding of a sum of floating-point numbers. Everything happens in a
transaction, or behind a savepoint, that is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import pq

from waterclock.testing.judge.systems import Answer
from waterclock.testing.script_files.sessions import Session
from waterclock.testing.script_files.statements import Words

_SCHEMA = "other_order"
_ORDERS = ("ctid DESC", "md5(whole::text)", "md5('other' || whole::text)", "ctid")
_WITHOUT = (
    ("hashagg", "hashjoin"),
    ("sort", "mergejoin", "nestloop"),
    ("hashjoin", "mergejoin"),
    ("hashagg", "nestloop", "material", "memoize"),
)
_TABLES = f"""
SELECT format('%I', relname), format('%I.%I', nspname, relname), relname
FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
  AND nspname NOT IN ('pg_catalog', 'information_schema', '{_SCHEMA}')
"""


@contextmanager
def undone(session: Session) -> Iterator[None]:
    """What happens inside leaves no trace. The session must not be in a failed block."""
    if session.block == pq.TransactionStatus.IDLE:
        session.run("BEGIN")
        yield
        session.run("ROLLBACK")
    else:
        session.run("SAVEPOINT undone")
        yield
        session.run("ROLLBACK TO SAVEPOINT undone")
        session.run("RELEASE SAVEPOINT undone")


def other_answers(session: Session, words: Words) -> list[Answer]:
    """The answers that succeed."""
    answers = []
    for order, methods in zip(_ORDERS, _WITHOUT, strict=True):
        with undone(session):
            _store(session, words.names, order)
            for method in methods:
                session.run(f"SET LOCAL enable_{method} = off")
            answers.append(session.run(words.text))
    return [answer for answer in answers if answer.sqlstate is None]


def _store(session: Session, names: frozenset[str], order: str) -> None:
    tables = session.run(_TABLES).rows
    path = session.run("SHOW search_path").rows[0][0] or b""
    session.run(f"CREATE SCHEMA {_SCHEMA}")
    for row in tables:
        short, full, name = ((value or b"").decode() for value in row)
        if name in names:
            ordered = order.replace("ctid", "whole.ctid")
            if session.run("SAVEPOINT stored").sqlstate is None:
                copy = f"CREATE TABLE {_SCHEMA}.{short} AS SELECT * FROM {full} whole"
                made = session.run(f"{copy} ORDER BY {ordered}")
                if made.sqlstate is not None:
                    session.run("ROLLBACK TO SAVEPOINT stored")
    session.run(f"SET LOCAL search_path = {_SCHEMA}, {path.decode() or 'public'}, pg_temp")
