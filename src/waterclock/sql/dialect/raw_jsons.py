"""`json` in Spark SQL: texts that are kept as they were given.

Blanks, the order of members and members of the same name all stay, and what is taken out of a value
is a piece of its text. Of several members of one name the last is found. As for `jsonb`, a text is
taken apart by a fold over its tokens: exact, and not fast for large documents.
"""

from __future__ import annotations

from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted

_BLANKS = quoted(" \t\n\r")
_PLACE = quoted("^\\s*[+-]?[0-9]{1,9}$")


def bare(value: str) -> str:
    """The text without blanks at its ends."""
    return f"TRIM(BOTH {_BLANKS} FROM {value})"


def pieces(value: str) -> str:
    """What lies directly in an array, or names and values of an object in turn."""
    return js.pieces(value, is_raw=True)


def members(value: str) -> str:
    """The members of an object, as structs of `k` (the name, as text) and `v` (JSON)."""
    names = "FILTER(m.p, (e, i) -> i % 2 = 0)"
    each = f"NAMED_STRUCT('k', {js.unescaped('k')}, 'v', GET(m.p, 2 * i + 1))"
    return let({"p": pieces(value)}, "m", f"TRANSFORM({names}, (k, i) -> {each})")


def member(value: str, name: str) -> str:
    """The value of the last member of that name, which is a text; null if there is none."""
    found = "GET(REVERSE(FILTER(g.m, e -> e.k = g.k)), 0).v"

    def taken(v: str, k: str) -> str:
        inner = let({"m": members(v), "k": k}, "g", found)
        return f"(CASE WHEN {js.is_object(bare(v))} THEN {inner} END)"

    return js.held({"v": value, "k": name}, "h", taken)


def element(value: str, place: str) -> str:
    """An element by its place from 0, or from the end below 0; null if there is none."""
    index = "CASE WHEN g.n < 0 THEN g.n + SIZE(g.p) ELSE g.n END"
    found = f"(CASE WHEN {index} >= 0 THEN GET(g.p, {index}) END)"

    def taken(v: str, n: str) -> str:
        inner = let({"p": pieces(v), "n": n}, "g", found)
        return f"(CASE WHEN {js.is_array(bare(v))} THEN {inner} END)"

    return js.held({"v": value, "n": place}, "h", taken)


def at_path(value: str, path: str) -> str:
    """What lies at a path, which is an array of texts."""
    stepped = (
        f"CASE WHEN w.q IS NULL THEN NULL WHEN {js.is_object(bare('w.c'))} THEN"
        f" {member('w.c', 'w.q')}"
        f" WHEN w.q RLIKE {_PLACE} THEN {element('w.c', 'CAST(w.q AS INT)')} END"
    )
    step = let({"c": "c", "q": "q"}, "w", stepped)

    def taken(v: str, p: str) -> str:
        found = f"AGGREGATE({p}, {bare(v)}, (c, q) -> {step})"
        # At no path at all, a scalar keeps the blanks before it.
        whole = f"SIZE({p}) = 0 AND {js.is_scalar(bare(v))}"
        return f"(CASE WHEN {whole} THEN TRIM(TRAILING {_BLANKS} FROM {v}) ELSE {found} END)"

    return js.held({"v": value, "p": path}, "a", taken)


def text_of_json(value: str) -> str:
    """A value as text: null for JSON's null, a string without quotes."""
    text = (
        f"CASE WHEN t.b = 'null' THEN NULL WHEN LEFT(t.b, 1) = '\"' THEN {js.unescaped('t.b')}"
        " ELSE t.v END"
    )
    return js.held({"v": value}, "o", lambda v: let({"v": v, "b": bare(v)}, "t", text))
