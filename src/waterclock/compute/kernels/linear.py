"""Operators without state: they act on each update alone, so on a delta as on a collection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import numbers
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF


def negate(delta: pa.Table) -> pa.Table:
    """The same updates with the opposite diffs."""
    at = delta.schema.get_field_index(DIFF)
    opposite = pa.array(np.negative(numbers(delta, DIFF)))
    return delta.set_column(at, delta.schema.field(at), opposite)


def union(deltas: Sequence[pa.Table]) -> pa.Table:
    """All updates of deltas of one schema, those of the same row and time added up."""
    return consolidate(pa.concat_tables(deltas).combine_chunks())
