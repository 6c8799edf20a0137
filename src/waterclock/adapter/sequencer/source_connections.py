"""The connection that a CREATE SOURCE names: it exists, may be used, and leads to the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.catalog import privileges
from waterclock.catalog.objects import Connection, Privilege
from waterclock.sql.ast.sources import ExternalConnector
from waterclock.sql.errors import SyntaxFault

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


def connection_of(
    session: SqlSession, external: ExternalConnector, kind: str, source: str, system: str
) -> Connection:
    """The connection. `kind` is what connections to the system are called in the catalog; `source`
    and `system` are what users call the source and the system, as in Kinesis and AWS.
    """
    hint = (
        f"Use CREATE CONNECTION name TO {kind.upper()}, and FROM {source.upper()} CONNECTION name."
    )
    if external.connection is None:
        raise SyntaxFault(f"a {source} source needs a connection", hint=hint)
    catalog = session.front.core.current
    found = catalog.named(Connection, name_of(external.connection.parts), session.scope)
    privileges.check(catalog, session.role.oid, found, Privilege.USAGE)
    if found.connector != kind:
        raise Unsupported(
            f'connection "{found.name}" does not lead to {system}',
            detail=f"It is one to {found.connector}.",
            hint=hint,
        )
    return found
