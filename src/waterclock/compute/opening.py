"""From what is noted of a view to the view as it can be stepped: planned, and with its state.

A view is opened in one of four ways. It begins at the time it was installed at; or it goes on where
its outputs are, with the state that was noted in the same commit; or, if that state is not there or
is that of another plan or version, it computes it again from its inputs, which are held for that.
One that has finished has outputs that are closed: nothing of it is maintained, except the rows of
an index, which are nowhere else.

Here nothing is decided about when a view is stepped. What is remembered are the last plans: a view
is planned to see whether it can be maintained, and then opened.

Plans belong to one life of the engine (`_Front`). In the next one, views are planned anew and go on
with what does not belong to the engine: their state, their inputs and their right to write.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute import installed
from waterclock.compute.api import ERROR_ROWS, Result
from waterclock.compute.catalyst.optimized import optimized
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.dataflow.program import Program
from waterclock.compute.faults import told
from waterclock.compute.index import Index
from waterclock.compute.inputs import FINISHED, STEP_LIMIT, Input
from waterclock.compute.installed import Installed
from waterclock.compute.live_session import Incarnation, LiveSession
from waterclock.compute.maintained import Group, Output, View
from waterclock.compute.plan.determinism import refuse_nondeterministic
from waterclock.compute.plan.nodes import Arrange, Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.planners import Planners
from waterclock.compute.relations import Relations
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.cutting import Limit
from waterclock.persist.errors import Damaged, FormatTooNew
from waterclock.persist.notes import Notes
from waterclock.persist.rows import row_schema, update_schema
from waterclock.storage.api import ReadCapability, Token, WriteCapability
from waterclock.storage.contents import blob_for_others
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityInvalid, CapabilityMisstated

C = TypeVar("C", ReadCapability, WriteCapability)

_LOG = logging.getLogger(__name__)
_REMEMBERED = 16
"""Size of the cache of view plans."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A view in a group of its own, with its indexes by the collections that stand for them."""

    group: Group
    view: View
    indexes: Mapping[GlobalId, Index]
    rebuilt: str | None
    """Why its state has to be computed again, if it has."""


class _Front:
    """What plans views in one life of the engine."""

    def __init__(self, incarnation: Incarnation) -> None:
        spark = incarnation.spark
        self.incarnation = incarnation
        self.builder = Builder(spark.sparkContext._jvm)
        self._relations = Relations(spark)
        self._planned: dict[tuple[Hashable, ...], tuple[Node, ...]] = {}
        """What was planned last and not opened, by all that it depends on."""

    def plans(
        self, inputs: Mapping[GlobalId, Schema], results: Sequence[Result]
    ) -> tuple[Node, ...]:
        """Plans that are kept until somebody takes them."""
        asked = _asked(inputs, results)
        known = self._planned.get(asked)
        if known is None:
            known = self._planned[asked] = self._made_plans(inputs, results)
            for oldest in list(self._planned)[:-_REMEMBERED]:
                self._planned.pop(oldest, None)
        return known

    def take_plans(
        self, inputs: Mapping[GlobalId, Schema], results: Sequence[Result]
    ) -> tuple[Node, ...]:
        """Plans for one view only: operators of two views are told apart by their ids."""
        plans = self._planned.pop(_asked(inputs, results), None)
        return self._made_plans(inputs, results) if plans is None else plans

    def _made_plans(
        self, inputs: Mapping[GlobalId, Schema], results: Sequence[Result]
    ) -> tuple[Node, ...]:
        for collection, schema in inputs.items():
            self._relations.add(collection, from_arrow_schema(row_schema(schema)))
        trees = [self._optimized(result) for result in results]
        plans = Translation(self.builder, self._relations).planned(trees)
        return tuple(_kept_as(result, plan) for result, plan in zip(results, plans, strict=True))

    def _optimized(self, result: Result) -> Logical:
        spark = self.incarnation.spark
        with told():
            query = spark.sql(result.sql)._jdf.queryExecution()
            plan = optimized(spark, self.builder, query)
        refuse_nondeterministic(Logical(query.analyzed()))
        return plan


class Opening:
    """Opens views over one storage and the engine as it is; `folder` holds their state."""

    def __init__(
        self,
        storage: Storage,
        notes: Notes,
        live: LiveSession,
        folder: Path,
        planners: Planners,
        limit: Limit = STEP_LIMIT,
    ) -> None:
        """`limit` is about the most that a step of a group takes."""
        self._limit = limit
        self._storage = storage
        self._notes = notes
        self._live = live
        self._folder = folder
        self._planners = planners
        self._lock = threading.Lock()
        self._front: _Front | None = None

    def _current(self) -> _Front:
        """What plans views now; `EngineDown` if there is no engine."""
        incarnation = self._live.current()
        with self._lock:
            front = self._front
            if front is None or front.incarnation is not incarnation:
                with incarnation.guarded():
                    front = self._front = self._front_of(incarnation)
            return front

    def _front_of(self, incarnation: Incarnation) -> _Front:
        return _Front(incarnation)

    def is_current(self, group: Group) -> bool:
        """Whether the engine that the group was planned in is the one there is."""
        front, incarnation = self._front, self._live.try_current()
        return (
            front is not None
            and front.incarnation is incarnation
            and all(view.planned_in == front.incarnation.number for view in group.views)
        )

    @property
    def has_engine(self) -> bool:
        """Whether something can be planned and computed now."""
        return self._live.is_up

    def guarded(self, group: Group) -> AbstractContextManager[object]:
        """Around a step of the group: an error that comes of the engine's end is `EngineDown`."""
        incarnation = self._live.try_current()
        if incarnation is None or group.views[0].planned_in != incarnation.number:
            raise self._live.down()
        return incarnation.guarded()

    def plans(
        self, inputs: Mapping[GlobalId, Schema], results: Sequence[Result]
    ) -> tuple[Node, ...]:
        """The plans of a view's results; `NotMaintainable` with what one can not be made of."""
        front = self._current()
        return self._planners.plan(front.incarnation, lambda: front.plans(inputs, results))

    def renewed(self, group: Group) -> Group:
        """The same views in the engine as it is now, with their state and all that they have
        received. `Damaged` if the state does not belong to what is planned now.
        """
        front = self._current()
        with front.incarnation.guarded():
            views = [self._planned_anew(front, view) for view in group.views]
            program = _program_of(views)
            dataflow = self._dataflow(
                front,
                program,
                group.dataflow.upper,
                opened=group.dataflow.arrangements,
                has_begun=group.dataflow.has_begun,
            )
        dataflow.take_over(group.dataflow)
        return group.renewed(dataflow, views)

    def _planned_anew(self, front: _Front, view: View) -> View:
        note = installed.decode(self._notes.all()[str(view.name)])
        results = [kept.result for kept in note.results]
        plans = self._planners.plan(
            front.incarnation, lambda: front.take_plans(note.schemas, results)
        )
        return replace(view, plans=plans, planned_in=front.incarnation.number)

    def grouped(
        self, views: Sequence[View], upper: int, opened: Mapping[str, Arrangement]
    ) -> Group:
        """Views that are all at `upper` in one group, with their arrangements as they are."""
        front = self._current()
        if any(view.planned_in != front.incarnation.number for view in views):
            raise self._live.down()  # they are planned anew first
        with front.incarnation.guarded():
            dataflow = self._dataflow(front, _program_of(views), upper, opened=opened)
        is_noted = not dataflow.bring_together()
        return Group(
            self._storage, self._notes, dataflow, views, is_noted=is_noted, limit=self._limit
        )

    def opened(self, name: GlobalId, note: Installed) -> Opened:
        """The view where it was, or at its beginning, or with its state to be computed again."""
        front = self._current()
        with front.incarnation.guarded():
            return self._opened(front, name, note)

    def _opened(self, front: _Front, name: GlobalId, note: Installed) -> Opened:
        schemas = note.schemas
        results = [kept.result for kept in note.results]
        plans = self._planners.plan(front.incarnation, lambda: front.take_plans(schemas, results))
        outputs = tuple(
            self._output(kept.output, kept.writer, _stored(result))
            for kept, result in zip(note.results, results, strict=True)
        )
        errors = self._output(*note.errors, ERROR_ROWS)
        written = _written(outputs[0])
        program = Program()
        for plan in plans:
            program.add(plan, str(name))
        rebuilt = None
        if written <= note.as_of:
            dataflow = self._dataflow(front, program, note.as_of)
        else:
            try:
                dataflow = self._left_at(front, program, name, written)
            except (Damaged, FormatTooNew) as damage:
                self.remove_state(name)
                start = self._start(plans, outputs, written)
                dataflow = self._dataflow(front, program, start)
                rebuilt = _reason(name, damage)
        inputs = self._inputs(note, dataflow.upper, contents=not dataflow.has_begun)
        view = View(name, plans, inputs, outputs, errors, front.incarnation.number)
        rebuilt_to = None if rebuilt is None else written
        group = Group(self._storage, self._notes, dataflow, [view], rebuilt_to, limit=self._limit)
        return Opened(group, view, _indexes(view, results, dataflow), rebuilt)

    def is_over(self, note: Installed) -> bool:
        """Whether the view has closed its outputs, and has no rows that are only in its state."""
        for kept in note.results:
            output = self._output(kept.output, kept.writer, Schema(()))
            if not output.writer.frontier.is_empty:
                return False
            if kept.keys is not None and self._since(output) is not None:
                return False
        return True

    def let_go(self, name: GlobalId, note: Installed) -> None:
        """Give up what a view that is over still has: its inputs, and its state."""
        for collection, (token, _) in note.inputs.items():
            with contextlib.suppress(CapabilityInvalid):
                self._storage.drop_capability(self._restated(_reader(token, collection)))
        if (key := installed.state_key(str(name))) in self._notes.all():
            self._notes.change({}, [key])
        self.remove_state(name)

    def remove_state(self, name: GlobalId) -> None:
        """Remove the files of a view's state."""
        state = self._folder / "state"
        for folder in state.glob(f"{name}_op*") if state.exists() else ():
            shutil.rmtree(folder, ignore_errors=True)

    def remove_strays(self) -> None:
        """Remove the state of views that were dropped when there was no time to remove it."""
        known = {str(name) for name, _ in installed.all_views(self._notes)}
        state = self._folder / "state"
        for folder in state.iterdir() if state.exists() else ():
            if folder.name.partition("_op")[0] not in known:
                shutil.rmtree(folder, ignore_errors=True)
        for inbox in self._folder.glob("inbox-*"):
            shutil.rmtree(inbox, ignore_errors=True)

    def _left_at(self, front: _Front, program: Program, name: GlobalId, upper: int) -> Dataflow:
        """The dataflow with the state that it had; `Damaged` if that is not there."""
        kept = installed.kept_state(self._notes, name)
        return self._dataflow(front, program, upper, kept=kept)

    def _dataflow(
        self,
        front: _Front,
        program: Program,
        upper: int,
        *,
        kept: Mapping[str, Kept] | None = None,
        opened: Mapping[str, Arrangement] | None = None,
        has_begun: bool = True,
    ) -> Dataflow:
        return Dataflow(
            front.incarnation.spark,
            front.builder,
            program,
            self._folder,
            upper=upper,
            kept=kept,
            opened=opened,
            has_begun=has_begun,
            blob=blob_for_others(self._storage),
        )

    def _start(self, plans: Sequence[Node], outputs: Sequence[Output], written: int) -> int:
        """From when on lost state is needed: the rows of an index as far back as it can be read."""
        start = written - 1
        for plan, output in zip(plans, outputs, strict=True):
            if isinstance(plan, Arrange) and (since := self._since(output)) is not None:
                start = min(start, since)
        return start

    def _since(self, output: Output) -> int | None:
        """From when on the output can be read; None if it can not be."""
        reader, _ = self._storage.acquire_capabilities(output.writer.id, write=False)
        since = reader.frontier.only()
        if since is not None:
            self._storage.drop_capability(reader)
        return since

    def _inputs(self, note: Installed, upper: int, *, contents: bool) -> tuple[Input, ...]:
        return tuple(
            Input(
                self._storage,
                self._restated(_reader(token, collection)),
                upper,
                contents=contents,
                limit=self._limit,
            )
            for collection, (token, _) in note.inputs.items()
        )

    def _output(self, collection: str, token: str, schema: Schema) -> Output:
        """What the view writes; with an empty frontier if it has closed it."""
        guess = WriteCapability(Token(token), GlobalId.parse(collection), EPOCH_MILLIS.start())
        try:
            writer = self._restated(guess)
        except CapabilityInvalid:
            writer = WriteCapability(guess.token, guess.id, EPOCH_MILLIS.empty())
        return Output(writer, update_schema(schema))

    def _restated(self, guess: C) -> C:
        """The capability as storage has it, of which only the token is known for sure."""
        try:
            return self._storage.downgrade_capability(guess, guess.frontier)
        except CapabilityMisstated as error:
            kept = error.kept
            assert isinstance(kept, type(guess)), "a token keeps its kind"
            return kept


def _program_of(views: Sequence[View]) -> Program:
    program = Program()
    for view in views:
        for plan in view.plans:
            program.add(plan, str(view.name))
    return program


def _asked(inputs: Mapping[GlobalId, Schema], results: Sequence[Result]) -> tuple[Hashable, ...]:
    """All that plans depend on."""
    return frozenset(inputs.items()), tuple(results)


def _kept_as(result: Result, plan: Node) -> Node:
    """The plan of a result that is arranged under keys, if it is an index."""
    if result.keys is None:
        return plan
    places = {name: place for place, name in enumerate(result.schema.names)}
    return Arrange(plan, tuple(places[key] for key in result.keys))


def _reader(token: str, collection: str) -> ReadCapability:
    return ReadCapability(Token(token), GlobalId.parse(collection), EPOCH_MILLIS.start())


def _written(output: Output) -> int:
    """Up to where the output is complete."""
    bound = output.writer.frontier.only()
    return FINISHED if bound is None else bound


def _reason(name: GlobalId, damage: WaterclockError) -> str:
    why = f"{damage}: {damage.detail}" if damage.detail else str(damage)
    _LOG.warning("the state of view %s is computed again from its inputs: %s", name, why)
    return why


def _indexes(view: View, results: Sequence[Result], dataflow: Dataflow) -> dict[GlobalId, Index]:
    return {
        output.writer.id: Index(
            row_schema(result.schema), result.keys or (), dataflow.arrangement(plan)
        )
        for output, plan, result in zip(view.outputs, view.plans, results, strict=True)
        if isinstance(plan, Arrange)
    }


def _stored(result: Result) -> Schema:
    """The columns that a result's collection has in storage."""
    return result.schema if result.keys is None else Schema(())
