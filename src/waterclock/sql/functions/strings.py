"""Functions of text and bytes. Positions and lengths count characters, from 1."""

from __future__ import annotations

from waterclock.model.pg_types import BOOL, BYTEA, INT4, INT8, TEXT
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.texts import output_of, text_of
from waterclock.sql.dialect.types import ANY, ANYNONARRAY, BPCHAR
from waterclock.sql.functions import quotes
from waterclock.sql.functions.encodings import ENCODINGS
from waterclock.sql.functions.registry import Argument, Function, SqlRule, Use, scalar
from waterclock.sql.functions.unicode_texts import UNICODE

_NEGATIVE = raised("22011", "negative substring length not allowed")
_FROM = "(CASE WHEN {1} < 1 THEN 1 ELSE {1} END)"
_COUNT = (
    "(CASE WHEN {2} < 0 THEN " + _NEGATIVE + " WHEN {1} >= 1 THEN {2}"
    " WHEN {1} + CAST({2} AS BIGINT) - 1 < 0 THEN 0"
    " ELSE CAST({1} + CAST({2} AS BIGINT) - 1 AS INT) END)"
)
_SUBSTRING = f"SUBSTRING({{0}}, {_FROM})"
_SUBSTRING_OF = f"SUBSTRING({{0}}, {_FROM}, {_COUNT})"
_LEFT = (
    "(CASE WHEN {1} >= 0 THEN LEFT({0}, {1})"
    " ELSE LEFT({0}, CASE WHEN LENGTH({0}) + {1} < 0 THEN 0 ELSE LENGTH({0}) + {1} END) END)"
)
_RIGHT = (
    # The least number has no positive one, which PostgreSQL does not notice.
    "(CASE WHEN {1} = -2147483648 THEN {0} ELSE " + _LEFT.replace("LEFT(", "RIGHT(") + " END)"
)
# Java knows letters whose other case is two letters, or depends on what is around them. In
# PostgreSQL the case of a text is that of each of its characters. Of the dotted capital I the small
# letter is a plain one.
_EACH = (
    "ARRAY_JOIN(TRANSFORM(SPLIT(TRANSLATE({0}, '\u0130', %s), ''),"
    " c -> CASE WHEN LENGTH(%s(c)) = 1 THEN %s(c) ELSE c END), '')"
)
_SMALL = (
    "(CASE WHEN {0} RLIKE '[\u03a3\u0130]' THEN "
    + _EACH % ("'i'", "LOWER", "LOWER")
    + " ELSE LOWER({0}) END)"
)
_CAPITAL = (
    "(CASE WHEN LENGTH(UPPER({0})) > LENGTH({0}) THEN "
    + _EACH % ("'\u0130'", "UPPER", "UPPER")
    + " ELSE UPPER({0}) END)"
)
_WORDS = quoted("([\\p{{L}}\\p{{N}}]+|[^\\p{{L}}\\p{{N}}]+)")
_CAPITALS = (
    "ARRAY_JOIN(TRANSFORM(REGEXP_EXTRACT_ALL({0}, "
    + _WORDS
    + ", 0), w -> CONCAT(CASE WHEN LENGTH(UPPER(LEFT(w, 1))) = 1 THEN UPPER(LEFT(w, 1))"
    " ELSE LEFT(w, 1) END, " + _SMALL.replace("{0}", "SUBSTRING(w, 2)") + ")), '')"
)
_CHARACTER = (
    "(CASE WHEN {0} = 0 THEN "
    + raised("54000", "null character not permitted")
    + " WHEN {0} < 0 THEN "
    + raised("22023", "character number must be positive")
    + " WHEN {0} > 1114111 THEN "
    + raised("54000", "requested character too large for encoding")
    + " WHEN {0} BETWEEN 55296 AND 57343 THEN "
    + raised("54000", "requested character not valid for encoding")
    + " ELSE DECODE(UNHEX(LPAD(HEX({0}), 8, '0')), 'UTF-32') END)"
)


def _filled(side: str, filling: str) -> str:
    """Without anything to fill with, a text is only cut."""
    return (
        f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL OR {filling} IS NULL THEN NULL"
        f" WHEN {filling} = '' THEN LEFT({{0}}, GREATEST({{1}}, 0))"
        f" ELSE WC_{side}({{0}}, {{1}}, {filling}) END)"
    )


def shown(argument: Argument, use: Use) -> str:
    """An argument of any type as text."""
    return text_of(argument.sql, argument.type, use.manner)


def _output(argument: Argument, use: Use) -> str:
    return output_of(argument.sql, argument.type, use.manner)


def _concat(use: Use) -> str:
    texts = (f"COALESCE({_output(each, use)}, '')" for each in use.arguments)
    return f"CONCAT({', '.join(texts)})"


def _concat_ws(use: Use) -> str:
    separator, *rest = use.arguments
    return f"CONCAT_WS({separator.sql}, {', '.join(_output(each, use) for each in rest)})"


def _joined(use: Use) -> str:
    left, right = use.arguments
    return f"CONCAT({shown(left, use)}, {shown(right, use)})"


def _counted(*, nulls: bool) -> SqlRule:
    test = "IS NULL" if nulls else "IS NOT NULL"
    return lambda use: (
        "(" + " + ".join(f"CAST({each.sql} {test} AS INT)" for each in use.arguments) + ")"
    )


def _split_part(use: Use) -> str:
    text, separator, number = (each.sql for each in use.arguments)
    zero = raised("22023", "field position must not be zero")
    return (
        f"(CASE WHEN {text} IS NULL OR {separator} IS NULL THEN NULL WHEN {number} = 0 THEN {zero}"
        f" ELSE SPLIT_PART({text}, {separator}, {number}) END)"
    )


def _trimmed(side: str) -> tuple[str, str]:
    return f"TRIM({side} FROM {{0}})", f"TRIM({side} {{1}} FROM {{0}})"


def _trims() -> list[Function]:
    found = []
    for name, side in (("btrim", "BOTH"), ("ltrim", "LEADING"), ("rtrim", "TRAILING")):
        blanks, characters = _trimmed(side)
        found.append(scalar(name, (TEXT,), TEXT, blanks, "The text without blanks at its ends."))
        found.append(
            scalar(name, (TEXT, TEXT), TEXT, characters, "The text without these characters.")
        )
    return found


def _substrings() -> list[Function]:
    found = []
    for name in ("substr", "substring"):
        found.append(scalar(name, (TEXT, INT4), TEXT, _SUBSTRING, "The text from a position on."))
        found.append(
            scalar(name, (TEXT, INT4, INT4), TEXT, _SUBSTRING_OF, "So many characters from there.")
        )
    return found


def _lengths() -> list[Function]:
    doc = "The number of characters."
    names = ("length", "char_length", "character_length")
    return [scalar(name, (TEXT,), INT4, "CHAR_LENGTH({0})", doc) for name in names]


def _overlaid(length: str) -> str:
    end = f"({{2}} + CAST({length} AS BIGINT))"
    rest = f"SUBSTRING({{0}}, CAST(CASE WHEN {end} < 1 THEN 1 ELSE {end} END AS INT))"
    return (
        f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL OR {length} IS NULL THEN NULL"
        f" WHEN {{2}} <= 0 THEN {_NEGATIVE} ELSE CONCAT(LEFT({{0}}, {{2}} - 1), {{1}}, {rest}) END)"
    )


def _of_hex(digits: int) -> SqlRule:
    return lambda use: f"LOWER(RIGHT(HEX({use.arguments[0].sql}), {digits}))"


FUNCTIONS: tuple[Function, ...] = (
    *_lengths(),
    *_substrings(),
    *_trims(),
    scalar("length", (BYTEA,), INT4, "OCTET_LENGTH({0})", "The number of bytes."),
    scalar("octet_length", (TEXT,), INT4, "OCTET_LENGTH({0})", "The number of bytes."),
    scalar("octet_length", (BPCHAR,), INT4, "OCTET_LENGTH({0})", "The number of bytes."),
    scalar("octet_length", (BYTEA,), INT4, "OCTET_LENGTH({0})", "The number of bytes."),
    scalar("bit_length", (TEXT,), INT4, "BIT_LENGTH({0})", "The number of bits."),
    scalar("lower", (TEXT,), TEXT, _SMALL, "The text in small letters."),
    scalar("upper", (TEXT,), TEXT, _CAPITAL, "The text in capitals."),
    scalar("initcap", (TEXT,), TEXT, _CAPITALS, "Each word with a capital first letter."),
    scalar("left", (TEXT, INT4), TEXT, _LEFT, "The first characters; below 0, all but the last."),
    scalar("right", (TEXT, INT4), TEXT, _RIGHT, "The last characters; below 0, all but the first."),
    scalar("lpad", (TEXT, INT4), TEXT, _filled("LPAD", "' '"), "Filled on the left to a length."),
    scalar("lpad", (TEXT, INT4, TEXT), TEXT, _filled("LPAD", "{2}"), "Filled on the left."),
    scalar("rpad", (TEXT, INT4), TEXT, _filled("RPAD", "' '"), "Filled on the right to a length."),
    scalar("rpad", (TEXT, INT4, TEXT), TEXT, _filled("RPAD", "{2}"), "Filled on the right."),
    scalar(
        "replace", (TEXT, TEXT, TEXT), TEXT, "WC_REPLACE({0}, {1}, {2})", "All of one by another."
    ),
    scalar("translate", (TEXT, TEXT, TEXT), TEXT, "TRANSLATE({0}, {1}, {2})", "Characters mapped."),
    scalar("strpos", (TEXT, TEXT), INT4, "LOCATE({1}, {0})", "Where the second is; 0 if nowhere."),
    scalar("position", (TEXT, TEXT), INT4, "LOCATE({1}, {0})", "Where the second is in the first."),
    scalar("split_part", (TEXT, TEXT, INT4), TEXT, _split_part, "One field of a list in a text."),
    scalar("repeat", (TEXT, INT4), TEXT, "WC_REPEAT({0}, {1})", "The text so many times."),
    scalar("reverse", (TEXT,), TEXT, "REVERSE({0})", "The text backwards."),
    scalar("concat", (ANY,), TEXT, _concat, "All as one text.", is_variadic=True, never_null=True),
    scalar("concat_ws", (TEXT, ANY), TEXT, _concat_ws, "All with a separator.", is_variadic=True),
    *quotes.FUNCTIONS,
    scalar(
        *("num_nulls", (ANY,), INT4, _counted(nulls=True), "How many are null."),
        is_variadic=True,
        never_null=True,
    ),
    scalar(
        *("num_nonnulls", (ANY,), INT4, _counted(nulls=False), "How many are not null."),
        is_variadic=True,
        never_null=True,
    ),
    scalar("starts_with", (TEXT, TEXT), BOOL, "STARTSWITH({0}, {1})", "Whether it begins so."),
    scalar("ascii", (TEXT,), INT4, "ASCII({0})", "The number of the first character."),
    scalar("chr", (INT4,), TEXT, _CHARACTER, "The character of that number."),
    scalar("md5", (TEXT,), TEXT, "MD5({0})", "The MD5 hash, in hexadecimal."),
    scalar("md5", (BYTEA,), TEXT, "MD5({0})", "The MD5 hash, in hexadecimal."),
    scalar("sha256", (BYTEA,), BYTEA, "UNHEX(SHA2({0}, 256))", "The SHA-256 hash."),
    scalar("to_hex", (INT4,), TEXT, _of_hex(8), "In hexadecimal."),
    scalar("to_hex", (INT8,), TEXT, _of_hex(16), "In hexadecimal."),
    *ENCODINGS,
    *UNICODE,
    scalar(
        *("overlay", (TEXT, TEXT, INT4), TEXT, _overlaid("CHAR_LENGTH({1})")),
        "A part replaced by another text.",
    ),
    scalar(
        *("overlay", (TEXT, TEXT, INT4, INT4), TEXT, _overlaid("{3}")),
        "A part of that length replaced.",
    ),
)
OPERATORS: tuple[Function, ...] = (
    scalar("||", (TEXT, TEXT), TEXT, "CONCAT({0}, {1})", "Both as one text."),
    scalar("||", (TEXT, ANYNONARRAY), TEXT, _joined, "Both as one text."),
    scalar("||", (ANYNONARRAY, TEXT), TEXT, _joined, "Both as one text."),
    scalar("||", (BYTEA, BYTEA), BYTEA, "CONCAT({0}, {1})", "Both as one."),
    scalar("^@", (TEXT, TEXT), BOOL, "STARTSWITH({0}, {1})", "Whether it begins so."),
)
