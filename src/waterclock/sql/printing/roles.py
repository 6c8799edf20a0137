"""CREATE ROLE as text, without the password."""

from __future__ import annotations

from waterclock.sql.ast.common import Identifier
from waterclock.sql.ast.roles import CreateRole, RoleAttributes, RoleSpec
from waterclock.sql.printing.pieces import exists_words, joined
from waterclock.sql.quoting import quote_ident, quote_literal


def role_text(statement: CreateRole) -> str:
    return joined(
        "CREATE ROLE",
        exists_words(statement.if_not_exists),
        quote_ident(statement.name.name),
        *_attributes(statement.attributes),
        _roles("IN ROLE", statement.in_roles),
        _roles("ROLE", statement.members),
        _roles("ADMIN", statement.admins),
    )


def _attributes(attributes: RoleAttributes) -> list[str]:
    flags = {
        "LOGIN": attributes.login,
        "SUPERUSER": attributes.superuser,
        "INHERIT": attributes.inherit,
        "CREATEROLE": attributes.create_role,
        "CREATEDB": attributes.create_database,
        "CREATECLUSTER": attributes.create_cluster,
        "REPLICATION": attributes.replication,
        "BYPASSRLS": attributes.bypass_row_security,
    }
    found = [word if value else f"NO{word}" for word, value in flags.items() if value is not None]
    if attributes.connection_limit is not None:
        found.append(f"CONNECTION LIMIT {attributes.connection_limit}")
    if attributes.valid_until is not None:
        found.append(f"VALID UNTIL {quote_literal(attributes.valid_until)}")
    return found


def _roles(words: str, roles: tuple[RoleSpec, ...]) -> str:
    if not roles:
        return ""
    shown = (
        quote_ident(role.name) if isinstance(role, Identifier) else role.value for role in roles
    )
    return f"{words} {', '.join(shown)}"
