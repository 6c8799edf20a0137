"""Texts read as JSON in Spark SQL: checked, and brought into the normal form of `jsonb`.

Our Java class `Json` reads a text in one pass. Where it gives nothing, the text is read once more,
for what is wrong with it: so a text that is JSON pays nothing for the message.
"""

from __future__ import annotations

from waterclock.sql.dialect import jsons as js


def checked(value: str) -> str:
    """A text, if it is JSON; else it raises 22P02, or 54001 for one that is too deep."""

    def made(v: str) -> str:
        fault = f"WC_JSON_RAW_FAULT({v})"
        return f"(CASE WHEN {fault} IS NULL THEN {v} ELSE RAISE_ERROR({fault}) END)"

    return js.held({"v": value}, "a", made)


def normal(value: str) -> str:
    """A text as `jsonb`; if it can be none it raises 22P02, 22P05, 22003 or 54001."""
    return js.held({"v": value}, "a", lambda v: raised_if_wrong(f"WC_JSON_NORMAL({v})", v))


def raised_if_wrong(read: str, value: str) -> str:
    """What is read of a text, or an error if that is nothing because the text is no `jsonb`."""
    fault = f"WC_JSON_FAULT({value})"
    wrong = f"(CASE WHEN {fault} IS NOT NULL THEN RAISE_ERROR({fault}) END)"
    return f"COALESCE({read}, {wrong})"


def number(token: str) -> str:
    """A number as it is in normal form."""
    return f"WC_JSON_NUMBER({token})"
