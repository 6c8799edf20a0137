"""`waterclock check`: is everything that a data directory holds as it was written?

All of it is read: every entry of the log and its checksum, the checkpoint, every part of every
batch with the checksums of its pages, and every run of the views' state. What is found wrong is
listed, one line each, and the search goes on where it can. Nothing is changed, and nothing is
mended: damage is mended by a backup.

Files that nothing refers to are no damage. A crash leaves some, and the next start removes them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from waterclock.adapter.coordinator import VIEW_PREFIX
from waterclock.compute.installed import decode_state, is_state_key
from waterclock.errors import WaterclockError
from waterclock.persist.arrangement.cover import Cover, Extent, live
from waterclock.persist.arrangement.files import is_exchanging, listed
from waterclock.persist.arrangement.run import verify_file
from waterclock.persist.consensus.sqlite import incomplete
from waterclock.persist.consensus.witness import Witness, read_witness
from waterclock.persist.inline import read_inline
from waterclock.persist.intact import compare
from waterclock.persist.places import BLOBS, LOG
from waterclock.persist.records import (
    AnyEvent,
    Batch,
    Checkpointed,
    Part,
    decode_checkpoint,
    decode_entry,
)
from waterclock.persist.rows import TIME
from waterclock.persist.state import Shard, State
from waterclock.server.offline import SOURCES, VIEWS, blob_keys, locked, opened_log
from waterclock.storage.envelopes.keyed import decode_record
from waterclock.storage.sources.ledger import STATES

_VERIFIED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


@dataclass(slots=True)
class Findings:
    """What was looked at, and what is wrong with it."""

    damage: list[str] = field(default_factory=list)
    entries: int = 0
    parts: int = 0
    rows: int = 0
    runs: int = 0
    unreferenced: int = 0

    def attempt(self, what: str, look: Callable[[], None]) -> bool:
        """Look, and note what is wrong; whether it is sound."""
        try:
            look()
        except (WaterclockError, pa.ArrowException, sqlite3.Error, OSError, ValueError) as error:
            self.damage.append(f"{what}: {_line(error)}")
            return False
        return True


def run(path: Path, out: TextIO) -> int:
    """Check the directory and print what was found; 1 if there is damage."""
    with locked(path):
        findings = check(path)
    print(
        f"{findings.entries} log entries, {findings.parts} parts with {findings.rows} updates,"
        f" {findings.runs} runs of state, {findings.unreferenced} files that nothing refers to",
        file=out,
    )
    for line in findings.damage:
        print(f"damaged: {line}", file=out)
    if findings.damage:
        print("Restore the data from a backup.", file=out)
        return 1
    print("no damage found", file=out)
    return 0


def check(path: Path) -> Findings:
    """Read everything in the directory, which no server may be using."""
    findings = Findings()
    entries: list[tuple[int, tuple[AnyEvent, ...]]] = []
    if findings.attempt("log", lambda: entries.extend(_entries(path, findings))):
        states: list[State] = []
        if findings.attempt("log", lambda: states.append(_state(path, entries))):
            _check_blobs(path, states[0], findings)
            if (path / VIEWS).is_dir():  # a backup leaves it out: views compute their state again
                _check_extents(path / VIEWS / "state", states[0], findings)
            if (path / SOURCES).is_dir():
                _check_sources(path / SOURCES / "state", states[0], findings)
    for folder in (VIEWS, SOURCES):
        _check_runs(path / folder, findings)
    return findings


def _entries(path: Path, findings: Findings) -> Iterator[tuple[int, tuple[AnyEvent, ...]]]:
    """The entries that can be read; the first one that can not be is the end."""
    with opened_log(path) as log:
        for (told,) in log.execute("PRAGMA integrity_check(20)").fetchall():
            if told != "ok":
                findings.damage.append(f"log: {told}")
        if not log.execute("SELECT 1 FROM sqlite_schema WHERE name = 'log'").fetchall():
            _check_end(path / LOG, log, 0)
            return  # the server was killed before it had come to anything
        last = 0
        for last, entry in log.execute("SELECT position, entry FROM log ORDER BY position"):
            try:
                if not isinstance(entry, bytes):
                    raise ValueError("it is no entry")
                yield last, decode_entry(entry)
            except (WaterclockError, ValueError) as error:
                raise ValueError(f"entry {last}: {_line(error)}") from error
            findings.entries += 1
        _check_end(path / LOG, log, last)


def _check_end(file: Path, log: sqlite3.Connection, last: int) -> None:
    """Whether the log reaches as far as it was acknowledged."""
    acknowledged = read_witness(file)
    [(version,)] = log.execute("PRAGMA user_version")
    if acknowledged is None and version:
        raise ValueError(f"{Witness.path_of(file).name} is missing")
    if acknowledged is not None and last < acknowledged:
        raise incomplete(file, last, acknowledged)


def _state(path: Path, entries: list[tuple[int, tuple[AnyEvent, ...]]]) -> State:
    """The state that the newest checkpoint and the entries after it describe."""
    keys = [e.key for _, events in entries for e in events if isinstance(e, Checkpointed)]
    state = State()
    if keys:
        state = State.from_checkpoint(decode_checkpoint((path / BLOBS / keys[-1]).read_bytes()))
    for position, events in entries:
        if position <= state.position:
            continue
        if position != state.position + 1:
            raise ValueError(f"entry {state.position + 1} is missing, and no checkpoint covers it")
        state.apply_entry(events)
    return state


def _check_blobs(path: Path, state: State, findings: Findings) -> None:
    for shard in state.shards.values():
        for batch in shard.batches.values():
            for part in batch.parts:
                what = f"collection {shard.id}, {part.key or 'part in the log'}"
                findings.attempt(what, lambda: _check_part(path, shard, batch, part))  # noqa: B023
                findings.parts += 1
                findings.rows += part.rows
    kept = state.referenced()
    findings.unreferenced = sum(key not in kept for key in blob_keys(path))


def _check_part(path: Path, shard: Shard, batch: Batch, part: Part) -> None:
    if part.key is None:
        found = read_inline([part], shard.columns)
    else:
        file = path / BLOBS / part.key
        size = file.stat().st_size
        if size != part.size:
            raise ValueError(f"it has {size} bytes instead of {part.size}")
        with pa.OSFile(str(file), "rb") as source:
            compare(part.key, source, part.size, part.crc32)
            found = _VERIFIED.make_fragment(source).to_table(schema=shard.columns)
    if found.num_rows != part.rows:
        raise ValueError(f"it has {found.num_rows} updates instead of {part.rows}")
    found.validate(full=True)
    span = pc.min_max(found[TIME]).as_py()
    if part.rows and not batch.min_time <= span["min"] <= span["max"] <= batch.max_time:
        raise ValueError("its times are not those of its batch")


def _check_runs(folder: Path, findings: Findings) -> None:
    for file in sorted(folder.rglob("*.arrow")) if folder.is_dir() else ():
        cover = Cover.try_parse(file.name)
        if cover is not None:
            what = f"state of {folder.name}, {file.relative_to(folder)}"
            findings.attempt(what, lambda: _check_run(file, cover))  # noqa: B023
            findings.runs += 1


def _check_extents(folder: Path, state: State, findings: Findings) -> None:
    """Whether the views' state has all runs that the log says it has."""
    for key, note in state.notes.items():
        if key.startswith(VIEW_PREFIX) and is_state_key(key):
            for name, (start, tip) in decode_state(note).extents.items():
                what = f"state of views, {name}"
                extent = Extent(start, tip)
                findings.attempt(what, lambda: _check_extent(folder / name, extent))  # noqa: B023


def _check_sources(folder: Path, state: State, findings: Findings) -> None:
    """The same for the sources' state."""
    for key, note in state.notes.items():
        if key.startswith(STATES):
            name = key.removeprefix(STATES)
            record = decode_record(note)
            place, extent = folder / name / record.folder, Extent(0, record.tip)
            findings.attempt(f"state of sources, {name}", lambda: _check_extent(place, extent))  # noqa: B023


def _check_extent(folder: Path, extent: Extent) -> None:
    if is_exchanging(folder):  # the next start completes it
        return
    covers = listed(folder) if folder.is_dir() else []
    if not extent.is_covered_by(live(cover for cover in covers if cover.upper <= extent.tip)):
        raise ValueError(f"runs from {extent.start} up to {extent.tip} are missing")


def _check_run(file: Path, cover: Cover) -> None:
    verify_file(file.parent, cover)


def _line(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    message = error.message if isinstance(error, WaterclockError) else str(error)
    detail = getattr(error, "detail", None)
    text = f"{message} ({detail})" if detail else message
    return " ".join(text.split())
