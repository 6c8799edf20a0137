"""Random queries beside a real PostgreSQL: a fixed number of seeds, and those that once failed."""

from __future__ import annotations

import pytest

from waterclock.testing.sql_fuzz.runner import Findings, check_seed
from waterclock.testing.sql_oracle.engine import Engine
from waterclock.testing.sql_oracle.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.service]

SEEDS = range(1_010, 1_030)
FAILED_ONCE: tuple[int, ...] = (1_005,)
"""Seeds whose queries once gave another answer than PostgreSQL's."""


def test_random_queries_give_what_postgres_gives(engine: Engine, oracle: Oracle) -> None:
    findings = Findings()
    for seed in (*FAILED_ONCE, *SEEDS):
        check_seed(engine, oracle, seed, findings)
    assert findings.differences == []
    assert findings.rows > 100
    assert findings.refused < 0.2 * findings.queries
