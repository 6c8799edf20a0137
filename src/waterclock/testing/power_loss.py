"""The power fails while the log is written: what was not synced is lost, torn, or there in part.

    python -m waterclock.testing.power_loss --seed N [--trials 300]

A log is written entry by entry, and its files are kept as they are after each. What was
acknowledged is synced. So the disk after a power failure within one append has, of each sector that
the append has written, the old bytes or the new ones, in any mixture, and files of either length:
neither the order of writes nor their wholeness is promised before the sync. The witness may also be
one of a while ago. Such disks are made and opened. Every one must open, with all entries that were
acknowledged and perhaps the one under way: none is to be taken for damage, and nothing to be lost.

An append after which the write-ahead log is copied into the database syncs more than once. Of the
database, sectors are mixed only where the write-ahead log is whole, as SQLite syncs that first.

What is simulated is the files of the log. Objects count only once the log refers to them, and are
synced before that (`blob/files.py`); that order is not tried here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.consensus.witness import SYNC_EVERY
from waterclock.testing.damage import memory_folder

_SECTOR = 512
_LOG, _WAL, _HEAD = "log.db", "log.db-wal", "log.db-head"
ENTRIES, STRETCH = 400, SYNC_EVERY + 4

Files = dict[str, bytes]


class Lost(AssertionError):
    """A disk that a power failure may leave does not open as it must."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The files right after an entry was acknowledged."""

    last: int
    files: Files


def entry_at(position: int, seed: int) -> bytes:
    """What is written there: mostly small, sometimes many pages."""
    random = Random(seed * 1_000_003 + position)
    size = random.choice([20, 300, 5000, 9000, 60_000]) if position % 7 == 0 else 200
    return position.to_bytes(8, "little") + random.randbytes(size)


def history(folder: Path, seed: int) -> list[Moment]:
    """A log that is written, and its files after each of some entries in a row.

    Which they are is drawn: with the seeds, they come before the write-ahead log has its full size,
    after that, and where it is copied into the database and begun anew.
    """
    first = Random(seed).randrange(1, ENTRIES)
    moments = []
    with closing(SqliteConsensus(folder / _LOG)) as log:
        for position in range(1, first + STRETCH):
            log.append(position, entry_at(position, seed))
            if position % 90 == 0:
                log.truncate(position - 50)
            if position >= first:
                moments.append(Moment(position, _files(folder)))
    return moments


def _files(folder: Path) -> Files:
    return {name: (folder / name).read_bytes() for name in (_LOG, _WAL, _HEAD)}


def torn(before: bytes, after: bytes, random: Random) -> bytes:
    """A file of which some sectors that were written are there, and others are not."""
    length = random.choice([len(before), len(after)])
    chance = random.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    found = bytearray(before.ljust(length, b"\0")[:length])
    for at in range(0, length, _SECTOR):
        if random.random() < chance:
            new = after[at : at + _SECTOR][: length - at]
            found[at : at + len(new)] = new
    return bytes(found)


def disk_after(moments: list[Moment], number: int, random: Random) -> Files:
    """What a failure within the append of the moment of that number may leave."""
    before, after = moments[number - 1].files, moments[number].files
    oldest = max(0, number - SYNC_EVERY)
    files = {_HEAD: moments[random.randrange(oldest, number)].files[_HEAD]}
    if before[_LOG] != after[_LOG] and random.random() < 0.5:
        return files | {_WAL: after[_WAL], _LOG: torn(before[_LOG], after[_LOG], random)}
    return files | {_WAL: torn(before[_WAL], after[_WAL], random), _LOG: before[_LOG]}


def judge(folder: Path, moments: list[Moment], number: int, seed: int) -> str:
    """Open the disk. Raises `Lost`; whatever opening raises is a loss too."""
    acknowledged = moments[number - 1].last
    with closing(SqliteConsensus(folder / _LOG)) as log:
        found = list(log.read(1))
        if log.end() - 1 not in (acknowledged, acknowledged + 1):
            raise Lost(f"it ends with {log.end() - 1} where {acknowledged} was acknowledged")
        for position, entry in found:
            if entry != entry_at(position, seed):
                raise Lost(f"entry {position} is another one")
        if found[0][0] > acknowledged or len(found) != log.end() - found[0][0]:
            raise Lost("an entry in the middle is missing")
        log.append(log.end(), b"and it goes on")
        return "with the entry under way" if log.end() - 2 > acknowledged else "without it"


def run(folder: Path, seed: int, trials: int) -> Counter[str]:
    """Do so many trials; how often the entry under way was there. Raises `Lost`."""
    random = Random(seed)
    whole = folder / "whole"
    whole.mkdir()
    moments = history(whole, seed)
    outcomes: Counter[str] = Counter()
    for trial in range(trials):
        number = random.randrange(1, len(moments))
        disk = folder / "disk"
        disk.mkdir()
        for name, data in disk_after(moments, number, random).items():
            (disk / name).write_bytes(data)
        try:
            outcomes[judge(disk, moments, number, seed)] += 1
        except Exception as error:
            raise Lost(f"seed {seed}, trial {trial}: {error!r}") from error
        for path in disk.iterdir():
            path.unlink()
        disk.rmdir()
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.power_loss")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=300)
    asked = parser.parse_args()
    with memory_folder() as folder:
        try:
            outcomes = run(folder, asked.seed, asked.trials)
        except Lost as error:
            print(error)
            print(f"replay: python -m waterclock.testing.power_loss --seed {asked.seed}")
            return 1
    print(f"seed {asked.seed}: {dict(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
