"""Functions of `bytea`: single bytes and bits, parts, hashes, and texts as bytes.

Bytes are counted from 0, and so are bits, the lowest of a byte first; parts are counted from 1.
"""

from __future__ import annotations

from waterclock.model.pg_types import BYTEA, INT4, INT8, TEXT
from waterclock.sql.dialect.faults import raised, raised_with
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    Refused,
    SqlRule,
    Use,
    scalar,
)

_BAD_BIT = raised("22023", "new bit must be 0 or 1")
_NOT_UTF8 = raised("22021", 'invalid byte sequence for encoding "UTF8"')
_NEGATIVE = raised("22011", "negative substring length not allowed")
_UTF8 = frozenset({"utf8", "utf-8", "unicode"})


def _checked(length: str, result: str, count: int) -> str:
    """The result, if the place `{1}` is one of so many; null if one of the arguments is."""
    told = f"CONCAT({{1}}, ' out of valid range, 0..', {length} - 1)"
    out = raised_with("2202E", "index ", told, "")
    outside = f"{{1}} < 0 OR {{1}} >= {length}"
    return f"(CASE WHEN {_is_null(count)} THEN NULL WHEN {outside} THEN {out} ELSE {result} END)"


def _is_null(count: int) -> str:
    return " OR ".join(f"{{{place}}} IS NULL" for place in range(count))


def _byte(place: str) -> str:
    return f"CAST(CONV(HEX(SUBSTRING({{0}}, CAST({place} AS INT) + 1, 1)), 16, 10) AS INT)"


def _with_byte(place: str, byte: str) -> str:
    before = f"SUBSTRING({{0}}, 1, CAST({place} AS INT))"
    behind = f"SUBSTRING({{0}}, CAST({place} AS INT) + 2)"
    return f"CONCAT({before}, UNHEX(LPAD(HEX({byte}), 2, '0')), {behind})"


_BYTES, _BITS = "OCTET_LENGTH({0})", "(8L * OCTET_LENGTH({0}))"
_BIT = f"({_byte('{1} DIV 8')} >> CAST({{1}} % 8 AS INT)) & 1"
_MASK = "SHIFTLEFT(1, CAST({1} % 8 AS INT))"
_WITHOUT_BIT = f"({_byte('{1} DIV 8')} & (255 - {_MASK}))"
_SET_BIT = (
    f"(CASE WHEN {{2}} NOT IN (0, 1) THEN {_BAD_BIT} ELSE "
    + _with_byte("{1} DIV 8", f"({_WITHOUT_BIT} | {{2}} * {_MASK})")
    + " END)"
)
_PART = (
    "SUBSTRING({0}, CASE WHEN {1} < 1 THEN 1 ELSE {1} END,"
    " CAST(GREATEST({1} + CAST({2} AS BIGINT) - CASE WHEN {1} < 1 THEN 1 ELSE {1} END, 0) AS INT))"
)
_BIT_COUNT = (
    "AGGREGATE(REGEXP_EXTRACT_ALL(HEX({0}), '.', 0), 0L,"
    " (a, h) -> a + BIT_COUNT(CAST(CONV(h, 16, 10) AS INT)))"
)


def _encoding(argument: Argument) -> None:
    if argument.text is None:
        raise Refused("an encoding that is not a constant")
    if argument.text.lower() not in _UTF8:
        if not argument.text.replace("-", "").replace("_", "").isalnum():
            raise Invalid("22023", f'invalid source encoding name "{argument.text}"')
        raise Refused(f"the encoding {argument.text}", "Use UTF8.")


def _text(use: Use) -> str:
    data, encoding = use.arguments
    _encoding(encoding)
    text = f"CAST({data.sql} AS STRING)"
    is_valid = f"IS_VALID_UTF8({text}) AND NOT CONTAINS({text}, '\\u0000')"
    return (
        f"(CASE WHEN {data.sql} IS NULL THEN NULL WHEN {is_valid} THEN {text} ELSE {_NOT_UTF8} END)"
    )


def _bytes(use: Use) -> str:
    text, encoding = use.arguments
    _encoding(encoding)
    return f"ENCODE({text.sql}, 'UTF-8')"


def _hash(bits: int) -> SqlRule:
    return lambda use: f"UNHEX(SHA2({use.arguments[0].sql}, {bits}))"


def _parts(name: str) -> list[Function]:
    whole = "SUBSTRING({0}, CASE WHEN {1} < 1 THEN 1 ELSE {1} END)"
    cut = f"(CASE WHEN {_is_null(3)} THEN NULL WHEN {{2}} < 0 THEN {_NEGATIVE} ELSE {_PART} END)"
    return [
        scalar(name, (BYTEA, INT4), BYTEA, whole, "The bytes from a place on."),
        scalar(name, (BYTEA, INT4, INT4), BYTEA, cut, "So many bytes from a place on."),
    ]


FUNCTIONS: tuple[Function, ...] = (
    scalar(
        "get_byte", (BYTEA, INT4), INT4, _checked(_BYTES, _byte("{1}"), 2), "The byte at a place."
    ),
    scalar(
        *("set_byte", (BYTEA, INT4, INT4), BYTEA),
        _checked(_BYTES, _with_byte("{1}", "({2} & 255)"), 3),
        "With another byte at a place.",
    ),
    scalar("get_bit", (BYTEA, INT8), INT4, _checked(_BITS, _BIT, 2), "The bit at a place."),
    scalar(
        *("set_bit", (BYTEA, INT8, INT4), BYTEA, _checked(_BITS, _SET_BIT, 3)),
        "With another bit at a place.",
    ),
    scalar("bit_count", (BYTEA,), INT8, _BIT_COUNT, "How many bits are set."),
    scalar("convert_from", (BYTEA, TEXT), TEXT, _text, "Bytes of UTF8 as text."),
    scalar("convert_to", (TEXT, TEXT), BYTEA, _bytes, "A text as bytes of UTF8."),
    *(
        scalar(f"sha{bits}", (BYTEA,), BYTEA, _hash(bits), f"The SHA-{bits} hash.")
        for bits in (224, 384, 512)
    ),
    *_parts("substring"),
    *_parts("substr"),
)
