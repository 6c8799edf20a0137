"""A Kinesis source that is killed brings every record once, at the time at which it was bound."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import Included, MessageDefinition, TextDefinition
from waterclock.storage.reclock.shape import END
from waterclock.storage.sources.kinesis.creation import Wanted, define
from waterclock.storage.sources.kinesis.definition import KinesisDefinition
from waterclock.testing.crash.kinesis import opened, settings_of
from waterclock.testing.crash.lives import Life
from waterclock.testing.kinesis import StreamWriter
from waterclock.testing.services import KinesisServer

pytestmark = [pytest.mark.service, pytest.mark.slow]


def life(folder: Path, endpoint: str, rows: int, *dies: int) -> int | None:
    """A server's life; how it ended."""
    lived = Life("kinesis", str(folder), endpoint, str(rows), *map(str, dies))
    try:
        return lived.wait(600)
    finally:
        lived.kill()


@pytest.mark.semantics(113, 151)
def test_killed_between_binding_and_append_of_a_stream(
    tmp_path: Path, kinesis_server: KinesisServer
) -> None:
    """kill -9 between binding and read, and in the middle of a read; with a split in between."""
    endpoint = kinesis_server.endpoint
    writer = StreamWriter(endpoint)
    first, _ = writer.create("killed", 2)
    writer.put_many("killed", [(str(n), str(n)) for n in range(800)])
    (tmp_path / "definition").write_bytes(definition_of(endpoint, "killed").encoded())
    assert life(tmp_path, endpoint, 800, 0) == -signal.SIGKILL
    bound = found_after(tmp_path)
    writer.put_many("killed", [(str(n), str(n)) for n in range(800, 900)])
    assert life(tmp_path, endpoint, 800, 2) == -signal.SIGKILL
    assert found_after(tmp_path) == bound  # the same binding is still to be read
    writer.split("killed", first)
    writer.put_many("killed", [(str(n), str(n)) for n in range(900, 1000)])
    assert life(tmp_path, endpoint, 1000, 4) == -signal.SIGKILL
    assert life(tmp_path, endpoint, 1000) == 0
    writer.close()
    server = opened(tmp_path)
    try:
        bindings, rows = server.bindings(), server.rows()
    finally:
        server.close()
    assert sorted(int(row[0]) for row in rows) == list(range(1000))  # everything, once
    assert {row[-1] for row in rows} == {1}
    for text, shard, number, stamped, _ in rows:
        assert stamped == bindings.time_of(shard, int(number))
        assert (stamped == bound[0]) == (int(text) < 800)
    last = bindings.bindings[-1].frontier.uppers
    assert last[first] == END
    order: dict[str, list[int]] = {}
    for _, shard, number, *_ in sorted(rows, key=lambda row: row[-2]):
        order.setdefault(shard, []).append(int(number))
    assert all(each == sorted(each) for each in order.values())


def found_after(folder: Path) -> tuple[int, dict[Any, int]]:
    """The last binding, whose data is not there."""
    with closing(opened(folder)) as server:
        return server.last_unread_binding()


def definition_of(endpoint: str, stream: str) -> KinesisDefinition:
    messages = MessageDefinition(
        origin=f'stream "{stream}"',
        value=TextDefinition(),
        include=(Included("shard", "shard"), Included("sequence number", "at")),
        long_offsets=True,
    )
    return define(GlobalId.user(9), settings_of(endpoint), Wanted(stream), messages)
