"""Which function a call means, and what is wrong if it is none.

All functions are those of `pg_catalog`: with the name of another schema there is none.
"""

from __future__ import annotations

from waterclock.model.pg_types import RECORD, PgType
from waterclock.sql.binding.errors import (
    AMBIGUOUS_FUNCTION_HINT,
    NO_FUNCTION_HINT,
    NO_SEQUENCES_HINT,
    AmbiguousFunction,
    UndefinedFunction,
)
from waterclock.sql.binding.overloads import Ambiguous, Candidate, choose
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.types import UNKNOWN, shown
from waterclock.sql.errors import FeatureNotSupported, SqlFault
from waterclock.sql.functions import FUNCTIONS
from waterclock.sql.functions.registry import Function
from waterclock.sql.query import tree

_OF_SEQUENCES = frozenset({"nextval", "currval", "lastval", "setval"})


def entries_of(node: tree.Call) -> tuple[Function, ...]:
    """The functions of the name that is called."""
    *schema, name = node.name
    if schema and schema != ["pg_catalog"]:
        return ()
    return FUNCTIONS.get(name, ())


def chosen(
    node: tree.Call, entries: tuple[Function, ...], values: tuple[Typed, ...]
) -> Candidate | None:
    """The one that takes these values; None if there is none."""
    try:
        return choose(entries, tuple(each.type for each in values))
    except Ambiguous:
        raise AmbiguousFunction(
            f"function {_signature(node, values)} is not unique",
            node.at,
            hint=AMBIGUOUS_FUNCTION_HINT,
        ) from None


def undefined(node: tree.Call, values: tuple[Typed, ...]) -> SqlFault:
    """What is wrong with a call that no function takes."""
    name = node.name[-1]
    if name in _OF_SEQUENCES:
        return FeatureNotSupported(f"{name}() is not supported", node.at, hint=NO_SEQUENCES_HINT)
    message = f"function {_signature(node, values)} does not exist"
    return UndefinedFunction(message, node.at, hint=NO_FUNCTION_HINT)


def refuse_rows(values: tuple[Typed, ...]) -> None:
    """Rows are arguments of few functions, which see to them before."""
    for value in values:
        if value.type.oid == RECORD.oid:
            raise FeatureNotSupported.of("a row as an argument of a function", value.at)


def _signature(node: tree.Call, values: tuple[Typed, ...]) -> str:
    types = "*" if node.is_star else ", ".join(_type_name(each.type) for each in values)
    return f"{'.'.join(node.name)}({types})"


def _type_name(declared: PgType) -> str:
    return "unknown" if declared.oid == UNKNOWN.oid else shown(declared)
