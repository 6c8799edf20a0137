"""Real servers, one of each for the whole run."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytest.register_assert_rewrite("waterclock.testing.conformance")

from waterclock.compute.spark import open_session  # noqa: E402
from waterclock.server.java import find_java  # noqa: E402
from waterclock.testing.services import PostgresServer, S3Server  # noqa: E402


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the run."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    session = open_session("local[2]")
    yield session
    session.stop()
