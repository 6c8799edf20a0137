"""Errors of keys: they are found again by the hash of a key of which only the text is durable."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from waterclock.persist.hashing import hash_rows
from waterclock.storage.envelopes.key_errors import KeyErrors, key_text

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", 'q"uote', "ä\n", ""]),
        (pa.int64(), [1, -5, 2**62]),
        (pa.bool_(), [True, False]),
        (pa.float64(), [1.5, -0.0, 1e300]),
        (pa.binary(), [b"", b"\xff\x00"]),
        (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.00")]),
        (pa.date32(), [datetime.date(2024, 2, 29)]),
        (pa.timestamp("us"), [datetime.datetime(2024, 2, 29, 1, 2, 3, 45)]),
        (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)]),
        (pa.list_(pa.int64()), [[1, 2], []]),
    ],
)
def test_errors_are_found_by_hash_after_a_restart(kind: pa.DataType, values: list[Any]) -> None:
    keys = pa.schema([("one", kind), ("two", pa.int64())])
    held = [(key_text([value, 7]), "22P02 wrong") for value in values]
    errors = KeyErrors(keys, [*held, ("null", "22004 null"), ("\\xff", "22021 wrong")])
    arrays = [pa.array([*values, values[0]], kind), pa.array([7] * len(values) + [8])]
    candidates = errors.candidates(hash_rows(arrays, len(values) + 1))
    assert candidates[: len(values)].all(), "each key in error is looked at"
    if not pa.types.is_nested(kind):
        assert not candidates[-1], "others are not"
    assert [errors.pop(text) for text, _ in held] == ["22P02 wrong"] * len(values)
    assert errors.pop("null") == "22004 null"


def test_keys_that_can_not_be_read_back_let_every_key_be_looked_at() -> None:
    keys = pa.schema([("one", pa.time64("us"))])
    errors = KeyErrors(keys, [('key ["no time"]', "22P02 wrong")])
    hashes = np.arange(5, dtype=np.uint64)
    assert errors.candidates(hashes).all()
    errors.pop('key ["no time"]')
    assert not errors.candidates(hashes).any(), "until nothing is in error any more"


def test_new_errors_are_found_by_their_hashes() -> None:
    errors = KeyErrors(pa.schema([("one", pa.string())]))
    assert not errors
    errors.put('key ["a"]', "22P02 wrong", 7)
    assert errors.candidates(np.array([6, 7], np.uint64)).tolist() == [False, True]
