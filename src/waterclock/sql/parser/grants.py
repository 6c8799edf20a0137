"""GRANT and REVOKE, of privileges and of roles."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import Identifier, ObjectKind
from waterclock.sql.ast.roles import (
    AllInSchemas,
    GrantPrivileges,
    GrantRole,
    GrantTarget,
    Privilege,
    RevokePrivileges,
    RevokeRole,
    RoleSpec,
    TheseObjects,
    WholeSystem,
)
from waterclock.sql.keywords import RESERVED
from waterclock.sql.keywords import words as words_in
from waterclock.sql.parser.roles import role_spec, role_specs
from waterclock.sql.stream import TokenStream

_PLURALS = {
    "tables": ObjectKind.TABLE,
    "views": ObjectKind.VIEW,
    "sources": ObjectKind.SOURCE,
    "secrets": ObjectKind.SECRET,
    "connections": ObjectKind.CONNECTION,
}
_UNSUPPORTED = words_in(
    "sequence function procedure routine type domain language tablespace foreign large parameter"
)


@dataclass(frozen=True, slots=True)
class _Named:
    """What is granted, before it is known whether these are privileges or roles."""

    privileges: tuple[Privilege, ...]
    roles: tuple[Identifier, ...]


def grant(stream: TokenStream) -> Statement:
    stream.expect("grant")
    named = _named(stream)
    if stream.accept("on"):
        target = _target(stream)
        stream.expect("to")
        grantees = _grantees(stream)
        option = _with_option(stream, "grant")
        _granted_by(stream)
        return GrantPrivileges(named.privileges, target, grantees, option)
    _refuse_columns(stream, named)
    stream.expect("to")
    grantees = role_specs(stream)
    option = _with_option(stream, "admin")
    _granted_by(stream)
    return GrantRole(named.roles, grantees, option)


def revoke(stream: TokenStream) -> Statement:
    stream.expect("revoke")
    only_grant = stream.accept("grant", "option", "for")
    only_admin = not only_grant and stream.accept("admin", "option", "for")
    named = _named(stream)
    if not only_admin and stream.accept("on"):
        target = _target(stream)
        stream.expect("from")
        grantees = _grantees(stream)
        _granted_by(stream)
        return RevokePrivileges(named.privileges, target, grantees, only_grant, _cascade(stream))
    if only_grant:
        stream.fail()
    _refuse_columns(stream, named)
    stream.expect("from")
    grantees = role_specs(stream)
    _granted_by(stream)
    return RevokeRole(named.roles, grantees, only_admin, _cascade(stream))


def _named(stream: TokenStream) -> _Named:
    if stream.accept("all"):
        stream.accept("privileges")
        columns = stream.identifiers() if stream.at_mark("(") else ()
        if columns:
            stream.unsupported("ALL PRIVILEGES on columns")
        if not stream.at("on"):
            stream.fail()
        return _Named((), ())
    privileges: list[Privilege] = []
    roles: list[Identifier] = []
    while True:
        role, privilege = _privilege(stream)
        roles.append(role)
        privileges.append(privilege)
        if not stream.accept_mark(","):
            return _Named(tuple(privileges), tuple(roles))


def _privilege(stream: TokenStream) -> tuple[Identifier, Privilege]:
    if stream.at_any("select", "references", "create"):
        word = stream.label()
    else:
        word = stream.identifier() if stream.at_name() else stream.non_reserved_word()
    columns = stream.identifiers() if stream.at_mark("(") else ()
    return word, Privilege(word.name.upper(), columns)


def _refuse_columns(stream: TokenStream, named: _Named) -> None:
    """Roles have no columns: the bracket was the mistake, but the missing ON is what is told."""
    if any(privilege.columns for privilege in named.privileges):
        stream.fail()


def _target(stream: TokenStream) -> GrantTarget:
    if stream.accept("system"):
        return WholeSystem()
    if stream.accept("all"):
        word = stream.expect_any(*_PLURALS, "sequences", "functions", "procedures", "routines")
        stream.expect("in", "schema")
        if word not in _PLURALS:
            stream.unsupported(f"GRANT ON ALL {word.upper()}")
        return AllInSchemas(_PLURALS[word], stream.object_names())
    if stream.at_any(*_UNSUPPORTED) and not stream.at_end():
        following = stream.peek()
        if following.value not in (",", ".", "to", "from"):
            stream.unsupported(f"GRANT ON {stream.token.value.upper()}")
    for kind in ObjectKind:
        words = kind.value.lower().split()
        if kind is not ObjectKind.ROLE and stream.at(*words):
            following = stream.peek(len(words))
            if words[0] not in RESERVED and following.value in (",", ".", "to", "from"):
                break
            stream.accept(*words)
            return TheseObjects(kind, stream.object_names())
    return TheseObjects(ObjectKind.TABLE, stream.object_names())


def _grantees(stream: TokenStream) -> tuple[RoleSpec, ...]:
    found = [_grantee(stream)]
    while stream.accept_mark(","):
        found.append(_grantee(stream))
    return tuple(found)


def _grantee(stream: TokenStream) -> RoleSpec:
    stream.accept("group")
    return role_spec(stream)


def _with_option(stream: TokenStream, word: str) -> bool:
    if not stream.accept("with"):
        return False
    stream.expect(word, "option")
    return True


def _granted_by(stream: TokenStream) -> None:
    if stream.accept("granted"):
        stream.unsupported("GRANTED BY", stream.last.position)


def _cascade(stream: TokenStream) -> bool:
    return stream.accept_any("cascade", "restrict") == "cascade"
