"""How the expressions of a job are evaluated: compiled, or as they are.

Spark writes Java code for the expressions of a plan, every task anew, and compiles what it has not
seen before. For many rows that is well spent. But the code for all views of a step takes longer to
write than a few thousand rows take to be evaluated expression by expression, which gives the same
values. What is better is not a matter of the plan, which is made once for all steps, but of how
many rows there are this time. So it is a property of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

FEW_ROWS = 10_000
"""Up to so many changed rows, nothing is compiled."""
_MODE = "spark.sql.codegen.factoryMode"


@contextmanager
def evaluating(context: SparkContext, rows: int, *, few_rows: int = FEW_ROWS) -> Iterator[None]:
    """Jobs that this thread begins meanwhile evaluate as is best for so many rows."""
    if rows > few_rows:
        yield
        return
    context.setLocalProperty(_MODE, "NO_CODEGEN")
    try:
        yield
    finally:
        context.setLocalProperty(_MODE, None)  # type: ignore[arg-type]
