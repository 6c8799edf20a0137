"""The statements that the calls of a connection are, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.sql.lexer import lex
from waterclock.sql.quoting import quote_ident
from waterclock.sql.tokens import Kind

_QUERIES = ("select", "values", "with", "table")


class NotAName(WaterclockError):
    """Something that should be the name of a relation is not."""

    sqlstate: ClassVar[str] = "42602"


def subscribe_text(relation: str, *, snapshot: bool, as_of: int | None) -> str:
    """The SUBSCRIBE of a relation by its name, or of a query, with progress."""
    first = lex(relation)[0]
    is_query = first.kind is Kind.WORD and first.value in _QUERIES
    target = f"({relation.rstrip().rstrip(';')})" if is_query else checked_name(relation)
    options = "PROGRESS" if snapshot else "PROGRESS, SNAPSHOT = false"
    at = "" if as_of is None else f" AS OF {int(as_of)}"
    return f"SUBSCRIBE TO {target} WITH ({options}){at}"


def copy_text(table: str, columns: Sequence[str], options: str = "") -> str:
    """The COPY that appends to the columns of a table."""
    listed = ", ".join(quote_ident(column) for column in columns)
    return f"COPY {checked_name(table)} ({listed}) FROM STDIN{options}"


def checked_name(text: str) -> str:
    """The text, which must be a name as SQL writes it: `t`, `public.t`, `"My Table"`."""
    *tokens, end = lex(text)
    names, dots = tokens[::2], tokens[1::2]
    if (
        end.kind is not Kind.END
        or not all(each.kind in (Kind.WORD, Kind.QUOTED) for each in names)
        or not all(each.value == "." for each in dots)
        or len(names) != len(dots) + 1
    ):
        raise NotAName(
            f"{text!r} is not the name of a relation",
            hint='Write it as in SQL, such as orders, sales.orders or "My Orders".',
        )
    return text
