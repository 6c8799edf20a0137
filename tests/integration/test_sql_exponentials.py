"""Logarithms and powers of numeric constants have just the digits that PostgreSQL gives them."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import psycopg
import pytest

from waterclock.sql.dialect.exponentials import exponential, logarithm, natural_logarithm, power
from waterclock.testing.services import PostgresServer

pytestmark = pytest.mark.service

COUNT = 400
BORDERS = (
    *("0.9", "0.8999", "1.1", "1.1001", "1.0000", "1.00001", "0.99999", "0.95", "1", "10"),
    *("2.718281828459045", "2.7182", "22026.4657", "22026.4658", "9999", "10000", "10001"),
    *("0.0001", "0.00011", "12345678", "99999999.99", "0.000000000123", "7e20", "1.5000"),
)


def _drawn(chance: random.Random) -> Decimal:
    if chance.random() < 0.3:
        return Decimal(chance.choice(BORDERS))
    digits = chance.randrange(1, 18)
    return Decimal(chance.randrange(1, 10**digits)).scaleb(-chance.randrange(0, 18))


def _small(chance: random.Random) -> Decimal:
    number = Decimal(chance.randrange(1, 10**5)).scaleb(-chance.randrange(2, 7))
    return number % 30 * chance.choice((1, -1))


def _compared(
    server: PostgresServer,
    call: str,
    ours: Callable[[Decimal, Decimal], Decimal],
    pairs: list[tuple[Decimal, Decimal]],
) -> None:
    rows = ", ".join(f"({n}, {a:f}::numeric, {b:f}::numeric)" for n, (a, b) in enumerate(pairs))
    query = f"SELECT ({call})::text FROM (VALUES {rows}) AS v(n, a, b) ORDER BY n"
    with psycopg.connect(server.conninfo()) as connection:
        theirs = [row[0] for row in connection.execute(query.encode())]
    found = [f"{ours(a, b):f}" for a, b in pairs]
    wrong = [each for each in zip(pairs, found, theirs, strict=True) if each[1] != each[2]]
    assert wrong == []


def _pairs(
    first: Callable[[random.Random], Decimal], second: Callable[[random.Random], Decimal]
) -> list[tuple[Decimal, Decimal]]:
    chance = random.Random(5)
    return [(first(chance), second(chance)) for _ in range(COUNT)]


def test_natural_logarithms(postgres_server: PostgresServer) -> None:
    found = [*_pairs(_drawn, _drawn), *((Decimal(each), Decimal(1)) for each in BORDERS)]
    _compared(postgres_server, "ln(a)", lambda a, _: natural_logarithm(a), found)


def test_logarithms(postgres_server: PostgresServer) -> None:
    found = [pair for pair in _pairs(_drawn, _drawn) if pair[0] != 1]
    _compared(postgres_server, "log(a, b)", logarithm, found)
    _compared(postgres_server, "log(b)", lambda _, b: logarithm(Decimal(10), b), found)


def test_exponentials(postgres_server: PostgresServer) -> None:
    found = _pairs(_small, _drawn)
    _compared(postgres_server, "exp(a)", lambda a, _: exponential(a), found)


def test_powers(postgres_server: PostgresServer) -> None:
    found = [(abs(a), b) for a, b in _pairs(_small, _small) if a and abs(b) < 12]
    _compared(postgres_server, "power(a, b)", power, found)


def test_powers_by_whole_numbers(postgres_server: PostgresServer) -> None:
    def whole(chance: random.Random) -> Decimal:
        return Decimal(chance.randrange(-6, 25))

    found = [(a, b) for a, b in _pairs(_small, whole) if a]
    _compared(postgres_server, "power(a, b)", power, found)
