"""An engine without a JVM: views are computed again at each time at which something has changed.

Above it runs the real thing: `Compute` with its notes and its ways of opening a view, `Schedule`
with its groups and its threads, `Group` and `Input`. What is replaced is what has contact with
Spark: a plan is the SQL text itself, a dataflow keeps the contents of its inputs and asks SQLite
what the text gives for them. Its state goes to the simulated disk before the outputs are written
and counts after that, as that of the real one; it can be lost.

The engine can be slow, fail a step or a query, and be dead for a while.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, ClassVar, TypeVar, cast
from unittest import mock

import pyarrow as pa

from waterclock.compute import controller, installed, opening
from waterclock.compute.api import ERROR_ROWS, Result
from waterclock.compute.controller import Compute
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.job import Ticked
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.engine import Engine, OpenEngine
from waterclock.compute.evaluate import Evaluator
from waterclock.compute.inputs import STEP_LIMIT
from waterclock.compute.live_session import Incarnation, LiveSession
from waterclock.compute.opening import Opening
from waterclock.compute.planners import Planners
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.cutting import Limit
from waterclock.persist.errors import Damaged
from waterclock.persist.notes import Notes
from waterclock.persist.rows import DIFF, TIME, update_schema
from waterclock.storage.controller import Storage
from waterclock.testing.control.ports import Disk


class SimulatedFault(WaterclockError):
    """The engine does not work, or not always."""

    sqlstate: ClassVar[str] = "58000"


T = TypeVar("T")
Rows = Counter[tuple[Any, ...]]
_NOTHING_WRONG = update_schema(ERROR_ROWS).empty_table()


class Plan:
    """A view's result: its text and the columns that it reads and gives."""

    def __init__(self, result: Result, inputs: Mapping[GlobalId, Schema]) -> None:
        self.sql = result.sql
        self.columns = update_schema(result.schema)
        self.inputs = dict(inputs)


class Arranged:
    """The state of one view: the contents of its inputs at a time."""

    def __init__(self, tip: int, contents: Mapping[GlobalId, Rows]) -> None:
        self.tip = tip
        self.contents = contents

    @property
    def rows(self) -> int:
        return sum(len(each) for each in self.contents.values())


class Machine:
    """What computes, and how it is doing."""

    def __init__(self, disk: Disk, random: Random) -> None:
        self.disk = disk
        self.random = random
        self.dead_until = 0.0
        self.slow_until = 0.0
        self.failure_rate = random.choice([0.0, 0.0, 0.05])
        self.limit = Limit(random.choice([1, 5, 1_000_000]), 1 << 20)
        """About the most that a step takes."""
        self._sqlite = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def close(self) -> None:
        self._sqlite.close()

    def work(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Take as long as a job takes; raises if it fails."""
        runtime = self.disk.runtime
        is_slow = runtime.monotonic_s() < self.slow_until
        for _ in range(self.random.randint(1, 20 if is_slow else 2)):
            if cancelled():
                raise SimulatedFault("the job was cancelled")
            if runtime.monotonic_s() < self.dead_until:
                raise SimulatedFault("Connection refused")
            runtime.sleep(self.random.random() * (0.5 if is_slow else 0.01))
        if self.random.random() < self.failure_rate:
            raise SimulatedFault("simulated failure of a job")

    def rows(self, sql: str, contents: Mapping[str, Rows]) -> list[tuple[Any, ...]]:
        """The result of a query over numbers, by the names of what it reads."""
        ask = self._sqlite.execute
        ask("BEGIN")
        try:
            for name, rows in contents.items():
                width = _width(rows, sql, name)
                ask(f"CREATE TABLE {name} ({', '.join(f'c{n + 1}' for n in range(width))})")
                places = ", ".join("?" * width)
                self._sqlite.executemany(f"INSERT INTO {name} VALUES ({places})", rows.elements())
            return ask(_COLUMN_NAMES.sub(r"AS \1", sql)).fetchall()
        finally:
            ask("ROLLBACK")

    def result(self, plan: Plan, contents: Mapping[GlobalId, Rows]) -> Rows:
        """The rows of a view over contents."""
        return Counter(self.rows(plan.sql, {str(c): rows for c, rows in contents.items()}))


_COLUMN_NAMES = re.compile(r"AS (t\d+)\([c\d, ]*\)")
"""SQLite does not know them, and ours are just the names that the columns have."""


def _width(rows: Rows, sql: str, name: str) -> int:
    """How many columns a relation of a query has."""
    found = re.search(rf"`{name}` AS t\d+\(([c\d, ]*)\)", sql)
    assert found is not None, f"{name} is read with names of columns: {sql}"
    return found[1].count(",") + 1 if not rows else len(next(iter(rows)))


class FakeDataflow:
    """A `Dataflow`: the views of a group, and the contents of what they read."""

    def __init__(
        self,
        machine: Machine,
        program: FakeProgram,
        upper: int,
        kept: Mapping[str, Kept] | None,
        opened: Mapping[str, Arranged] | None,
    ) -> None:
        self._machine = machine
        self._plans = program.plans
        self.upper = upper
        self.has_begun = kept is not None or opened is not None
        self.is_apart = False
        self._stopped = False
        self._pending: dict[str, Arranged] = {}
        if opened is not None:
            self.arrangements = {_name(o): opened[_name(o)] for o in self._plans}
        else:
            self.arrangements = {
                _name(owner): self._reopened(owner, plan, upper, kept)
                for owner, plan in self._plans.items()
            }

    def _reopened(
        self, owner: str, plan: Plan, upper: int, kept: Mapping[str, Kept] | None
    ) -> Arranged:
        if kept is None:
            return Arranged(upper, {collection: Counter() for collection in plan.inputs})
        if owner not in kept:
            raise Damaged(f"nothing is known of the state of {owner}")
        tip = kept[owner].extents[_name(owner)][1]
        found = self._machine.disk.state.get((owner, tip))
        if found is None:
            raise Damaged(f"the state of {owner} is lost")
        return Arranged(tip, found)

    def compute(
        self,
        upper: int,
        deltas: Mapping[GlobalId, pa.Table],
        contents: object,
        *,
        spread: int = 1,
    ) -> Ticked:
        del spread
        assert not contents, "nothing is large here"
        self._stopped = False
        self._machine.work(lambda: self._stopped)
        outputs = []
        for owner, plan in self._plans.items():
            updates, self._pending[owner] = self._computed(owner, plan, upper, deltas)
            outputs.append(updates)
        self._machine.disk.wait()
        for owner, state in self._pending.items():
            self._machine.disk.state[owner, upper] = state.contents
        return Ticked(tuple(outputs), (_NOTHING_WRONG,) * len(outputs), {})

    def _computed(
        self, owner: str, plan: Plan, upper: int, deltas: Mapping[GlobalId, pa.Table]
    ) -> tuple[pa.Table, Arranged]:
        state = {c: Counter(rows) for c, rows in self.arrangements[_name(owner)].contents.items()}
        changes = [
            (change[-2], str(collection), collection, change[:-2], change[-1])
            for collection in plan.inputs
            if collection in deltas
            for change in _triples(deltas[collection])
        ]
        before = self._machine.result(plan, state)
        updates: list[tuple[Any, ...]] = []
        for time in sorted({change[0] for change in changes}):
            for at, _, collection, row, diff in changes:
                if at == time:
                    state[collection][row] += diff
            for rows in state.values():
                assert all(count >= 0 for count in rows.values()), f"{owner} misses rows: {rows}"
            after = self._machine.result(plan, state)
            updates += [
                (*row, time, after[row] - before[row])
                for row in sorted(before.keys() | after.keys())
                if after[row] != before[row]
            ]
            before = after
        columns = list(zip(*updates, strict=True)) or [()] * len(plan.columns)
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, plan.columns, strict=True)]
        return pa.Table.from_arrays(arrays, schema=plan.columns), Arranged(upper, state)

    def unchanged(self) -> Ticked:
        empty = tuple(plan.columns.empty_table() for plan in self._plans.values())
        return Ticked(empty, (_NOTHING_WRONG,) * len(empty), {})

    def kept_after(self, ticked: Ticked | None = None) -> dict[str, Kept]:
        del ticked
        tips = {owner: self.arrangements[_name(owner)].tip for owner in self._plans}
        tips |= {owner: state.tip for owner, state in self._pending.items()}
        return {owner: Kept("simulated", {_name(owner): (0, tip)}) for owner, tip in tips.items()}

    def commit(self, upper: int, ticked: Ticked) -> None:
        del ticked
        for owner, state in self._pending.items():
            self.arrangements[_name(owner)] = state
            for name, tip in list(self._machine.disk.state):
                if name == owner and tip < state.tip:
                    self._machine.disk.state.pop((name, tip), None)
        self._pending.clear()
        self.upper = upper
        self.has_begun = True

    def check_state(self) -> None:
        for owner in self._plans:
            tip = self.arrangements[_name(owner)].tip
            if self.has_begun and (owner, tip) not in self._machine.disk.state:
                raise Damaged(f"the state of {owner} is lost")

    def due_before(self, upper: int) -> bool:
        del upper
        return False

    def last_due(self) -> int | None:
        return None

    def bring_together(self) -> bool:
        return False

    def merge(self, since: int | None = None) -> None:
        pass

    def cancel(self) -> None:
        self._stopped = True

    def tasks(self) -> tuple[int, int]:
        return 0, 0

    def close(self) -> None:
        pass


def _name(owner: str) -> str:
    return f"{owner}_op0"


_NAMES = re.compile(r"(?<= AS )`([^`]+)`(?=[,\s])")
"""The columns that a query gives."""


def _rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _triples(table: pa.Table) -> list[tuple[Any, ...]]:
    names = [name for name in table.schema.names if name not in (TIME, DIFF)]
    columns = [table[name].to_pylist() for name in (*names, TIME, DIFF)]
    return list(zip(*columns, strict=True))


class FakeProgram:
    """The plans of a dataflow, by their owners."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}

    def add(self, plan: Any, owner: str) -> None:
        self.plans[owner] = plan


class AtOnce:
    """Implements what of `Planners` is used, in the caller's thread."""

    def plan(self, incarnation: Incarnation, work: Callable[[], T]) -> T:
        del incarnation
        return work()


class FakeFront:
    """What plans views: a plan is its text."""

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation

    def plans(
        self, inputs: Mapping[GlobalId, Schema], results: Sequence[Result]
    ) -> tuple[Any, ...]:
        return tuple(Plan(result, inputs) for result in results)

    take_plans = plans


class FakeOpening(Opening):
    """Opens views without Spark."""

    def __init__(
        self,
        storage: Storage,
        notes: Notes,
        live: LiveSession,
        folder: Path,
        _: Planners,
        limit: Limit = STEP_LIMIT,
    ) -> None:
        super().__init__(storage, notes, live, folder, cast(Planners, AtOnce()), limit)
        self._machine: Machine = cast(Any, live.current().spark)

    def _front_of(self, incarnation: Incarnation) -> Any:
        return FakeFront(incarnation)

    def _dataflow(
        self,
        front: Any,
        program: Any,
        upper: int,
        *,
        kept: Mapping[str, Kept] | None = None,
        opened: Mapping[str, Any] | None = None,
        has_begun: bool = True,
    ) -> Dataflow:
        del front, has_begun
        return cast(Dataflow, FakeDataflow(self._machine, program, upper, kept, opened))

    def remove_state(self, name: GlobalId) -> None:
        state = self._machine.disk.state
        for owner, tip in list(state):
            if owner == str(name):
                state.pop((owner, tip), None)

    def remove_strays(self) -> None:
        known = {str(name) for name, _ in installed.all_views(self._notes)}
        for owner, _ in list(self._machine.disk.state):
            if owner not in known:
                self.remove_state(GlobalId.parse(owner))


class FakeEvaluator:
    """An `Evaluator`: one query at a time, which can be cancelled."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cancelled: set[str] = set()

    def evaluate(
        self,
        sql: str,
        inputs: Mapping[GlobalId, Schema],
        contents: Mapping[GlobalId, pa.Table],
        group: str,
    ) -> pa.Table:
        self._machine.work(lambda: group in self._cancelled)
        read = {
            str(collection): Counter(_rows_of(contents[collection].select(schema.names)))
            for collection, schema in inputs.items()
        }
        rows = self._machine.rows(sql, read)
        names = _NAMES.findall(sql)
        columns = [pa.array([row[n] for row in rows], pa.int32()) for n in range(len(names))]
        return pa.Table.from_arrays(columns, names=names)

    def cancel(self, group: str) -> None:
        self._cancelled.add(group)


def engine_of(machine: Machine) -> OpenEngine:
    """How a server opens the engine; to be used `without_jvm`."""

    def opened(storage: Storage, notes: Notes) -> Engine:
        live = LiveSession.of(cast(Any, machine))
        compute = Compute(storage, notes, live, Path("/nowhere"), limit=machine.limit)
        return Engine(compute, cast(Evaluator, FakeEvaluator(machine)))

    return opened


@contextmanager
def without_jvm() -> Iterator[None]:
    """Replaces the classes that would ask for Spark."""
    with (
        mock.patch.object(controller, "Opening", FakeOpening),
        mock.patch.object(opening, "Program", FakeProgram),
    ):
        yield
