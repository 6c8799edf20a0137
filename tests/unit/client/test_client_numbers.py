"""Programs get decimals for numbers with scales of their own, and give any numbers."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from waterclock.client.numbers import decimals, fitting, scalar
from waterclock.persist.numerics import numbers_of, numeric_array, parts_of
from waterclock.persist.rows import NUMERIC


def test_columns_become_decimals_of_the_longest_scale() -> None:
    held = numeric_array([Decimal("1.5"), None, Decimal("2.250")])
    table = decimals(pa.table({"a": [1, 2, 3], "n": held}))
    assert table.schema.field("n").type == pa.decimal128(38, 3)
    assert table["n"].to_pylist() == [Decimal("1.500"), None, Decimal("2.250")]
    assert table["a"].to_pylist() == [1, 2, 3]


def test_more_digits_take_wider_decimals() -> None:
    wide = [Decimal(10**37), Decimal(1).scaleb(-36)]
    table = decimals(pa.table({"n": numeric_array(wide)}))
    assert table.schema.field("n").type == pa.decimal256(76, 36)
    assert table["n"].to_pylist() == wide


def test_arrays_and_no_rows() -> None:
    lists = pa.array([[parts_of(Decimal("1.0"))], None, []], pa.list_(NUMERIC))
    assert decimals(pa.table({"l": lists}))["l"].to_pylist() == [[Decimal("1.0")], None, []]
    empty = decimals(pa.schema([("n", NUMERIC)]).empty_table())
    assert empty.schema.field("n").type == pa.decimal128(38, 0)


def test_numbers_of_any_kind_fit() -> None:
    schema = pa.schema([("n", NUMERIC), ("i", pa.int32())])
    for given in (pa.array([1, None]), pa.array([Decimal("1.0"), None]), pa.array([1.0, None])):
        found = fitting(pa.table({"n": given, "i": pa.array([1, 2], pa.int64())}), schema)
        assert numbers_of(found["n"].combine_chunks()) == [Decimal(1), None]
    with pytest.raises(ValueError, match="not a number"):
        fitting(pa.table({"n": ["x"], "i": [1]}), schema)
    assert scalar(Decimal("1.50"), NUMERIC).as_py() == parts_of(Decimal("1.50"))
