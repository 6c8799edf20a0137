"""Options whose value is a secret: `KEY SECRET name`.

The secret must be there and may be used by the role. The statement that is kept has its full name,
which means the same to everybody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer.naming import full_name
from waterclock.catalog import privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import Privilege, Secret
from waterclock.sql.ast.common import ObjectName, Option, SecretValue
from waterclock.sql.errors import SyntaxFault

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


def secret_named(
    session: SqlSession, catalog: Catalog, name: ObjectName
) -> tuple[Secret, SecretValue]:
    """The secret of that name, which may be used, and the value with its full name."""
    secret = catalog.named(Secret, name_of(name.parts), session.scope)
    privileges.check(catalog, session.role.oid, secret, Privilege.USAGE)
    return secret, SecretValue(full_name(catalog, secret.namespace, secret.name))


def secret_of(session: SqlSession, option: Option) -> tuple[Secret, Option]:
    """The secret that an option names, and the option with its full name."""
    if not isinstance(option.value, SecretValue):
        raise SyntaxFault(
            f"{option.name.upper()} must be given as a secret",
            option.position,
            hint="Use CREATE SECRET, and SECRET name as the value.",
        )
    secret, shown = secret_named(session, session.front.core.current, option.value.name)
    return secret, replace(option, value=shown)
