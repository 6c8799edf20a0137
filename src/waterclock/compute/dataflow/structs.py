"""What the columns of the stream of a tick are to Spark, and to Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from waterclock.compute.catalyst.types import arrow_schema, update_struct
from waterclock.compute.dataflow.program import Branch, Stateful
from waterclock.compute.dataflow.stage import WRITTEN
from waterclock.compute.dataflow.stream import ERRORS, SOURCE
from waterclock.compute.kernels.versions import BEGIN, END, FIRST, VERSION
from waterclock.compute.plan.nodes import Regroup
from waterclock.persist.rows import DIFF, TIME

REPORT_STRUCTS = {
    WRITTEN: StructType(
        [StructField("arrangement", StringType()), StructField("run", StringType())]
    ),
    ERRORS: StructType(
        [
            StructField(SOURCE, StringType()),
            StructField("key", StringType()),
            StructField("message", StringType()),
            StructField(TIME, LongType()),
            StructField(DIFF, LongType()),
        ]
    ),
}
"""The columns that every stream has, as `stage.REPORTS` has them."""


def schema_of(branches: Sequence[Branch]) -> pa.Schema:
    """The columns of the updates of branches that are added up."""
    return arrow_schema(update_struct(branches[0].output))


def output_struct(node: Stateful) -> StructType:
    """What a stage hands out for an operator: updates, or versions that are not evaluated yet."""
    if not isinstance(node, Regroup):
        return update_struct(node.output)
    rows = list(update_struct(node.input.output))[:-2]
    stamp = [StructField(name, LongType()) for name in (BEGIN, END, VERSION)]
    return StructType([*rows, *stamp, StructField(FIRST, BooleanType())])
