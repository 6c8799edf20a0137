"""Texts read as JSON in Spark SQL: checked, and brought into the normal form of `jsonb`.

A text is cut into tokens, which must be all there is of it. A fold over them knows what may come
next, and keeps a stack of the arrays and objects that are open with what is in them so far; one
that is closed becomes a text in the one around it. The normal form is PostgreSQL's: members by the
length of their names and then by bytes, of several with one name the last, numbers with their
digits and without exponents, strings with no escape but those that they need.

A repetition in the patterns is possessive: Java's others take stack for every round.
"""

from __future__ import annotations

from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted

_TOKEN = quoted(
    r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"'
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
    r"|true|false|null|[\[\]{},:]|[ \t\n\r]++"
)
_BLANK = quoted(r"^[ \t\n\r]")
_BACKSLASH = quoted(chr(92))
_TWO = quoted(chr(92) * 2)
_NUL = quoted(chr(92) + "u0000")
_LONE = quoted(r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")
"""Half of a character that takes two escapes."""
_MEMBERS = "ARRAY<STRUCT<k: STRING, v: STRING>>"
_FRAMES = f"ARRAY<STRUCT<o: BOOLEAN, p: {_MEMBERS}, n: STRING>>"
_INVALID = raised("22P02", "invalid input syntax for type json")
_UNTRANSLATABLE = raised("22P05", "unsupported Unicode escape sequence")
_FAR = raised("0A000", "a number in JSON with an exponent of more than four digits")
_START = f"NAMED_STRUCT('e', 'v', 's', CAST(ARRAY() AS {_FRAMES}), 'r', '')"
"""What may come (`e`), what is open (`s`, with the name that waits for a value), the result."""


def checked(value: str) -> str:
    """A text, if it is JSON; else it raises 22P02."""
    return _read(value, "a.v", is_normal=False)


def normal(value: str) -> str:
    """A text as `jsonb`; it raises 22P02 if it is no JSON."""
    return _read(value, "a.r.r", is_normal=True)


def _read(value: str, result: str, *, is_normal: bool) -> str:
    tokens = let(
        {"t": f"REGEXP_EXTRACT_ALL({value}, {_TOKEN}, 0)", "v": value},
        "b",
        f"(CASE WHEN ARRAY_JOIN(b.t, '') = b.v THEN FILTER(b.t, t -> NOT t RLIKE {_BLANK})"
        f" ELSE {_INVALID} END)",
    )
    folded = f"AGGREGATE({tokens}, {_START}, (s, t) -> {_step(is_normal=is_normal)})"
    body = f"(CASE WHEN a.r.e = 'end' THEN {result} ELSE {_INVALID} END)"
    return f"(CASE WHEN {value} IS NOT NULL THEN {let({'v': value, 'r': folded}, 'a', body)} END)"


def _step(*, is_normal: bool) -> str:
    """The state behind the token `t`, from the state `s`."""
    top = "ELEMENT_AT(s.s, -1)"
    next_one = f"IF({top}.o, 'name', 'v')"
    below = "SLICE(s.s, 1, SIZE(s.s) - 1)"
    scalar = _scalar("t") if is_normal else "t"
    named = f"NAMED_STRUCT('o', TRUE, 'p', {top}.p, 'n', {js.unescaped('t')})"
    array = js.array_of(f"TRANSFORM({top}.p, m -> m.v)") if is_normal else "''"
    members = js.object_of(f"{top}.p") if is_normal else "''"
    return (
        "CASE"
        f" WHEN t IN ('[', '{{') THEN CASE WHEN s.e IN ('v', 'first') THEN {_opened()} {_else()}"
        f" WHEN t = ']' THEN CASE WHEN s.e = 'first' OR (s.e = ',' AND NOT {top}.o)"
        f" THEN {_complete(array, below)} {_else()}"
        f" WHEN t = '}}' THEN CASE WHEN s.e = 'member' OR (s.e = ',' AND {top}.o)"
        f" THEN {_complete(members, below)} {_else()}"
        f" WHEN t = ',' THEN CASE WHEN s.e = ','"
        f" THEN {_state(next_one)} {_else()}"
        f" WHEN t = ':' THEN CASE WHEN s.e = ':' THEN {_state(quoted('v'))} {_else()}"
        f" WHEN s.e IN ('v', 'first') THEN {_complete(scalar, 's.s')}"
        f" WHEN s.e IN ('name', 'member') AND LEFT(t, 1) = '\"'"
        f" THEN {_state(quoted(':'), f'CONCAT({below}, ARRAY({named}))')}"
        f" ELSE {_INVALID} END"
    )


def _else() -> str:
    return f"ELSE {_INVALID} END"


def _state(expected: str, stack: str = "s.s", result: str = "s.r") -> str:
    return f"NAMED_STRUCT('e', {expected}, 's', {stack}, 'r', {result})"


def _opened() -> str:
    frame = f"NAMED_STRUCT('o', t = '{{', 'p', CAST(ARRAY() AS {_MEMBERS}), 'n', '')"
    return _state("IF(t = '{', 'member', 'first')", f"CONCAT(s.s, ARRAY({frame}))")


def _complete(text: str, stack: str) -> str:
    """The state when a value is complete: it is the result, or in what is open around it."""
    top = "ELEMENT_AT(z.s, -1)"
    member = f"NAMED_STRUCT('k', {top}.n, 'v', z.v)"
    around = f"NAMED_STRUCT('o', {top}.o, 'p', ARRAY_APPEND({top}.p, {member}), 'n', '')"
    inside = f"CONCAT(SLICE(z.s, 1, SIZE(z.s) - 1), ARRAY({around}))"
    done = "NAMED_STRUCT('e', 'end', 's', z.s, 'r', z.v)"
    goes_on = f"NAMED_STRUCT('e', ',', 's', {inside}, 'r', '')"
    body = f"(CASE WHEN SIZE(z.s) = 0 THEN {done} ELSE {goes_on} END)"
    return let({"v": text, "s": stack}, "z", body)


def _scalar(token: str) -> str:
    return (
        f"(CASE WHEN LEFT({token}, 1) = '\"' THEN {_string(token)}"
        f" WHEN {token} IN ('true', 'false', 'null') THEN {token} ELSE {number(token)} END)"
    )


def _string(token: str) -> str:
    bare = f"REPLACE({token}, {_TWO}, '')"
    return (
        f"(CASE WHEN NOT CONTAINS({token}, {_BACKSLASH}) THEN {token}"
        f" WHEN CONTAINS({bare}, {_NUL}) THEN {_UNTRANSLATABLE}"
        f" WHEN {bare} RLIKE {_LONE} THEN {_INVALID}"
        f" ELSE {js.string_of(js.unescaped(token))} END)"
    )


def number(token: str) -> str:
    """A number as it is in normal form."""
    pattern = quoted(r"^-?([0-9]+)(?:\.([0-9]+))?[eE]([+-]?[0-9]+)$")
    whole, fraction, power = (f"REGEXP_EXTRACT({token}, {pattern}, {n})" for n in (1, 2, 3))
    written = let(
        {
            "d": f"CONCAT({whole}, {fraction})",
            "p": f"LENGTH({whole}) + CAST({power} AS INT)",
            "n": f"IF({token} LIKE '-%', '-', '')",
        },
        "x",
        _moved(),
    )
    return (
        f"(CASE WHEN {token} RLIKE {quoted(r'^-0(?:[.]0+)?$')} THEN SUBSTRING({token}, 2)"
        f" WHEN NOT {token} RLIKE '[eE]' THEN {token}"
        f" WHEN {token} RLIKE {quoted('[eE][+-]?[0-9]{5}')} THEN {_FAR} ELSE {written} END)"
    )


def _moved() -> str:
    """The digits `x.d`, with the point behind the first `x.p` of them, and the sign `x.n`."""
    zero = f"x.d RLIKE {quoted('^0+$')}"
    plain = (
        "CASE WHEN x.p <= 0 THEN CONCAT('0.', REPEAT('0', -x.p), x.d)"
        " WHEN x.p >= LENGTH(x.d) THEN CONCAT(x.d, REPEAT('0', x.p - LENGTH(x.d)))"
        " ELSE CONCAT(SUBSTRING(x.d, 1, x.p), '.', SUBSTRING(x.d, x.p + 1)) END"
    )
    shortened = f"REGEXP_REPLACE({plain}, {quoted('^0+(?=[0-9])')}, '')"
    return f"CONCAT(IF({zero}, '', x.n), {shortened})"
