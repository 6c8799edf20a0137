"""`to_number`: the other way of `to_char` of numbers.

PostgreSQL reads very freely, and leaves out what does not fit. Here a text must be written as the
format says: no more digits than it has, all that it has behind the point, commas where it has them
or nowhere. One that is not is not supported, and never read as something else.
"""

from __future__ import annotations

from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.types import MOST_DIGITS, bounded, spark_type
from waterclock.sql.functions.number_formats import Format, parsed
from waterclock.sql.functions.registry import Argument, Refused, Use

_SIGNS = {"": "-?", "S": "[+-]?", "s": "", "m": ""}
_LAST_SIGNS = {"": "", "S": "", "s": "[+-]?", "m": "-?"}


def _format(argument: Argument) -> Format:
    if argument.text is None:
        raise Refused("to_number() with a format that is not a constant")
    form = parsed(argument.text, "to_number()")
    if form.before or form.after or form.digits + len(form.fraction) > MOST_DIGITS:
        raise Refused(f'the format "{argument.text}" of to_number()')
    return form


def read_type(arguments: tuple[Argument, ...]) -> PgType:
    """The digits of the format."""
    if arguments[1].is_constant and arguments[1].text is None:
        return NUMERIC  # the format is null, and so is the number
    form = _format(arguments[1])
    return bounded(form.digits + len(form.fraction), len(form.fraction))


def number_reading(use: Use) -> str:
    """The SQL of `to_number(text, 'format')`."""
    text, wanted = use.arguments
    if wanted.is_constant and wanted.text is None:
        return f"CAST(NULL AS {spark_type(use.result)})"
    form = _format(wanted)
    pattern = f"^{_SIGNS[form.sign]}{_digits(form)}{_LAST_SIGNS[form.sign]}{chr(92)}z"
    sign = f"CASE WHEN CONTAINS({text.sql}, '-') THEN '-' ELSE '' END"
    plain = f"CONCAT({sign}, REGEXP_REPLACE({text.sql}, '[-+,]', ''))"
    other = raised(
        "0A000", "reading a number that is not written just as its format is not supported"
    )
    return (
        f"(CASE WHEN {text.sql} RLIKE {quoted(pattern)}"
        f" THEN CAST({plain} AS {spark_type(use.result)})"
        f" WHEN {text.sql} IS NOT NULL THEN {other} END)"
    )


def _digits(form: Format) -> str:
    """A regular expression for the digits, without commas or with all of them."""
    places = [f"[0-9]{{{len(each)}}}" for each in form.whole.split(",") if each]
    whole = f"(?:[0-9]{{1,{form.digits}}}|{','.join(places)})"
    if not form.has_point:
        return whole
    return f"{whole}[.][0-9]{{{len(form.fraction)}}}"
