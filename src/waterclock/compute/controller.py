"""Compute: views that are kept up to date from the collections they read into the ones they write.

`maintain_view` takes read capabilities for the inputs, all at one frontier, the view as SQL over
their ids, and the write capabilities of its outputs and of its errors. From then on, and after
every restart, each tick brings the outputs up to where all inputs are complete.

What holds at every moment:

- the outputs' upper is not beyond any input's, since a step ends at the least of them;
- the inputs are held at or before the outputs' since, so that the outputs could be made again;
- the outputs' upper says which steps are done, and a note in the same commit what state they have
  left. The dataflow's state is opened at just that, so outputs and state agree after any crash;
- state that is not just that, because files were lost, or are of another data directory or another
  version, is not used. It is computed again from the inputs, which are held for that.

What is maintained, and with which rights, is decided here; when each view advances, and which of
them together, in `schedule`.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute import installed
from waterclock.compute.api import (
    ERROR_ROWS,
    FRONTIERS_ONLY,
    Health,
    Progress,
    Result,
    Status,
)
from waterclock.compute.api import View as Maintenance
from waterclock.compute.arrangement.arrangement import Arrangement
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.errors import FrontiersDiffer
from waterclock.compute.faults import told
from waterclock.compute.index import Index
from waterclock.compute.inputs import Input
from waterclock.compute.installed import Installed
from waterclock.compute.maintained import Group, Output, View
from waterclock.compute.plan.determinism import refuse_nondeterministic
from waterclock.compute.plan.nodes import Arrange, Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.compute.schedule import Running, Schedule
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.errors import Damaged, FormatTooNew
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.rows import row_schema, update_schema
from waterclock.persist.state import State
from waterclock.persist.store import Plan
from waterclock.storage import riders
from waterclock.storage.api import ReadCapability, Token, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityInvalid, CapabilityMisstated

C = TypeVar("C", ReadCapability, WriteCapability)

_LOG = logging.getLogger(__name__)


class Compute:
    """The views of one server, over its storage and a Spark session."""

    def __init__(
        self,
        storage: Storage,
        notes: Notes,
        spark: SparkSession,
        folder: Path,
        *,
        release_s: float = 1.0,
    ) -> None:
        """Take up every view that was installed before. `folder` holds their state.

        The holds on a view's inputs are moved at most every `release_s`.
        """
        self._storage = storage
        self._notes = notes
        self._spark = spark
        self._folder = folder
        self._builder = Builder(spark.sparkContext._jvm)
        self._relations = Relations(spark)
        self._schedule = Schedule(self._grouped, self._retire, self._reopened, release_s=release_s)
        self._lock = threading.Lock()
        self._made_by: dict[GlobalId, GlobalId] = {}
        """Output -> the view that writes it, which goes by the name of its first output."""
        self._views: dict[GlobalId, View] = {}
        self._indexes: dict[GlobalId, Index] = {}
        self._rebuilt: dict[GlobalId, str] = {}
        """Why the state of a view had to be computed again."""
        self._remove_strays()
        for name, note in installed.all_views(notes):
            if self._is_closed(note):
                self._bury(name, note)
            else:
                self._take_up(name, note)

    def maintain_view(
        self,
        inputs: Sequence[ReadCapability],
        view: Maintenance,
        outputs: Sequence[WriteCapability],
        errors: WriteCapability,
    ) -> tuple[ReadCapability, ...]:
        """Keep the outputs equal to the view's results at every time from the inputs' common
        frontier on.

        Takes the capabilities over and returns one to read each output. The errors' collection has
        the columns of `ERROR_ROWS`. Durable on return: the view is maintained again after a
        restart. Raises `FrontiersDiffer`, or `NotMaintainable` with what the view can not be made
        of; then nothing has changed.
        """
        as_of = _common_time(inputs, [*outputs, errors])
        note = installed.installed(inputs, view, outputs, errors, as_of)
        name = outputs[0].id
        self._take_up(name, note)
        self._notes.put(str(name), installed.encode(note))
        return tuple(
            self._storage.acquire_capabilities(output.id, write=False)[0] for output in outputs
        )

    def installation(
        self,
        view: Maintenance,
        as_of: int,
        outputs: Sequence[WriteCapability],
        errors: WriteCapability,
    ) -> Plan[None]:
        """`maintain_view` as a plan that rides in another commit, with holds of its own.

        The inputs must be held at or before `as_of` until the commit. After it, `begin` takes the
        view up. What can not be maintained is to be found before, by `check_view`.
        """
        holds = together(riders.hold(collection, as_of) for collection in view.inputs)

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            events, readers = holds(state)
            note = installed.installed(readers, view, outputs, errors, as_of)
            kept = {str(outputs[0].id): installed.encode(note)}
            return events + self._notes.events(kept), None

        return plan

    def begin(self, output: GlobalId) -> None:
        """Take up a view whose installation has been committed."""
        self._take_up(output, self._note(output))

    def removal(self, output: GlobalId) -> Plan[None]:
        """`drop_view` as a plan that rides in another commit; after it, `end` forgets the view."""
        kept = self._notes.all().get(str(output))
        released = riders.release([] if kept is None else installed.decode(kept).tokens)

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            events, _ = released(state)
            return events + self._notes.events({}, installed.keys_of(output)), None

        return plan

    def pause(self, output: GlobalId) -> None:
        """Do not step the view until it is ended or resumed: its rights are about to go.

        If its first contents are being computed, that is given up.
        """
        self._schedule.pause(output)

    def resume(self, output: GlobalId) -> None:
        """Step a view again that was paused, for it stays after all."""
        self._schedule.resume(output)

    def end(self, output: GlobalId) -> None:
        """Forget a view whose removal has been committed, and its state.

        What is being computed of its first contents is given up, and leaves nothing behind.
        """
        view = self._forget(output)
        if view is not None:
            view.close()
        self._remove_state(output)

    def check_view(self, view: Maintenance) -> tuple[Node, ...]:
        """The plans of the results; `NotMaintainable` as `maintain_view` would raise it."""
        return tuple(self._plan(view.inputs, result) for result in view.results)

    def drop_view(self, output: GlobalId) -> None:
        """Maintain the view no longer: its state goes, and so do its capabilities."""
        view = self._forget(output)
        assert view is not None, f"{output} is no view"
        self._notes.change({}, installed.keys_of(output))
        view.close()
        view.let_go(self._storage)
        self._remove_state(output)

    def _forget(self, name: GlobalId) -> View | None:
        """Step the view no more."""
        view = self._schedule.remove(name)
        if view is not None:
            with self._lock:
                del self._views[name]
                self._rebuilt.pop(name, None)
                for output in view.outputs:
                    self._made_by.pop(output.writer.id, None)
                    self._indexes.pop(output.writer.id, None)
        return view

    def _remove_state(self, name: GlobalId) -> None:
        state = self._folder / "state"
        for folder in state.glob(f"{name}_op*") if state.exists() else ():
            shutil.rmtree(folder, ignore_errors=True)

    def _grouped(
        self, views: Sequence[View], upper: int, opened: Mapping[str, Arrangement]
    ) -> Group:
        program = Program()
        for view in views:
            for plan in view.plans:
                program.add(plan, str(view.name))
        dataflow = Dataflow(
            self._spark, self._builder, program, self._folder, upper=upper, opened=opened
        )
        return Group(self._storage, self._notes, dataflow, views)

    def _reopened(self, view: View) -> Group:
        """The view as after a restart, because its state has gone."""
        view.close()
        return self._opened(view.name, self._note(view.name))

    def _note(self, name: GlobalId) -> Installed:
        return installed.decode(self._notes.all()[str(name)])

    def tick(self, patience_s: float | None = None) -> bool:
        """Let every view that is not busy go as far as its inputs are complete.

        Waits for them, but not longer than `patience_s`: those that take longer go on. Says whether
        some view got anywhere.
        """
        return self._schedule.tick(patience_s)

    def status(self, output: GlobalId) -> Status:
        """How the view that writes the output is doing."""
        name = self._made_by[output]
        running = self._schedule.of(name)
        group = running.group
        health = _health(running)
        progress = None
        if not group.dataflow.has_begun:
            progress = Progress(group.rows_read, *group.dataflow.tasks())
        rows = sum(
            arrangement.rows
            for key, arrangement in group.dataflow.arrangements.items()
            if key.startswith(f"{name}_op")
        )
        why = self._rebuilt.get(name)
        return Status(health, group.upper, rows, running.problem, progress, why)

    def has_index(self, output: GlobalId) -> bool:
        """Whether the collection stands for an index."""
        return output in self._indexes

    @property
    def groups(self) -> list[set[GlobalId]]:
        """Which views are maintained together."""
        return self._schedule.groups

    @property
    def is_settled(self) -> bool:
        """Whether no view is being stepped, or moved to another group."""
        return self._schedule.is_settled

    def index(self, output: GlobalId) -> Index:
        """The index whose frontiers are those of the collection."""
        return self._indexes[output]

    def errors_of(self, collection: GlobalId) -> tuple[GlobalId, ...]:
        """The collections that must be empty at a time for this one to have a value then."""
        return tuple(dict.fromkeys(self._errors_of(collection)))

    def close(self) -> None:
        """Stop ticking and receiving. What is installed stays installed."""
        self._schedule.close()
        for view in self._views.values():
            view.close()

    def _is_closed(self, note: Installed) -> bool:
        """Whether the view has closed its outputs, and was stopped before it could say so."""
        first = note.results[0]
        try:
            self._output(first.output, first.writer, FRONTIERS_ONLY)
        except CapabilityInvalid:
            return True
        return False

    def _bury(self, name: GlobalId, note: Installed) -> None:
        """Let go of what a view that will never change again still has."""
        for collection, (token, _) in note.inputs.items():
            guess = ReadCapability(Token(token), GlobalId.parse(collection), EPOCH_MILLIS.start())
            with contextlib.suppress(CapabilityInvalid):
                self._storage.drop_capability(self._restated(guess))
        self._notes.change({}, installed.keys_of(name))

    def _remove_strays(self) -> None:
        """Remove the state of views that were dropped when there was no time to remove it."""
        known = {str(name) for name, _ in installed.all_views(self._notes)}
        state = self._folder / "state"
        for folder in state.iterdir() if state.exists() else ():
            if folder.name.partition("_op")[0] not in known:
                shutil.rmtree(folder, ignore_errors=True)
        for inbox in self._folder.glob("inbox-*"):
            shutil.rmtree(inbox, ignore_errors=True)

    def _errors_of(self, collection: GlobalId) -> Iterator[GlobalId]:
        made_by = self._made_by.get(collection)
        if made_by is not None:
            view = self._views[made_by]
            yield view.errors.writer.id
            for each in view.inputs:
                yield from self._errors_of(each.collection)

    def _retire(self, view: View) -> None:
        """The view will never change again: it needs neither its inputs nor a place in a restart.

        An index stays: its rows are here.
        """
        if any(each.writer.id in self._indexes for each in view.outputs):
            return
        self._notes.change({}, installed.keys_of(view.name))
        view.close()
        view.let_go(self._storage)

    def _plan(self, inputs: Mapping[GlobalId, Schema], result: Result) -> Node:
        for collection, schema in inputs.items():
            self._relations.add(collection, from_arrow_schema(row_schema(schema)))
        with told():
            query = self._spark.sql(result.sql)._jdf.queryExecution()
            optimized = Logical(query.optimizedPlan())
        refuse_nondeterministic(Logical(query.analyzed()))
        plan = Translation(self._builder, self._relations).translate(optimized)
        if result.keys is None:
            return plan
        places = {name: place for place, name in enumerate(result.schema.names)}
        return Arrange(plan, tuple(places[key] for key in result.keys))

    def _take_up(self, name: GlobalId, note: Installed) -> None:
        self._schedule.add(name, self._opened(name, note))

    def _opened(self, name: GlobalId, note: Installed) -> Group:
        """A view where it was, or at its beginning; or with its state to be computed again."""
        schemas = note.schemas
        results = [kept.result for kept in note.results]
        plans = tuple(self._plan(schemas, result) for result in results)
        outputs = tuple(
            self._output(kept.output, kept.writer, _stored(result))
            for kept, result in zip(note.results, results, strict=True)
        )
        written = outputs[0].writer.frontier.only()
        assert written is not None, "a maintained view can be written"
        program = Program()
        for plan in plans:
            program.add(plan, str(name))
        rebuilt_to = None
        if written <= note.as_of:
            dataflow = self._begun_at(program, note.as_of)
        else:
            try:
                dataflow = self._left_at(program, name, written)
            except (Damaged, FormatTooNew) as damage:
                self._remove_state(name)
                dataflow = self._begun_at(program, self._start(plans, outputs, written))
                rebuilt_to = written
                self._tell_rebuilding(name, damage)
        inputs = self._inputs(note, dataflow.upper, contents=not dataflow.has_begun)
        view = View(name, plans, inputs, outputs, self._output(*note.errors, ERROR_ROWS))
        self._register(view, results, dataflow)
        return Group(self._storage, self._notes, dataflow, [view], rebuilt_to)

    def _begun_at(self, program: Program, upper: int) -> Dataflow:
        return Dataflow(self._spark, self._builder, program, self._folder, upper=upper)

    def _left_at(self, program: Program, name: GlobalId, upper: int) -> Dataflow:
        """The dataflow with the state that it had; `Damaged` if that is not there."""
        kept = installed.kept_state(self._notes, name)
        return Dataflow(self._spark, self._builder, program, self._folder, upper=upper, kept=kept)

    def _start(self, plans: Sequence[Node], outputs: Sequence[Output], written: int) -> int:
        """From when on lost state is needed: the rows of an index as far back as it can be read."""
        start = written - 1
        for plan, output in zip(plans, outputs, strict=True):
            if isinstance(plan, Arrange):
                reader, _ = self._storage.acquire_capabilities(output.writer.id, write=False)
                since = reader.frontier.only()
                if since is not None:
                    self._storage.drop_capability(reader)
                    start = min(start, since)
        return start

    def _tell_rebuilding(self, name: GlobalId, damage: WaterclockError) -> None:
        why = f"{damage}: {damage.detail}" if damage.detail else str(damage)
        _LOG.warning("the state of view %s is computed again from its inputs: %s", name, why)
        self._rebuilt[name] = why

    def _register(self, view: View, results: Sequence[Result], dataflow: Dataflow) -> None:
        """Let the view be found by its outputs."""
        name, plans, outputs = view.name, view.plans, view.outputs
        with self._lock:
            self._views[name] = view
            for output, plan, result in zip(outputs, plans, results, strict=True):
                self._made_by[output.writer.id] = name
                if isinstance(plan, Arrange):
                    self._indexes[output.writer.id] = Index(
                        row_schema(result.schema),
                        result.keys or (),
                        dataflow.arrangement(plan),
                    )

    def _inputs(self, note: Installed, upper: int, *, contents: bool) -> tuple[Input, ...]:
        start = EPOCH_MILLIS.start()
        return tuple(
            Input(
                self._storage,
                self._restated(ReadCapability(Token(token), GlobalId.parse(collection), start)),
                upper,
                contents=contents,
            )
            for collection, (token, _) in note.inputs.items()
        )

    def _output(self, collection: str, token: str, schema: Schema) -> Output:
        guess = WriteCapability(Token(token), GlobalId.parse(collection), EPOCH_MILLIS.start())
        return Output(self._restated(guess), update_schema(schema))

    def _restated(self, guess: C) -> C:
        """The capability as storage has it, of which only the token is known for sure."""
        try:
            return self._storage.downgrade_capability(guess, guess.frontier)
        except CapabilityMisstated as error:
            kept = error.kept
            assert isinstance(kept, type(guess)), "a token keeps its kind"
            return kept


def _health(running: Running) -> Health:
    group = running.group
    if group.is_finished:
        return Health.FINISHED
    if running.problem is not None:
        return Health.STALLED
    if group.dataflow.has_begun:
        return Health.RUNNING
    return Health.REBUILDING if group.is_rebuilding else Health.HYDRATING


def _stored(result: Result) -> Schema:
    """The columns that a result's collection has in storage."""
    return result.schema if result.keys is None else Schema(())


def _common_time(inputs: Sequence[ReadCapability], outputs: Sequence[WriteCapability]) -> int:
    frontiers = {capability.frontier.only() for capability in inputs}
    [as_of] = frontiers if len(frontiers) == 1 else [None]
    written = [output.frontier.only() for output in outputs]
    if as_of is None or any(bound is None or bound > as_of for bound in written):
        shown = ", ".join(f"{c.id} at {c.frontier}" for c in inputs)
        ends = ", ".join(f"{c.id} at {c.frontier}" for c in outputs)
        raise FrontiersDiffer(
            "the inputs of a view must be at one frontier, and its outputs not beyond it",
            detail=f"The inputs are {shown}; the outputs {ends}.",
        )
    return as_of
