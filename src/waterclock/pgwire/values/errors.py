"""What can be wrong with a value that a client sent, in the words of PostgreSQL."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, NoReturn

import pyarrow as pa

from waterclock.errors import WaterclockError


class BadValue(WaterclockError):
    """A value that its type does not have. `row` is its place in the column that was decoded."""

    sqlstate: ClassVar[str] = "22000"
    row: int = 0


class InvalidText(BadValue):
    """The text is not one of the type's."""

    sqlstate: ClassVar[str] = "22P02"


class InvalidBinary(BadValue):
    """The bytes are not a value of the type."""

    sqlstate: ClassVar[str] = "22P03"


class ShortBinary(BadValue):
    """The bytes end before the value does."""

    sqlstate: ClassVar[str] = "08P01"


class OutOfRange(BadValue):
    """A number that the type can not hold."""

    sqlstate: ClassVar[str] = "22003"


class InvalidDatetime(BadValue):
    """The text is not a date or time."""

    sqlstate: ClassVar[str] = "22007"


class DatetimeOverflow(BadValue):
    """A date or time that does not exist or that the type can not hold."""

    sqlstate: ClassVar[str] = "22008"


class IntervalOverflow(BadValue):
    """A part of an interval is out of its range."""

    sqlstate: ClassVar[str] = "22015"


class InvalidCharacter(BadValue):
    """A character that no text of PostgreSQL's can have."""

    sqlstate: ClassVar[str] = "22P05"


class TooLong(BadValue):
    """A string with more characters than its type allows."""

    sqlstate: ClassVar[str] = "22001"


class InvalidEncoding(BadValue):
    """The bytes are not UTF-8, or hold a zero."""

    sqlstate: ClassVar[str] = "22021"


class UnsupportedValue(BadValue):
    """PostgreSQL has this value, Waterclock has not."""

    sqlstate: ClassVar[str] = "0A000"


class NoBinaryForm(BadValue):
    """A type that PostgreSQL, too, only has as text: arrays of access rights."""

    sqlstate: ClassVar[str] = "42883"


class InvalidZone(BadValue):
    """No time zone has that name."""

    sqlstate: ClassVar[str] = "22023"


class InvalidDisplacement(BadValue):
    """An offset from UTC that no zone has."""

    sqlstate: ClassVar[str] = "22009"


class InvalidParameter(BadValue):
    """Digits that are not ones."""

    sqlstate: ClassVar[str] = "22023"


class TooDeep(BadValue):
    """A value that is nested more deeply than can be read."""

    sqlstate: ClassVar[str] = "54001"


_UNREADABLE = (ArithmeticError, ValueError, LookupError, struct.error, pa.ArrowException)
"""What reading a value raises that no rule has foreseen: numbers that are too long, say."""


@contextmanager
def as_bad_value(fallback: Callable[[], BadValue]) -> Iterator[None]:
    """What reading raises inside is a `BadValue`: the fallback, unless it is one already."""
    try:
        yield
    except BadValue:
        raise
    except RecursionError:
        raise TooDeep("stack depth limit exceeded", hint="Nest the value less deeply.") from None
    except _UNREADABLE:
        raise fallback() from None


def refuse_row(value: object) -> NoReturn:
    """The input function of rows, of which nobody knows the columns."""
    del value
    raise UnsupportedValue("input of anonymous composite types is not implemented")


def invalid_syntax(sql_name: str, text: str) -> InvalidText:
    return InvalidText(f'invalid input syntax for type {sql_name}: "{text}"')


def out_of_range(sql_name: str, text: str) -> OutOfRange:
    return OutOfRange(f'value "{text}" is out of range for type {sql_name}')


def invalid_encoding(data: bytes) -> InvalidEncoding:
    """The error for bytes that are not UTF-8, naming the first bad ones."""
    try:
        data.decode()
    except UnicodeDecodeError as fault:
        # PostgreSQL shows as many bytes as the first one promises.
        first = data[fault.start]
        length = (
            4
            if 0xF0 <= first < 0xF8
            else 3
            if 0xE0 <= first < 0xF0
            else 2
            if 0xC0 <= first < 0xE0
            else 1
        )
        bad = data[fault.start : fault.start + length]
    else:
        bad = b"\0"
    shown = " ".join(f"0x{byte:02x}" for byte in bad)
    return InvalidEncoding(f'invalid byte sequence for encoding "UTF8": {shown}')


def decode_utf8(data: bytes) -> str:
    """The text; `InvalidEncoding` also for a zero byte, which no text of PostgreSQL's has."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise invalid_encoding(data) from None
    if "\0" in text:
        raise invalid_encoding(b"\0")
    return text
