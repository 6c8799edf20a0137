"""CREATE SOURCE, SINK, CONNECTION, SECRET, CLUSTER, and tables from sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.model.pg_types import INT4
from waterclock.sql.ast import Statement, holds_secret
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ListValue,
    NameValue,
    NumberValue,
    ObjectName,
    Option,
    SecretValue,
    StringValue,
)
from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.ast.relations import ColumnDefinition
from waterclock.sql.ast.sources import (
    AllTables,
    AlterSecret,
    AvroFormat,
    CreateCluster,
    CreateConnection,
    CreateSecret,
    CreateSink,
    CreateSource,
    CreateTableFromSource,
    CsvFormat,
    Envelope,
    EnvelopeKind,
    ExternalConnector,
    FileConnector,
    Format,
    FormatKind,
    Formats,
    Include,
    LoadGenerator,
    Metadata,
    PlainFormat,
    TablesOfSchemas,
    TheseTables,
    UpstreamTable,
    WebhookConnector,
)
from waterclock.sql.errors import SqlFault

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]


def name(*parts: str) -> ObjectName:
    return ObjectName(parts)


def test_load_generators(parse: Parse) -> None:
    assert parse("CREATE SOURCE s FROM LOAD GENERATOR COUNTER") == CreateSource(
        name("s"), LoadGenerator("counter")
    )
    assert parse(
        "CREATE SOURCE IF NOT EXISTS a.s IN CLUSTER c FROM LOAD GENERATOR AUCTION "
        "(TICK INTERVAL '1s', SCALE FACTOR = 0.01, MAX -5, SEED 3) FOR ALL TABLES "
        "EXPOSE PROGRESS AS a.p WITH (TIMESTAMP INTERVAL = '100ms')"
    ) == CreateSource(
        name("a", "s"),
        LoadGenerator(
            "auction",
            (
                Option("tick interval", StringValue("1s")),
                Option("scale factor", NumberValue("0.01")),
                Option("max", NumberValue("-5")),
                Option("seed", NumberValue("3")),
            ),
        ),
        if_not_exists=True,
        cluster=Identifier("c"),
        subsources=AllTables(),
        progress=name("a", "p"),
        options=(Option("timestamp interval", StringValue("100ms")),),
    )


def test_kafka(parse: Parse) -> None:
    assert parse(
        "CREATE SOURCE s (a, b) FROM KAFKA CONNECTION k (TOPIC 'x', START OFFSET (0, 10), "
        "START TIMESTAMP = -1000, GROUP ID PREFIX 'g') "
        "KEY FORMAT TEXT VALUE FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r "
        "INCLUDE KEY AS k, PARTITION, OFFSET AS o, TIMESTAMP, HEADERS, HEADER 'h' AS hh "
        "ENVELOPE UPSERT (VALUE DECODING ERRORS = (INLINE AS e))"
    ) == CreateSource(
        name("s"),
        ExternalConnector(
            "kafka",
            name("k"),
            (
                Option("topic", StringValue("x")),
                Option("start offset", ListValue((NumberValue("0"), NumberValue("10")))),
                Option("start timestamp", NumberValue("-1000")),
                Option("group id prefix", StringValue("g")),
            ),
        ),
        (Identifier("a"), Identifier("b")),
        formats=Formats(AvroFormat(name("r")), PlainFormat(FormatKind.TEXT)),
        include=(
            Include(Metadata.KEY, Identifier("k")),
            Include(Metadata.PARTITION),
            Include(Metadata.OFFSET, Identifier("o")),
            Include(Metadata.TIMESTAMP),
            Include(Metadata.HEADERS),
            Include(Metadata.HEADER, Identifier("hh"), "h"),
        ),
        envelope=Envelope(
            EnvelopeKind.UPSERT, (Option("value decoding errors", ExpressionText("(INLINE AS e)")),)
        ),
    )


def test_kafka_without_a_connection(parse: Parse) -> None:
    assert parse(
        "CREATE SOURCE foo FROM KAFKA BROKER 'h:9092' TOPIC 't' FORMAT JSON EXPOSE PROGRESS AS p"
    ) == CreateSource(
        name("foo"),
        ExternalConnector(
            "kafka",
            None,
            (Option("broker", StringValue("h:9092")), Option("topic", StringValue("t"))),
        ),
        formats=Formats(PlainFormat(FormatKind.JSON)),
        progress=name("p"),
    )


def test_postgres(parse: Parse) -> None:
    connector = ExternalConnector(
        "postgres",
        name("p"),
        (
            Option("publication", StringValue("x")),
            Option("text columns", ListValue((NameValue(name("public", "t", "c")),))),
        ),
    )
    head = "CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION 'x', TEXT COLUMNS (public.t.c))"
    assert parse(f"{head} FOR TABLES (public.a AS x.b, c)") == CreateSource(
        name("s"),
        connector,
        subsources=TheseTables(
            (UpstreamTable(name("public", "a"), name("x", "b")), UpstreamTable(name("c")))
        ),
    )
    columns = (
        ColumnDefinition(Identifier("i"), INT4, True),
        ColumnDefinition(Identifier("j"), INT4),
    )
    assert parse(f"{head} FOR TABLES (a AS b (i int NOT NULL, j int), c (j int))") == CreateSource(
        name("s"),
        connector,
        subsources=TheseTables(
            (
                UpstreamTable(name("a"), name("b"), columns),
                UpstreamTable(name("c"), None, columns[1:]),
            )
        ),
    )
    assert parse(f"{head} FOR SCHEMAS (a, b)") == CreateSource(
        name("s"), connector, subsources=TablesOfSchemas((Identifier("a"), Identifier("b")))
    )


def test_columns_with_types(parse: Parse, refuse: Refuse) -> None:
    assert parse("CREATE SOURCE s (a int NOT NULL, b int NULL) FROM FILE '/x' FORMAT JSON") == (
        CreateSource(
            name("s"),
            FileConnector("/x"),
            (
                ColumnDefinition(Identifier("a"), INT4, True),
                ColumnDefinition(Identifier("b"), INT4),
            ),
            formats=Formats(PlainFormat(FormatKind.JSON)),
        )
    )
    names = parse("CREATE SOURCE s (a) FROM FILE '/x' FORMAT JSON")
    assert isinstance(names, CreateSource)
    assert names.columns == (Identifier("a"),)
    for columns in ("(a int, b)", "(a int DEFAULT 1)", "(a int PRIMARY KEY)", "()"):
        refuse(f"CREATE SOURCE s {columns} FROM FILE '/x' FORMAT JSON")


def test_files_and_others(parse: Parse) -> None:
    assert parse("CREATE SOURCE s FROM FILE '/x/*.csv' (x 1) FORMAT BYTES") == CreateSource(
        name("s"),
        FileConnector("/x/*.csv", (Option("x", NumberValue("1")),)),
        formats=Formats(PlainFormat(FormatKind.BYTES)),
    )
    assert parse("CREATE SOURCE s FROM PUBNUB SUBSCRIBE KEY 'k' CHANNEL 'c'") == CreateSource(
        name("s"),
        ExternalConnector(
            "pubnub",
            None,
            (Option("subscribe key", StringValue("k")), Option("channel", StringValue("c"))),
        ),
    )
    assert parse("CREATE SOURCE s FROM KINESIS ARN 'a' FORMAT JSON") == CreateSource(
        name("s"),
        ExternalConnector("kinesis", None, (Option("arn", StringValue("a")),)),
        formats=Formats(PlainFormat(FormatKind.JSON)),
    )
    assert parse(
        "CREATE SOURCE s FROM KINESIS CONNECTION a (STREAM 's', START POSITION LATEST) FORMAT TEXT"
        " INCLUDE SHARD, SEQUENCE NUMBER AS n"
    ) == CreateSource(
        name("s"),
        ExternalConnector(
            "kinesis",
            name("a"),
            (
                Option("stream", StringValue("s")),
                Option("start position", NameValue(name("latest"))),
            ),
        ),
        formats=Formats(PlainFormat(FormatKind.TEXT)),
        include=(Include(Metadata.SHARD), Include(Metadata.SEQUENCE_NUMBER, Identifier("n"))),
    )
    [_, at] = parse(
        "CREATE SOURCE s FROM KINESIS CONNECTION a (STREAM 's', START POSITION AT TIMESTAMP 't')"
    ).connector.options
    assert at == Option("start position at timestamp", StringValue("t"))
    assert parse("CREATE SOURCE s FROM S3 CONNECTION a (BUCKET 'b')") == CreateSource(
        name("s"), ExternalConnector("s3", name("a"), (Option("bucket", StringValue("b")),))
    )


def test_create_source_from_webhook(parse: Parse) -> None:
    json = PlainFormat(FormatKind.JSON)
    assert parse("CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON") == CreateSource(
        name("s"), WebhookConnector(json)
    )
    assert parse(
        "CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON ARRAY INCLUDE HEADERS, HEADER 'x-a' AS a"
        " CHECK (HMAC 'sha256', KEY SECRET k, HEADER 'x-b') WITH (RETAIN HISTORY FOR '1h')"
    ) == CreateSource(
        name("s"),
        WebhookConnector(
            json,
            True,
            (Include(Metadata.HEADERS), Include(Metadata.HEADER, Identifier("a"), "x-a")),
            (
                Option("hmac", StringValue("sha256")),
                Option("key", SecretValue(name("k"))),
                Option("header", StringValue("x-b")),
            ),
        ),
        options=(Option("retain history", StringValue("1h")),),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TEXT", PlainFormat(FormatKind.TEXT)),
        ("PARQUET", PlainFormat(FormatKind.PARQUET)),
        ("CSV WITH HEADER", CsvFormat(True, ())),
        ("CSV WITH HEADER (a, b)", CsvFormat(True, (Identifier("a"), Identifier("b")))),
        ("CSV WITH 3 COLUMNS DELIMITED BY ';'", CsvFormat(False, 3, ";")),
        ("AVRO USING SCHEMA '{}'", AvroFormat("{}")),
    ],
)
def test_formats(parse: Parse, text: str, expected: Format) -> None:
    statement = parse(f"CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') FORMAT {text}")
    assert isinstance(statement, CreateSource)
    assert statement.formats == Formats(expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NONE", EnvelopeKind.NONE),
        ("UPSERT", EnvelopeKind.UPSERT),
        ("DEBEZIUM", EnvelopeKind.DEBEZIUM),
        ("MATERIALIZE", EnvelopeKind.MATERIALIZE),
    ],
)
def test_envelopes(parse: Parse, text: str, kind: EnvelopeKind) -> None:
    statement = parse(f"CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') ENVELOPE {text}")
    assert isinstance(statement, CreateSource)
    assert statement.envelope == Envelope(kind)


def test_table_from_source(parse: Parse) -> None:
    assert parse("CREATE TABLE t FROM SOURCE a.s (REFERENCE public.x)") == CreateTableFromSource(
        name("t"), name("a", "s"), name("public", "x")
    )
    assert parse(
        "CREATE TABLE IF NOT EXISTS t (a, b) FROM SOURCE s (REFERENCE = x, TEXT COLUMNS (c)) "
        "FORMAT JSON INCLUDE KEY ENVELOPE NONE WITH (y = 1)"
    ) == CreateTableFromSource(
        name("t"),
        name("s"),
        name("x"),
        (Identifier("a"), Identifier("b")),
        (),
        True,
        (Option("text columns", ListValue((NameValue(name("c")),))),),
        Formats(PlainFormat(FormatKind.JSON)),
        (Include(Metadata.KEY),),
        Envelope(EnvelopeKind.NONE),
        (Option("y", NumberValue("1")),),
    )
    assert parse("CREATE TABLE t (a int) FROM SOURCE s") == CreateTableFromSource(
        name("t"), name("s"), columns=(ColumnDefinition(Identifier("a"), INT4),)
    )


def test_sinks(parse: Parse) -> None:
    assert parse(
        "CREATE SINK s IN CLUSTER c FROM v INTO KAFKA CONNECTION k (TOPIC 't') "
        "KEY (a) NOT ENFORCED FORMAT JSON ENVELOPE UPSERT"
    ) == CreateSink(
        name("s"),
        name("v"),
        ExternalConnector("kafka", name("k"), (Option("topic", StringValue("t")),)),
        False,
        Identifier("c"),
        (Identifier("a"),),
        True,
        Formats(PlainFormat(FormatKind.JSON)),
        Envelope(EnvelopeKind.UPSERT),
    )


def test_connections(parse: Parse) -> None:
    assert parse(
        "CREATE CONNECTION IF NOT EXISTS k TO KAFKA (BROKERS ('a:1', 'b:2'), SASL PASSWORD = "
        "SECRET a.pw, SASL USERNAME SECRET \"U\", SSH TUNNEL jump, SECURITY PROTOCOL = 'SASL_SSL', "
        "PORT 5432) WITH (VALIDATE = false)"
    ) == CreateConnection(
        name("k"),
        "kafka",
        (
            Option("brokers", ListValue((StringValue("a:1"), StringValue("b:2")))),
            Option("sasl password", SecretValue(name("a", "pw"))),
            Option("sasl username", SecretValue(name("U"))),
            Option("ssh tunnel", NameValue(name("jump"))),
            Option("security protocol", StringValue("SASL_SSL")),
            Option("port", NumberValue("5432")),
        ),
        True,
        False,
        (Option("validate", NameValue(name("false"))),),
    )
    for kind in ("postgres", "aws", "confluent schema registry", "ssh tunnel", "mysql"):
        assert parse(f"CREATE CONNECTION c TO {kind.upper()} (HOST 'h')") == CreateConnection(
            name("c"), kind, (Option("host", StringValue("h")),)
        )


def test_secrets_and_what_must_not_be_logged(parse: Parse) -> None:
    created = parse("CREATE SECRET IF NOT EXISTS s AS decode('c2VjcmV0', 'base64')")
    assert created == CreateSecret(name("s"), ExpressionText("decode('c2VjcmV0', 'base64')"), True)
    altered = parse("ALTER SECRET s AS 'hush'")
    assert altered == AlterSecret(name("s"), ExpressionText("'hush'"))
    role = parse("CREATE ROLE r PASSWORD 'hush'")
    for statement in (created, altered, role):
        assert holds_secret(statement)
        assert "hush" not in repr(statement)
        assert "c2VjcmV0" not in repr(statement)
    assert holds_secret(parse("CREATE CONNECTION c TO KAFKA (SASL PASSWORD 'hush')"))
    assert not holds_secret(parse("CREATE CONNECTION c TO KAFKA (SASL PASSWORD SECRET s)"))
    assert not holds_secret(parse("CREATE ROLE r LOGIN"))


def test_clusters(parse: Parse) -> None:
    size = (Option("size", StringValue("1")), Option("replication factor", NumberValue("2")))
    assert parse("CREATE CLUSTER c (SIZE = '1', REPLICATION FACTOR 2)") == CreateCluster(
        Identifier("c"), False, size
    )
    assert parse("CREATE CLUSTER c SIZE '1', REPLICATION FACTOR = 2") == CreateCluster(
        Identifier("c"), False, size
    )
    assert parse("CREATE CLUSTER REPLICA c.r SIZE '1'") == Unsupported("CREATE CLUSTER REPLICA")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("CREATE SOURCE", 14),
        ("CREATE SOURCE s", 16),
        ("CREATE SOURCE s FROM", 21),
        ("CREATE SOURCE s FROM FOO", 22),
        ("CREATE SOURCE s FROM LOAD COUNTER", 27),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER ()", 46),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1s'", 64),
        ("CREATE SOURCE s FROM KAFKA CONNECTION", 38),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k FORMAT", 47),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k FORMAT XML", 48),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k KEY FORMAT TEXT FORMAT TEXT", 57),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k FORMAT TEXT FORMAT TEXT", 53),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k FORMAT CSV", 51),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k INCLUDE FOO", 49),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k INCLUDE HEADER AS x", 56),
        ("CREATE SOURCE s FROM KINESIS CONNECTION k INCLUDE SEQUENCE", 59),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k ENVELOPE FOO", 50),
        ("CREATE SOURCE s FROM POSTGRES CONNECTION p FOR TABLES", 54),
        ("CREATE SOURCE s FROM POSTGRES CONNECTION p FOR ALL", 51),
        ("CREATE SOURCE s FROM POSTGRES CONNECTION p EXPOSE PROGRESS p", 60),
        ("CREATE SOURCE s FROM KAFKA BROKER", 34),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k ON DECODE ERROR", 56),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k ON DECODE ERROR STOP", 57),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k ON ERROR SKIP", 44),
        ("CREATE SOURCE s FROM KAFKA CONNECTION k EXPOSE ERRORS AS e EXPOSE ERRORS AS f", 60),
        ("CREATE TABLE t FROM SOURCE", 27),
        ("CREATE TABLE t FROM SOURCE s EXPOSE PROGRESS AS p", 30),
        ("CREATE TABLE t FROM SOURCE s (REFERENCE 'x')", 31),
        ("CREATE SINK s FROM v", 21),
        ("CREATE CONNECTION c TO FOO (a 1)", 24),
        ("CREATE CONNECTION c TO KAFKA", 29),
        ("CREATE SECRET s", 16),
        ("CREATE SECRET s AS", 19),
        ("CREATE CLUSTER c (", 19),
    ],
)
def test_broken(refuse: Refuse, text: str, position: int) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42601", position)
