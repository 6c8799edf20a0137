"""`to_number`: the other way of `to_char` of numbers.

A text is read as freely as PostgreSQL does, by the same format; the engine makes it a text of
digits (`compute.jvm`), and what is none is no number. The format is a constant.
"""

from __future__ import annotations

from waterclock.model.exact import Exact
from waterclock.model.pg_types import NUMERIC
from waterclock.sql.dialect import scaled
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import null
from waterclock.sql.functions.number_formats import NumberFormat, parsed
from waterclock.sql.functions.registry import Invalid, Refused, Use

_LONG = 300
_READ = "wc_number_read"
_WHOLE = "REGEXP_EXTRACT({}, '^[ +-]0*([0-9]*)', 1)"
_NO_ROOM = raised("22003", "numeric field overflow")


def _format(text: str) -> NumberFormat:
    form = parsed(text)
    for word, is_there in (("RN", form.is_roman), ("EEEE", "E" in form.words)):
        if is_there:
            raise Invalid("0A000", f'"{word}" not supported for input')
    return form


def number_reading(use: Use) -> str:
    """The SQL of `to_number(text, 'format')`."""
    text, wanted = use.arguments
    if wanted.is_constant and wanted.text is None:
        return null(NUMERIC)
    if wanted.text is None:
        raise Refused("to_number() with a format that is not a constant")
    if not wanted.text:
        return null(NUMERIC)
    form = _format(wanted.text)
    read = f"{_READ}({text.sql}, {form.signs()})"
    # What is wrong with a row of a view is told only of what is not inside of a lambda.
    return let({"t": read}, "r", _number("r.t", form)) if len(read) > _LONG else _number(read, form)


def _number(read: str, form: NumberFormat) -> str:
    """The number that a text of digits is."""
    number = f"({scaled.from_text(read)})"
    if form.is_multiplied:
        number = scaled.held(_divided(number, form.shift))
    too_long = f"LENGTH({_WHOLE.format(read)}) > {form.whole_digits}"
    return f"(CASE WHEN {too_long} THEN {_NO_ROOM} ELSE {number} END)"


def _divided(number: str, shift: int) -> str:
    """By a power of ten, with the digits that PostgreSQL gives such a product."""
    ten, exponent = (f"{Exact.OF_DECIMAL}(CAST({n} AS DECIMAL(10,0)))" for n in (10, -shift))
    return f"{Exact.PRODUCT}({Exact.READ}({number}), {Exact.POWER}({ten}, {exponent}))"
