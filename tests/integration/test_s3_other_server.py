"""Another server than the one that the other tests use: it knows no conditional requests."""

from __future__ import annotations

import gzip
import itertools
from typing import Any

import pytest

from waterclock.testing.s3_source import Clients, S3World, definition, settings
from waterclock.testing.services import S3rver

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def clients(other_s3_server: S3rver) -> Clients:
    return Clients(settings(other_s3_server.endpoint, other_s3_server.key))


def test_objects_of_all_kinds(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._AT_ONCE", 500)
    monkeypatch.setattr("waterclock.storage.sources.s3.bucket._PAGE", 7)
    world = S3World(clients, definition("kinds", pattern="in/**"))
    lines = [f"line {i}" for i in range(150)]
    world.put("in/large", "\n".join(lines) + "\n")
    world.put("in/z.gz", gzip.compress(b"packed\n"))
    for i in range(20):
        world.put(f"in/d=1/ü {i}+%", f"small {i}\n")
    world.put("out", "not for us\n")
    world.settle()
    expected = {*lines, "packed", *(f"small {i}" for i in range(20))}
    assert {row[0] for row in world.rows()} == expected
    assert world.rows().total() == len(expected)
    assert world.errors() == []
    world.put("in/z.gz", "other")
    world.delete(["in/d=1/ü 3+%"])
    world.settle()
    assert [error.rpartition('"')[2] for error in world.errors()] == [
        " was deleted after it was read",
        " was overwritten after it was read",
    ]


def test_an_answer_of_another_version_is_not_taken(clients: Clients) -> None:
    """The server sends what is there now, whatever it is asked for."""
    world = S3World(clients, definition("versions"))
    world.put("a", "first\n")
    appends = itertools.count()

    def overwrite(_: Any) -> bool:
        if next(appends) == 1:  # the binding: it is read next
            world.put("a", "other\n")
        return False

    world.world.crash_at = overwrite
    world.settle()
    assert world.rows() == {}
    assert world.errors() == ['55000 object "s3://versions/a" was overwritten']
