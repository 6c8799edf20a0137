"""Real servers, one of each for the whole run."""

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("waterclock.testing.conformance")

from waterclock.testing.services import PostgresServer, S3Server  # noqa: E402


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server
