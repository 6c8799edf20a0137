"""`json` in Spark SQL: texts that are kept as they were given.

Blanks, the order of members and members of the same name all stay, and what is taken out of a value
is a piece of its text, without the blanks around it. Of several members of one name the last is
found. As for `jsonb`, whole documents are read by our Java class `Json`.
"""

from __future__ import annotations

from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.json_reading import raised_if_wrong
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted

_BLANKS = quoted(" \t\n\r")


def bare(value: str) -> str:
    """The text without blanks at its ends."""
    return f"TRIM(BOTH {_BLANKS} FROM {value})"


def member(value: str, name: str) -> str:
    """The value of the last member of that name, which is a text; null if there is none."""
    return f"WC_JSON_RAW_MEMBER({value}, {name})"


def element(value: str, place: str) -> str:
    """An element by its place from 0, or from the end below 0; null if there is none."""
    return f"WC_JSON_RAW_ELEMENT({value}, {place})"


def at_path(value: str, path: str) -> str:
    """What lies at a path, which is an array of texts."""
    return f"WC_JSON_RAW_AT({value}, {path})"


def text_of_json(value: str) -> str:
    """A value as text: null for JSON's null, a string without quotes.

    It raises 22P05 or 22P02 for a string with escapes that are no characters.
    """
    string = raised_if_wrong(js.unescaped("t.b"), "t.b")
    text = f"CASE WHEN t.b = 'null' THEN NULL WHEN LEFT(t.b, 1) = '\"' THEN {string} ELSE t.v END"
    return js.held({"v": value}, "o", lambda v: let({"v": v, "b": bare(v)}, "t", text))
