"""Functions on values that only client programs call in queries over the system relations.

Plain functions, called for each row; `calls` makes them known to DuckDB.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
import zoneinfo
from collections.abc import Sequence
from typing import Any

from waterclock.catalog.system.errors import (
    FeatureNotSupported,
    InvalidPower,
    InvalidValue,
    NumberOutOfRange,
)

# Numbers


def power(base: float, exponent: float) -> float:
    """`base ^ exponent` of floats."""
    if base == 0 and exponent < 0:
        raise InvalidPower("zero raised to a negative power is undefined")
    if base < 0 and math.isfinite(exponent) and exponent != math.floor(exponent):
        told = "a negative number raised to a non-integer power yields a complex result"
        raise InvalidPower(told)
    try:
        found = math.pow(base, exponent)
    except OverflowError:
        raise NumberOutOfRange("value out of range: overflow") from None
    if found == 0 and base != 0 and math.isfinite(base) and math.isfinite(exponent):
        raise NumberOutOfRange("value out of range: underflow")
    return found


# JSON


def jsonb(text: str) -> str:
    """JSON in jsonb's form: the last of equal keys, short keys first."""
    return _written(json.loads(text, object_pairs_hook=_sorted, parse_float=_Digits))


class _Digits(str):
    """A number with the digits that it was written with."""

    __slots__ = ()


def _sorted(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    def length_first(key: str) -> tuple[int, bytes]:
        held = key.encode()
        return len(held), held

    last = dict(pairs)
    return {key: last[key] for key in sorted(last, key=length_first)}


def _written(value: Any) -> str:
    match value:
        case dict():
            inner = (
                f"{json.dumps(k, ensure_ascii=False)}: {_written(v)}" for k, v in value.items()
            )
            return "{" + ", ".join(inner) + "}"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case _Digits():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


# Bytes


def encoded(data: bytes, form: str) -> str:
    match form.lower():
        case "hex":
            return data.hex()
        case "base64":
            text = base64.b64encode(data).decode()
            return "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
        case "escape":
            return "".join(map(_escaped, data))
    raise InvalidValue(f'unrecognized encoding: "{form}"')


def _escaped(byte: int) -> str:
    if byte == 0 or byte > 127:
        return f"\\{byte:03o}"
    return "\\\\" if byte == ord("\\") else chr(byte)


# Times

_FORMS = {
    **{"YYYY": "{0.year:04d}", "MM": "{0.month:02d}", "DD": "{0.day:02d}"},
    **{"HH24": "{0.hour:02d}", "MI": "{0.minute:02d}", "SS": "{0.second:02d}"},
    **{"US": "{0.microsecond:06d}", "TZ": "{0:%Z}"},
}
_PATTERN = re.compile("|".join(_FORMS) + '|[^A-Za-z0-9"\\\\]+')


def moment_text(moment: datetime.datetime, form: str, zone: str) -> str:
    """`to_char` of a moment, for the forms in which programs show one."""
    local = moment.replace(tzinfo=datetime.UTC).astimezone(zoneinfo.ZoneInfo(zone))
    pieces = _PATTERN.findall(form)
    if "".join(pieces) != form:
        what = f"to_char with the format '{form}'"
        raise FeatureNotSupported(f"{what} over the system catalogs is not supported")
    return "".join(_FORMS.get(piece, piece).format(local) for piece in pieces)
