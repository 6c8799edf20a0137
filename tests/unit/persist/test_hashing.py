"""The hash of a row is the same however many rows are hashed at once."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa

from waterclock.persist.hashing import hash_rows

MANY = 40_000
STABLE = [3680484598709328790, 12574226182981697019, 1913119159644217588]


def test_many_rows_have_the_hashes_of_each() -> None:
    """Those of values of one width are made in blocks, those of others at once."""
    numbers = np.random.default_rng(3).integers(-(10**12), 10**12, MANY)
    columns = [
        pa.array(numbers, mask=numbers % 7 == 0),
        pa.array(numbers % 3 == 0),
        pa.array(np.where(numbers % 5 == 0, np.nan, numbers / 3)),
        pa.array([decimal.Decimal(int(n)) / 100 for n in numbers], pa.decimal128(38, 2)),
        pa.array(numbers.astype(np.int32)).slice(0, MANY),
    ]
    texts = pa.array([f"n{n}" for n in numbers])
    for each in (columns, columns[:1], [*columns, texts]):
        whole = hash_rows(each, MANY)
        for start in (0, 1, 16_383, 16_384, 33_000, MANY - 5):
            part = hash_rows([column.slice(start, 5) for column in each], 5)
            assert part.tolist() == whole[start : start + 5].tolist()


def test_the_hash_of_a_value_never_changes() -> None:
    """Files on disk lie in its order."""
    columns = [pa.array([0, 1, None], pa.int64()), pa.array(["", "waterclock", None])]
    assert hash_rows(columns, 3).tolist() == STABLE
