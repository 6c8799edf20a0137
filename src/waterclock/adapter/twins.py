"""Numbers that are equal and look different, 1.5 and 1.50, where rows are picked without Spark.

Rows are held, and arranged in an index, by all that there is to a number: its value and its scale.
So a number that is looked up is looked up with every scale that it can have, and rows are compared
by the value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.numerics import MOST_SCALE, MOST_WHOLE, numeric_array
from waterclock.sql.binding import Comparison

_EXACT = Context(prec=2 * (MOST_WHOLE + MOST_SCALE))


def spellings(numbers: Sequence[object]) -> tuple[str, ...]:
    """All texts of the numbers, which are decimals: with each number of zeros at the end."""
    return tuple(dict.fromkeys(text for number in numbers for text in _texts(number)))


def _texts(number: object) -> list[str]:
    assert isinstance(number, Decimal), "a numeric is compared with decimals"
    digits = f"{number:f}".partition(".")[2].rstrip("0")
    value = _EXACT.quantize(number, Decimal(1).scaleb(-len(digits)))
    value = value if value else Decimal(0)  # there is one zero
    return [
        f"{_EXACT.quantize(value, Decimal(1).scaleb(-scale)):f}"
        for scale in range(len(digits), MOST_SCALE + 1)
    ]


def read(texts: Sequence[str]) -> pa.Array:
    """Such texts as a column of numbers."""
    return numeric_array([Decimal(text) for text in texts])


def holds(column: pa.Array, comparison: Comparison) -> pa.Array:
    """For which of the numbers the comparison holds; null for those that are null."""
    whole, fraction = _parts(column)
    values = [value for value in comparison.values if isinstance(value, Decimal)]
    assert len(values) == len(comparison.values), "a numeric is compared with decimals"
    wholes, fractions = _parts(numeric_array(values))
    if comparison.operator in ("=", "in"):
        wanted = _keys(wholes, fractions)
        found = pc.is_in(_keys(whole, fraction), value_set=wanted)
        return pc.if_else(column.is_valid(), found, None)
    compare = pc.less if comparison.operator.startswith("<") else pc.greater
    beside = pc.equal if comparison.operator.endswith("=") else None
    same = pc.equal(whole, wholes[0])
    decided = compare(fraction, fractions[0])
    if beside is not None:
        decided = pc.or_(decided, beside(fraction, fractions[0]))
    return pc.or_(compare(whole, wholes[0]), pc.and_(same, decided))


def _parts(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The whole parts and the fractions, null where the number is."""
    value, _ = column.flatten()
    whole, fraction = value.flatten()
    return whole, fraction


def _keys(whole: pa.Array, fraction: pa.Array) -> pa.Array:
    """Texts that are the same for equal numbers: what Arrow looks up is no struct."""
    return pc.binary_join_element_wise(whole.cast(pa.string()), fraction.cast(pa.string()), "|")
