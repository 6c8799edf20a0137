"""Single values from text: what PostgreSQL's input functions do, type by type.

Each function takes the text and returns what an Arrow column is built from: a Python number, bytes,
or the integer that a date or time is held as. Each raises a `BadValue` in PostgreSQL's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

from waterclock.model.pg_types import NO_MODIFIER
from waterclock.persist.numerics import MOST_SCALE, MOST_WHOLE
from waterclock.pgwire.values.errors import (
    InvalidParameter,
    InvalidText,
    OutOfRange,
    TooLong,
    UnsupportedValue,
    invalid_syntax,
    out_of_range,
)

_SPACE = " \t\n\r\v\f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_UUID = re.compile(r"(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}", re.IGNORECASE)
_OCTAL_BYTE = re.compile(rb"\\[0-7]{3}")
_OCTAL = re.compile(rb"\\([0-3][0-7]{2}|\\)")
_TRUE = {"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"}
_FALSE = {"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"}
_EXACT = Context(prec=2_000, rounding=ROUND_HALF_UP, Emax=999_999, Emin=-999_999)


def parse_bool(text: str) -> bool:
    word = text.strip(_SPACE).lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise invalid_syntax("boolean", text)


def integer_parser(name: str, least: int, greatest: int) -> Callable[[str], int]:
    """The input function of an integer type."""

    def parse(text: str) -> int:
        digits = text.strip(_SPACE)
        if not _INTEGER.fullmatch(digits):
            raise invalid_syntax(name, text)
        # Python refuses to read thousands of digits, and none of our types has them.
        number = int(digits) if len(digits.lstrip("+-0")) < 40 else greatest + 1
        if not least <= number <= greatest:
            raise out_of_range(name, text)
        return number

    return parse


def float_parser(name: str, greatest: float, least: float) -> Callable[[str], str]:
    """The input function of a float type, as far as a text that any parser of floats takes.

    Arrow makes the number, because only it rounds to the right width in one step.
    """

    def parse(text: str) -> str:
        number = text.strip(_SPACE)
        if _NOT_FINITE.fullmatch(number):
            return str(float(number))
        if not _NUMBER.fullmatch(number):
            raise invalid_syntax(name, text)
        value = abs(float(number))
        if value > greatest or (value < least and re.search("[1-9]", number.lower().split("e")[0])):
            raise OutOfRange(f'"{number}" is out of range for type {name}')
        return number.removeprefix("+")

    return parse


def numeric_parser(modifier: int) -> Callable[[str], Decimal]:
    """The input function of `numeric` with that modifier."""

    def parse(text: str) -> Decimal:
        number = text.strip(_SPACE)
        if _NUMBER.fullmatch(number):
            return fitted(Decimal(number), modifier)
        if _NOT_FINITE.fullmatch(number):
            raise unsupported_numeric(number)
        raise invalid_syntax("numeric", text)

    return parse


def fitted(number: Decimal, modifier: int) -> Decimal:
    """The number as a `numeric` of that modifier has it; without one, as it is; `OutOfRange`."""
    if modifier != NO_MODIFIER:
        return fit_numeric(number, (modifier - 4) >> 16, (modifier - 4) & 0xFFFF)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a number that was read is finite"
    if -exponent > MOST_SCALE or (number and number.adjusted() >= MOST_WHOLE):
        raise OutOfRange(
            "value out of range for type numeric",
            detail=f"A numeric holds {MOST_WHOLE} digits before the point and {MOST_SCALE} behind"
            " it.",
            hint="Round the number to fewer digits.",
        )
    return number if exponent <= 0 else number.quantize(Decimal(1), context=_EXACT)


def fit_numeric(number: Decimal, precision: int, scale: int) -> Decimal:
    """The number rounded to the scale, half away from zero; `OutOfRange`."""
    if number.adjusted() < precision - scale:
        number = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
        if not number:
            return abs(number)
        if number.adjusted() < precision - scale:
            return number
    elif not number:
        return Decimal(0)
    power = f"10^{precision - scale}" if precision > scale else "1"
    raise OutOfRange(
        "numeric field overflow",
        detail=f"A field with precision {precision}, scale {scale} must round to an absolute value"
        f" less than {power}.",
    )


def unsupported_numeric(text: str) -> UnsupportedValue:
    return UnsupportedValue(f"numeric {text} is not supported")


def parse_uuid(text: str) -> bytes:
    inner = text[1:-1] if text[:1] == "{" and text[-1:] == "}" else text
    if not _UUID.fullmatch(inner):
        raise invalid_syntax("uuid", text)
    return bytes.fromhex(inner.replace("-", ""))


def parse_bytea(text: str) -> bytes:
    if text.startswith("\\x"):
        return _hex_bytes(text[2:])
    if "\\" not in text:
        return text.encode()
    data = text.encode()
    # What is left when all escapes are taken out must hold no backslash.
    if b"\\" in _OCTAL.sub(b"", data):
        raise InvalidText("invalid input syntax for type bytea")
    return _OCTAL.sub(lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1], 8)]), data)


def _hex_bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        pass
    compact = "".join(digits.split())
    for digit in compact:
        if digit not in "0123456789abcdefABCDEF":
            raise InvalidParameter(f'invalid hexadecimal digit: "{digit}"')
    raise InvalidParameter("invalid hexadecimal data: odd number of digits")


def parse_char(text: str) -> str:
    """`"char"`, which is one byte: the first, or `\\ooo`. No text begins with a byte above 127."""
    read = text.encode()
    byte = int(read[1:], 8) & 0xFF if _OCTAL_BYTE.fullmatch(read) else next(iter(read), 0)
    return f"\\{byte:03o}" if byte > 127 else chr(byte) if byte else ""


def parse_name(text: str) -> str:
    """A name: its first 63 bytes."""
    return text.encode()[:63].decode(errors="ignore")


def bounded_text_parser(name: str, modifier: int, *, padded: bool) -> Callable[[str], str]:
    """The input function of `varchar(n)` and `character(n)`."""
    limit = modifier - 4

    def parse(text: str) -> str:
        if len(text) > limit:
            if text[limit:].strip(" "):
                raise TooLong(f"value too long for type {name}({limit})")
            text = text[:limit]
        return text.ljust(limit) if padded else text

    return parse
