"""The digests of a first copy: what is here, what comes and goes, and where they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from waterclock.storage.envelopes.copied import CopiedRows, digest_bytes, digests
from waterclock.storage.sources.api import Standing, StatePlace


def of(*values: int) -> np.ndarray:
    return digests([pa.array(values, pa.int64())], len(values))


def contents(*values: int) -> Iterator[pa.RecordBatch]:
    ones = [1] * len(values)
    yield pa.RecordBatch.from_pydict({"v": values, "mz_timestamp": ones, "mz_diff": ones})


def known(copied: CopiedRows, values: Sequence[int]) -> list[bool]:
    return copied.known(of(*values)).tolist()


def test_what_is_here_is_known(tmp_path: Path) -> None:
    copied = CopiedRows()
    copied.open(Standing(lambda: contents(1, 2, 2, 3), state=StatePlace(tmp_path)), 1)
    assert known(copied, [3, 9, 1, 3, 2]) == [True, False, True, True, True]
    copied.change(of(5, 1, 2, 7, 2, 7), np.array([1, -1, -1, 1, 1, -1]))
    record = copied.record()
    assert record is not None
    copied.settle()
    assert known(copied, [5, 1, 2, 7]) == [True, False, True, False]
    copied.close()
    assert copied.record() is None
    again = CopiedRows()

    def unread() -> Iterator[pa.RecordBatch]:
        raise AssertionError("the contents are not read")

    again.open(Standing(unread, state=StatePlace(tmp_path, record)), 1)
    assert known(again, [5, 1, 2, 7]) == [True, False, True, False]
    again.remove()
    assert not list(tmp_path.rglob("*.arrow"))


def test_a_digest_is_that_of_all_values() -> None:
    rows = digests([pa.array([1, 1, 2]), pa.array(["a", "b", "a"])], 3)
    assert len(set(digest_bytes(rows))) == 3
    assert {len(each) for each in digest_bytes(rows)} == {16}
