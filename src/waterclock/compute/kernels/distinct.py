"""DISTINCT: every row that is there at all, once.

Also the heart of UNION, INTERSECT and EXCEPT without ALL, and of semi-joins. The state holds the
count of each row, not just whether it is there: a retraction must know whether others remain.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.counts import map_counts
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import Trace


def distinct(delta: pa.Table, trace: Trace) -> Step:
    """One step: rows that appear are inserted once, rows that vanish are retracted."""
    return map_counts(delta, trace, lambda counts: (counts > 0).astype(np.int64))
