"""Cursors that go both ways stand where PostgreSQL's do."""

from __future__ import annotations

import random

import psycopg
import pyarrow as pa
import pytest

from waterclock.adapter.scrolling import Scroll
from waterclock.sql import ast
from waterclock.sql.parser import parse_statements
from waterclock.testing.services import PostgresServer

pytestmark = pytest.mark.service

WAYS = (
    "NEXT",
    "PRIOR",
    "FIRST",
    "LAST",
    "ALL",
    "FORWARD ALL",
    "BACKWARD ALL",
    "FORWARD",
    "BACKWARD",
)
COUNTED = ("", "FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE")


def one_way(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(WAYS)
    return f"{chance.choice(COUNTED)} {chance.randint(-4, 4)}"


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_each_way_leads_to_where_postgresql_comes(
    rows: int, postgres_server: PostgresServer
) -> None:
    chance = random.Random(rows)
    with psycopg.connect(postgres_server.conninfo("postgres")) as connection:
        for _ in range(40):
            connection.execute(
                f"DECLARE c SCROLL CURSOR FOR SELECT generate_series(1, {rows}) ORDER BY 1"
            )
            scroll = Scroll(pa.table({"a": list(range(1, rows + 1))}) if rows else None)
            history = []
            for _ in range(12):
                history.append(text := f"FETCH {one_way(chance)} FROM c")
                fetch = parse_statements(text)[0].statement
                assert isinstance(fetch, ast.Fetch)
                batches = scroll.fetch(fetch.direction, fetch.count)
                found = [value for batch in batches for value in batch.column(0).to_pylist()]
                assert found == [row[0] for row in connection.execute(text)], history
            connection.execute("CLOSE c")
