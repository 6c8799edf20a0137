"""Sources that are killed again and again bring everything once, at the time it was bound."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.api import Progress, Updates
from waterclock.storage.reclock.remap import Remap
from waterclock.storage.reclock.shape import LOAD_GENERATOR
from waterclock.storage.sources.generators import connector
from waterclock.storage.sources.generators.api import Options
from waterclock.testing.crash.lives import Life
from waterclock.testing.crash.sources import (
    BANK,
    BANK_REMAP,
    COUNT,
    COUNTER,
    COUNTER_REMAP,
    SourcesServer,
)

KILLS = 3


def run(folder: Path) -> None:
    """A server's life, which ends by itself."""
    life = Life("sources", str(folder))
    try:
        assert life.wait(600) == 0
    finally:
        life.kill()


def killed(folder: Path, lives_s: float, latest_ms: int) -> None:
    """A server's life, which is ended after a while, however far its clock has come till then."""
    life = Life("sources", str(folder), str(latest_ms))
    try:
        assert life.stdout.readline() == b"running\n"
        assert life.wait(lives_s) is None, "it is killed before the end"
    finally:
        life.kill()


def killed_while_it_reads(folder: Path, batches: int) -> None:
    """A server's life, which ends when a read has given so many batches."""
    life = Life("sources", str(folder), f"dies={batches}")
    assert life.wait() == -signal.SIGKILL
    life.kill()
    assert bound_but_not_read(folder), "a binding waits for its data"


def bound_but_not_read(folder: Path) -> int:
    """How many sources were killed between binding and append."""
    server = SourcesServer(folder)
    uppers = server.uppers()
    server.close()
    pairs = ((COUNTER, COUNTER_REMAP), (BANK, BANK_REMAP))
    return sum(uppers[data] != uppers[remap] for data, remap in pairs)


def updates(server: SourcesServer, collection: GlobalId) -> pa.Table:
    """Everything that is still known of a collection."""
    found = []
    subscription = server.storage.subscribe_at(server.holds.capability(collection))
    for message in subscription:
        match message:
            case Updates(batch):
                found.append(batch)
            case Progress():
                break
    subscription.close()
    return pa.Table.from_batches(found)


@pytest.mark.slow
@pytest.mark.semantics(113, 114, 151)
def test_killed_again_and_again(tmp_path: Path) -> None:
    pick = random.Random(7)
    pending = 0
    for number in range(KILLS):
        killed(tmp_path, pick.uniform(0.1, 0.5), COUNT * (number + 1) // (KILLS + 2))
        pending += bound_but_not_read(tmp_path)
    killed_while_it_reads(tmp_path, 0)
    killed_while_it_reads(tmp_path, 1)
    print(f"{pending} bindings were pending after {KILLS} kills")
    run(tmp_path)
    server = SourcesServer(tmp_path)
    try:
        for kind, data, remap in (
            ("counter", COUNTER, COUNTER_REMAP),
            ("bank", BANK, BANK_REMAP),
        ):
            check(server, kind, data, remap)
    finally:
        server.close()


def check(server: SourcesServer, kind: str, data: GlobalId, remap: GlobalId) -> None:
    since = server.holds.capability(data).frontier.only()
    assert since is not None
    rows = updates(server, data).to_pydict()
    first = next(iter(rows))
    assert set(rows["mz_diff"]) == {1}
    stamped = dict(zip(rows[first], rows["mz_timestamp"], strict=True))
    assert len(stamped) == len(rows[first]) == COUNT  # everything, once
    found = LOAD_GENERATOR.updates(updates(server, remap).to_batches())
    bindings = Remap.of_updates(found, more_may_appear=False)
    options = Options(kind=kind, tick_ms=1, created_ms=0, seed=42, maximum=COUNT)
    generator = connector.generator_of(options)
    [output] = generator.outputs
    ids = generator.make(output, 0, COUNT).column(0).to_pylist()
    for offset, each in enumerate(ids):
        bound_at = bindings.time_of(None, offset)
        assert bound_at is not None
        assert max(stamped[each], since) == max(bound_at, since)  # where it was bound
