"""The text of a query with complete names in the place of short ones.

Only the names of relations change, where they stand in FROM; everything else stays as it was
written, blanks and comments included. A relation that has no alias gets its own short name as one,
so that columns which are written with it still find it.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.sql.quoting import quote_ident, quote_name


def qualified(text: str, names: Mapping[str, tuple[str, ...]]) -> str:
    """The text, with each name among `names` written as the parts that are given for it.

    A name there is its parts as they were written and folded, with dots between. A text that is not
    understood comes back as it is.
    """
    try:
        tree = sqlglot.parse_one(text, read="postgres")
    except SqlglotError:
        return text
    edits = [edit for table in tree.find_all(exp.Table) if (edit := _edit(table, names))]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edit(table: exp.Table, names: Mapping[str, tuple[str, ...]]) -> tuple[int, int, str] | None:
    """What to replace, from where to where, for one relation; None if it stays."""
    parts = table.parts
    if not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
        return None
    written = [_folded(part) for part in parts if isinstance(part, exp.Identifier)]
    complete = names.get(".".join(written))
    if complete is None or (len(written) == 1 and _is_common(table, written[0])):
        return None
    new = quote_name(complete)
    if not table.alias and isinstance(table.parent, exp.From | exp.Join):
        new += f" AS {quote_ident(written[-1])}"
    return parts[0].meta["start"], parts[-1].meta["end"] + 1, new


def _folded(part: exp.Identifier) -> str:
    return part.name if part.args.get("quoted") else part.name.lower()


def _is_common(table: exp.Table, name: str) -> bool:
    """Whether a WITH around the relation gives the name another meaning."""
    above = table.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None and any(_folded(cte.args["alias"].this) == name for cte in with_):
            return True
        above = above.parent
    return False
