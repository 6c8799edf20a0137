"""The engine as one thing: what maintains views, and what evaluates queries once.

Whoever stands above needs both and makes neither, so that it can stand on something else in tests,
and so that only this package knows of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import SparkSession

from waterclock.compute.collecting import RESULT_BYTES
from waterclock.compute.controller import Compute
from waterclock.compute.evaluate import Evaluator
from waterclock.compute.inputs import STEP_LIMIT
from waterclock.persist.cutting import Limit
from waterclock.persist.notes import Notes
from waterclock.storage.controller import Storage

Spark: TypeAlias = SparkSession


@dataclass(frozen=True, slots=True)
class Engine:
    """Compute and the evaluator, over one Spark session."""

    compute: Compute
    evaluator: Evaluator


OpenEngine: TypeAlias = Callable[[Storage, Notes], Engine]
"""Opens an engine over storage, with the place where installed views are noted."""


def engine_on(
    spark: Spark, folder: Path, result_bytes: int = RESULT_BYTES, step: Limit = STEP_LIMIT
) -> OpenEngine:
    """The engine of a Spark session, with its state in the folder."""

    def opened(storage: Storage, notes: Notes) -> Engine:
        compute = Compute(storage, notes, spark, folder / "views", limit=step)
        evaluator = Evaluator(spark, folder / "queries", result_bytes=result_bytes)
        return Engine(compute, evaluator)

    return opened
