"""Every entry of the table of functions beside a real PostgreSQL, on generated arguments."""

from __future__ import annotations

import pytest

from waterclock.sql.functions import FUNCTIONS, OPERATORS
from waterclock.testing.sql_oracle.calls import (
    LEFT_OUT,
    all_calls,
    calls_of,
    cast_calls,
    is_compared,
)
from waterclock.testing.sql_oracle.comparing import Tally, compare_scalars
from waterclock.testing.sql_oracle.engine import Engine
from waterclock.testing.sql_oracle.oracle import Oracle
from waterclock.testing.sql_oracle.relational import compare_relational

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.service, pytest.mark.timeout(3600)]


def test_every_entry_is_called_or_left_out_for_a_reason() -> None:
    entries = [e for table in (FUNCTIONS, OPERATORS) for found in table.values() for e in found]
    compared = [entry for entry in entries if is_compared(entry)]
    assert all(any(True for _ in calls_of(entry)) for entry in compared)
    assert LEFT_OUT.keys() <= FUNCTIONS.keys()
    assert len(compared) > 0.9 * len(entries)


def test_functions_and_operators_give_what_postgres_gives(engine: Engine, oracle: Oracle) -> None:
    tally = Tally()
    compare_scalars(engine, oracle, [*all_calls(), *cast_calls()], tally)
    assert tally.differences == []
    assert tally.values > 50_000
    assert tally.errors > 1_000


def test_aggregates_windows_and_rows_are_those_of_postgres(engine: Engine, oracle: Oracle) -> None:
    tally = Tally()
    compare_relational(engine, oracle, all_calls(), tally)
    assert tally.differences == []
    assert len(tally.labels) > 100
