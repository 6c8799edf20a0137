"""Random queries beside a real PostgreSQL: a fixed number of seeds, and those that once failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from waterclock.testing.services import PostgresServer
from waterclock.testing.sql_fuzz.runner import Findings, check_seed
from waterclock.testing.sql_oracle.engine import Engine, tuned
from waterclock.testing.sql_oracle.oracle import Oracle, connected

pytestmark = [pytest.mark.slow, pytest.mark.service]

SEEDS = range(1_010, 1_030)
FAILED_ONCE: tuple[int, ...] = (1_005,)
"""Seeds whose queries once gave another answer than PostgreSQL's."""


@pytest.fixture(scope="module")
def oracle(postgres_server: PostgresServer) -> Iterator[Oracle]:
    with connected(postgres_server) as found:
        yield found


def test_random_queries_give_what_postgres_gives(spark: SparkSession, oracle: Oracle) -> None:
    engine, findings = Engine(tuned(spark)), Findings()
    for seed in (*FAILED_ONCE, *SEEDS):
        check_seed(engine, oracle, seed, findings)
    assert findings.differences == []
    assert findings.rows > 100
    assert findings.refused < 0.2 * findings.queries
