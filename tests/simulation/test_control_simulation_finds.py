"""The simulation of the control plane finds what it is meant to find: faults are planted for it.

Each is one mistake in one place, such as somebody could make. A few seeds find it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter import following, reading, session, tables, transaction
from waterclock.adapter.changes import Changes
from waterclock.adapter.holds import Holds
from waterclock.adapter.sequencer import evaluation
from waterclock.compute.inputs import Input
from waterclock.oracle.oracle import Oracle
from waterclock.persist.committer import Committer
from waterclock.testing.control import ports
from waterclock.testing.control.checker import Violation, check
from waterclock.testing.control.history import History, Outcome, Read
from waterclock.testing.control.run import SimulationFailed, simulate
from waterclock.testing.control.world import DEFINITIONS

pytestmark = pytest.mark.slow

ENOUGH = 30
"""So many seeds find a planted fault."""
Patch = pytest.MonkeyPatch


def stale_oracle(patch: Patch) -> None:
    """The oracle is not told of writes that are durable."""
    patch.setattr(Oracle, "apply_write", lambda *_: None)


def read_in_the_past(patch: Patch) -> None:
    """Contents are those of a millisecond before the time of the read."""
    right = reading.contents_at

    def wrong(storage: Any, capability: Any, time: int, *rest: Any, **more: Any) -> pa.Table:
        early = max(capability.frontier.only(), time - 1)
        return right(storage, capability, early, *rest, **more)

    patch.setattr(reading, "contents_at", wrong)


def unrepeatable_reads(patch: Patch) -> None:
    """Each statement of a transaction reads at a time of its own."""
    right = evaluation.chosen

    def wrong(session: Any, plan: Any, as_of: Any) -> Any:
        session.transaction.close()
        session.transaction.moment = None
        return right(session, plan, as_of)

    patch.setattr(evaluation, "chosen", wrong)


def lost_row(patch: Patch) -> None:
    """Of several rows that are written at one time, the last is forgotten."""
    right = tables._stamped
    patch.setattr(
        tables,
        "_stamped",
        lambda rows, time: right(rows, time)[: max(1, sum(each.num_rows for each in rows) - 1)],
    )


def unchecked_conflicts(patch: Patch) -> None:
    """Nobody looks whether what a write depends on has changed."""
    patch.setattr(tables.TableWriter, "_has_changed", lambda *_: False)


def refused_but_done(patch: Patch) -> None:
    """A write is refused after it has happened."""
    right = tables.TableWriter._commit_one

    def wrong(self: Any, waiting: Any) -> None:
        right(self, waiting)
        if waiting.dependence is not None:
            waiting.error = tables.WriteConflict("could not serialize access")

    patch.setattr(tables.TableWriter, "_commit_one", wrong)


def written_twice(patch: Patch) -> None:
    """A write whose first try took long is done again."""
    right = tables.TableWriter._commit_one
    calls = Counter[str]()

    def wrong(self: Any, waiting: Any) -> None:
        right(self, waiting)
        calls["all"] += 1
        if calls["all"] % 5 == 0:
            right(self, waiting)

    patch.setattr(tables.TableWriter, "_commit_one", wrong)


def lying_disk(patch: Patch) -> None:
    """An append is acknowledged before it is durable: a crash loses the last one."""
    right = ports.SimulatedLog.append

    def wrong(self: Any, position: int, entry: bytes) -> None:
        life, log = self._life, self._disk.log
        right(self, position, entry)
        die = life._on_death

        def died() -> None:
            if log.end() == position + 1 and position > 5:
                log._entries.pop()
            die()

        life._on_death = died

    patch.setattr(ports.SimulatedLog, "append", wrong)


def stale_writer(patch: Patch) -> None:
    """The right to write a table is kept after the table was dropped."""
    patch.setattr(tables.TableWriter, "remove", lambda *_: None)
    patch.setattr(tables.TableWriter, "_drop_stale", lambda _: False)


def forgotten_hold(patch: Patch) -> None:
    """A transaction that fails does not let go of what it has read."""
    right = transaction.Transaction.close

    def wrong(self: Any) -> None:
        if not self.has_failed:
            right(self)

    patch.setattr(transaction.Transaction, "close", wrong)


def forgotten_turn(patch: Patch) -> None:
    """A statement that is refused keeps the right to change the catalog."""

    @asynccontextmanager
    async def wrong(self: Any) -> AsyncIterator[Any]:
        await self._turn.acquire()
        draft = self._draft = self._catalog.draft()
        yield draft
        if self._draft is draft:
            self._draft = None
            self._turn.release()

    patch.setattr(Changes, "drafting", wrong)


def cancels_others(patch: Patch) -> None:
    """A request to cancel one session's statement stops those of all."""

    def wrong(self: Any) -> None:
        for each in self.front.all_sessions():
            each.watch.cancel()

    patch.setattr(session.SqlSession, "cancel", wrong)


def missed_change(patch: Patch) -> None:
    """A step of a view forgets what came after it."""
    right = Input.forget
    patch.setattr(Input, "forget", lambda self, upper: right(self, upper + 1000))


def step_twice(patch: Patch) -> None:
    """A subscription is told a step again when it asks at the wrong moment."""
    right = following.Steps._read
    kept: dict[int, Any] = {}

    def wrong(self: Any) -> Any:
        step = right(self)
        before = kept.get(id(self))
        if step is not None and step.updates.num_rows:
            if before is None:
                kept[id(self)] = step
            return step
        if before is not None and step is not None:
            doubled = following.Step(step.lower, step.upper, before.updates)
            kept.pop(id(self))
            return doubled
        return step

    patch.setattr(following.Steps, "_read", wrong)


def lost_wake_up(patch: Patch) -> None:
    """Whoever queues while a group is being committed is not looked after."""

    def wrong(self: Any, *, patient: bool) -> None:
        if self._leading.acquire(blocking=False):
            try:
                self._commit_next(patient)
            finally:
                self._leading.release()

    patch.setattr(Committer, "_lead", wrong)


def compacted_under_a_reader(patch: Patch) -> None:
    """Compaction does not ask what readers hold."""
    right = Holds.allow_compaction

    def wrong(self: Any, *rest: Any, **more: Any) -> None:
        held, self._open = self._open, set()
        try:
            right(self, *rest, **more)
        finally:
            self._open = held

    patch.setattr(Holds, "allow_compaction", wrong)


FAULTS: list[Callable[[Patch], None]] = [
    stale_oracle,
    read_in_the_past,
    unrepeatable_reads,
    lost_row,
    unchecked_conflicts,
    refused_but_done,
    written_twice,
    lying_disk,
    stale_writer,
    forgotten_hold,
    forgotten_turn,
    cancels_others,
    missed_change,
    step_twice,
    lost_wake_up,
    compacted_under_a_reader,
]


# A simulation that was broken off leaves coroutines that still wait for something.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(SimulationFailed, match=r"python -m waterclock.testing.control \d+"):
        _until_found()


def _until_found() -> None:
    for seed in range(ENOUGH):
        simulate(seed)


# The checker alone

BOTH = {"t0": [((1, 1), 10, 1), ((2, 3), 20, 1)], "t1": [((1, 2), 10, 1)]}


def test_a_history_that_can_be_is_accepted() -> None:
    check(_history(), BOTH, DEFINITIONS)


def test_what_was_acknowledged_must_be_there() -> None:
    with pytest.raises(Violation, match="lost"):
        check(_history(), {"t0": BOTH["t0"][:1], "t1": BOTH["t1"]}, DEFINITIONS)


def test_a_transaction_is_not_split() -> None:
    for t1 in ([], [((1, 2), 11, 1)]):
        with pytest.raises(Violation, match="only a part"):
            check(_history(), {"t0": BOTH["t0"], "t1": t1}, DEFINITIONS)


def test_nothing_comes_from_nowhere() -> None:
    with pytest.raises(Violation, match="nobody made"):
        check(_history(), {**BOTH, "t1": [*BOTH["t1"], ((9, 9), 30, 1)]}, DEFINITIONS)
    with pytest.raises(Violation, match="twice"):
        check(_history(), {**BOTH, "t1": [*BOTH["t1"], ((1, 2), 30, 1)]}, DEFINITIONS)


def test_what_was_refused_must_not_be_there() -> None:
    history = _history()
    history.transactions[0].outcome = Outcome.ABORTED
    with pytest.raises(Violation, match="refused"):
        check(history, BOTH, DEFINITIONS)


def test_the_order_is_that_of_real_time() -> None:
    late = {"t0": [((1, 1), 10, 1), ((2, 3), 5, 1)], "t1": BOTH["t1"]}
    with pytest.raises(Violation, match="had ended before"):
        check(_history(), late, DEFINITIONS)


@pytest.mark.parametrize(
    ("relation", "rows"),
    [
        ("t0", []),  # stale: the first transaction had ended
        ("t0", [(2, 3)]),  # never at any time
        ("sums", [(1, 2, 1)]),
    ],
)
def test_a_read_must_be_of_one_time(relation: str, rows: list[Any]) -> None:
    history = _history()
    reader = history.begin("reader")
    reader.reads.append(Read(relation, Counter(rows)))
    history.end(reader, Outcome.COMMITTED)
    with pytest.raises(Violation, match="can not have read"):
        check(history, BOTH, DEFINITIONS)


def test_reads_do_not_go_back() -> None:
    history = _history()
    writer = history.transactions[1]
    writer.ended, writer.outcome = None, Outcome.UNKNOWN
    for rows in ([(1, 1), (2, 3)], [(1, 1)]):
        reader = history.begin("reader")
        reader.reads.append(Read("t0", Counter(rows)))
        history.end(reader, Outcome.COMMITTED)
    with pytest.raises(Violation, match="can not have read"):
        check(history, BOTH, DEFINITIONS)


def test_a_write_rests_on_what_it_has_read() -> None:
    history = _history()
    history.transactions[1].reads.append(Read("t0", Counter()))
    with pytest.raises(Violation, match="on top of something else"):
        check(history, BOTH, DEFINITIONS)


def _history() -> History:
    """One transaction writes to both tables, and then another to one of them."""
    history = History()
    for changes in ([("t0", (1, 1), 1), ("t1", (1, 2), 1)], [("t0", (2, 3), 1)]):
        writer = history.begin("writer")
        writer.changes += changes
        history.end(writer, Outcome.COMMITTED)
    return history
