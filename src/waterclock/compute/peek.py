"""Looking one key up: a search in each run, and the few rows it finds compared one by one.

Arrow's functions cost the same for one row as for hundreds, and a read of one key is the most
frequent of all. So keys of the common types have a second way here, which makes nothing but slices
of what is mapped. It gives the same rows as `Index.at`, or says None: where rows cancel each other,
where there are many, or where a key is of another type.

A peek holds nothing. It is taken *before* its reader chooses a time: what has been merged by then
was merged up to a since that is not beyond those which the reader still finds, so the rows are
exact at every time from the sinces on and before the upper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from waterclock.persist.arrangement.run import Run

Key: TypeAlias = tuple[object, ...]
"""A value for each column of the key, none of them null, as Arrow gives them to Python."""

_MANY_ROWS = 64
_WORD = (1 << 64) - 1
_SEED, _MUL1, _MUL2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class Shown:
    """Which columns of an arrangement's rows are wanted, and what they are called then."""

    places: tuple[int, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Peek:
    """The runs of an index at one moment, complete before `upper`."""

    upper: int
    runs: tuple[Run, ...]

    def rows(self, time: int, key: Key, shown: Shown) -> list[pa.RecordBatch] | None:
        """The rows with the key at a time before the upper; None if it takes more than a look.

        The columns of the key must all be `is_plain`.
        """
        assert time < self.upper, f"time {time} is not complete before {self.upper}"
        hash_ = hash_of(key)
        found: list[pa.RecordBatch] = []
        for run in self.runs:
            for batch in run.having(hash_):
                kept = _kept(batch, time, key)
                if kept is None or len(found) + len(kept) > _MANY_ROWS:
                    return None
                found += kept
        return [
            pa.RecordBatch.from_arrays([batch.column(p) for p in shown.places], schema=shown.schema)
            for batch in found
        ]


def is_plain(kind: pa.DataType) -> bool:
    """Whether equal keys of the type are those that Python takes for equal, and hashed here."""
    return bool(
        pa.types.is_signed_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)
    )


def _kept(batch: pa.RecordBatch, time: int, key: Key) -> list[pa.RecordBatch] | None:
    """What of the updates, all with the key's hash, is there at the time; None if that is hard.

    The columns are the hash, the key, the values, the time and the diff.
    """
    if batch.num_rows > _MANY_ROWS:
        return None
    width = batch.num_columns
    keys = zip(*[batch.column(1 + place).to_pylist() for place in range(len(key))], strict=True)
    times = batch.column(width - 2).to_pylist()
    diffs = batch.column(width - 1).to_pylist()
    counts = [
        diff if stamp <= time and found == key else 0
        for found, stamp, diff in zip(keys, times, diffs, strict=True)
    ]
    if min(counts) < 0 or sum(counts) > _MANY_ROWS:
        return None
    if min(counts) == max(counts) == 1:
        return [batch]
    return [batch.slice(place, 1) for place, count in enumerate(counts) for _ in range(count)]


def hash_of(key: Sequence[object]) -> int:
    """The hash of a key: that of `persist.hashing.hash_rows`."""
    hash_ = _SEED
    for value in key:
        hash_ = _mixed(hash_ * _MUL1 + _hash_of_value(value))
    return hash_


def _hash_of_value(value: object) -> int:
    match value:
        case int():
            return _mixed(value)
        case str():
            return _hash_of_bytes(value.encode())
        case _:
            raise AssertionError(f"a key of plain columns has no {type(value).__name__}")


def _hash_of_bytes(data: bytes) -> int:
    hash_ = _mixed(len(data) + _SEED)
    for start in range(0, len(data), 8):
        hash_ = _mixed(hash_ * _MUL2 + int.from_bytes(data[start : start + 8], "little"))
    return hash_


def _mixed(word: int) -> int:
    word &= _WORD
    word = (word ^ (word >> 30)) * _MUL1 & _WORD
    word = (word ^ (word >> 27)) * _MUL2 & _WORD
    return word ^ (word >> 31)
