"""CREATE SOURCE ... FROM KAFKA, as far as it comes without a broker: what is refused, and how."""

from __future__ import annotations

import pytest

from waterclock.adapter.sequencer.debezium_sources import tables_of
from waterclock.storage.sources.kafka import cluster
from waterclock.testing.adapter_world import AdapterWorld, in_world

SOURCE = "CREATE SOURCE s FROM KAFKA CONNECTION k {} FORMAT TEXT"


async def refused(world: AdapterWorld, statement: str) -> tuple[str, str]:
    client = await world.connect()
    error = await client.fails(statement)
    assert await client.rows("SHOW SOURCES") == []
    return error.sqlstate, error.message


@in_world
async def test_statements_that_do_not_say_enough(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE CONNECTION k TO KAFKA (BROKER '127.0.0.1:1') WITH (VALIDATE = false)")
    await client.run(
        "CREATE CONNECTION p TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u')"
        " WITH (VALIDATE = false)",
    )
    for statement, expected in (
        (SOURCE.format("(START OFFSET 1)"), ("42601", "TOPIC option is required")),
        (SOURCE.format("(TOPIC 't', NAME 'x')"), ("42601", 'option "name" not recognized')),
        (
            SOURCE.format("(TOPIC 't', START OFFSET ('x'))"),
            ("42601", "start offset requires an integer value"),
        ),
        (
            SOURCE.format("(TOPIC 't', START OFFSET 1, START TIMESTAMP 1)"),
            ("42601", "START OFFSET and START TIMESTAMP can not be given together"),
        ),
        (
            "CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't')",
            ("42601", "this kind of source requires FORMAT"),
        ),
        (
            "CREATE SOURCE s FROM KAFKA CONNECTION p (TOPIC 't') FORMAT TEXT",
            ("0A000", 'connection "p" does not lead to Kafka'),
        ),
        (
            "CREATE SOURCE s FROM KAFKA BROKER 'b' (TOPIC 't') FORMAT TEXT",
            ("42601", "a Kafka source needs a connection"),
        ),
        (
            "CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') FORMAT TEXT FOR TABLES (a)",
            ("0A000", "FOR TABLES is not supported for a source of one topic"),
        ),
        (
            "CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR TABLES (a (i int))",
            ("0A000", "columns of tables can be declared for Kafka sources only"),
        ),
    ):
        assert await refused(world, statement) == expected, statement


@in_world
async def test_transaction_topics_that_do_not_say_enough(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE CONNECTION k TO KAFKA (BROKER '127.0.0.1:1') WITH (VALIDATE = false)")
    head = "CREATE SOURCE s FROM KAFKA CONNECTION k"
    whole = f"{head} (TRANSACTION TOPIC 'x.transaction')"
    for statement, expected in (
        (f"{whole} FORMAT JSON FOR TABLES (a)", "TRANSACTION TOPIC requires ENVELOPE DEBEZIUM"),
        (
            f"{whole} FORMAT JSON ENVELOPE DEBEZIUM",
            "a source with a transaction topic needs FOR TABLES or FOR ALL TABLES",
        ),
        (
            f"{head} (TRANSACTION TOPIC 'ends') FORMAT JSON ENVELOPE DEBEZIUM FOR TABLES (a)",
            'TOPIC PREFIX is required, for topic "ends" is not called "prefix.transaction"',
        ),
        (
            f"{head} (TRANSACTION TOPIC 'x.transaction', TOPIC 'y') FORMAT JSON"
            " ENVELOPE DEBEZIUM FOR TABLES (a)",
            'option "topic" not recognized',
        ),
        (
            f"{whole} FORMAT AVRO USING SCHEMA '{{}}' ENVELOPE DEBEZIUM FOR TABLES (a)",
            "a schema can not be given for the topics of several tables",
        ),
    ):
        assert (await refused(world, statement))[1] == expected, statement


@in_world
async def test_brokers_that_nobody_is_at(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE CONNECTION k TO KAFKA (BROKER '127.0.0.1:1') WITH (VALIDATE = false)")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster, "_SECONDS", 3600.0)  # nothing is waited for that nobody gives
        assert await refused(world, SOURCE.format("(TOPIC 't')")) == (
            "08000",
            'the brokers of connection "k" can not be reached',
        )


@in_world
async def test_options_of_connections_are_checked(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE CONNECTION k TO KAFKA (BROKER 'a:b') WITH (VALIDATE = false)")
    assert await refused(world, SOURCE.format("(TOPIC 't')")) == (
        "22023",
        '"a:b" is not the address of a broker',
    )


def test_tables_are_told_by_their_topics() -> None:
    topics = ["x", "x.transaction", "x.public.a", "x.other.a", "x.", "x..b", "y.public.c"]
    topics += ["__debezium-heartbeat.x", "xx.public.d", "x.db.public.e"]
    a, other, e = ("public", "a"), ("other", "a"), ("db", "public", "e")
    assert tables_of(topics, "x") == [a, other, e]
    assert tables_of(topics, "x", {"public"}) == [a, e]
    assert tables_of(topics, "none") == []
