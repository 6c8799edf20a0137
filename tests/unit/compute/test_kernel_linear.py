"""Updates of the same row are added up before they travel, where that leaves far fewer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.linear import FEWER, SAMPLE_ROWS, condensed, union
from waterclock.persist.rows import DIFF, TIME

ROWS = 2 * FEWER * SAMPLE_ROWS


def updates(kinds: int, rows: int = ROWS) -> pa.Table:
    """Updates of so many kinds of rows, at two times."""
    draw = np.random.default_rng(9)
    chosen = draw.integers(0, kinds, rows)
    return pa.table(
        {
            "c0": pa.array(chosen),
            "c1": pa.nulls(rows, pa.string()),
            TIME: pa.array(draw.integers(3, 5, rows)),
            DIFF: pa.array(draw.integers(-1, 3, rows)),
        }
    )


def test_few_kinds_of_rows_are_added_up() -> None:
    delta = updates(100)
    found = condensed(delta)
    assert found.num_rows <= 200
    assert found.schema == delta.schema
    assert found.to_pylist() == union([delta]).to_pylist()


def test_pieces_are_added_up_together() -> None:
    delta = updates(100)
    pieces = pa.concat_tables([delta.slice(0, 1000), delta.slice(1000)])
    assert condensed(pieces).to_pylist() == condensed(delta).to_pylist()


def test_rows_of_many_kinds_are_left_as_they_are() -> None:
    delta = updates(2**40)
    assert condensed(delta) is delta


def test_a_small_delta_is_left_as_it_is() -> None:
    delta = updates(2, FEWER * SAMPLE_ROWS - 1)
    assert condensed(delta) is delta
