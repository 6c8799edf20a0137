"""The fields that a type of intervals keeps: `interval year to month`, `interval day to second(2)`.

They are the upper half of the type's modifier, one bit for each field, as PostgreSQL numbers them;
the lower half is how many digits of a second are kept. What is less than the last field is cut off,
what is more than the first stays.
"""

from __future__ import annotations

from collections.abc import Mapping

WORDS = ("year", "month", "day", "hour", "minute", "second")
_BITS = {"month": 1 << 1, "year": 1 << 2, "day": 1 << 3}
_BITS |= {"hour": 1 << 10, "minute": 1 << 11, "second": 1 << 12}
_ALL_FIELDS = 0x7FFF
ALL_PLACES = 0xFFFF
"""As many digits of a second as there are."""
FOLLOWING: Mapping[str, tuple[str, ...]] = {
    "year": ("month",),
    "day": ("hour", "minute", "second"),
    "hour": ("minute", "second"),
    "minute": ("second",),
}
"""What may stand behind TO, by the first field."""


def _mask(first: str, last: str) -> int:
    if (first, last) == ("year", "month"):
        return _BITS["year"] | _BITS["month"]
    between = WORDS[WORDS.index(first) : WORDS.index(last) + 1]
    return sum(_BITS[word] for word in between)


_FIELDS = {
    _mask(first, last): (first, last)
    for first in WORDS
    for last in (first, *FOLLOWING.get(first, ()))
}


def modifier_of(fields: tuple[str, str] | None, places: int | None) -> int:
    """The modifier of the type with these first and last fields, and so many digits of seconds."""
    if fields is None and places is None:
        return -1
    mask = _ALL_FIELDS if fields is None else _mask(*fields)
    return mask << 16 | (ALL_PLACES if places is None else places)


def fields_of(modifier: int) -> tuple[str, str] | None:
    """The first and the last field; None if all are kept."""
    return None if modifier < 0 else _FIELDS.get(modifier >> 16 & _ALL_FIELDS)


def places_of(modifier: int) -> int | None:
    """How many digits of a second are kept; None for all of them."""
    places = modifier & 0xFFFF
    return None if modifier < 0 or places == ALL_PLACES else places


def shown(modifier: int) -> str:
    """What stands behind the word `interval`, with a blank in front of words."""
    fields, places = fields_of(modifier), places_of(modifier)
    digits = "" if places is None else f"({places})"
    if fields is None:
        return digits
    first, last = fields
    return f" {first}{digits}" if first == last else f" {first} to {last}{digits}"
