"""What must be true after a kill, found out from the journals and the data that was left.

    1. Opening works, by itself.
    2. Every acknowledged command has its effect: collections, capabilities with token, frontier and
       lease, contents. Nothing is there that nobody asked for.
    3. A command without an acknowledgement happened as a whole or not at all.
    4. No frontier of a collection has moved back.
    5. Contents are right at every readable time, before and after compaction, and what readers were
       told before the kill was right too.
    6. No id can be used again.
    7. After maintenance the blobs are exactly those that the state refers to.

The reference goes from round to round in a file beside the data. It is replaced whole and last, so
that a check can be repeated.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from waterclock.model.ids import GlobalId
from waterclock.persist.records import Bound, Checkpoint, Right
from waterclock.persist.state import State
from waterclock.storage.api import Description
from waterclock.storage.controller import Storage
from waterclock.storage.errors import IdInUse
from waterclock.testing.crash.journal import Answered, Asked, Opened, Refused, Seen, read_journal
from waterclock.testing.crash.writer import (
    CHECKPOINT_BYTES,
    FIRST_LEASE_MS,
    THREADS,
    journal_path,
)
from waterclock.testing.reference import (
    SCHEMA,
    Acquire,
    Command,
    Create,
    Reference,
    Violation,
    apply,
    check_answer,
    check_contents,
    check_frontiers,
    explain,
    moved_back,
    state_of,
    touch,
)
from waterclock.testing.thresholds import checkpoint_often


@dataclass(slots=True)
class Memory:
    """What is carried from round to round."""

    reference: Reference = field(default_factory=dict)
    next_number: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    """How often what was met, to see that the rounds are worth something."""
    last: Checkpoint | None = None


def load(directory: Path) -> Memory:
    path = directory / "memory"
    memory = pickle.loads(path.read_bytes()) if path.exists() else Memory()
    assert isinstance(memory, Memory)
    return memory


def save(directory: Path, memory: Memory) -> None:
    fresh = directory / "memory.new"
    fresh.write_bytes(pickle.dumps(memory))
    os.replace(fresh, directory / "memory")


def check(directory: Path, seed: int) -> Memory:
    """Check the data against the journals, maintain it, and check again. Raises `Violation`."""
    memory, random = load(directory), Random(seed)
    storage = Storage.open_directory(directory / "data", background=False)
    checkpoint_often(storage, CHECKPOINT_BYTES)
    found = state_of(storage)
    seen = _replay(directory, memory, found)
    check_frontiers(memory.reference, found)
    if memory.last is not None:
        _check_monotone(memory.last, found)
        _count_maintenance(memory.counts, memory.last, found)
    for answer in seen:
        counts = {(row, time): diff for row, time, diff in answer.counts}
        expected = memory.reference[answer.shard]
        check_answer(answer.shard, expected, answer.as_of, counts, answer.upper)
    for shard in memory.reference.values():
        shard.forget()
    _check_reads(storage, memory, None)
    _check_ids(storage, memory, random)
    _maintain(storage)
    _check_blobs(storage)
    check_frontiers(memory.reference, state_of(storage))
    _check_reads(storage, memory, random)
    memory.last = state_of(storage)
    save(directory, memory)
    if random.random() < 0.5:
        storage.close()
    return memory


def _replay(directory: Path, memory: Memory, found: Checkpoint) -> list[Seen]:
    """Bring the reference to where it must be now. What readers were told is left to check."""
    reference, counts = memory.reference, memory.counts
    doubts: list[Command] = []
    seen: list[Seen] = []
    for thread in range(THREADS):
        path = journal_path(directory, thread)
        asked: Command | None = None
        for entry in read_journal(path) if path.exists() else ():
            match entry:
                case Opened():
                    counts["opened by a thread"] += 1
                case Asked(command):
                    asked = command
                    memory.next_number = max(memory.next_number, _number_of(command) + 1)
                case Answered(given):
                    assert asked is not None
                    apply(reference, asked, given, settle=False)
                    counts[type(asked).__name__] += 1
                    asked = None
                case Seen():
                    seen.append(entry)
                    counts["read"] += 1
                case Refused(error):
                    raise Violation(f"a command failed before the kill:\n{error}")
        if asked is not None:
            doubts.append(asked)
    happened = explain(reference, doubts, found)
    for command, given in happened:
        apply(reference, command, given, settle=False)
    for shard in reference.values():
        shard.settle()
    counts["in flight, happened"] += len(happened)
    counts["in flight, did not happen"] += len(doubts) - len(happened)
    return seen


def _number_of(command: Command) -> int:
    match command:
        case Create(shard, _, _):
            return GlobalId.parse(shard).number
        case Acquire(_, lease_ms):
            return lease_ms - FIRST_LEASE_MS
        case _:
            return 0


def _check_monotone(before: Checkpoint, found: Checkpoint) -> None:
    """Also against what was found before, not only against what was computed."""
    shards = {record.id: record for record in found.shards}
    for old in before.shards:
        new = shards[old.id]
        if moved_back(old.since, new.since) or moved_back(old.upper, new.upper):
            raise Violation(f"a frontier moved back from {old} to {new}")


def _count_maintenance(counts: Counter[str], before: Checkpoint, found: Checkpoint) -> None:
    kept = {batch.id for record in found.shards for batch in record.batches}
    gone = {batch.id for record in before.shards for batch in record.batches} - kept
    counts["rounds with a merge before the kill"] += bool(gone)
    counts["rounds with a checkpoint before the kill"] += before.checkpoint != found.checkpoint
    counts["rounds with garbage left by the kill"] += bool(found.garbage)


def _check_reads(storage: Storage, memory: Memory, random: Random | None) -> None:
    """Present every capability, and read each collection from its since, or from a random time on.

    The lowest hold is the since, so it can read at any of the times.
    """
    for name, shard in memory.reference.items():
        for held in shard.capabilities.values():
            touch(storage, name, held)
        readers = [c for c in shard.capabilities.values() if c.right is Right.READ]
        if not readers:
            continue
        lowest = min(readers, key=lambda c: c.frontier or 0)
        as_of = shard.since
        assert as_of is not None
        assert as_of == lowest.frontier
        if random is not None:
            as_of = random.randint(as_of, max(as_of, _last(shard.upper, as_of)))
        memory.counts["compared"] += check_contents(storage, name, shard, lowest, as_of)


def _last(upper: Bound, since: int) -> int:
    return since + 10 if upper is None else upper - 1


def _check_ids(storage: Storage, memory: Memory, random: Random) -> None:
    names = list(memory.reference)
    for name in random.sample(names, min(3, len(names))):
        try:
            storage.create(GlobalId.parse(name), Description(SCHEMA))
        except IdInUse:
            continue
        raise Violation(f"{name} was used again")


def _maintain(storage: Storage) -> None:
    """Work until nothing is left to do, also nothing that the last work has made possible."""
    idle = 0
    while idle < 3:
        idle = 0 if storage.maintain() else idle + 1


def _check_blobs(storage: Storage) -> None:
    present = set(storage._store.blob.list(""))
    needed = storage._store.read(State.referenced)
    garbage = storage._store.read(lambda state: set(state.garbage))
    if present != needed or garbage:
        raise Violation(
            f"blobs that nobody needs: {present - needed | garbage};"
            f" blobs that are missing: {needed - present}"
        )


def journals(directory: Path) -> Iterator[Path]:
    return directory.glob("journal-*")
