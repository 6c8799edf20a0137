"""Casts: the type that a value is given, which may be that of the rows of a relation."""

from __future__ import annotations

from waterclock.sql.errors import FeatureNotSupported, UnknownTypeName
from waterclock.sql.query.tree import Cast, Expression, Null, NullRow
from waterclock.sql.stream import TokenStream
from waterclock.sql.types import type_name_of_value


def cast(stream: TokenStream, operand: Expression, at: int) -> Expression:
    """The operand in the type whose name follows."""
    first = stream.index
    try:
        return Cast(operand, type_name_of_value(stream), at)
    except UnknownTypeName:
        if not isinstance(operand, Null):
            raise
    # Only who binds it knows the relation, if there is one.
    stream.back_to(first)
    name = stream.object_name()
    if stream.at_mark("["):
        raise FeatureNotSupported.of("an array of rows", name.position)
    return NullRow(name.parts, name.position)
