"""The owner of runs: steps, crashes, restarts, merges, and who may still read what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import HASHES, Cover, HashRange, partitions
from waterclock.persist.arrangement.layout import HASH, Layout
from waterclock.persist.arrangement.run import Run
from waterclock.persist.arrangement.trace import Trace
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.errors import Damaged
from waterclock.persist.rows import DIFF, TIME

PLAIN = Layout.of({"k": pa.int64()}, {"v": pa.string()})


def updates(*rows: tuple[Any, ...], layout: Layout = PLAIN) -> pa.Table:
    """Updates from rows of key, values, time and diffs."""
    schema = layout.schema.remove(0)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)], schema=schema
    )


def contents(table: pa.Table) -> list[tuple[Any, ...]]:
    """The updates without their hashes, in a fixed order."""
    return sorted(tuple(row.values()) for row in table.drop_columns([HASH]).to_pylist())


def scanned(trace: Trace) -> list[tuple[Any, ...]]:
    return contents(pa.Table.from_batches(trace.scan(), trace.layout.schema))


def step(arrangement: Arrangement, upper: int, *rows: tuple[Any, ...]) -> None:
    """One step over all hashes, from the old upper to the new one."""
    cover = Cover(arrangement.upper, upper)
    written = write_run(arrangement.folder, arrangement.layout, cover, updates(*rows))
    arrangement.advance(upper, [] if written is None else [written])


def finish(arrangement: Arrangement, since: int) -> None:
    for _ in arrangement.merge(since):
        pass


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def key_hashes(*keys: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return PLAIN.hashes(pa.table({"k": pa.array(keys, pa.int64())}))


def test_lookup_gives_whole_rows_of_all_runs(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path / "a" / "b", PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1), (2, "y", 4, 1))
    step(arrangement, 20, (1, "x", 12, -1), (1, "z", 12, 1))
    with arrangement.trace() as trace:
        found = trace.lookup(key_hashes(1, 7, 1))
        assert found.schema.equals(PLAIN.schema)
        assert contents(found) == [(1, "x", 3, 1), (1, "x", 12, -1), (1, "z", 12, 1)]
        assert trace.lookup(key_hashes()).num_rows == 0
        assert trace.lookup(key_hashes(7)).schema.equals(PLAIN.schema)


def test_a_step_without_updates_is_a_gap(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1))
    step(arrangement, 20)
    step(arrangement, 30, (1, "x", 20, 1), (2, "y", 21, 1), (2, "y", 21, -1))
    assert len(names(tmp_path)) == 2
    with Arrangement.open(tmp_path, PLAIN, 30).trace() as trace:
        assert scanned(trace) == [(1, "x", 3, 1), (1, "x", 20, 1)]
    assert write_run(tmp_path, PLAIN, Cover(30, 40), updates((1, "x", 30, 0))) is None


def test_opening_ignores_and_removes_what_was_not_committed(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1))
    kept = names(tmp_path)
    step(arrangement, 20, (1, "y", 13, 1))
    (tmp_path / f"{Cover(0, 10).name}.0123.writing").write_bytes(b"half")
    reopened = Arrangement.open(tmp_path, PLAIN, 10)
    assert reopened.upper == 10
    assert names(tmp_path) == kept
    with reopened.trace() as trace:
        assert scanned(trace) == [(1, "x", 3, 1)]


def test_what_a_failed_step_wrote_can_be_cleared(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1))
    write_run(tmp_path, PLAIN, Cover(10, 20), updates((1, "y", 13, 1)))
    arrangement.clear_uncommitted()
    assert names(tmp_path) == {Cover(0, 10).name}


def test_a_retried_write_changes_nothing(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    for rows in ([(1, "x", 3, 1), (2, "y", 4, 1)], [(2, "y", 4, 1), (1, "x", 3, 1)]):
        assert write_run(tmp_path, PLAIN, Cover(0, 10), updates(*rows)) == Cover(0, 10)
    arrangement.advance(10, [Cover(0, 10)])
    assert names(tmp_path) == {Cover(0, 10).name}
    with arrangement.trace() as trace:
        assert scanned(trace) == [(1, "x", 3, 1), (2, "y", 4, 1)]


def test_a_merge_advances_times_and_cancels(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1))
    step(arrangement, 20, (1, "x", 13, -1))
    step(arrangement, 30, (1, "y", 23, 1))
    assert not arrangement.is_mergeable
    step(arrangement, 40, (1, "y", 33, 1), (2, "z", 39, 1))
    assert arrangement.is_mergeable
    finish(arrangement, 35)
    assert names(tmp_path) == {Cover(0, 40).name}
    with arrangement.trace() as trace:
        assert scanned(trace) == [(1, "y", 35, 2), (2, "z", 39, 1)]
    assert not arrangement.is_mergeable


def test_a_merge_to_nothing_leaves_an_empty_run(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    for number in range(4):
        upper = 10 * (number + 1)
        step(arrangement, upper, (1, "x", upper - 1, 1 if number % 2 else -1))
    finish(arrangement, 40)
    assert names(tmp_path) == {Cover(0, 40).name}
    with Arrangement.open(tmp_path, PLAIN, 40).trace() as trace:
        assert scanned(trace) == []
        assert trace.lookup(key_hashes(1)).num_rows == 0


def test_a_crash_between_merging_and_removing_is_completed_on_opening(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    for upper in (10, 20, 30, 40):
        step(arrangement, upper, (1, "x", upper - 1, 1))
    pin = arrangement.trace()
    finish(arrangement, 40)
    assert len(names(tmp_path)) == 5
    with Arrangement.open(tmp_path, PLAIN, 40).trace() as trace:
        assert scanned(trace) == [(1, "x", 40, 4)]
    assert names(tmp_path) == {Cover(0, 40).name}
    pin.close()


def test_an_abandoned_merge_leaves_nothing(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    for upper in (10, 20, 30, 40):
        step(arrangement, upper, *((k, "x", upper - 1, 1) for k in range(10)))
    before = names(tmp_path)
    merging = arrangement.merge(40, piece_rows=4)
    next(merging)
    assert len(names(tmp_path)) == len(before) + 1
    merging.close()  # type: ignore[attr-defined]
    assert names(tmp_path) == before
    finish(arrangement, 40)
    assert names(tmp_path) == {Cover(0, 40).name}


def test_steps_go_on_during_a_merge(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    for upper in (10, 20, 30, 40):
        step(arrangement, upper, *((k, "x", upper - 1, 1) for k in range(10)))
    merging = arrangement.merge(40, piece_rows=4)
    next(merging)
    step(arrangement, 50, (3, "x", 45, 1))
    with pytest.raises(AssertionError):
        next(arrangement.merge(40))
    for _ in merging:
        pass
    assert names(tmp_path) == {Cover(0, 40).name, Cover(40, 50).name}
    with arrangement.trace() as trace:
        assert contents(trace.lookup(key_hashes(3))) == [(3, "x", 40, 4), (3, "x", 45, 1)]


def test_runs_stay_while_a_trace_that_has_them_is_open(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    for upper in (10, 20, 30, 40):
        step(arrangement, upper, (1, "x", upper - 1, 1))
    first, second = arrangement.trace(), arrangement.trace()
    finish(arrangement, 40)
    first.close()
    first.close()
    with Trace.open(tmp_path, PLAIN, second.covers) as elsewhere:
        assert len(scanned(elsewhere)) == 4
        second.close()
        assert names(tmp_path) == {Cover(0, 40).name}
        # Their names are gone, but whoever has them open reads on.
        assert len(scanned(elsewhere)) == 4
        assert elsewhere.lookup(key_hashes(1)).num_rows == 4
        with pytest.raises(Damaged, match="damaged") as missing:
            Trace.open(tmp_path, PLAIN, elsewhere.covers)
    assert missing.value.detail == "The file is missing."


def test_batches_of_a_scan_outlive_trace_and_file(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1))
    with arrangement.trace() as trace:
        (batch,) = trace.scan()
    (tmp_path / Cover(0, 10).name).unlink()
    del arrangement, trace
    assert batch.to_pylist()[0]["v"] == "x"


def test_views_of_partitions_share_the_files(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    rows = [(k, "x", 3, 1) for k in range(200)]
    step(arrangement, 10, *rows)
    hashes = key_hashes(*range(200))
    with arrangement.trace() as trace:
        for count in (1, 2, 3, 7):
            views = [trace.within(part.low, part.high) for part in partitions(count)]
            assert sorted(row for view in views for row in scanned(view)) == rows
            found = [view.lookup(hashes) for view in views]
            assert sorted(row for table in found for row in contents(table)) == rows
            for part, table in zip(partitions(count), found, strict=True):
                assert all(part.low <= h < part.high for h in table[HASH].to_pylist())
        nothing = trace.within(0, HASHES // 2).within(HASHES // 2, HASHES)
        assert scanned(nothing) == []
        assert nothing.lookup(hashes).num_rows == 0


def test_partitions_write_and_merge_their_own_runs(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    left, right = partitions(2)
    for upper in (10, 20, 30, 40):
        table = PLAIN.arranged(updates(*((k, "x", upper - 1, 1) for k in range(50))))
        is_left = np.less(table[HASH].to_numpy(), np.uint64(left.high))
        written = []
        for hashes, mask in ((left, is_left), (right, ~is_left)):
            cover = Cover(upper - 10, upper, hashes)
            write_run(tmp_path, PLAIN, cover, table.filter(pa.array(mask)))
            written.append(cover)
        arrangement.advance(upper, written)
    finish(arrangement, 40)
    finish(arrangement, 40)
    assert names(tmp_path) == {Cover(0, 40, left).name, Cover(0, 40, right).name}
    with Arrangement.open(tmp_path, PLAIN, 40).trace() as trace:
        assert scanned(trace) == [(k, "x", 40, 4) for k in range(50)]


def test_several_diff_columns_add_up_together(tmp_path: Path) -> None:
    layout = Layout.of({"k": pa.string()}, {}, (DIFF, "sum_low", "sum_high"))
    arrangement = Arrangement.open(tmp_path, layout, 0)
    history = [("a", 1, 5, 0), ("a", -1, -5, 1), ("b", 1, 5, 0), ("b", -1, -5, 0)]
    for at, (key, *diffs) in enumerate(history):
        write_run(tmp_path, layout, Cover(at, at + 1), updates((key, at, *diffs), layout=layout))
        arrangement.advance(at + 1, [Cover(at, at + 1)])
    finish(arrangement, 4)
    with arrangement.trace() as trace:
        assert scanned(trace) == [("a", 4, 0, 0, 1)]


def test_a_key_without_columns_puts_all_rows_under_one_hash(tmp_path: Path) -> None:
    layout = Layout.of({}, {"v": pa.int64()})
    arrangement = Arrangement.open(tmp_path, layout, 0)
    for upper in (10, 20, 30, 40):
        cover = Cover(upper - 10, upper)
        rows = updates(*((v, upper - 1, 1) for v in range(100)), layout=layout)
        write_run(tmp_path, layout, cover, rows, piece_rows=7)
        arrangement.advance(upper, [cover])
    for _ in arrangement.merge(40, piece_rows=7):
        pass
    with arrangement.trace() as trace:
        assert len(list(trace.scan())) > 2
        found = trace.lookup(layout.hashes(updates((0, 0, 0), layout=layout)))
        assert contents(found) == [(v, 40, 4) for v in range(100)]


def test_given_hashes_are_taken_as_they_are(tmp_path: Path) -> None:
    layout = Layout.of({"k": pa.float64()}, {})
    same = np.full(2, 7, dtype=np.uint64)
    rows = updates((0.0, 3, 1), (-0.0, 3, 1), layout=layout).append_column(HASH, pa.array(same))
    write_run(tmp_path, layout, Cover(0, 10), rows)
    run = Run.open(tmp_path, layout, Cover(0, 10))
    assert [batch.num_rows for batch in run.lookup(same[:1])] == [2]


def test_writers_are_held_to_their_cover(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="outside"):
        write_run(tmp_path, PLAIN, Cover(0, 3), updates((1, "x", 3, 1)))
    below = HashRange(0, int(key_hashes(1)[0]))
    with pytest.raises(AssertionError, match="outside"):
        write_run(tmp_path, PLAIN, Cover(0, 4, below), updates((1, "x", 3, 1)))
    wrong = updates((1, "x", 3, 1)).set_column(0, "k", pa.array(["1"]))
    with pytest.raises(AssertionError, match="type"):
        write_run(tmp_path, PLAIN, Cover(0, 4), wrong)
    with pytest.raises(AssertionError, match="columns"):
        write_run(tmp_path, PLAIN, Cover(0, 4), updates((1, "x", 3, 1)).drop_columns([TIME]))
    assert names(tmp_path) == set()


def test_an_owner_does_not_go_back_or_take_what_is_no_step(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, PLAIN, 0)
    step(arrangement, 10, (1, "x", 3, 1))
    with pytest.raises(AssertionError, match="go back"):
        arrangement.advance(9)
    with pytest.raises(AssertionError, match="not between"):
        arrangement.advance(20, [Cover(0, 10)])
    with pytest.raises(Damaged, match="damaged"):
        arrangement.advance(20, [Cover(10, 20)])
    assert arrangement.upper == 10
    assert arrangement.rows == 1


LATEST = Layout(PLAIN.key, PLAIN.values, latest=True)


def test_the_latest_of_each_key_is_left(tmp_path: Path) -> None:
    """Keys that are gone leave nothing behind once nothing is older than the merged run."""
    arrangement = Arrangement.open(tmp_path, LATEST, 0)
    step(arrangement, 10, (1, "a", 0, 1), (2, "b", 0, 1), (3, "c", 0, 1), (4, "d", 0, 1))
    step(arrangement, 20, (1, "e", 10, 1), (2, "", 10, -1))
    step(arrangement, 30, (1, "f", 20, 1), (3, "ignored", 20, -1), (5, "g", 20, 1))
    step(arrangement, 40, (2, "h", 30, 1), (5, "g", 30, 1))
    finish(arrangement, 0)
    with arrangement.trace() as trace:
        assert len(trace.covers) == 1
        assert scanned(trace) == [(1, "f", 20, 1), (2, "h", 30, 1), (4, "d", 0, 1), (5, "g", 30, 1)]


def test_keys_that_are_gone_are_remembered_while_something_is_older(tmp_path: Path) -> None:
    arrangement = Arrangement.open(tmp_path, LATEST, 0)
    step(arrangement, 10, *((key, "a", 0, 1) for key in range(100)))
    for upper in range(20, 60, 10):
        step(arrangement, upper, (7, "", upper - 10, -1), (upper, "b", upper - 10, 1))
    finish(arrangement, 0)
    with arrangement.trace() as trace:
        assert len(trace.covers) == 2
        assert (7, "", 40, -1) in scanned(trace)
