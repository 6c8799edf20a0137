"""JSON as PostgreSQL reads it: `json` is checked and kept, `jsonb` gets one normal form.

In that form an object's keys are in order of length, then bytes; of equal keys the last one counts;
numbers are written out without exponent; and there is one space after each colon and comma.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

from waterclock.pgwire.values.errors import InvalidCharacter, InvalidText

_ZERO = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_EXPONENT_LIMIT = 16_383


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def check_json(text: str) -> str:
    """The text, if it is JSON; `InvalidText`."""
    _load(text)
    return text


def normal_json(text: str) -> str:
    """The normal form of a JSON text; `InvalidText`."""
    value = _load(text)
    if "\\u0000" in text and _ZERO.search(text):
        raise InvalidCharacter(
            "unsupported Unicode escape sequence", detail="\\u0000 cannot be converted to text."
        )
    parts: list[str] = []
    try:
        _write(value, parts)
    except RecursionError:
        raise _too_deep() from None
    return "".join(parts)


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as fault:
        detail = "The input string ended unexpectedly."
        if isinstance(fault, json.JSONDecodeError) and fault.pos < len(text.rstrip()):
            detail = f'Token "{_token(text, fault.pos)}" is invalid.'
        raise InvalidText("invalid input syntax for type json", detail=detail) from None


def _write(value: Any, parts: list[str]) -> None:
    match value:
        case _Number():
            parts.append(_number(value))
        case str():
            parts.append(_string(value))
        case dict():
            parts.append("{")
            for i, key in enumerate(sorted(value, key=_key_order)):
                parts.append(f"{', ' if i else ''}{_string(key)}: ")
                _write(value[key], parts)
            parts.append("}")
        case list():
            parts.append("[")
            for i, element in enumerate(value):
                if i:
                    parts.append(", ")
                _write(element, parts)
            parts.append("]")
        case None:
            parts.append("null")
        case _:
            parts.append("true" if value else "false")


def _key_order(key: str) -> tuple[int, bytes]:
    data = key.encode("utf-8", "surrogatepass")
    return len(data), data


def _string(value: str) -> str:
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise InvalidText(
            "invalid input syntax for type json",
            detail="Unicode high surrogate must not follow a high surrogate."
            if not any("\udc00" <= c <= "\udfff" for c in value)
            else "Unicode low surrogate must follow a high surrogate.",
        )
    # PostgreSQL leaves DEL alone, as json.dumps does, and writes control characters alike.
    return json.dumps(value, ensure_ascii=False)


def _number(written: str) -> str:
    number = Decimal(written)
    if abs(number.adjusted()) > _EXPONENT_LIMIT * 8:
        raise InvalidText("value overflows numeric format")
    text = format(number, "f")
    return text.removeprefix("-") if not number and text.startswith("-") else text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _token(text: str, place: int) -> str:
    match = re.compile(r"[A-Za-z0-9_+\-.]+|.", re.DOTALL).match(text, place)
    return match[0] if match else ""


def _too_deep() -> InvalidText:
    return InvalidText("invalid input syntax for type json", detail="It is nested too deeply.")
