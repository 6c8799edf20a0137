"""The engine as one thing: what maintains views, and what evaluates queries once.

Whoever stands above needs both and makes neither, so that it can stand on something else in tests,
and so that only this package knows of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import SparkSession

from waterclock.compute.collecting import RESULT_BYTES
from waterclock.compute.controller import Compute
from waterclock.compute.evaluate import Evaluator
from waterclock.compute.inputs import STEP_LIMIT
from waterclock.compute.live_session import AlwaysUp, Availability, LiveSession
from waterclock.compute.planners import Planners
from waterclock.persist.cutting import Limit
from waterclock.persist.notes import Notes
from waterclock.storage.controller import Storage

Spark: TypeAlias = SparkSession


@dataclass(frozen=True, slots=True)
class Engine:
    """Compute and the evaluator, over one Spark session at a time."""

    compute: Compute
    evaluator: Evaluator
    availability: Availability = field(default_factory=AlwaysUp)


OpenEngine: TypeAlias = Callable[[Storage, Notes], Engine]
"""Opens an engine over storage, with the place where installed views are noted."""


def engine_on(
    live: LiveSession,
    folder: Path,
    result_bytes: int = RESULT_BYTES,
    step: Limit = STEP_LIMIT,
    planners: Planners | None = None,
) -> OpenEngine:
    """The engine of whatever Spark session there is, with its state in the folder."""
    planning = planners or Planners()

    def opened(storage: Storage, notes: Notes) -> Engine:
        compute = Compute(storage, notes, live, folder / "views", limit=step, planners=planning)
        queries = folder / "queries"
        evaluator = Evaluator(live, queries, planning, result_bytes=result_bytes)
        return Engine(compute, evaluator, live)

    return opened
