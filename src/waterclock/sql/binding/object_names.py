"""Names of relations as values: `'orders'::regclass`, `to_regclass('orders')`, `NULL::orders`.

Only constants are looked up, when a query is bound. The value of type regclass is the name, which
is shown with its schema if it would not be found without; its number is known beside it.
"""

from __future__ import annotations

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.pg_types import RECORD, REGCLASS
from waterclock.sql.binding import constants
from waterclock.sql.binding.api import BoundRelation
from waterclock.sql.binding.errors import Rejected, UndefinedObject, located
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Composite, Known, Role, Typed
from waterclock.sql.errors import FeatureNotSupported, SqlFault
from waterclock.sql.lexer import lex
from waterclock.sql.quoting import quote_name
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_ABSENT = ("42P01", "3F000")
_OF_SYSTEM = ("pg_catalog", "information_schema", "mz_catalog", "mz_internal")


def relation_named(text: str, statement: Statement, at: int) -> Typed:
    """The relation of that name as a value of type regclass; raises if there is none."""
    if statement.maintained:
        raise FeatureNotSupported.of("a value of type regclass in a view", at)
    parts = _parts(text, at)
    try:
        found = statement.resolver.described(parts, at)
    except WaterclockError as error:
        raise located(error, at) from None
    shown = _shown(parts, found, statement)
    sql = constants.known(pa.scalar(shown), REGCLASS, at).sql
    known = Known(scalar=pa.scalar(shown), number=found.oid)
    return Typed(sql, REGCLASS, at, known=known, nullable=False)


def try_relation_named(text: str, statement: Statement, at: int) -> Typed:
    """The same; null if there is none."""
    try:
        return relation_named(text, statement, at)
    except WaterclockError as error:
        if error.sqlstate not in _ABSENT:
            raise
        return constants.null_of(REGCLASS, at)


def null_row(parts: tuple[str, ...], statement: Statement, at: int) -> Typed:
    """`NULL::orders`: no row of the relation."""
    try:
        found = statement.resolver.described(parts, at)
    except WaterclockError as error:
        if error.sqlstate in _ABSENT:
            raise UndefinedObject(f'type "{".".join(parts)}" does not exist', at) from None
        raise located(error, at) from None
    fields = tuple(constants.null_of(column.type, at) for column in found.columns)
    names = tuple(column.name for column in found.columns)
    composite = Composite(names, is_padded=True, witness="NULL", relation=found.name)
    return Typed("", RECORD, at, fields, role=Role.ROW, composite=composite)


def _parts(text: str, at: int) -> tuple[str, ...]:
    try:
        stream = TokenStream(text, lex(text))
        parts = stream.object_name().parts
        if stream.token.kind is not Kind.END:
            stream.fail()
    except SqlFault:
        if text.strip().isdigit() or text.strip() == "-":
            raise FeatureNotSupported.of("a regclass that is given by its number", at) from None
        raise Rejected("42602", "invalid name syntax", at) from None
    if parts[0] in _OF_SYSTEM or parts[-1].startswith(("pg_", "mz_")):
        what = "a relation of the system as a value of type regclass beside other relations"
        raise FeatureNotSupported.of(what, at)
    return parts


def _shown(parts: tuple[str, ...], found: BoundRelation, statement: Statement) -> str:
    """The name, without its schema if it is found without it."""
    try:
        is_visible = statement.resolver.described(parts[-1:], 1).oid == found.oid
    except WaterclockError:
        is_visible = False
    return quote_name(parts[-1:] if is_visible else parts[-2:])
