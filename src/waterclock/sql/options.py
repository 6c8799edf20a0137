"""What options say, for whoever carries out a statement: each reader wants one kind of value.

The errors are PostgreSQL's: an option that does not exist, that is given twice, or whose value is
of the wrong kind is a syntax error at the option.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from waterclock.sql.ast.common import (
    ExpressionText,
    ListValue,
    NameValue,
    NumberValue,
    Option,
    StringValue,
)
from waterclock.sql.errors import SyntaxFault

_TRUE = ("true", "on", "1")
_FALSE = ("false", "off", "0")
_MILLIS = {
    **dict.fromkeys(("us", "microsecond"), 0.001),
    **dict.fromkeys(("ms", "millisecond"), 1.0),
    **dict.fromkeys(("s", "sec", "second"), 1000.0),
    **dict.fromkeys(("m", "min", "minute"), 60_000.0),
    **dict.fromkeys(("h", "hour"), 3_600_000.0),
    **dict.fromkeys(("d", "day"), 86_400_000.0),
}


def by_name(options: tuple[Option, ...], known: Collection[str]) -> Mapping[str, Option]:
    """The options by their names, all of which must be known. Raises a `SyntaxFault`."""
    found: dict[str, Option] = {}
    for option in options:
        if option.name not in known:
            raise SyntaxFault(f'option "{option.name}" not recognized', option.position)
        if option.name in found:
            raise SyntaxFault("conflicting or redundant options", option.position)
        found[option.name] = option
    return found


def truth(option: Option) -> bool:
    """True or false; an option without a value is true."""
    match option.value:
        case None:
            return True
        case NumberValue(text) | StringValue(text):
            word = text.lower()
        case NameValue(name):
            word = ".".join(name.parts).lower()
        case _:
            word = ""
    if word not in _TRUE + _FALSE:
        raise SyntaxFault(f"{option.name} requires a Boolean value", option.position)
    return word in _TRUE


def text(option: Option) -> str:
    """A string, or a word or number as it is written."""
    match option.value:
        case StringValue(value) | NumberValue(value):
            return value
        case NameValue(name):
            return ".".join(name.parts)
        case None:
            raise SyntaxFault(f"{option.name} requires a parameter", option.position)
        case _:
            raise SyntaxFault(f"{option.name} requires a string", option.position)


def integer(option: Option) -> int:
    """A whole number."""
    match option.value:
        case NumberValue(digits) | StringValue(digits) if _is_integer(digits):
            return int(digits)
        case _:
            raise SyntaxFault(f"{option.name} requires an integer value", option.position)


def milliseconds(option: Option, *, bare: str = "") -> float:
    """A length of time such as `1s` or `2 minutes`; `bare` is the unit of a number without one."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text(option).lower())
    unit = None if found is None else found[2] or bare
    millis = None if unit is None else _MILLIS.get(unit) or _MILLIS.get(unit.removesuffix("s"))
    if found is None or millis is None:
        raise SyntaxFault(
            f"{option.name} requires a length of time",
            option.position,
            hint="Write it as in '1s', '500ms' or '2 minutes'.",
        )
    return float(found[1]) * millis


def shown_duration(millis: int) -> str:
    """The length of time in the largest unit that it is a whole number of."""
    for unit in ("d", "h", "min", "s"):
        if millis and millis % _MILLIS[unit] == 0:
            return f"{millis // int(_MILLIS[unit])}{unit}"
    return f"{millis}ms"


def _is_integer(digits: str) -> bool:
    bare = digits.removeprefix("-")
    return bare.isascii() and bare.isdigit() and len(bare) < 20


def names(option: Option) -> tuple[str, ...]:
    """A list of names, such as columns; one alone need not be in brackets."""
    items = option.value.items if isinstance(option.value, ListValue) else (option.value,)
    found = []
    for item in items:
        if not isinstance(item, NameValue) or len(item.name.parts) != 1:
            raise SyntaxFault(f"{option.name} requires a list of names", option.position)
        found.append(item.name.parts[0])
    return tuple(found)


def is_star(option: Option) -> bool:
    """Whether the value is `*`."""
    return isinstance(option.value, ExpressionText) and option.value.text == "*"
