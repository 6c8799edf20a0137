"""What executors read is what would be read in place, and faults there are faults here."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Column, Schema, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import (
    CsvDefinition,
    Included,
    MessageDefinition,
    TextDefinition,
)
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import Messages, Surroundings
from waterclock.storage.sources.errors import SourceFault, TransientFault
from waterclock.storage.sources.executors import written
from waterclock.storage.sources.files.connector import FILES, KIND, NAME, OUTPUT, encoded
from waterclock.storage.sources.files.continuity import Continuity
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.storage.sources.status import Health
from waterclock.testing.examples import examples
from waterclock.testing.executors import AtHand
from waterclock.testing.source_world import Crash, SourceWorld

AT = (Included("offset", "at"),)
TEXTS = MessageDefinition(origin="files", value=TextDefinition(), include=AT)
TWO = encode_schema(Schema((Column("a", Text()), Column("b", Text()))))
PAIRS = MessageDefinition(origin="files", value=CsvDefinition(TWO), include=AT)
PIECE = "waterclock.storage.sources.files.connector._PIECE"


def opened(folder: Path, messages: MessageDefinition, executors: AtHand | None) -> Any:
    definition = FilesDefinition(location=str(folder), messages=messages)
    return KIND.open(encoded(definition), Surroundings(lambda: 0, executors, large_bytes=0))


def rows_of(read: Iterator[Messages]) -> list[tuple[Any, ...]]:
    """What is seen of messages, once it is sure that they are of one file."""
    released, _ = Continuity().released(list(read))
    tables = [pa.Table.from_batches([each.batch]) for each in released]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


lines = st.text(st.sampled_from('ab",\r'), max_size=12)


@examples(200)
@given(st.lists(lines, max_size=20), st.integers(1, 40), st.booleans(), st.data())
def test_lines_are_the_same_wherever_they_are_read(
    given_lines: list[str], piece: int, quoted: bool, data: st.DataObject
) -> None:
    messages = PAIRS if quoted else TEXTS
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(PIECE, piece)
        folder, scratch = Path(name) / "in", Path(name) / "scratch"
        folder.mkdir()
        scratch.mkdir()
        file = folder / "one"
        file.write_text("".join(f"{line}\n" for line in given_lines), newline="")
        executors = AtHand(scratch)
        here, there = opened(folder, messages, None), opened(folder, messages, executors)
        frontier = here.probe().frontier
        end = frontier.uppers[str(file)]
        starts = [0, *(n for n in range(end) if file.read_bytes()[n - 1 : n] == b"\n")]
        start = 0 if quoted else data.draw(st.sampled_from(starts))
        ranges = [Range(str(file), start, end)] if end > start else []
        found = rows_of(there.read(ranges))
        assert found == rows_of(here.read(ranges))
        if not quoted:
            assert sum(executors.reads) >= (end - start) // (piece + 13)


class World:
    """A source of lines that executors read, step by step."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.world = SourceWorld()
        self.executors = AtHand(scratch)
        kept = encoded(FilesDefinition(location=str(folder), messages=TEXTS))
        around = Surroundings(self.world.clock)
        outputs = KIND.open(kept, around).outputs
        self.description = self.world.create(NAME, kept, FILES.schema, outputs, with_errors=True)
        self.ingestion = self.opened()

    def opened(self) -> Ingestion:
        around = Surroundings(self.world.clock, self.executors, large_bytes=0)
        return self.world.ingestion(self.description, {NAME: KIND}, around)

    def step(self) -> Health:
        self.world.step(self.ingestion)
        return self.ingestion.status.health

    def restart(self) -> None:
        self.world.open()
        self.ingestion = self.opened()

    def updates(self) -> Counter[tuple[tuple[Any, ...], int]]:
        return self.world.updates(self.description.outputs[OUTPUT])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(PIECE, 30)
    for name in ("in", "scratch"):
        (tmp_path / name).mkdir()
    return tmp_path


def text(first: int, count: int) -> str:
    return "".join(f"line {number:05}\n" for number in range(first, first + count))


@pytest.mark.semantics(113, 151, 164)
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_crash_while_executors_read(place: Path, at: int) -> None:
    file = place / "in" / "one"
    file.write_text(text(0, 20))
    world = World(place / "in", place / "scratch")
    world.step()
    before = world.updates()
    with file.open("a") as more:
        more.write(text(20, 30))
    seen = 0

    def here(_: Any) -> bool:
        nonlocal seen
        seen += 1
        return seen > at

    if at == 3:
        world.executors = Broken(place / "scratch")
        world.ingestion = world.opened()
    else:
        world.world.crash_at = here
    try:
        world.step()
    except Crash:
        world.world.crash_at = None
        world.executors = AtHand(place / "scratch")
        world.restart()
        world.step()
    found = world.updates()
    assert {row: n for row, n in found.items() if row in before} == before
    assert Counter(row[0] for row, _ in found.elements()) == Counter(text(0, 50).split("\n")[:-1])
    assert len({time for _, time in found}) == 2
    assert max(world.executors.reads) > 5


class Broken(AtHand):
    """Executors with which the server dies, when half of it has been read."""

    def read(self, read: Any, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        for number, batch in super().read(read, count):
            if number > count // 2:
                raise Crash
            yield number, batch


def test_a_file_that_is_replaced_between_two_tasks(place: Path) -> None:
    file = place / "in" / "one"
    file.write_text(text(0, 40))

    class Meanwhile(AtHand):
        def read(self, read: Any, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            def replacing(number: int) -> Any:
                if number == count // 2:
                    file.write_text(text(500, 40))
                return read(number)

            for number in range(count):
                for batch in replacing(number):
                    yield number, batch

    world = World(place / "in", place / "scratch")
    world.executors = Meanwhile(place / "scratch")
    world.ingestion = world.opened()
    assert world.step() is Health.FAILED
    assert "has been replaced" in str(world.ingestion.status.error)
    assert not world.updates()


@pytest.mark.parametrize(
    "fault",
    [
        TransientFault("no answer", hint="Wait."),
        SourceFault("it is gone", detail="All of it."),
        FileNotFoundError("one"),
    ],
)
def test_a_fault_of_a_task_is_raised_here(tmp_path: Path, fault: Exception) -> None:
    with pytest.raises(type(fault)) as raised:
        list(AtHand(tmp_path).read(Faulty(fault), 3))
    assert str(raised.value) == str(fault)
    for name in ("detail", "hint"):
        assert getattr(raised.value, name, None) == getattr(fault, name, None)


class Faulty:
    """The second task fails."""

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        if number == 1:
            raise self.fault
        yield pa.record_batch({"a": [number]})


def test_batches_of_several_schemas_come_as_they_are(tmp_path: Path) -> None:
    one = pa.record_batch({"a": [1, 2]})
    told = one.replace_schema_metadata({"x": "y"})
    other = pa.record_batch({"b": ["z"]})
    batches = [told, one, one, other, pa.record_batch({}), one]
    names = list(written(batches, tmp_path))
    assert len(names) == len(set(names)) == 5
    found = []
    for name in names:
        with pa.memory_map(str(tmp_path / name)) as source:
            found += pa.ipc.open_file(source).read_all().to_batches()
    assert [b.num_rows for b in found if b.num_columns] == [2, 2, 2, 1, 2]
    assert not list(written([], tmp_path))
