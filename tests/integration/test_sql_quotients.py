"""Quotients of constants have just the digits that PostgreSQL gives them."""

from __future__ import annotations

import random
from decimal import Decimal

import psycopg
import pytest

from waterclock.sql.dialect.numerics import known_quotient
from waterclock.testing.services import PostgresServer

pytestmark = pytest.mark.service

PAIRS = 2_000


def _drawn(chance: random.Random) -> Decimal:
    digits = chance.randrange(1, 20)
    number = Decimal(chance.randrange(1, 10**digits)).scaleb(-chance.randrange(0, 20))
    if chance.random() < 0.3:  # the first digits of both decide, so let them often be the same
        number = Decimal(chance.choice((1, 9, 10, 100, 9999, 10000, 12345))).scaleb(
            -chance.randrange(0, 9)
        )
    return -number if chance.random() < 0.2 else number


def test_quotients_of_random_numbers(postgres_server: PostgresServer) -> None:
    chance = random.Random(0)
    pairs = [(_drawn(chance), _drawn(chance)) for _ in range(PAIRS)]
    rows = ", ".join(
        f"({n}, {left:f}::numeric, {right:f})" for n, (left, right) in enumerate(pairs)
    )
    query = f"SELECT (a / b)::text FROM (VALUES {rows}) AS v(n, a, b) ORDER BY n"
    with psycopg.connect(postgres_server.conninfo()) as connection:
        theirs = [row[0] for row in connection.execute(query.encode())]
    ours = [f"{known_quotient(left, right):f}" for left, right in pairs]
    wrong = [
        (pair, mine, right)
        for pair, mine, right in zip(pairs, ours, theirs, strict=True)
        if mine != right
    ]
    assert wrong == []
