"""Every row as often as it is there, and not at all while its count is below zero.

It makes the difference of two multisets a multiset: EXCEPT ALL is the threshold of the left side
united with the negated right side. There counts below zero are what is meant to be cut off, and no
error; elsewhere they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.counts import map_counts
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import Trace


def threshold(delta: pa.Table, trace: Trace, *, expect_negative: bool = True) -> Step:
    """One step: the changes of each row's count with everything below zero taken as zero.

    Unless `expect_negative`, a count below zero is an error as long as it lasts.
    """
    return map_counts(
        delta, trace, lambda counts: np.maximum(counts, 0), expect_negative=expect_negative
    )
