"""Constants with the name of their type before them: `date '2020-01-01'`.

They are casts of a string. The fields of an interval stand behind the string, and are part of the
type like those of `interval day`.
"""

from __future__ import annotations

from waterclock.model.interval_fields import fields_of
from waterclock.model.pg_types import NO_MODIFIER
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.query.tree import Cast, Expression, String
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind
from waterclock.sql.types import interval_fields, type_name_of_value

_TYPE_WORDS = frozenset(
    [
        *("bigint", "bit", "boolean", "char", "character", "dec", "decimal", "double", "float"),
        *("int", "integer", "interval", "national", "nchar", "numeric", "real", "smallint"),
        *("time", "timestamp", "varchar"),
    ]
)


def try_typed_constant(stream: TokenStream) -> Expression | None:
    """`date '2020-01-01'`, `interval '1' day`, `timestamp with time zone '...'`."""
    first = stream.index
    token = stream.token
    is_type_word = token.kind is Kind.WORD and token.value in _TYPE_WORDS
    if not is_type_word and stream.peek().kind is not Kind.STRING:
        return None
    try:
        found = type_name_of_value(stream)
    except SyntaxFault:
        stream.back_to(first)
        return None
    if stream.token.kind is not Kind.STRING:
        stream.back_to(first)
        return None
    constant = stream.advance()
    if is_type_word and token.value == "interval":
        if found.modifier != NO_MODIFIER and fields_of(found.modifier) is not None:
            stream.fail(constant)  # the fields stand behind the string
        if found.modifier == NO_MODIFIER:
            found = interval_fields(stream) or found
    return Cast(String(constant.value, constant.position), found, token.position)
