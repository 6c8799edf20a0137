"""`to_char` of numbers: a format is taken apart and checked; the engine writes numbers into it.

A format must be a constant, so that what is wrong with it is known before any number is. It is
handed on as a text of signs, one for each of PostgreSQL's words and, behind an apostrophe, one for
each character that is written as it is; `compute.jvm` has what is done with that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.model.pg_types import FLOAT4, FLOAT8, INT4, INT8, NUMERIC, PgType
from waterclock.sql.dialect.casts import cast_sql
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.scaled import number_of
from waterclock.sql.functions.registry import Argument, Invalid, Refused, Use

_SIGNS = {
    **{",": ",", "G": ",", ".": ".", "D": ".", "0": "0", "9": "9", "L": "L", "FM": "F", "S": "S"},
    **{"MI": "M", "PL": "P", "SG": "G", "PR": "B", "V": "V", "EEEE": "E", "RN": "R", "rn": "r"},
    **{"TH": "T", "th": "t", "B": "b", "C": "c", "SP": "c"},
}
"""What stands for PostgreSQL's words. The last three of them do nothing."""
_TOKEN = re.compile(
    r"(?P<word>EEEE|FM|MI|PL|PR|RN|SG|SP|TH|eeee|fm|mi|pl|pr|rn|sg|sp|th|[,.09BCDGLSVbcdglsv])"
    r'|"(?P<quoted>(?:[^"\\]|\\.?)*)"?|\\(?P<escaped>")|(?P<other>.)',
    re.DOTALL,
)
_APART = {"M": "MI", "P": "PL", "G": "SG"}
_WITHOUT_EXPONENT = frozenset("FSBMPGRrVb")
_MOST_SHIFTED = {INT4.oid: 9, INT8.oid: 18}
_KNOWN_DIGITS = {FLOAT4.oid: 6, FLOAT8.oid: 15}
_EXACT, _FLOAT, _ROMAN = "wc_number_text", "wc_real_text", "wc_roman_text"


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A format that makes sense: the signs of its words, and characters behind apostrophes."""

    parts: tuple[str, ...]

    @property
    def words(self) -> str:
        """Without what is written as it is."""
        return "".join(each for each in self.parts if len(each) == 1)

    @property
    def is_roman(self) -> bool:
        return "R" in self.words or "r" in self.words

    @property
    def counts(self) -> bool:
        """Whether an ending is written: 1st, 2nd."""
        return bool(set(self.words) & set("Tt")) and not (self.is_roman or "." in self.words)

    @property
    def shift(self) -> int:
        """By how many digits the number is multiplied."""
        return self.words.partition("V")[2].count("9")

    @property
    def is_multiplied(self) -> bool:
        return "V" in self.words

    @property
    def whole_digits(self) -> int:
        """How many places for digits there are before the point."""
        whole = self.words.partition(".")[0]
        return whole.count("9") + whole.count("0")

    def signs(self, *, is_shifted: bool = False) -> str:
        """All of it, as SQL; for a number that has been multiplied already, or not."""
        own = {"V": "v"} if is_shifted else {}
        return quoted("".join(own.get(each, each) for each in self.parts))


def parsed(text: str) -> NumberFormat:
    """The format; `Invalid` with what PostgreSQL says if it makes no sense."""
    form = NumberFormat(tuple(_parts(text)))
    _check(form.words)
    return form


def _parts(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        if found["word"] is not None:
            word = found["word"]
            yield _SIGNS[word if word in _SIGNS else word.upper()]
        elif found["quoted"] is not None:
            inside = re.sub(r"\\(.)", r"\1", found["quoted"], flags=re.DOTALL)
            yield from (f"'{each}" for each in inside)
        else:
            yield f"'{found['escaped'] or found['other']}"


def _check(words: str) -> None:
    """Raise `Invalid` if words do not go together."""
    seen: Counter[str] = Counter()
    for word in words:
        wrong = _wrong(word, seen)
        if wrong is not None:
            raise Invalid("42601", wrong)
        if word != "b" or not (seen["9"] or seen["0"]):
            seen[word] += 1


def _wrong(word: str, seen: Counter[str]) -> str | None:
    """What is wrong with a word behind others."""
    apart = seen["M"] or seen["P"] or seen["G"]
    if seen["E"]:
        return 'cannot use "EEEE" twice' if word == "E" else '"EEEE" must be the last pattern used'
    if word in "90" and seen["B"]:
        return f'"{word}" must be ahead of "PR"'
    if word == "." and seen["."]:
        return "multiple decimal points"
    if (word == "." and seen["V"]) or (word == "V" and seen["."]):
        return 'cannot use "V" and decimal point together'
    if word == "S" and seen["S"]:
        return 'cannot use "S" twice'
    if word == "S" and (apart or seen["B"]):
        return 'cannot use "S" and "PL"/"MI"/"SG"/"PR" together'
    if word in _APART and seen["S"]:
        return f'cannot use "S" and "{_APART[word]}" together'
    if word == "B" and (seen["S"] or apart):
        return 'cannot use "PR" and "S"/"PL"/"MI"/"SG" together'
    if word == "E" and set(seen) & _WITHOUT_EXPONENT:
        return '"EEEE" is incompatible with other formats'
    return None


def number_format(use: Use) -> str:
    """The SQL of `to_char(number, 'format')`."""
    number, wanted = use.arguments
    if wanted.text is None:
        raise Refused("to_char() with a format that is not a constant")
    form = parsed(wanted.text)
    known = _KNOWN_DIGITS.get(number.type.oid)
    if form.counts and not form.whole_digits:
        raise Refused(f'the format "{wanted.text}" of to_char(), which has no digits')
    if known is not None and form.counts:
        raise Refused('"TH" in a format of to_char() for numbers that may be no number')
    if known is None and "E" in form.words and number.type == INT4:
        known = _KNOWN_DIGITS[FLOAT8.oid]
    if known is not None:
        return f"{_FLOAT}(CAST({number.sql} AS DOUBLE), {form.signs()}, {known})"
    if form.is_roman:
        whole = cast_sql(number.sql, number.type, INT4, use.manner, explicit=True).sql
        return f"{_ROMAN}({whole}, {form.signs()})"
    if number.type.oid in _MOST_SHIFTED:
        return _of_integer(number, form)
    return f"{_EXACT}({number_of(number.sql, number.type)}, {form.signs()})"


def _of_integer(number: Argument, form: NumberFormat) -> str:
    """Digits that are added must still be those of an integer."""
    if form.shift > _MOST_SHIFTED[number.type.oid]:
        raise Refused('to_char() of an integer with so many digits behind "V"')
    suffix = "L" if number.type == INT8 else ""
    factor = f"{10**form.shift}{suffix}"
    value = f"({number.sql} * {factor})" if form.shift else number.sql
    return f"{_EXACT}({number_of(value, number.type)}, {form.signs(is_shifted=True)})"


KINDS: tuple[PgType, ...] = (INT4, INT8, FLOAT4, FLOAT8, NUMERIC)
"""The types of numbers that there is `to_char` of."""
