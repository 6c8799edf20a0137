"""The judge finds what is planted, and nothing where nothing is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from waterclock.testing.judge.cases import Case, drawn_case
from waterclock.testing.judge.choices import Choices
from waterclock.testing.judge.faults import REWRITES, FaultySystem, ForgetfulSystem, StaleSystem
from waterclock.testing.judge.runner import Runner, Tally
from waterclock.testing.judge.systems import System
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.service]

MOST_CASES = 1500
_numbers = count(1)

MakeSystem = Callable[[psycopg.Connection[Any]], System]
PLANTED: dict[str, MakeSystem] = {
    "maintained views lag behind": StaleSystem,
    "a null parameter is zero": ForgetfulSystem,
    **{
        name: (lambda connection, rewrite=rewrite: FaultySystem(connection, rewrite))
        for name, rewrite in REWRITES.items()
    },
}


@pytest.fixture
def runner_with(postgres_server: PostgresServer) -> Iterator[Callable[[MakeSystem], Runner]]:
    """Makes a runner whose own side is what is given."""
    connections: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        database = postgres_server.create_database(f"judged_{next(_numbers)}")
        connections.append(psycopg.connect(database, autocommit=True))
        return connections[-1]

    def restart() -> System:
        raise AssertionError("the connection was lost")

    yield lambda make: Runner(make(connect()), System(connect()), Tally(), restart, patience_ms=100)
    for connection in connections:
        connection.close()


def cases_with(name: str) -> Iterator[Case]:
    """Cases in which the fault changes something that is sent, if that is what it does."""
    rewrite = REWRITES.get(name)
    for seed in range(MOST_CASES):
        case = drawn_case(Choices(seed))
        if (
            rewrite is None
            or name.startswith("a view")
            or any(rewrite(statement) != statement for statement in case.statements)
        ):
            yield case


@pytest.mark.parametrize("name", PLANTED)
def test_finds_a_planted_fault(runner_with: Callable[[MakeSystem], Runner], name: str) -> None:
    runner = runner_with(PLANTED[name])
    tried = 0
    for case in cases_with(name):
        if runner.run(case):
            return
        tried += 1
    pytest.fail(f"not found in {MOST_CASES} cases, {tried} of which could show it")


def test_asks_for_nothing_that_sql_leaves_open(
    runner_with: Callable[[MakeSystem], Runner],
) -> None:
    runner = runner_with(lambda connection: FaultySystem(connection, lambda sql: sql))
    for seed in range(150):
        assert runner.run(drawn_case(Choices(seed))) == []
