"""Covers and their names, single runs, damage, and the policy of merging."""

from __future__ import annotations

import errno
import math
import os
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from waterclock.persist.arrangement import files
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import (
    EVERY_HASH,
    HASHES,
    Cover,
    HashRange,
    hull,
    live,
    partition_numbers,
    partitions,
)
from waterclock.persist.arrangement.files import Settling
from waterclock.persist.arrangement.layout import Layout, consolidated
from waterclock.persist.arrangement.merging import FEWEST, RATIO, mergeable
from waterclock.persist.arrangement.run import Run, matches
from waterclock.persist.arrangement.writing import ascending_hashes, write_run
from waterclock.persist.errors import Damaged, FormatTooNew, Unavailable
from waterclock.persist.rows import DIFF, TIME

LAYOUT = Layout.of({"k": pa.int64()}, {})
COVER = Cover(0, 10)


def counted(rows: int) -> pa.Table:
    """One update at time 5 for each of so many keys."""
    return pa.table(
        {
            "k": np.arange(rows),
            TIME: np.full(rows, 5),
            DIFF: np.ones(rows, dtype=np.int64),
        }
    )


@pytest.mark.parametrize(
    "cover",
    [
        Cover(0, 1),
        Cover(1_700_000_000_000, 2**63 - 1),
        Cover(5, 6, HashRange(0, 1)),
        Cover(5, 6, HashRange(HASHES - 1, HASHES)),
        *(Cover(5, 6, part) for part in partitions(7)),
    ],
)
def test_a_name_says_what_the_run_covers(cover: Cover) -> None:
    assert Cover.try_parse(cover.name) == cover
    assert len(cover.name) == len(COVER.name)


@pytest.mark.parametrize("name", ["", "x.arrow", COVER.name + ".0.writing", COVER.name.upper()])
def test_other_names_are_no_runs(name: str) -> None:
    assert Cover.try_parse(name) is None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_partitions_divide_all_hashes(count: int) -> None:
    parts = partitions(count)
    assert (parts[0].low, parts[-1].high) == (EVERY_HASH.low, EVERY_HASH.high)
    assert all(a.high == b.low for a, b in pairwise(parts))
    edges = sorted({h for p in parts for h in (p.low, p.high - 1)})
    numbers = partition_numbers(np.array(edges, dtype=np.uint64), count)
    for edge, number in zip(edges, numbers, strict=True):
        assert parts[number].low <= edge < parts[number].high


def test_what_lies_in_a_larger_cover_is_not_live() -> None:
    left, right = partitions(2)
    merged = Cover(0, 30)
    inside = [Cover(0, 10), Cover(10, 20, left), Cover(10, 20, right), Cover(20, 30, right)]
    later = [Cover(30, 40, left), Cover(50, 60)]
    assert live([*later, *inside, merged, merged]) == (merged, *later)
    assert live(inside) == tuple(inside)
    assert hull(inside) == merged
    assert live([]) == ()


def test_covers_that_overlap_are_refused() -> None:
    with pytest.raises(Damaged, match="inconsistent"):
        live([Cover(0, 20), Cover(10, 30)])
    left, _ = partitions(2)
    third = partitions(3)[1]
    with pytest.raises(Damaged, match="inconsistent"):
        live([Cover(0, 20, left), Cover(0, 20, third)])


@pytest.mark.parametrize("piece_rows", [1, 7, 1000])
def test_a_run_of_many_batches_is_searched_as_one(tmp_path: Path, piece_rows: int) -> None:
    write_run(tmp_path, LAYOUT, COVER, counted(100), piece_rows=piece_rows)
    run = Run.open(tmp_path, LAYOUT, COVER)
    ordered = np.sort(LAYOUT.hashes(counted(100)))
    assert [run.hash_at(at) for at in range(101)] == [*ordered.tolist(), HASHES]
    for at, hash_ in enumerate(ordered.tolist()):
        assert run.position(hash_) == at
        assert run.position(hash_ + 1) == at + 1
        part = run.scan(HashRange(hash_, HASHES))
        assert sum(batch.num_rows for batch in part) == 100 - at
    assert run.position(0) == 0
    assert run.position(HASHES) == 100
    missing = np.setdiff1d(ordered + np.uint64(1), ordered)
    assert list(run.lookup(missing)) == []
    assert sum(batch.num_rows for batch in run.lookup(np.union1d(ordered, missing))) == 100


def test_matches_whichever_side_is_longer() -> None:
    chance = np.random.default_rng(1)
    for _ in range(200):
        present = np.sort(chance.integers(0, 30, chance.integers(1, 40), dtype=np.uint64))
        wanted = np.unique(chance.integers(0, 40, chance.integers(1, 40), dtype=np.uint64))
        expected = np.flatnonzero(np.isin(present, wanted))
        assert matches(present, wanted).tolist() == expected.tolist()


def test_consolidating_keeps_the_order_and_the_rest() -> None:
    table = pa.concat_tables([counted(50), counted(50).slice(10), counted(3)])
    table = table.set_column(2, DIFF, pa.array([1] * 50 + [-1] * 40 + [0] * 3))
    arranged = LAYOUT.arranged(table)
    result = consolidated(arranged.sort_by("hash"), LAYOUT, since=9)
    assert sorted(result["k"].to_pylist()) == list(range(10))
    assert result["hash"].to_pylist() == sorted(result["hash"].to_pylist())
    assert set(result[TIME].to_pylist()) == {9}
    assert consolidated(LAYOUT.empty(), LAYOUT).num_rows == 0


def test_a_layout_is_a_value() -> None:
    schema = pa.schema({"v": pa.string(), "k": pa.int64(), TIME: pa.int64(), DIFF: pa.int64()})
    layout = Layout.of({"k": pa.int64()}, {"v": pa.string()})
    assert Layout.of_schema(schema, ["k"]) == layout
    assert Layout.of_schema(layout.schema, ["k"]) == layout
    assert hash(layout) == hash(Layout.of({"k": pa.int64()}, {"v": pa.string()}))
    assert layout != Layout.of({}, {"k": pa.int64(), "v": pa.string()})
    with pytest.raises(AssertionError, match="twice"):
        Layout.of({"k": pa.int64()}, {"hash": pa.int64()})


# Damage


def test_a_cut_file_is_damaged(tmp_path: Path) -> None:
    write_run(tmp_path, LAYOUT, COVER, counted(1000))
    path = tmp_path / COVER.name
    whole = path.read_bytes()
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(Damaged, match="damaged"):
            Arrangement.open(tmp_path, LAYOUT, 10)


def test_a_file_of_something_else_is_damaged(tmp_path: Path) -> None:
    write_run(tmp_path, LAYOUT, COVER, counted(10))
    other = Cover(10, 20)
    (tmp_path / COVER.name).rename(tmp_path / other.name)
    with pytest.raises(Damaged) as moved:
        Run.open(tmp_path, LAYOUT, other)
    assert moved.value.detail == "The file belongs to another run."
    (tmp_path / other.name).rename(tmp_path / COVER.name)
    with pytest.raises(Damaged) as renamed:
        Run.open(tmp_path, Layout.of({"key": pa.int64()}, {}), COVER)
    assert renamed.value.detail == "Its columns are not those of the operator."
    table = counted(10)
    with (
        pa.OSFile(str(tmp_path / COVER.name), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    with pytest.raises(Damaged, match="damaged"):
        Run.open(tmp_path, LAYOUT, COVER)


def test_a_changed_byte_is_found_by_verifying(tmp_path: Path) -> None:
    write_run(tmp_path, LAYOUT, COVER, counted(1000), piece_rows=100)
    run = Run.open(tmp_path, LAYOUT, COVER)
    run.verify()
    path = tmp_path / COVER.name
    data = bytearray(path.read_bytes())
    data[run.size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged) as damage, Arrangement.open(tmp_path, LAYOUT, 10).trace() as trace:
        trace.verify()
    assert damage.value.detail == "Its checksum is wrong."


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, LAYOUT, COVER, counted(10))
    monkeypatch.setattr("waterclock.persist.arrangement.run.FORMAT", 0)
    with pytest.raises(FormatTooNew):
        Run.open(tmp_path, LAYOUT, COVER)


# The policy


def merged_after_each(steps: list[dict[Cover, int]]) -> tuple[int, int, int]:
    """Feed steps in and merge while it is worth it.

    Gives the most runs at once, all rows, and how many were rewritten.
    """
    sizes: dict[Cover, int] = {}
    most = rewritten = 0
    for written in steps:
        sizes.update(written)
        while chosen := mergeable(sizes):
            rows = sum(sizes.pop(cover) for cover in chosen)
            whole = hull(chosen)
            assert not any(whole.overlaps(cover) for cover in sizes)
            sizes[whole] = rows
            rewritten += rows
        most = max(most, len(sizes))
    return most, sum(sizes.values()), rewritten


@pytest.mark.parametrize("kind", ["equal", "random", "large first", "large last", "growing"])
def test_runs_and_rewriting_stay_logarithmic(kind: str) -> None:
    chance = random.Random(kind)
    count = 1500
    rows = {
        "equal": [100] * count,
        "random": [int(10 ** chance.uniform(0, 5)) for _ in range(count)],
        "large first": [10_000_000, *[10] * count],
        "large last": [*[10] * count, 10_000_000, *[10] * 100],
        "growing": list(range(1, count)),
    }[kind]
    steps = [{Cover(at, at + 1): size} for at, size in enumerate(rows)]
    most, total, rewritten = merged_after_each(steps)
    assert most <= FEWEST + math.log(total, 1 + RATIO)
    assert rewritten <= total * (1 + math.log(total, 1 + 1 / RATIO))
    if kind == "large first":
        assert rewritten < 10_000_000, "small steps rewrote the large one"


def test_partitions_of_changing_number_are_merged_too() -> None:
    chance = random.Random(5)
    steps = []
    for at in range(500):
        count = chance.choice([1, 1, 1, 2, 3, 8])
        parts = [part for part in partitions(count) if chance.random() < 0.8]
        steps.append({Cover(at, at + 1, part): chance.randint(1, 1000) for part in parts})
    most, total, _ = merged_after_each(steps)
    assert most <= 8 * (FEWEST + math.log(total, 1 + RATIO))


def test_what_settles_is_durable_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", fsync)
    covers = [Cover(0, 6 + at) for at in range(3)]
    with Settling() as settling:
        for cover in covers:
            assert write_run(tmp_path, LAYOUT, cover, counted(1), settling=settling) == cover
            assert Run.open(tmp_path, LAYOUT, cover).rows == 1
    assert synced == {str(tmp_path), *(str(tmp_path / cover.name) for cover in covers)}


def test_what_can_not_be_made_durable_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(Unavailable, match="the disk is gone"), Settling() as settling:
        write_run(tmp_path, LAYOUT, COVER, counted(1), settling=settling)
    with pytest.raises(Unavailable, match="the disk is gone"):
        write_run(tmp_path, LAYOUT, COVER, counted(1))


def test_a_run_that_is_gone_before_it_is_durable_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(path: Path, *_: Path) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    settling = Settling()
    with monkeypatch.context() as patched:
        patched.setattr(files, "_sync", sync)
        write_run(tmp_path, LAYOUT, COVER, counted(1), settling=settling)
    with pytest.raises(Damaged, match=COVER.name):
        settling.finish()


def test_a_run_can_be_in_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    synced: set[str] = set()
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):  # a step that is done again finds what it wrote
        with Settling() as settling:
            write_run(one, LAYOUT, COVER, counted(3), settling=settling)
            assert settling.try_link(one, other, COVER)
    assert synced == {str(one), str(other), str(one / COVER.name)}
    assert os.listdir(other) == [COVER.name]
    (one / COVER.name).unlink()
    run = Run.open(other, LAYOUT, COVER)
    run.verify()
    assert run.rows == 3


def test_where_files_have_one_name_only_nothing_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(_source: Path, _target: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    other = tmp_path / "other"
    other.mkdir()
    with Settling() as settling:
        write_run(tmp_path, LAYOUT, COVER, counted(3), settling=settling)
        assert not settling.try_link(tmp_path, other, COVER)
    assert os.listdir(other) == []


@pytest.mark.parametrize("greatest", [1, 50, 2**20, 2**40, 2**63])
def test_hashes_are_sorted_as_numbers_with_their_places(greatest: int) -> None:
    draw = np.random.default_rng(3)
    for count in (0, 1, 2, 1000):
        hashes = draw.integers(0, greatest, count, dtype=np.uint64) * np.uint64(2)
        order = ascending_hashes(hashes)
        assert order.tolist() == np.argsort(hashes, kind="stable").tolist()


def test_hashes_that_begin_alike_are_in_order() -> None:
    same = np.uint64(0xABCDEF << 40)
    hashes = same + np.array([9, 3, 3, 1, 500, 0], dtype=np.uint64)
    others = np.array([5, 2**64 - 1, 0], dtype=np.uint64)
    together = np.concatenate((hashes, others, hashes))
    assert ascending_hashes(together).tolist() == np.argsort(together, kind="stable").tolist()


def test_rows_that_are_consolidated_are_only_sorted(tmp_path: Path) -> None:
    rows = counted(1000).take(np.random.default_rng(3).permutation(1000))
    found = []
    for known in (False, True):
        folder = tmp_path / str(known)
        folder.mkdir()
        write_run(folder, LAYOUT, COVER, rows, piece_rows=60, is_consolidated=known)
        run = Run.open(folder, LAYOUT, COVER)
        run.verify()
        found.append([row for batch in run.scan() for row in batch.to_pylist()])
        assert {
            row["k"] for batch in run.lookup(LAYOUT.hashes(rows)[:1]) for row in batch.to_pylist()
        }
    assert found[0] == found[1]
    assert len(found[0]) == 1000


def test_nothing_that_is_consolidated_is_no_run(tmp_path: Path) -> None:
    assert write_run(tmp_path, LAYOUT, COVER, counted(0), is_consolidated=True) is None
    assert list(tmp_path.iterdir()) == []
    written = write_run(tmp_path, LAYOUT, COVER, counted(0), is_consolidated=True, always=True)
    assert written == COVER
