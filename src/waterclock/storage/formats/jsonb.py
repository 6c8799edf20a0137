"""The normal form of JSON, as jsonb has it, from bytes and quickly.

An object's keys are in order of length, then bytes; of equal keys the last one counts; numbers are
written out without exponent; and there is one space after each colon and comma.

Most JSON has only numbers that Python writes as they were written. Then the encoder of the standard
library writes the whole value at once; otherwise it is written part by part.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec

_DIGITS = 131_072
"""A number with more places than this is too large for PostgreSQL."""


class _Written(msgspec.Struct, frozen=True):
    """A number that Python would write in another way."""

    text: str


def _number(written: str) -> float | _Written:
    number = float(written)
    if repr(number) == written and "e" not in written and written != "-0.0":
        return number
    exact = Decimal(written)
    if abs(exact.adjusted()) > _DIGITS:
        raise ValueError("a number is too large")
    text = format(exact, "f")
    return _Written(text.removeprefix("-") if not exact else text)


_DECODER = msgspec.json.Decoder(float_hook=_number)
_write_at_once = json.JSONEncoder(ensure_ascii=False).encode


def normal_form(payload: bytes) -> str:
    """The normal form of a JSON text in UTF-8; `ValueError` with what is wrong with it."""
    try:
        value = _DECODER.decode(payload)
        text = _ordered_and_written(value)
    except msgspec.DecodeError as fault:
        raise ValueError(str(fault)) from None
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\u0000" in text and "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("\\u0000 can not be converted to text")
    return text


def _ordered_and_written(value: Any) -> str:
    try:
        return _write_at_once(_ordered(value))
    except TypeError:  # there is a number that has to be written as it is
        parts: list[str] = []
        _write(value, parts)
        return "".join(parts)


def _ordered(value: Any) -> Any:
    if type(value) is dict:
        return {key: _ordered(value[key]) for key in _sorted(value)}
    if type(value) is list:
        return [_ordered(each) for each in value]
    return value


def _sorted(keys: dict[str, Any]) -> list[str]:
    if "".join(keys).isascii():  # then a character is a byte
        return sorted(sorted(keys), key=len)
    return sorted(keys, key=lambda key: (len(key.encode()), key.encode()))


def _write(value: Any, parts: list[str]) -> None:
    match value:
        case dict():
            parts.append("{")
            for i, key in enumerate(_sorted(value)):
                parts.append(f"{', ' if i else ''}{_write_at_once(key)}: ")
                _write(value[key], parts)
            parts.append("}")
        case list():
            parts.append("[")
            for i, each in enumerate(value):
                if i:
                    parts.append(", ")
                _write(each, parts)
            parts.append("]")
        case _Written(text):
            parts.append(text)
        case _:
            parts.append(_write_at_once(value))
