"""What whoever connects to a system outside is told of a connection."""

from __future__ import annotations

import pytest

from waterclock.adapter.connections import NoSecrets, settings_of
from waterclock.adapter.secrets import KEY_BYTES, SecretBox, SecretUnreadable
from waterclock.catalog.objects import Connection
from waterclock.testing.adapter_world import AdapterWorld, in_world

STATEMENTS = """
CREATE SECRET pass AS 'hush';
CREATE CONNECTION k TO KAFKA (BROKERS ('a:1', 'b:2'), SECURITY PROTOCOL 'SASL_SSL',
    SASL MECHANISMS 'PLAIN', SASL USERNAME 'me', SASL PASSWORD SECRET pass)
"""


@in_world
async def test_options_come_with_their_secrets_as_they_are_now(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(STATEMENTS)
    [connection] = [i for i in world.core.current.items() if isinstance(i, Connection)]
    found = world.core.connection_settings(connection.id)
    assert (found.name, found.kind) == ("k", "kafka")
    assert found.options == {
        "brokers": ("a:1", "b:2"),
        "security protocol": "SASL_SSL",
        "sasl mechanisms": "PLAIN",
        "sasl username": "me",
        "sasl password": "hush",
    }
    assert "hush" not in repr(found)
    await client.run("ALTER SECRET pass AS 'other'")
    assert world.core.connection_settings(connection.id).options["sasl password"] == "other"


@in_world
async def test_secrets_that_can_not_be_opened(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(STATEMENTS)
    catalog = world.core.current
    [connection] = [i for i in catalog.items() if isinstance(i, Connection)]
    with pytest.raises(NoSecrets):
        settings_of(catalog, connection.id, None)
    with pytest.raises(SecretUnreadable):
        settings_of(catalog, connection.id, SecretBox(bytes(KEY_BYTES)))
