"""ON DECODE ERROR of CREATE SOURCE: what becomes of messages that can not be read.

    ON DECODE ERROR { FAIL | SKIP [(MAX ERRORS = n)] | INLINE [AS column] }  [EXPOSE ERRORS AS name]

What storage makes of it is in `storage.sources.decode_errors`.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.adapter.errors import Unsupported
from waterclock.catalog.objects import Column
from waterclock.model.pg_types import pg_type_of
from waterclock.model.schema import Text
from waterclock.sql import ast, options
from waterclock.sql.ast.sources import OnError
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.sources.decode_errors import FAIL, DecodeErrors

_COLUMN = "error"
_MAX_ERRORS = "max errors"


def decode_errors(statement: ast.CreateSource) -> DecodeErrors:
    """What the statement asks for. Raises what is wrong with it."""
    chosen = statement.on_error
    skips = skips_errors(statement)
    if statement.errors is not None and not skips:
        raise SyntaxFault(
            "EXPOSE ERRORS requires ON DECODE ERROR SKIP",
            statement.errors.position,
            hint="Only messages that are skipped are kept in a relation.",
        )
    if chosen is None or chosen.policy is OnError.FAIL:
        return FAIL
    if chosen.policy is OnError.INLINE:
        return DecodeErrors(column=_COLUMN if chosen.column is None else chosen.column.name)
    max_errors(statement)
    return DecodeErrors(keeps_bytes=True)


def skips_errors(statement: ast.CreateSource) -> bool:
    """Whether messages that can not be read are skipped, and kept in a relation."""
    return statement.on_error is not None and statement.on_error.policy is OnError.SKIP


def max_errors(statement: ast.CreateSource) -> int | None:
    """How many messages may be skipped before the source has no value; None for any number."""
    if statement.on_error is None:
        return None
    asked = options.by_name(statement.on_error.options, (_MAX_ERRORS,)).get(_MAX_ERRORS)
    if asked is None:
        return None
    number = options.integer(asked)
    if number < 0:
        raise SyntaxFault("MAX ERRORS must not be negative", asked.position)
    return number


def refuse_decode_errors(statement: ast.CreateSource, what: str, detail: str) -> None:
    """Raise if the statement says something of messages that can not be read. There are none in
    such a source.
    """
    if decode_errors(statement) != FAIL:
        raise Unsupported(f"ON DECODE ERROR is not supported for {what}", detail=detail)


def with_error_column(
    columns: Sequence[Column] | None, errors: DecodeErrors
) -> tuple[Column, ...] | None:
    """Columns as they are shown, with that of INLINE; then all of them may be null."""
    if columns is None or errors.column is None:
        return None if columns is None else tuple(columns)
    told = Column(errors.column, pg_type_of(Text()))
    return (*(Column(c.name, c.type) for c in columns), told)
