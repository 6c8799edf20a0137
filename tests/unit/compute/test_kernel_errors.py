"""Errors of groups show the group's key, whatever it is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waterclock.compute.kernels.errors import value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(None, pa.int64()), "null"),
        (pa.scalar(7), "7"),
        (pa.scalar("a"), "a"),
        (pa.scalar(2**63 - 1, pa.timestamp("us")), "infinity"),
        (pa.scalar(-(2**63), pa.timestamp("us", tz="UTC")), "-infinity"),
        (pa.scalar(2**31 - 1, pa.date32()), "infinity"),
        (pa.scalar(-(2**31), pa.date32()), "-infinity"),
        (pa.scalar(10_000 * 366, pa.date32()), "11990-09-28"),
        (pa.scalar([2**31 - 1], pa.list_(pa.date32())), "..."),
    ],
)
def test_values_that_python_does_not_have(value: pa.Scalar, text: str) -> None:
    assert value_text(value) == text
