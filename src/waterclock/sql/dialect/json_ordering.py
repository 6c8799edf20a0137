"""The order of `jsonb` values, as a text for each that is compared byte by byte.

PostgreSQL walks through two values at once, and the first difference decides: null before strings,
these before numbers, booleans, arrays and objects; of two arrays or objects that with fewer
elements or members; strings by their bytes; of objects the names and values in turn, in the order
that the normal form has them in. One value that stands alone is compared as an array of one that
comes before other such arrays, so that an empty array comes before it.

The text has a piece for every token of the value. It tells the kind, and then what decides within
it: how many are inside, or the value itself with an end that comes before whatever goes on. How
many are inside is not known at an opening bracket, so the tokens are read from the last one on.
"""

from __future__ import annotations

from decimal import Decimal

from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.literals import quoted

NULL, STRING, NUMBER, BOOLEAN, ARRAY, OBJECT = "012345"
_END = "\\u0000"
_WIDTH = 8
"""Of counts: there is no value of more than 256 MB."""
_COMPLEMENT = ("0123456789", "9876543210")


def order_key(value: str) -> str:
    """What values are to be sorted by, as SQL."""
    read = f"REVERSE(FILTER({js.tokens(value)}, t -> t NOT IN (', ', ': ')))"
    start = "NAMED_STRUCT('n', ARRAY(0), 'k', '')"
    # Names count as well: an object of as many members has as many names.
    below = "IF(t IN ('[', '{'), SLICE(s.n, 1, SIZE(s.n) - 1), s.n)"
    counted = f"CONCAT(SLICE({below}, 1, SIZE({below}) - 1), ARRAY(ELEMENT_AT({below}, -1) + 1))"
    step = (
        "CASE WHEN t IN (']', '}') THEN NAMED_STRUCT('n', ARRAY_APPEND(s.n, 0), 'k', s.k)"
        f" ELSE NAMED_STRUCT('n', {counted}, 'k', CONCAT({_piece()}, s.k)) END"
    )
    alone = _counted(ARRAY, "1", "0")
    front = f"CASE WHEN {js.is_scalar(value)} THEN {alone} ELSE '' END"
    whole = f"CONCAT({front}, AGGREGATE({read}, {start}, (s, t) -> {step}, s -> s.k))"
    return f"(CASE WHEN {value} IS NOT NULL THEN {whole} END)"


def scalar_key(token: str) -> str:
    """The piece of a token that is no bracket, as SQL."""
    return (
        f"(CASE WHEN LEFT({token}, 1) = '\"' THEN"
        f" CONCAT('{STRING}', {js.unescaped(token)}, '{_END}')"
        f" WHEN {token} = 'null' THEN '{NULL}' WHEN {token} = 'false' THEN '{BOOLEAN}0'"
        f" WHEN {token} = 'true' THEN '{BOOLEAN}1' ELSE {_number(token)} END)"
    )


def known_key(value: Decimal | str | bool | None) -> str:
    """The piece of a value that is known, as a text."""
    match value:
        case None:
            return NULL
        case bool():
            return f"{BOOLEAN}{int(value)}"
        case str():
            return f"{STRING}{value}\x00"
        case Decimal():
            return _known_number(value)


def _piece() -> str:
    opened = "ELEMENT_AT(s.n, -1)"
    return (
        f"CASE t WHEN '[' THEN {_counted(ARRAY, opened, '1')}"
        f" WHEN '{{' THEN {_counted(OBJECT, opened, '')} ELSE {scalar_key('t')} END"
    )


def _counted(kind: str, count: str, behind: str) -> str:
    return f"CONCAT('{kind}', LPAD({count}, {_WIDTH}, '0'), '{behind}')"


def _number(token: str) -> str:
    """Digits behind their number, so that texts compare as numbers do; below zero reversed."""
    short = js.canonical(token)
    whole = f"REGEXP_SUBSTR({token}, '[0-9]+')"
    digits = f"CONCAT(LPAD(LENGTH({whole}), {_WIDTH}, '0'), TRIM(LEADING '-' FROM {short}))"
    one, other = _COMPLEMENT
    below = f"CONCAT('{NUMBER}0', TRANSLATE({digits}, '{one}', '{other}'), '~')"
    above = f"CONCAT('{NUMBER}1', {digits}, '{_END}')"
    return f"CASE WHEN LEFT({token}, 1) = '-' THEN {below} ELSE {above} END"


def _known_number(value: Decimal) -> str:
    plain = js.shortest(value)
    magnitude = plain.lstrip("-")
    digits = f"{len(magnitude.partition('.')[0]):0{_WIDTH}}{magnitude}"
    if not plain.startswith("-"):
        return f"{NUMBER}1{digits}\x00"
    return f"{NUMBER}0{digits.translate(str.maketrans(*_COMPLEMENT))}~"


def key_literal(value: Decimal | str | bool | None) -> str:
    """`known_key` as SQL."""
    return quoted(known_key(value)).replace("\x00", _END)
