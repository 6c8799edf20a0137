"""Numbers as text, and numerics as bytes, as PostgreSQL writes them.

Arrow already finds the shortest decimal that reads back as the same float. What differs is the
form: PostgreSQL changes to an exponent below 1e-4 and from 1e15 (1e6 for real) on, and its
exponents have two digits. So Arrow's text is taken where both agree, and taken apart where they may
not.
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.numerics import MOST_SCALE
from waterclock.persist.rows import NUMERIC
from waterclock.pgwire.values.columns import integers

_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_WHOLE = {15: 2.0**53, 6: 2.0**24}
_PLAIN_FROM, _PLAIN_BELOW_REAL, _PLAIN_BELOW = 1e-4, 1e6, 1e10


def float_text(column: pa.Array, extra_digits: int = 1) -> pa.Array:
    """Floats as text: the shortest, or up to 0 that many more digits than are certain."""
    if extra_digits <= 0:
        digits = max((6 if column.type == pa.float32() else 15) + extra_digits, 1)
        texts = (None if v is None else _of_digits(v, digits) for v in column.to_pylist())
        return pa.array(texts, pa.string())
    below, digits = (_PLAIN_BELOW_REAL, 6) if column.type == pa.float32() else (_PLAIN_BELOW, 15)
    texts = column.cast(pa.string())
    with np.errstate(invalid="ignore"):
        values = np.abs(integers(column, column.type))
        odd = ~((values >= _PLAIN_FROM) & (values < below) | (values == 0))
    if not odd.any():
        return texts
    numbers = integers(column, column.type)[odd]
    mended = [
        text if text is None else _float_form(text, number, digits)
        for text, number in zip(texts.filter(pa.array(odd)).to_pylist(), numbers, strict=True)
    ]
    return pc.replace_with_mask(texts, pa.array(odd), pa.array(mended, pa.string()))


def _of_digits(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return _SPECIAL.get(text, text)


def _float_form(text: str, value: np.floating[Any], fixed_digits: int) -> str:
    """A shortest decimal, in whatever form, in PostgreSQL's."""
    special = _SPECIAL.get(text)
    if special is not None:
        return special
    if abs(value) >= _WHOLE[fixed_digits] and _on_boundary(Fraction(text), value):
        digits = text.lstrip("-").partition("e")[0].replace(".", "").rstrip("0")
        text = _strictly_closest(value, len(digits))
    sign = "-" if text[0] == "-" else ""
    mantissa, _, power = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) - len(fraction) + len(digits) - 1
    digits = digits.rstrip("0")
    if -4 <= exponent < fixed_digits:
        return sign + _fixed(digits, exponent)
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _on_boundary(decimal: Fraction, value: np.floating[Any]) -> bool:
    """Whether a decimal is as close to the next float as to this one.

    It reads back as this one if its last bit is 0, which is enough for most; PostgreSQL wants to be
    sure. Only numbers that have no bits behind the point can have so short a decimal there.
    """
    own = Fraction(float(value))
    infinity = value.dtype.type(np.inf)
    for direction in (infinity, -infinity):
        with np.errstate(over="ignore"):
            other = float(np.nextafter(value, direction))
        if np.isfinite(other) and decimal * 2 == own + Fraction(other):
            return True
    return False


def _strictly_closest(value: np.floating[Any], digits: int) -> str:
    """The closest decimal that is not on a boundary, of as few digits as can be but more."""
    while True:
        digits += 1
        text = f"{float(value):.{digits - 1}e}"
        if not _on_boundary(Fraction(text), value):
            return text


def _fixed(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def numeric_text(column: pa.Array) -> pa.Array:
    """Exact numbers as text: with all digits of their scale, which may be that of each alone."""
    if column.type == NUMERIC:
        return _scaled_text(column)
    texts = column.cast(pa.string())
    scale = column.type.scale
    odd = pc.match_substring(texts, "E").fill_null(False).to_numpy(zero_copy_only=False)
    return _replace(texts, odd, lambda text: _without_exponent(text, scale))


def _scaled_text(column: pa.Array) -> pa.Array:
    """The digits of the whole part, and so many of those of the fraction as each value shows."""
    values, scales = column.flatten()
    whole, fraction = (pa.concat_arrays([each]) for each in values.flatten())
    zero, nothing = pa.scalar(0, whole.type), pa.scalar(0, fraction.type)
    below = pc.or_(pc.less(whole, zero), pc.less(fraction, nothing))
    sign = pc.if_else(below, "-", "")
    whole_digits = pc.abs(whole).cast(pa.string())
    digits = pc.utf8_lpad(_unscaled(pc.abs(fraction)).cast(pa.string()), MOST_SCALE, "0")
    texts = pc.binary_join_element_wise(sign, whole_digits, "")
    for scale in pc.unique(scales.drop_null()).to_pylist():
        if scale:
            behind = pc.utf8_slice_codeunits(digits, 0, scale)
            longer = pc.binary_join_element_wise(texts, behind, ".")
            texts = pc.if_else(pc.equal(scales, scale), longer, texts)
    return texts


def _unscaled(fraction: pa.Array) -> pa.Array:
    """Fractions as the whole numbers that their digits are."""
    whole = pa.decimal128(MOST_SCALE, 0)
    return pa.Array.from_buffers(whole, len(fraction), fraction.buffers(), offset=fraction.offset)


def _without_exponent(text: str, scale: int) -> str:
    sign = "-" if text[0] == "-" else ""
    mantissa, _, power = text.removeprefix("-").partition("E")
    whole, _, fraction = mantissa.partition(".")
    unscaled = (whole + fraction) + "0" * (int(power) - len(fraction) + scale)
    unscaled = unscaled.rjust(scale + 1, "0")
    return f"{sign}{unscaled[:-scale]}.{unscaled[-scale:]}"


def numeric_binary(column: pa.Array) -> pa.Array:
    """Exact numbers as groups of four decimal digits, with how many digits are shown."""
    encoded: list[bytes | None] = [
        None if text is None else numeric_bytes(text) for text in numeric_text(column).to_pylist()
    ]
    return pa.array(encoded, pa.binary())


def numeric_bytes(text: str) -> bytes:
    """A decimal, written without an exponent, in the binary format."""
    sign = 0
    if text[0] == "-":
        sign, text = 0x4000, text[1:]
    whole, _, fraction = text.partition(".")
    shown = len(fraction)
    whole = whole.lstrip("0")
    weight = (len(whole) + 3) // 4 - 1
    digits = whole.rjust((weight + 1) * 4, "0") + fraction.ljust((shown + 3) // 4 * 4, "0")
    groups = [int(digits[i : i + 4]) for i in range(0, len(digits), 4)]
    while groups and groups[-1] == 0:
        groups.pop()
    leading = next((i for i, group in enumerate(groups) if group), 0)
    groups = groups[leading:]
    weight = weight - leading if groups else 0
    if not groups:
        sign = 0
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight, sign, shown, *groups)


def _replace(texts: pa.Array, odd: Any, mend: Any) -> pa.Array:
    """The texts, with those at the odd places mended one by one."""
    if not odd.any():
        return texts
    places = pa.array(odd)
    mended = [None if text is None else mend(text) for text in texts.filter(places).to_pylist()]
    return pc.replace_with_mask(texts, places, pa.array(mended, pa.string()))
