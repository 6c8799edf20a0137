"""A column's default as PostgreSQL's catalog shows it.

PostgreSQL shows what it has understood, not what was written: constants with their types
(`'new'::text`), operators in brackets, keywords in capitals. The same is done here for what most
defaults are made of. Anything else is shown as it was written; it means the same.
"""

from __future__ import annotations

from functools import lru_cache

from waterclock.model.pg_types import BOOL, INT4, INT8, NUMERIC, TEXT, PgType, format_type
from waterclock.sql.dialect.types import element_type, is_array, name_of, shown
from waterclock.sql.query import parse_expression, tree
from waterclock.sql.quoting import quote_name

_MOST_INT4 = 2**31 - 1
_MOST_INT8 = 2**63 - 1
_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")


class _AsWritten(Exception):
    """There is no telling how PostgreSQL would show it."""


@lru_cache(maxsize=2000)
def shown_default(text: str, declared: PgType) -> str | None:
    """The default of a column of that type; None if it is just a null, which is no default."""
    node = parse_expression(text)
    if isinstance(node, tree.Null):
        return None
    try:
        return _shown(node, PgType(declared.oid))
    except _AsWritten:
        return text


def _shown(node: tree.Expression, wanted: PgType | None) -> str:
    """An expression; `wanted` is the type that a constant without one is going to get."""
    match node:
        case tree.Boolean(value):
            return "true" if value else "false"
        case tree.Null():
            return "NULL" if wanted is None else f"NULL::{shown(wanted)}"
        case tree.Number(text):
            return _constant(text, _number_type(text))
        case tree.Unary("-", tree.Number(text)):
            return _constant(f"-{text}", _number_type(text))
        case tree.String(text):
            return _constant(text, _required(wanted))
        case tree.Cast():
            return _cast(node)
        case tree.ArrayItems(items):
            inner = element_type(wanted) if wanted is not None and is_array(wanted) else None
            return f"ARRAY[{', '.join(_shown(item, inner) for item in items)}]"
        case tree.Binary(operator, left, right):
            side = TEXT if operator == "||" else None
            return f"({_shown(left, side)} {operator} {_shown(right, side)})"
        case tree.Call():
            return _call(node)
        case _:
            raise _AsWritten


def _required(declared: PgType | None) -> PgType:
    if declared is None:
        raise _AsWritten
    return declared


def _number_type(text: str) -> PgType:
    if not text.isdigit():
        return NUMERIC
    if int(text) <= _MOST_INT4:
        return INT4
    return INT8 if int(text) <= _MOST_INT8 else NUMERIC


def _constant(text: str, declared: PgType) -> str:
    """A constant, with its type where the text alone would mean another."""
    plain = text.strip()
    if declared.oid == BOOL.oid:
        return "true" if plain.lower() in _TRUE else "false"
    if declared.oid == INT4.oid and plain.isdigit():
        return str(int(plain))
    has_digits_behind = any(mark in plain for mark in ".eE")
    if declared.oid == NUMERIC.oid and plain[:1].isdigit() and has_digits_behind:
        return plain
    quoted = text.replace("'", "''")
    return f"'{quoted}'::{_type_name(declared)}"


def _type_name(declared: PgType) -> str:
    return "bpchar" if name_of(declared) == "bpchar" else shown(declared)


def _cast(node: tree.Cast) -> str:
    match node.operand:
        case tree.String(text):
            return _constant(text, PgType(node.type.oid))
        case tree.Number(text) if _number_type(text).oid == node.type.oid:
            return _constant(text, node.type)
        case tree.Number(text):
            return f"({_constant(text, _number_type(text))})::{format_type(node.type)}"
        case tree.ArrayItems(items=()):
            return f"ARRAY[]::{format_type(node.type)}"
        case tree.Call():
            return f"({_call(node.operand)})::{format_type(node.type)}"
        case _:
            raise _AsWritten


def _call(node: tree.Call) -> str:
    """A call whose arguments have types of their own, or a keyword."""
    if node.is_word and not node.arguments:
        return node.name[-1].upper()
    is_plain = not (node.is_star or node.is_distinct or node.is_variadic or node.names)
    if node.is_word or not is_plain or node.order or node.over is not None or node.filter:
        raise _AsWritten
    return f"{quote_name(node.name)}({', '.join(_shown(each, None) for each in node.arguments)})"
