"""Where large reads are computed: on Spark's executors, a slice in each task.

The function that makes the rows of a slice is shipped to the executors; it must be a pure function
of the slice, so that a task that is run twice gives the same. Results come back as Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

Make = Callable[[int, int], pa.RecordBatch]


@dataclass(frozen=True)
class _Task:
    """What an executor does: the slices whose numbers it is given."""

    make: Make
    slices: tuple[tuple[int, int], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.make(*self.slices[number])


class OnSpark:
    """Implements `Executors` over a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(
        self, make: Make, slices: Sequence[tuple[int, int]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        task = _Task(make, tuple(slices))
        numbers = self._spark.range(0, len(slices), 1, len(slices))
        made = numbers.mapInArrow(task.__call__, from_arrow_schema(schema)).toArrow()
        yield from made.cast(schema).to_batches()
