"""Arrangements of the same rows hold them in the same files, and none is the worse for it.

They begin at different times, are written in steps of their own or together, and are merged and
shared at any moment. Each has what the updates come to, from the time on that it is read for; also
when it is opened again, and when another one has gone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.examples import examples

LAYOUT = Layout.of({"k": pa.int64()}, {})
Update = tuple[int, int, int]


def table(updates: list[Update]) -> pa.Table:
    columns = zip(*updates, strict=True) if updates else ((), (), ())
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.table(arrays, schema=LAYOUT.schema.remove(0))


def step(arrangement: Arrangement, upper: int, updates: list[Update]) -> None:
    cover = Cover(arrangement.extent.tip, upper)
    written = write_run(arrangement.folder, LAYOUT, cover, table(updates))
    arrangement.advance(upper, [cover] if written else [])


def merge(arrangement: Arrangement) -> None:
    for _ in arrangement.merge(arrangement.upper):
        pass


def added_up(updates: list[Update]) -> dict[int, int]:
    counts: Counter[int] = Counter()
    for key, _, diff in updates:
        counts[key] += diff
    return {key: count for key, count in counts.items() if count}


def contents(arrangement: Arrangement) -> dict[int, int]:
    with arrangement.trace() as trace:
        rows = [row for batch in trace.scan() for row in batch.to_pylist()]
    return added_up([(row["k"], row[TIME], row[DIFF]) for row in rows])


def files(arrangement: Arrangement) -> set[int]:
    with arrangement.trace() as trace:
        return {run.file for run in trace.runs}


@examples(30)
@given(data=st.data())
def test_each_has_what_the_updates_come_to(data: st.DataObject) -> None:
    history: list[Update] = []
    held: list[Arrangement] = []
    with tempfile.TemporaryDirectory() as name:
        for upper in range(1, data.draw(st.integers(2, 12), "steps")):
            keys = data.draw(st.lists(st.integers(0, 3), max_size=4), "keys")
            new = [(key, upper - 1, data.draw(st.sampled_from([1, -1]), "diff")) for key in keys]
            for arrangement in held:
                step(arrangement, upper, new)
            history += new
            if len(held) < 3 and data.draw(st.booleans(), "another"):
                held.append(Arrangement.new(Path(name) / f"{len(held)}", LAYOUT, upper - 1))
                step(held[-1], upper, [(key, upper - 1, diff) for key, _, diff in history])
            for arrangement in held:
                if data.draw(st.booleans(), "merge"):
                    merge(arrangement)
            if data.draw(st.booleans(), "share"):
                for arrangement in held:
                    arrangement.fill()
                for other in held[1:]:
                    assert other.try_share(held[0])
                    assert files(other) == files(held[0])
            for arrangement in held:
                assert contents(arrangement) == added_up(history)
        while held:
            last = held.pop()
            again = Arrangement.open(last.folder, LAYOUT, last.upper, last.extent)
            assert contents(again) == added_up(history)
            shutil.rmtree(last.folder)


def test_those_that_are_not_equally_far_are_not_shared(tmp_path: Path) -> None:
    one, other = (Arrangement.new(tmp_path / name, LAYOUT, 0) for name in "ab")
    step(one, 1, [(1, 0, 1)])
    one.advance(5)
    step(other, 5, [(1, 0, 1)])
    assert not other.try_share(one)
    assert (one.fill(), other.fill()) == (True, False)
    assert other.try_share(one)
    assert files(other) == files(one)


def test_what_was_filled_counts_when_it_is_remembered(tmp_path: Path) -> None:
    arrangement = Arrangement.new(tmp_path, LAYOUT, 0)
    step(arrangement, 1, [(1, 0, 1)])
    arrangement.advance(5)
    noted = arrangement.extent
    arrangement.fill()
    assert arrangement.extent.tip == 5
    again = Arrangement.open(tmp_path, LAYOUT, 5, arrangement.extent)
    assert (contents(again), again.extent.tip) == ({1: 1}, 5)
    before = Arrangement.open(tmp_path, LAYOUT, 5, noted)
    assert (contents(before), before.extent.tip) == ({1: 1}, 1)


def test_whoever_reads_keeps_the_runs_that_are_replaced(tmp_path: Path) -> None:
    one, other = (Arrangement.new(tmp_path / name, LAYOUT, 0) for name in "ab")
    for upper in range(1, 6):
        step(one, upper, [(upper, upper - 1, 1)])
        step(other, upper, [(upper, upper - 1, 1)])
    merge(one)
    with other.trace() as trace:
        assert other.try_share(one)
        for cover in trace.covers:
            assert (other.folder / cover.name).exists()
    assert {path.name for path in other.folder.iterdir()} == {Cover(0, 5).name}
    assert contents(other) == contents(one)


def test_cut_off_anywhere_it_is_done_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no run of the one lies within a run of the other."""
    cuts = 0
    for cut in range(40):
        one, other = (Arrangement.new(tmp_path / f"{name}{cut}", LAYOUT, 0) for name in "ab")
        for upper in (2, 4, 6):
            step(one, upper, [(upper, upper - 2, 1)])
        for lower, upper in ((0, 3), (3, 6)):
            step(other, upper, [(key, key - 2, 1) for key in (2, 4, 6) if lower <= key - 2 < upper])
        with monkeypatch.context() as patch:
            left = [cut]
            for call in ("replace", "link", "unlink", "fsync"):
                patch.setattr(os, call, _cutting(getattr(os, call), left))
            try:
                assert other.try_share(one)
                done = True
            except Cut:
                cuts += 1
                done = False
        again = Arrangement.open(other.folder, LAYOUT, 6, other.extent)
        assert contents(again) == {2: 1, 4: 1, 6: 1}
        assert len(list(other.folder.iterdir())) == len(files(again)), "nothing else is left"
        one.check()
        if done:
            assert files(again) == files(one)
            break
    assert cuts > 10, "it was cut off in many places"


class Cut(BaseException):
    """The process dies here."""


def _cutting(call: Callable[..., None], left: list[int]) -> Callable[..., None]:
    """The call, which is the last thing that ever happens once so many have been made."""

    def called(*arguments: object, **named: object) -> None:
        if left[0] <= 0:
            raise Cut
        left[0] -= 1
        call(*arguments, **named)

    return called


def test_without_links_each_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no links here")

    one, other = (Arrangement.new(tmp_path / name, LAYOUT, 0) for name in "ab")
    for each in (one, other):
        step(each, 1, [(1, 0, 1)])
    monkeypatch.setattr("os.link", refused)
    assert not other.try_share(one)
    assert contents(other) == {1: 1}
    assert files(other).isdisjoint(files(one))
    assert len(list(other.folder.iterdir())) == 1
