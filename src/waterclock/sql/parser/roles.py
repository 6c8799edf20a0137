"""CREATE ROLE and ALTER ROLE, and how roles are named."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import Identifier, ObjectKind, ObjectName
from waterclock.sql.ast.objects import Alter, RenameTo
from waterclock.sql.ast.roles import (
    AlterRole,
    AlterSetting,
    CreateRole,
    Password,
    RoleAttributes,
    RoleSpec,
    RoleWord,
)
from waterclock.sql.errors import ReservedName, SyntaxFault
from waterclock.sql.parser.settings import setting_assignment, setting_name
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_FLAGS = {
    "login": "login",
    "superuser": "superuser",
    "inherit": "inherit",
    "createrole": "create_role",
    "createdb": "create_database",
    "createcluster": "create_cluster",
    "replication": "replication",
    "bypassrls": "bypass_row_security",
}
_WORDS = {
    "current_user": RoleWord.CURRENT_USER,
    "current_role": RoleWord.CURRENT_USER,
    "session_user": RoleWord.SESSION_USER,
}


def role_spec(stream: TokenStream) -> RoleSpec:
    """A role, PUBLIC, or a word for whoever is asking."""
    if stream.token.kind is Kind.WORD and stream.token.value in _WORDS:
        return _WORDS[stream.advance().value]
    name = stream.non_reserved_word()
    if name.name == "public":
        return RoleWord.PUBLIC
    if name.name == "none":
        raise ReservedName('role name "none" is reserved', name.position)
    return name


def role_specs(stream: TokenStream) -> tuple[RoleSpec, ...]:
    found = [role_spec(stream)]
    while stream.accept_mark(","):
        found.append(role_spec(stream))
    return tuple(found)


def role_name(stream: TokenStream) -> Identifier:
    """The name of a role, which is no word for one."""
    position = stream.token.position
    spec = role_spec(stream)
    if isinstance(spec, Identifier):
        return spec
    if spec is RoleWord.PUBLIC:
        raise ReservedName('role name "public" is reserved', position)
    raise ReservedName(f"{spec.value} cannot be used as a role name here", position)


@dataclass(slots=True)
class _Options:
    """The options of a role, as they are found; each may stand once."""

    attributes: RoleAttributes = field(default_factory=RoleAttributes)
    in_roles: tuple[RoleSpec, ...] = ()
    members: tuple[RoleSpec, ...] = ()
    admins: tuple[RoleSpec, ...] = ()
    seen: set[str] = field(default_factory=set)

    def give(self, name: str, value: object, position: int) -> None:
        if name in self.seen:
            raise SyntaxFault("conflicting or redundant options", position)
        self.seen.add(name)
        self.attributes = replace(self.attributes, **{name: value})  # type: ignore[arg-type]


def create_role(stream: TokenStream, *, login: bool) -> CreateRole:
    """What follows CREATE ROLE, USER or GROUP; users can log in unless told otherwise."""
    exists = stream.accept("if", "not", "exists")
    name = role_name(stream)
    stream.accept("with")
    found = _Options()
    while not stream.at_end():
        if not _membership(stream, found):
            _attribute(stream, found)
    attributes = found.attributes
    if login and attributes.login is None:
        attributes = replace(attributes, login=True)
    return CreateRole(name, attributes, exists, found.in_roles, found.members, found.admins)


def _membership(stream: TokenStream, found: _Options) -> bool:
    if stream.accept("in"):
        stream.expect_any("role", "group")
        found.in_roles += role_specs(stream)
    elif stream.accept_any("role", "user"):
        found.members += role_specs(stream)
    elif stream.accept("admin"):
        found.admins += role_specs(stream)
    elif stream.accept("sysid"):
        stream.integer()
    else:
        return False
    return True


def _attribute(stream: TokenStream, found: _Options) -> None:
    position = stream.token.position
    if stream.accept("password"):
        value = None if stream.accept("null") else stream.string()
        found.give("password", Password(value), position)
    elif stream.accept_any("encrypted", "unencrypted"):
        stream.expect("password")
        found.give("password", Password(stream.string()), position)
    elif stream.accept("connection"):
        stream.expect("limit")
        found.give("connection_limit", stream.signed_integer(), position)
    elif stream.accept("valid"):
        stream.expect("until")
        found.give("valid_until", stream.string(), position)
    else:
        _flag(stream, found, position)


def _flag(stream: TokenStream, found: _Options, position: int) -> None:
    token = stream.token
    word = token.value
    if token.kind is not Kind.WORD:
        stream.fail()
    value = not (word.startswith("no") and word[2:] in _FLAGS)
    name = _FLAGS.get(word if value else word[2:])
    if name is None:
        raise SyntaxFault(f'unrecognized role option "{word}"', position)
    stream.advance()
    found.give(name, value, position)


def alter_role(stream: TokenStream) -> Statement:
    """What follows ALTER ROLE, USER or GROUP."""
    if stream.accept("all"):
        return _role_setting(stream, None)
    spec = role_spec(stream)
    if stream.accept("rename"):
        stream.expect("to")
        renamed = role_name(stream)
        if not isinstance(spec, Identifier):
            stream.fail(stream.peek(-1))
        name = ObjectName((spec.name,), spec.position)
        return Alter(ObjectKind.ROLE, name, (RenameTo(renamed),))
    if stream.at_any("set", "reset", "in"):
        return _role_setting(stream, spec)
    stream.accept("with")
    found = _Options()
    while not stream.at_end():
        _attribute(stream, found)
    return AlterRole(spec, found.attributes)


def _role_setting(stream: TokenStream, spec: RoleSpec | None) -> AlterSetting:
    if stream.at("in"):
        stream.unsupported("ALTER ROLE IN DATABASE")
    setting, values = altered_setting(stream)
    return AlterSetting(spec, ObjectKind.ROLE, setting, values)


def altered_setting(stream: TokenStream) -> tuple[str | None, tuple[str, ...] | None]:
    """`SET name = value`, `RESET name` or `RESET ALL`."""
    if stream.accept("reset"):
        return (None if stream.accept("all") else setting_name(stream)), None
    stream.expect("set")
    return setting_assignment(stream)
