"""What whoever connects to a system outside is told of a connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from waterclock.adapter.connections import NoSecrets, settings_of
from waterclock.adapter.secrets import KEY_BYTES, SecretBox, SecretUnreadable
from waterclock.catalog.objects import Connection
from waterclock.storage.sources.aws.clients import AwsAccess, Role, access_of
from waterclock.testing.adapter_world import AdapterWorld, in_world
from waterclock.testing.schema_registry import schema_registry

STATEMENTS = """
CREATE SECRET pass AS 'hush';
CREATE CONNECTION k TO KAFKA (BROKERS ('a:1', 'b:2'), SECURITY PROTOCOL 'SASL_SSL',
    SASL MECHANISMS 'PLAIN', SASL USERNAME 'me', SASL PASSWORD SECRET pass) WITH (VALIDATE = false)
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


AWS = """
CREATE SECRET key AS 'hush';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID 'AKIA', SECRET ACCESS KEY = SECRET key,
    SESSION TOKEN SECRET key, REGION 'eu-west-1', ENDPOINT 'http://127.0.0.1:9',
    ASSUME ROLE ARN = 'arn:aws:iam::1:role/r', ASSUME ROLE SESSION NAME 'me',
    ASSUME ROLE EXTERNAL ID 'x') WITH (VALIDATE = false)
"""


@in_world
async def test_connections_to_aws(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(AWS)
    [connection] = [i for i in world.core.current.items() if isinstance(i, Connection)]
    found = access_of(world.core.connection_settings(connection.id))
    assert found == AwsAccess(
        "aws",
        "eu-west-1",
        "http://127.0.0.1:9",
        "AKIA",
        "hush",
        "hush",
        role=Role("arn:aws:iam::1:role/r", "me", "x"),
    )
    assert "hush" not in repr(found)
    [(_, text)] = await client.rows("SHOW CREATE CONNECTION aws")
    assert text.startswith("CREATE CONNECTION waterclock.public.aws TO AWS (ACCESS KEY ID = 'AKIA'")
    assert "SECRET ACCESS KEY = SECRET waterclock.public.key" in text
    assert (await client.fails("DROP SECRET key")).sqlstate == "2BP01"
    await client.run("ALTER SECRET key AS 'other'")
    assert access_of(world.core.connection_settings(connection.id)).secret_key == "other"
    await client.run("CREATE SECRET id AS 'AKIA'")
    keys = "ACCESS KEY ID SECRET id, SECRET ACCESS KEY SECRET key"
    wrong = {
        "ACCESS KEY ID 'a'": "42601",
        "SECRET ACCESS KEY SECRET key": "42601",
        "ACCESS KEY ID 'a', SECRET ACCESS KEY 'plain'": "42601",
        "SESSION TOKEN SECRET key": "42601",
        f"{keys}, PROFILE 'p'": "42601",
        f"{keys}, ASSUME ROLE SESSION NAME 'p'": "42601",
        f"{keys}, ENDPOINT 'localhost:9000'": "42601",
        f"{keys}, HOST 'h'": "42601",
    }
    for rest, sqlstate in wrong.items():
        text = f"CREATE CONNECTION d TO AWS ({rest})"
        assert (await client.fails(text)).sqlstate == sqlstate, rest


@in_world
async def test_only_superusers_lend_the_identity_of_the_server(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE ROLE bob; GRANT CREATE ON SCHEMA public TO bob")
    await client.run("CREATE CONNECTION own TO AWS (REGION 'eu-west-1') WITH (VALIDATE = false)")
    await client.run("SET ROLE bob; CREATE SECRET k AS 'x'")
    for rest in ("REGION 'eu-west-1'", "PROFILE 'p'", "ASSUME ROLE ARN 'arn:aws:iam::1:role/r'"):
        refused = await client.fails(f"CREATE CONNECTION d TO AWS ({rest})")
        assert refused.sqlstate == "42501", rest
    await client.run(
        "CREATE CONNECTION d TO AWS (ACCESS KEY ID 'a', SECRET ACCESS KEY SECRET k)"
        " WITH (VALIDATE = false)"
    )


REGISTRY = (
    "CREATE CONNECTION {} TO CONFLUENT SCHEMA REGISTRY (URL '{}', USERNAME 'me', PASSWORD SECRET p)"
)


@in_world
async def test_a_connection_is_validated_before_it_is_made(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SECRET p AS 'wrong'")
    with schema_registry() as registry:
        registry.credentials = ("me", "right")
        refused = await client.fails(REGISTRY.format("r", registry.url))
        assert (refused.sqlstate, refused.message) == ("08001", 'connection "r" can not be used')
        assert "401" in (refused.detail or "")
        assert "VALIDATE = false" in (refused.hint or "")
        assert await client.rows("SHOW CONNECTIONS") == []
        assert await client.tag(REGISTRY.format("s", registry.url) + " WITH (VALIDATE = false)")
        again = await client.fails("VALIDATE CONNECTION s")
        assert (again.sqlstate, again.detail) == ("08001", refused.detail)
        await client.run("ALTER SECRET p AS 'right'")
        assert await client.tag("VALIDATE CONNECTION s") == "VALIDATE CONNECTION"
        assert await client.tag(REGISTRY.format("r", registry.url)) == "CREATE CONNECTION"
        registry.is_broken = True
        assert "500" in ((await client.fails("VALIDATE CONNECTION r")).detail or "")
        exists = await client.fails(REGISTRY.format("r", registry.url))
        assert exists.sqlstate == "42710", "nobody is asked for what can not be made"
        await client.tag(REGISTRY.format("IF NOT EXISTS r", registry.url))
    assert (await client.fails("VALIDATE CONNECTION r")).sqlstate == "08001", "it is gone"
    assert (await client.fails("VALIDATE CONNECTION nowhere")).sqlstate == "42704"
    await client.run("CREATE ROLE eve; SET ROLE eve")
    assert (await client.fails("VALIDATE CONNECTION r")).sqlstate == "42501"


@in_world
async def test_what_answers_may_be_something_else(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SECRET p AS 'x'")
    with http_server() as url:
        refused = await client.fails(REGISTRY.format("r", url))
    assert "there is no schema registry at" in (refused.detail or "")


@in_world
async def test_a_database_that_is_not_there(world: AdapterWorld) -> None:
    client = await world.connect()
    refused = await client.fails(
        "CREATE CONNECTION d TO POSTGRES (HOST '127.0.0.1', PORT 1, DATABASE 'd', USER 'u')"
    )
    assert refused.sqlstate == "08001"
    assert "127.0.0.1:1" in (refused.detail or "")
    assert await client.rows("SHOW CONNECTIONS") == []


@contextmanager
def http_server() -> Iterator[str]:
    """Something that answers HTTP, and has nothing."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
