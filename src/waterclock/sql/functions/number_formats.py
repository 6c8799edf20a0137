"""`to_char` of numbers: a format is taken apart, and the number written into its places.

Known are `9`, `0`, `.`, `,`, `D`, `G`, `FM`, `S` in front or at the end, `MI` at the end, and texts
before and behind the digits. The sign stands before the first digit, wherever that is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import null, quoted
from waterclock.sql.dialect.scaled import to_exact
from waterclock.sql.dialect.types import bounded, is_unconstrained
from waterclock.sql.functions.registry import Refused, Use

_FORMAT = re.compile(
    r"(?P<fm>FM)?(?P<before>(?:[^A-Za-z0-9.,\"\\]|\"[^\"]*\")*)(?P<sign>S)?"
    r"(?P<whole>[09,G]*)(?:(?P<point>[.D])(?P<fraction>[09]*))?(?P<after_sign>S|MI)?"
    r"(?P<after>(?:[^A-Za-z0-9.,\"\\]|\"[^\"]*\")*)"
)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the digits and commas before the point, the digits behind it, and the rest."""

    whole: str
    has_point: bool
    fraction: str
    bare: bool
    sign: str
    before: str
    after: str

    @property
    def digits(self) -> int:
        """How many digits there are before the point."""
        return sum(each in "09" for each in self.whole)

    @property
    def first_zero(self) -> int | None:
        """From which of them on zeros are written."""
        places = [each for each in self.whole if each in "09"]
        return places.index("0") if "0" in places else None


def parsed(text: str, function: str = "to_char()") -> Format:
    """The format; `Refused` if something in it is not known."""
    found = _FORMAT.fullmatch(text.replace("fm", "FM"))
    has_digits = found is not None and (found["whole"].strip(",G") or found["fraction"])
    if found is None or not has_digits or (found["sign"] and found["after_sign"]):
        raise Refused(f'the format "{text}" of {function} for numbers')
    whole = found["whole"].replace("G", ",")
    if not whole.strip(","):
        raise Refused(f'the format "{text}" of {function} without a digit before the point')
    sign = "S" if found["sign"] else {"S": "s", "MI": "m", None: ""}[found["after_sign"]]
    return Format(
        whole,
        found["point"] is not None,
        found["fraction"] or "",
        bool(found["fm"]),
        sign,
        found["before"].replace('"', ""),
        found["after"].replace('"', ""),
    )


def number_format(use: Use) -> str:
    """The SQL of `to_char(number, 'format')`."""
    number, wanted = use.arguments
    if wanted.text is None:
        raise Refused("to_char() with a format that is not a constant")
    if not wanted.text:
        return f"(CASE WHEN {number.sql} IS NULL THEN {null(wanted.type)} END)"
    form = parsed(wanted.text)
    scale = len(form.fraction)
    rounded = f"CAST({number.sql} AS DECIMAL({_MOST_DIGITS},{scale}))"
    if is_unconstrained(number.type):
        rounded = to_exact(number.sql, bounded(_MOST_DIGITS - 1, scale))
    text = f"CAST(ABS({rounded}) AS STRING)"
    values = {
        "w": f"SPLIT_PART({text}, '.', 1)",
        "f": f"SPLIT_PART({text}, '.', 2)" if scale else "''",
        "n": f"({rounded} < 0)",
    }
    written = _written(form)
    fits = f"(CASE WHEN LENGTH(v.w) > {form.digits} THEN {_hashes(form)} ELSE {written} END)"
    return f"(CASE WHEN {number.sql} IS NOT NULL THEN {let(values, 'v', fits)} END)"


def _written(form: Format) -> str:
    """The text, with the whole part `v.w`, the fraction `v.f` and whether it is negative `v.n`."""
    whole, scale = "v.w", len(form.fraction)
    zeros = f"v.f = {quoted('0' * scale)}" if scale else "TRUE"
    if form.first_zero is not None:
        least = form.digits - form.first_zero
        whole = f"LPAD(v.w, GREATEST({least}, LENGTH(v.w)), '0')"
    elif scale:
        # A zero before the point is left out, unless it would be all there is.
        kept = zeros if form.bare and "0" not in form.fraction else "FALSE"
        whole = f"(CASE WHEN v.w = '0' AND NOT ({kept}) THEN '' ELSE v.w END)"
    places = let({"p": f"LPAD({whole}, {form.digits}, ' ')"}, "d", _grouped(form))
    point = "." if form.has_point else ""
    return _signed(form, places, f"CONCAT('{point}', {_fraction(form)})")


def _grouped(form: Format) -> str:
    """The digits in their places, with commas behind the first of them."""
    parts: list[str] = []
    count = 0
    for each in form.whole:
        if each == ",":
            parts.append(f"CASE WHEN TRIM(LEFT(d.p, {count})) <> '' THEN ',' ELSE ' ' END")
        else:
            count += 1
            parts.append(f"SUBSTRING(d.p, {count}, 1)")
    return f"CONCAT({', '.join(parts)})"


def _fraction(form: Format) -> str:
    if not form.bare or not form.fraction:
        return "v.f"
    least = form.fraction.rfind("0") + 1
    kept = f"LEFT(v.f, {least})" if least else "''"
    rest = f"TRIM(TRAILING '0' FROM SUBSTRING(v.f, {least + 1}))"
    return f"CONCAT({kept}, {rest})"


def _signed(form: Format, whole: str, rest: str) -> str:
    """The sign before the first digit, or at the end."""
    before, after = quoted(form.before), quoted(form.after)
    if form.sign in ("s", "m"):
        plus = "+" if form.sign == "s" else ("" if form.bare else " ")
        number = f"CONCAT({whole}, {rest}, CASE WHEN v.n THEN '-' ELSE '{plus}' END)"
    else:
        plus = "+" if form.sign == "S" else " "
        sign = f"CASE WHEN v.n THEN '-' ELSE '{plus}' END"
        body = "REGEXP_REPLACE(b.t, '^( *) ', CONCAT('\\u00241', b.s))"
        number = let({"t": f"CONCAT(' ', {whole}, {rest})", "s": sign}, "b", body)
    if form.bare:
        number = f"TRIM({number})"
    return f"CONCAT({before}, {number}, {after})"


def _hashes(form: Format) -> str:
    """What a number with too many digits looks like."""
    whole = form.whole.replace("9", "#").replace("0", "#")
    point = "." if form.has_point else ""
    return _signed(form, quoted(whole), quoted(point + "#" * len(form.fraction)))
