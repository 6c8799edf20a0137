"""A data directory is damaged in one place at a time: it reads the same, or says what is wrong.

    python -m waterclock.testing.damage --seed N [--trials 300]

Directories with everything that the log and the state of views are made of are written once: one
that was closed, and one as a killed process leaves it, with its write-ahead log. Each trial takes a
copy of one and harms one of its files: it flips a bit or several bytes, cuts the file, zeroes a
sector, or removes it. Then the copy is opened and all of it is read. The outcome must be just what
was written, or an error of ours; state of views may also be missing, since it is made again. If
there was an error, `waterclock check` must find damage too.

One fault is done at a time. What follows from two at once, such as a log and its witness that are
both set back, is not tried.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from waterclock.adapter.coordinator import VIEW_PREFIX
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.installed import state_key
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist import intact
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover, Extent
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.directory import DataDirectory
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.notes import Notes
from waterclock.persist.parts import read_batches
from waterclock.persist.retry import Retry
from waterclock.persist.rows import DIFF, TIME, updates
from waterclock.persist.state import State
from waterclock.persist.store import Store
from waterclock.server import checking
from waterclock.storage.api import Description, Write
from waterclock.storage.controller import Storage

SCHEMA = Schema((Column("n", Int(64), nullable=False), Column("t", Text())))
LAYOUT = Layout.of({"k": pa.int64()}, {"v": pa.string()})
EXTENT = Extent(0, 10)
_VIEW = "u9"
_STATE = f"{_VIEW}_op1"
_AT_ONCE = Retry(attempts=1)

Contents = dict[str, Any]


class Silent(AssertionError):
    """The directory reads as something else than what was written, and nobody says so."""


@dataclass(frozen=True, slots=True)
class Harm:
    """What was done to a file, so that it can be done again."""

    which: str
    file: str
    how: str
    place: int
    mask: bytes

    def do(self, directory: Path) -> None:
        path = directory / self.file
        if self.how == "remove":
            path.unlink()
            return
        data = bytearray(path.read_bytes())
        if self.how == "cut":
            del data[self.place :]
        else:
            end = min(len(data), self.place + len(self.mask))
            for at in range(self.place, end):
                zeroed = self.how == "zero"
                data[at] = 0 if zeroed else data[at] ^ self.mask[at - self.place]
        path.write_bytes(data)


def make(folder: Path) -> dict[str, Path]:
    """The directories to be harmed."""
    closed, killed = folder / "closed", folder / "killed"
    directory = DataDirectory(closed)
    store = Store.open(directory.blob, directory.consensus, "first")
    storage = Storage(store)
    writers = [_table(storage, number) for number in (1, 2)]
    for step in range(1, 4):
        writers = [_write(storage, writer, step, 1500) for writer in writers]
        writers = [_write(storage, writer, 10 + step, 3) for writer in writers]
        if step == 2:
            checkpoint(store)
    state = closed / "views" / "state" / _STATE
    state.mkdir(parents=True)
    for lower, upper in ((0, 4), (4, 10)):
        keys = list(range(lower, 200 + upper))
        rows = {"k": keys, "v": [f"v{k}" for k in keys], TIME: [lower] * len(keys)}
        write_run(state, LAYOUT, Cover(lower, upper), pa.table({**rows, DIFF: [1] * len(keys)}))
    kept = msgspec.msgpack.encode(Kept("plan", {_STATE: (EXTENT.start, EXTENT.tip)}))
    Notes(store, VIEW_PREFIX).put(state_key(_VIEW), kept)
    shutil.copytree(closed, killed)
    storage.close()
    directory.release()
    return {"closed": closed, "killed": killed}


def _table(storage: Storage, number: int) -> Any:
    _, writer = storage.create(GlobalId.user(number), Description(SCHEMA))
    return writer


def _write(storage: Storage, writer: Any, step: int, count: int) -> Any:
    """Some rows at times that nothing has been written at."""
    lower = writer.frontier.only()
    rows = updates(SCHEMA, [((n, f"{step} {n}"), lower, 1) for n in range(count)])
    [writer] = storage.append(Write(writer, rows, EPOCH_MILLIS.frontier(lower + 10)))
    return writer


def read(directory: Path) -> Contents:
    """All that the directory holds. Raises what opening and reading raise."""
    intact._known.clear()  # the objects of all copies have the same keys
    opened = DataDirectory(directory)
    try:
        store = Store.open(opened.blob, opened.consensus, f"reader of {directory}", _AT_ONCE)
        try:
            return _contents(store)
        finally:
            store.close()
    finally:
        opened.consensus.close()
        opened.release()


def _contents(store: Store) -> Contents:
    found: Contents = {"notes": store.read(lambda state: dict(state.notes))}
    for shard in store.read(_records):
        columns = store.read(lambda state, s=shard: state.shards[s.id].columns)  # type: ignore[misc]
        rows: Counter[str] = Counter()
        for batch in read_batches(store, shard.batches, columns):
            rows.update(map(repr, batch.to_pylist()))
        found[shard.id] = shard, rows
    return found


def _records(state: State) -> Any:
    return state.to_checkpoint().shards


def read_state(directory: Path) -> list[dict[str, Any]]:
    """All rows of the views' state. Raises what opening it raises."""
    folder = directory / "views" / "state" / _STATE
    arrangement = Arrangement.open(folder, LAYOUT, EXTENT.tip, EXTENT)
    with arrangement.trace() as trace:
        return [row for batch in trace.scan() for row in batch.to_pylist()]


def files(directory: Path) -> list[str]:
    return [
        str(path.relative_to(directory))
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    ]


def draw(which: str, directory: Path, random: Random) -> Harm:
    """Some harm to one of the files, each kind of file as often as others."""
    file = random.choice(files(directory))
    size = (directory / file).stat().st_size
    how = random.choices(["bit", "bytes", "cut", "zero", "remove"], [8, 3, 3, 2, 1])[0]
    place = random.randrange(max(1, size))
    if how == "bit":
        mask = bytes([1 << random.randrange(8)])
    elif how == "bytes":
        mask = bytes(random.randrange(1, 256) for _ in range(3))
    else:
        mask = bytes(512) if how == "zero" else b""
    return Harm(which, file, how, place, mask)


def judge(directory: Path, expected: tuple[Contents, list[dict[str, Any]]]) -> str:
    """How the harmed directory reads: the same, or what it said. Raises `Silent`."""
    copy = directory.with_name("checked")
    shutil.copytree(directory, copy)
    said = None
    try:
        if read(directory) != expected[0]:
            raise Silent("the contents are others")
    except WaterclockError as error:
        said = str(error)
    try:
        if read_state(directory) != expected[1]:
            raise Silent("the state of views is another")
    except WaterclockError as error:
        said = said or str(error)
    try:
        if said is not None and checking.run(copy, io.StringIO()) == 0:
            raise Silent(f"check finds nothing, and reading: {said}")
    except WaterclockError:
        pass  # it says that there is no data directory
    finally:
        shutil.rmtree(copy)
    return said or "the same"


def run(folder: Path, seed: int, trials: int) -> Counter[str]:
    """Do so many trials; how often nothing changed, and how often something was said."""
    random = Random(seed)
    made = make(folder)
    expected = {}
    for which, directory in made.items():
        copy = folder / "whole"
        shutil.copytree(directory, copy)
        expected[which] = read(copy), read_state(copy)
        shutil.rmtree(copy)
    outcomes: Counter[str] = Counter()
    for number in range(trials):
        which = random.choice(sorted(made))
        harm = draw(which, made[which], random)
        copy = folder / "harmed"
        shutil.copytree(made[which], copy)
        harm.do(copy)
        try:
            outcome = judge(copy, expected[which])
        except Exception as error:
            raise Silent(f"seed {seed}, trial {number}: {harm}: {error!r}") from error
        outcomes["the same" if outcome == "the same" else "reported"] += 1
        shutil.rmtree(copy)
    return outcomes


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder where syncs cost nothing, if there is one: nothing of it is to survive."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="waterclock-damage-", dir=where) as folder:
        yield Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.damage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=300)
    asked = parser.parse_args()
    with memory_folder() as folder:
        try:
            outcomes = run(folder, asked.seed, asked.trials)
        except Silent as error:
            print(error)
            print(f"replay: python -m waterclock.testing.damage --seed {asked.seed}")
            return 1
    print(f"seed {asked.seed}: {dict(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
