"""Real servers, one of each for the whole run."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytest.register_assert_rewrite("waterclock.testing.conformance")

from waterclock.testing.brief_spark import BRIEFLY, ROOM, brief_session  # noqa: E402
from waterclock.testing.kafka import KafkaBroker  # noqa: E402
from waterclock.testing.services import (  # noqa: E402
    KinesisServer,
    PostgresServer,
    S3rver,
    S3Server,
)
from waterclock.testing.sql_oracle.engine import Engine, tuned  # noqa: E402
from waterclock.testing.sql_oracle.oracle import Oracle, connected  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _servers_compile_little() -> None:
    """Servers that tests start have the JVM of a test run too, unless they are told otherwise."""
    os.environ.setdefault("WATERCLOCK_SPARK", f"spark.driver.extraJavaOptions={BRIEFLY} {ROOM}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def logical_server() -> Iterator[PostgresServer]:
    """One that changes can be read from by logical replication."""
    settings = {"wal_level": "logical", "max_replication_slots": "50", "max_wal_senders": "50"}
    with PostgresServer(settings) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def other_s3_server() -> Iterator[S3rver]:
    with S3rver() as server:
        yield server


@pytest.fixture(scope="session")
def kinesis_server() -> Iterator[KinesisServer]:
    with KinesisServer() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the run, with room for what stays of all tests."""
    session = brief_session(settings={"spark.driver.memory": "3g"}, room="-Xms2g -Xmn1g")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> Engine:
    """What evaluates calls here, to be compared with the oracle."""
    return Engine(tuned(spark))


@pytest.fixture(scope="module")
def oracle(postgres_server: PostgresServer) -> Iterator[Oracle]:
    """PostgreSQL, asked for the same."""
    with connected(postgres_server) as found:
        yield found
