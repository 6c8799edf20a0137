"""Numbers that each have a scale of their own, in Python and as Arrow columns.

Such a number is a struct of its value `v` and its scale `s`, the digits shown behind the point. The
value is again a struct, of the whole part `w` and the fraction `f`, cut towards zero, so that both
have the sign of the number. Structs compare field by field: values compare as the numbers do, and
1.0 and 1.00 have the same value and are told apart by their scale only.

There is room for 38 digits before the point and 36 behind it. What needs more is refused, never
rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.errors import WaterclockError
from waterclock.persist.rows import NUMERIC, NUMERIC_VALUE

MOST_WHOLE = 38
MOST_SCALE = 36
TOO_LONG = (
    f"a numeric has more than {MOST_WHOLE} digits, or more than {MOST_SCALE} behind the point"
)
"""What the error (22003) says where a number that is computed has no room."""
_EXACT = Context(prec=200, Emax=999_999, Emin=-999_999)
_ONE = Decimal(1)


class TooManyDigits(WaterclockError):
    """A number has more digits than there is room for."""

    sqlstate: ClassVar[str] = "22003"


def parts_of(number: Decimal) -> dict[str, Any]:
    """A number with its scale as it is held; `TooManyDigits`."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a numeric is finite"
    scale = max(0, -exponent)
    if scale > MOST_SCALE or (number and number.adjusted() >= MOST_WHOLE):
        raise TooManyDigits(
            "value out of range for type numeric",
            detail=f"A numeric holds {MOST_WHOLE} digits before the point and {MOST_SCALE} behind"
            " it.",
            hint="Round the number to fewer digits.",
        )
    whole = number.to_integral_value(rounding="ROUND_DOWN", context=_EXACT)
    fraction = _EXACT.subtract(number, whole) or Decimal(0)
    return {"v": {"w": Decimal(int(whole)), "f": fraction}, "s": scale}


def number_of(held: Mapping[str, Any]) -> Decimal:
    """The number with its scale, of what holds it."""
    value = _EXACT.add(held["v"]["w"], held["v"]["f"])
    return _EXACT.quantize(value, _ONE.scaleb(-held["s"]))


def numeric_array(numbers: Sequence[Decimal | None]) -> pa.Array:
    """A column of numbers, each with its own scale."""
    held = [None if number is None else parts_of(number) for number in numbers]
    values = pa.StructArray.from_arrays(
        [
            pa.array(
                [None if each is None else each["v"]["w"] for each in held], pa.decimal128(38)
            ),
            pa.array(
                [None if each is None else each["v"]["f"] for each in held], pa.decimal128(36, 36)
            ),
        ],
        fields=list(NUMERIC_VALUE),
        mask=pa.array([each is None for each in held], pa.bool_()),
    )
    scales = pa.array([None if each is None else each["s"] for each in held], pa.int16())
    return _assembled(values, scales)


def from_texts(texts: pa.Array) -> pa.Array:
    """Numbers as they are written, without an exponent and within the digits that there are."""
    pieces = pc.extract_regex(texts, r"^(?P<n>-?)(?P<w>[0-9]+)(?:\.(?P<f>[0-9]*))?$")
    sign, whole, fraction = pieces.flatten()
    fraction = pc.if_else(pieces.is_valid(), fraction.fill_null(""), None)
    wholes = pc.binary_join_element_wise(sign, whole, "").cast(pa.decimal128(MOST_WHOLE))
    padded = pc.utf8_rpad(fraction, MOST_SCALE, "0")
    parts = pc.binary_join_element_wise(sign, "0", "").cast(pa.string())
    fractions = pc.binary_join_element_wise(parts, padded, ".")
    values = pa.StructArray.from_arrays(
        [wholes, fractions.cast(pa.decimal128(MOST_SCALE, MOST_SCALE))],
        fields=list(NUMERIC_VALUE),
        mask=texts.is_null(),
    )
    return _assembled(values, pc.utf8_length(fraction).cast(pa.int16()))


def python_value(scalar: pa.Scalar) -> Any:
    """A value as Python has it, a number with a scale of its own as a decimal."""
    if scalar.type == NUMERIC and scalar.is_valid:
        return number_of(scalar.as_py())
    return scalar.as_py()


def held_as(scalar: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """A value that is not null in another Arrow type."""
    if scalar.type == kind:
        return scalar
    if kind == NUMERIC:
        return pa.scalar(parts_of(Decimal(scalar.as_py())), kind)
    if scalar.type == NUMERIC:
        return pa.scalar(python_value(scalar)).cast(kind)
    return scalar.cast(kind)


def numbers_of(column: pa.Array) -> list[Decimal | None]:
    """The numbers of a column, each with its own scale."""
    return [None if each is None else number_of(each) for each in column.to_pylist()]


def _assembled(values: pa.StructArray, scales: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values, scales], fields=list(NUMERIC), mask=values.is_null())
