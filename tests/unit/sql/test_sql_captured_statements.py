"""What real clients send is understood.

The folder of captured statements is the one that lies beside the project, or the one that the
variable `WATERCLOCK_CAPTURED_STATEMENTS` names; in each file a block is a line that starts with
`-- @@ `, then the text, then a line with a semicolon. A selection is in this file, so that
something is always tried.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.parser import parse_statements

FOLDER = Path(
    os.environ.get(
        "WATERCLOCK_CAPTURED_STATEMENTS",
        Path(__file__).parents[4] / "shared" / "pg_catalog_queries",
    )
)  # fmt: skip

SELECTION = [
    ("BEGIN", "Begin"),
    ("BEGIN READ ONLY", "Begin"),
    ("begin transaction", "Begin"),
    ("COMMIT", "Commit"),
    ("ROLLBACK", "Rollback"),
    ('SAVEPOINT "_pg3_1"', "Savepoint"),
    ('RELEASE "_pg3_1"', "ReleaseSavepoint"),
    ("ROLLBACK TO SAVEPOINT JDBC_SAVEPOINT_0", "RollbackToSavepoint"),
    ("DEALLOCATE ALL", "Deallocate"),
    ("insert into t values($1,$2)", "Insert"),
    ("select $1::int4,$2::text", "Query"),
    ("SELECT '{}'::oid[] || $1", "Query"),
    ('COPY "t" FROM STDIN (FORMAT binary)', "Copy"),
    ("copy customers to stdout (format binary)", "Copy"),
    ("COPY (select * from customers) TO STDOUT", "Copy"),
    ('DECLARE "nc" CURSOR WITHOUT HOLD FOR select id from customers', "DeclareCursor"),
    ('FETCH FORWARD ALL FROM "c1"', "Fetch"),
    ("MOVE FORWARD 2 __asyncpg_portal_a__", "Fetch"),
    ('CLOSE "c1"', "CloseCursor"),
    ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SetTransaction"),
    ("SET extra_float_digits = 3", "SetSetting"),
    ("set statement_timeout='5s'", "SetSetting"),
    ("SHOW TRANSACTION ISOLATION LEVEL", "ShowSetting"),
    ("create temp table t(a int,b text)", "CreateTable"),
    ('create materialized view "shop"."dbtmz"."b" in cluster x as (select 1)',
     "CreateMaterializedView"),
    ('create index "i" in cluster c on "s"."t" ("id")', "CreateIndex"),
    ('comment on materialized view "a"."b"."c" is $dbt_comment_literal_block$b '
     "model$dbt_comment_literal_block$", "CommentOn"),
    ('drop materialized view if exists "a"."b"."c" cascade', "Drop"),
    ("notify x,'hi'", "Notify"),
    ("LISTEN x", "Listen"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), SELECTION)
def test_a_selection(text: str, kind: str) -> None:
    (parsed,) = parse_statements(text)
    assert type(parsed.statement).__name__ == kind
    assert parsed.text == text


def test_the_reset_of_a_connection_pool() -> None:
    found = parse_statements(
        "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"
    )
    kinds = [type(parsed.statement).__name__ for parsed in found]
    assert kinds == ["Query", "CloseCursor", "Unlisten", "ResetSetting"]


def captured() -> list[str]:
    texts = []
    for path in sorted(FOLDER.glob("*.sql")):
        for block in path.read_text().split("\n-- @@ ")[1:]:
            _, _, text = block.partition("\n")
            texts.append(text.rstrip().removesuffix(";"))
    return texts


def test_every_captured_statement() -> None:
    texts = captured()
    if not texts:
        pytest.skip(f"no captured statements in {FOLDER}")
    assert len(texts) > 500
    for text in texts:
        for parsed in parse_statements(text):
            assert not isinstance(parsed.statement, Unsupported), text
            assert parsed.text in text
