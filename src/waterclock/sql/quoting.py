"""Names and strings as SQL writes them, as PostgreSQL's `quote_ident` and `quote_literal` do."""

from __future__ import annotations

import re

from waterclock.sql.keywords import QUOTED

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def quote_ident(name: str) -> str:
    """The name, in quotes unless it means the same without."""
    if _PLAIN.fullmatch(name) and name not in QUOTED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_name(parts: tuple[str, ...]) -> str:
    """A name of several parts."""
    return ".".join(map(quote_ident, parts))


def quote_literal(text: str) -> str:
    """The text as a string constant that means the same whatever the settings are."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted
