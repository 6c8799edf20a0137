"""Which options a connection of each kind has, and which of them go together.

They are checked when the connection is made, and used by whoever connects. What must not be seen
may only be given as a secret. Who may reach a system as the server itself, without keys of their
own, is a superuser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.sql import ast, options
from waterclock.sql.ast.common import Option, SecretValue, StringValue
from waterclock.sql.errors import SyntaxFault

_TLS = ("ssl key", "ssl certificate", "ssl certificate authority")
_KEYS = ("access key id", "secret access key")
_ROLE = ("assume role session name", "assume role external id")


@dataclass(frozen=True, slots=True)
class _Options:
    required: tuple[str, ...]
    optional: tuple[str, ...]


_OPTIONS: Mapping[str, _Options] = {
    "postgres": _Options(("host", "database"), ("port", "user", "password", "ssl mode", *_TLS)),
    "kafka": _Options(
        (),
        (
            "broker",
            "brokers",
            "security protocol",
            "sasl mechanisms",
            "sasl username",
            "sasl password",
            "progress topic",
            "progress topic replication factor",
            *_TLS,
        ),
    ),
    "confluent schema registry": _Options(("url",), ("username", "password", *_TLS)),
    "aws": _Options(
        (),
        ("region", "endpoint", *_KEYS, "session token", "profile", "assume role arn", *_ROLE),
    ),
}
_ONLY_SECRET = frozenset(
    {"password", "sasl password", "ssl key", "secret access key", "session token"}
)
_WITH_OPTIONS = ("validate",)


def is_known(kind: str) -> bool:
    """Whether there are connections of the kind."""
    return kind in _OPTIONS


def check(statement: ast.CreateConnection) -> None:
    """Raise a `SyntaxFault` if the options are not those of the connection's kind."""
    known = _OPTIONS[statement.kind]
    wants_validation(statement)
    asked = options.by_name(statement.connection_options, (*known.required, *known.optional))
    for name in known.required:
        if name not in asked:
            raise SyntaxFault(f"{name.upper()} option is required")
    for option in asked.values():
        if option.value is None:
            raise SyntaxFault(f"{option.name} requires a parameter", option.position)
        if option.name in _ONLY_SECRET and not isinstance(option.value, SecretValue):
            raise SyntaxFault(
                f"{option.name.upper()} must be given as a secret",
                option.position,
                hint="Use CREATE SECRET, and SECRET name as the value.",
            )
    if statement.kind == "kafka" and ("broker" in asked) == ("brokers" in asked):
        raise SyntaxFault("either BROKER or BROKERS is required")
    if statement.kind == "aws":
        _check_aws(asked)


def wants_validation(statement: ast.CreateConnection) -> bool:
    """Whether the system is to be asked before the connection is made."""
    asked = options.by_name(statement.options, _WITH_OPTIONS)
    return options.truth(asked["validate"]) if "validate" in asked else True


def borrows_identity(statement: ast.CreateConnection) -> bool:
    """Whether the connection has the rights that the server itself has in the other system."""
    return statement.kind == "aws" and all(
        option.name != "secret access key" for option in statement.connection_options
    )


def _check_aws(asked: Mapping[str, Option]) -> None:
    for one, other in (_KEYS, _KEYS[::-1], ("session token", _KEYS[1])):
        if one in asked and other not in asked:
            raise SyntaxFault(f"{one.upper()} requires {other.upper()}", asked[one].position)
    if "profile" in asked and _KEYS[0] in asked:
        raise SyntaxFault("PROFILE can not be given with keys", asked["profile"].position)
    for name in _ROLE:
        if name in asked and "assume role arn" not in asked:
            raise SyntaxFault(f"{name.upper()} requires ASSUME ROLE ARN", asked[name].position)
    endpoint = asked.get("endpoint")
    if endpoint is not None and isinstance(endpoint.value, StringValue):
        scheme, separator, host = endpoint.value.value.partition("://")
        if scheme not in ("http", "https") or not separator or not host:
            raise SyntaxFault("ENDPOINT must be a URL of http or https", endpoint.position)
