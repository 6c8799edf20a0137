"""Connections of the catalog as whoever connects needs them: with their secrets opened.

What is opened goes to the one who asked and nowhere else. It is asked for again each time somebody
connects, so a secret that was changed counts from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from waterclock.adapter.secrets import SecretBox
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import Connection, Secret
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.sources.api import ConnectionSettings


class NoSecrets(WaterclockError):
    """A connection needs a secret, and the server has no key to open it with."""

    sqlstate: ClassVar[str] = "55000"


class ConnectionGone(WaterclockError):
    """A connection was dropped, together with what used it."""

    sqlstate: ClassVar[str] = "42704"


def settings_of(
    catalog: Catalog, connection: GlobalId, secrets: SecretBox | None
) -> ConnectionSettings:
    """The options of the connection. Raises `NoSecrets` and `SecretUnreadable`, and
    `ConnectionGone` for one who asks after the source that used it was dropped.
    """
    found = catalog.try_item(connection)
    if not isinstance(found, Connection):
        raise ConnectionGone(f"connection {connection} does not exist any more")
    kept = msgspec.msgpack.decode(found.definition, type=dict[str, Any])
    return settings_from(catalog, found.name, found.connector, kept, secrets)


def settings_from(
    catalog: Catalog, name: str, kind: str, definition: Mapping[str, Any], secrets: SecretBox | None
) -> ConnectionSettings:
    """The same, of a connection that need not be there yet."""
    given = {key: value for key, value in definition.items() if value is not None}
    options = {key: _opened(catalog, value, secrets) for key, value in given.items()}
    return ConnectionSettings(name, kind, options)


def _opened(catalog: Catalog, value: Any, secrets: SecretBox | None) -> str | tuple[str, ...]:
    match value:
        case {"secret": str(identity)}:
            return open_secret(catalog, GlobalId.parse(identity), secrets)
        case list():
            opened = (_opened(catalog, each, secrets) for each in value)
            return tuple(each for each in opened if isinstance(each, str))
        case _:
            return str(value)


def open_secret(catalog: Catalog, identity: GlobalId, secrets: SecretBox | None) -> str:
    """The value of a secret that something in the catalog uses. Raises as `settings_of` does."""
    if secrets is None:
        raise NoSecrets(
            "secrets can not be opened here",
            detail="The server was started without a key file.",
        )
    secret = catalog.item(identity)
    assert isinstance(secret, Secret), "what a connection uses stays"
    return secrets.unseal(identity, secret.ciphertext).decode()
