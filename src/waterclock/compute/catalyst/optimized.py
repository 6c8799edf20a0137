"""Deterministic optimized plans.

State is found again by what its plan is. Where the optimizer expands rows, as for several DISTINCT,
it puts things into the order of their hashes, and so of ids that it counts up for as long as the
process lives. There the query is optimized once more under ids of its own (`Renumbering`).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from waterclock.compute.catalyst.trees import Builder, Logical


def optimized(spark: SparkSession, builder: Builder, execution: Any) -> Logical:
    """The optimized plan of a query's execution in the JVM."""
    plan = execution.optimizedPlan()
    if not builder.is_ordered_by_ids(plan):
        return Logical(plan)
    numbered = builder.numbered(execution.analyzed())
    again = builder.frame(numbered, spark)._jdf.queryExecution().optimizedPlan()
    return Logical(builder.with_fresh_ids(again))
