"""Numbers with scales of their own: held exactly, compared by value, shown as they were given."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.compute.kernels.order import ranks
from waterclock.persist.numerics import (
    TooManyDigits,
    from_texts,
    held_as,
    number_of,
    numbers_of,
    numeric_array,
    parts_of,
    python_value,
)
from waterclock.persist.rows import NUMERIC

NUMBERS = st.builds(
    lambda digits, scale: Decimal(f"{digits}e-{scale}"),
    st.integers(-(10**37), 10**37),
    st.integers(0, 36),
)


@given(NUMBERS)
def test_a_number_comes_back_with_its_zeros(number: Decimal) -> None:
    held = parts_of(number)
    assert str(number_of(held)) == str(number) or (not number and number_of(held) == 0)
    assert number_of(held).as_tuple().exponent == number.as_tuple().exponent
    whole, fraction = held["v"]["w"], held["v"]["f"]
    assert whole == int(number)
    assert fraction.copy_abs() < 1
    assert whole * fraction >= 0, "both have the sign of the number"


@given(st.lists(NUMBERS, min_size=2, max_size=8))
def test_values_compare_as_the_numbers_do(numbers: list[Decimal]) -> None:
    found = ranks(numeric_array(numbers).flatten()[0])
    for one, first in zip(numbers, found, strict=True):
        for other, second in zip(numbers, found, strict=True):
            assert (one < other, one == other) == (first < second, first == second)


@given(st.lists(NUMBERS | st.none(), max_size=8))
def test_texts_are_read_at_once_as_one_by_one(numbers: list[Decimal | None]) -> None:
    texts = [None if each is None else f"{each:f}" for each in numbers]
    found = from_texts(pa.array(texts, pa.string()))
    assert found.type == NUMERIC
    assert found.to_pylist() == numeric_array(numbers).to_pylist()
    assert [None if each is None else f"{each:f}" for each in numbers_of(found)] == [
        None if text is None else text.replace("-", "") if not Decimal(text) else text
        for text in texts
    ]


@pytest.mark.parametrize("text", ["1e38", "-1e38", "1e-37", "0." + "0" * 36 + "1"])
def test_what_has_too_many_digits_is_refused(text: str) -> None:
    with pytest.raises(TooManyDigits) as caught:
        parts_of(Decimal(text))
    assert caught.value.sqlstate == "22003"
    assert caught.value.hint


def test_scalars_change_their_form() -> None:
    held = held_as(pa.scalar(Decimal("1.50"), pa.decimal128(10, 2)), NUMERIC)
    assert str(python_value(held)) == "1.50"
    assert held_as(held, pa.decimal128(10, 3)).as_py() == Decimal("1.500")
    assert held_as(pa.scalar(7, pa.int64()), NUMERIC).as_py() == parts_of(Decimal(7))
    assert python_value(pa.scalar(None, NUMERIC)) is None
