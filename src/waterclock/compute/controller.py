"""Compute: views that are kept up to date from the collections they read into the ones they write.

`maintain_view` takes read capabilities for the inputs, all at one frontier, the view as SQL over
their ids, and write capabilities for its errors and for those of its outputs that are written back
to storage. From then on, and after every restart, each tick brings the outputs up to where all
inputs are complete.

What holds at every moment:

- the outputs' upper is not beyond any input's, since a step ends at the least of them;
- the inputs are held at or before the outputs' since, so that the outputs could be made again;
- the outputs' upper says which steps are done, and a note in the same commit what state they have
  left. The dataflow's state is opened at just that, so outputs and state agree after any crash;
- state that is not just that, because files were lost, or are of another data directory or another
  version, is not used. It is computed again from the inputs, which are held for that.

What is maintained, and with which rights, is decided here; how a view is taken up, in `opening`;
when each advances, and which of them together, in `schedule`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from waterclock.compute import installed
from waterclock.compute.api import FRONTIERS_ONLY, Backlog, Health, Progress, Status
from waterclock.compute.api import View as Maintenance
from waterclock.compute.errors import FrontiersDiffer, NotMaintainable
from waterclock.compute.index import Index
from waterclock.compute.inputs import FINISHED, STEP_LIMIT
from waterclock.compute.installed import Installed
from waterclock.compute.lineage import Lineage
from waterclock.compute.live_session import LiveSession
from waterclock.compute.maintained import Group, View, move_on
from waterclock.compute.opening import Opening
from waterclock.compute.plan.nodes import Node
from waterclock.compute.planners import Planners
from waterclock.compute.schedule import Running, Schedule
from waterclock.errors import EngineDown
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.cutting import Limit
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Plan
from waterclock.storage import riders
from waterclock.storage.api import (
    Description,
    ReadCapability,
    Token,
    WriteCapability,
    Writers,
)
from waterclock.storage.contents import amount_waiting
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityUnknown


class Compute:
    """The views of one server, over its storage and a Spark session."""

    def __init__(
        self,
        storage: Storage,
        notes: Notes,
        live: LiveSession,
        folder: Path,
        *,
        release_s: float = 1.0,
        limit: Limit = STEP_LIMIT,
        planners: Planners | None = None,
    ) -> None:
        """Take up every view that was installed before. `folder` holds their state.

        The holds on a view's inputs are moved at most every `release_s`. `limit` is about the most
        that a step takes at once.
        """
        self._storage = storage
        self._notes = notes
        self._live = live
        self._opening = Opening(
            storage, notes, live, folder, planners or Planners(runtime=storage.runtime), limit
        )
        self._schedule = Schedule(
            self._opening.grouped,
            partial(move_on, storage),
            self._retire,
            self._reopened,
            release_s=release_s,
            runtime=storage.runtime,
            engine=self._opening,
        )
        self._lock = threading.Lock()
        self._lineage = Lineage()
        self._views: dict[GlobalId, View] = {}
        self._indexes: dict[GlobalId, Index] = {}
        self._rebuilt: dict[GlobalId, str] = {}
        """Why the state of a view had to be computed again."""
        self._awaiting: set[GlobalId] = set()
        """Views that are installed and wait for an engine to be taken up."""
        self._taking_up: Future[None] | None = None
        self._opening.remove_strays()
        for name, note in installed.all_views(notes):
            if self._opening.is_over(note):
                self._opening.let_go(name, note)
                self._know(name, note)
            else:
                self._take_up(name, note)

    def maintain_view(
        self,
        inputs: Sequence[ReadCapability],
        view: Maintenance,
        outputs: Sequence[WriteCapability | GlobalId],
        errors: WriteCapability,
    ) -> tuple[ReadCapability, ...]:
        """Keep the outputs equal to the view's results at every time from the inputs' common
        frontier on.

        A result that is written back comes with the write capability of its collection. One that
        has keys may have an id alone, which was never used: then Compute makes the collection that
        stands for the index. Takes the capabilities over and returns one to read each output. The
        errors' collection has the columns of `ERROR_ROWS`. Durable on return: the view is
        maintained again after a restart. Raises `FrontiersDiffer`, or `NotMaintainable` with what
        the view can not be made of; then nothing has changed.
        """
        written = [each for each in outputs if isinstance(each, WriteCapability)]
        as_of = _common_time(inputs, [*written, errors])
        _require_stored(view, outputs)
        if len(written) < len(outputs):  # what is made for them could not be taken back
            self.check_view(view)
        readers, writers = self._readers_and_writers(outputs, inputs[0].frontier)
        note = installed.installed(inputs, view, writers, errors, as_of)
        name = writers[0].id
        try:
            self._take_up(name, note)
        except BaseException:
            for reader, writer, given in zip(readers, writers, outputs, strict=True):
                if not reader.frontier.is_empty:
                    self._storage.drop_capability(reader)
                if isinstance(given, GlobalId):
                    self._storage.drop_capability(writer)
            raise
        self._notes.put(str(name), installed.encode(note))
        return tuple(readers)

    def _readers_and_writers(
        self, outputs: Sequence[WriteCapability | GlobalId], start: Frontier[int]
    ) -> tuple[list[ReadCapability], list[WriteCapability]]:
        """The capabilities of the outputs; a collection that there is not yet begins at `start`."""
        readers, writers = [], []
        for output in outputs:
            if isinstance(output, GlobalId):
                described = Description(FRONTIERS_ONLY, Writers.CREATOR, start.timeline)
                reader, writer = self._storage.create(output, described, start=start)
            else:
                reader, _ = self._storage.acquire_capabilities(output.id, write=False)
                writer = output
            readers.append(reader)
            writers.append(writer)
        return readers, writers

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
        """Take up a view whose installation has been committed; later, if there is no engine."""
        note = self._note(output)
        try:
            self._take_up(output, note)
        except EngineDown:
            with self._lock:
                self._awaiting.add(output)
            self._know(output, note)

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

    def leave(self, output: GlobalId) -> None:
        """The view's rights are about to go: begin no other step of it until it is ended or
        resumed. Unlike `pause` this waits for nothing; a step that is going on may come too late.
        """
        self._schedule.leave(output)

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
        keys = set(installed.keys_of(output)) & self._notes.all().keys()
        if keys:  # of a step that was going on when the removal was committed
            self._notes.change({}, keys)
        self._opening.remove_state(output)

    def check_view(self, view: Maintenance) -> tuple[Node, ...]:
        """The plans of the results; `NotMaintainable` as `maintain_view` would raise it."""
        return self._opening.plans(view.inputs, view.results)

    def drop_view(self, output: GlobalId) -> None:
        """Maintain the view no longer: its state goes, and so do its capabilities."""
        assert output in self._lineage, f"{output} is no view"
        view = self._forget(output)
        self._notes.change({}, installed.keys_of(output))
        if view is not None:
            view.close()
            view.let_go(self._storage)
        self._opening.remove_state(output)

    def _forget(self, name: GlobalId) -> View | None:
        """Step the view no more; None if it was not stepped, because it is over."""
        with self._lock:
            self._awaiting.discard(name)
        view = self._schedule.remove(name)
        self._lineage.remove(name)
        if view is not None:
            with self._lock:
                del self._views[name]
                self._rebuilt.pop(name, None)
                for output in view.outputs:
                    self._indexes.pop(output.writer.id, None)
        return view

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
        is_idle = self._taking_up is None or self._taking_up.done()
        if self._awaiting and is_idle and self._live.is_up:
            self._taking_up = self._schedule.submit(self._take_up_awaiting)
        return self._schedule.tick(patience_s)

    def _take_up_awaiting(self) -> None:
        """Take up what was installed while there was no engine."""
        with self._lock:
            awaiting = list(self._awaiting)
        for name in awaiting:
            try:
                note = self._note(name)
                self._take_up(name, note)
            except EngineDown:
                return
            except KeyError:  # dropped meanwhile
                pass
            with self._lock:
                self._awaiting.discard(name)

    def status(self, output: GlobalId) -> Status:
        """How the view that writes the output is doing; `KeyError` if there is none."""
        name = self._lineage.view_of(output)
        with self._lock:
            view = self._views.get(name)
            is_awaiting = name in self._awaiting
        if is_awaiting:
            return Status(
                Health.HYDRATING, 0, rows=0, problem=self._live.problem, progress=Progress(0, 0, 0)
            )
        if view is None:  # it was over when the server started
            return Status(Health.FINISHED, FINISHED, rows=0)
        running = self._schedule.of(name)
        group = running.group
        has_begun = group.dataflow.has_begun  # asked once: it may begin while we look
        progress = None if has_begun else Progress(group.rows_read, *group.dataflow.tasks())
        health = _health(running, has_begun=has_begun)
        rows = group.rows_of(name)
        why = self._rebuilt.get(name)
        return Status(health, group.upper, rows, running.problem, progress, why)

    def input_tokens(self) -> dict[Token, GlobalId]:
        """The rights by which views read their inputs, each with the view that holds it."""
        return {
            Token(token): view
            for view, note in installed.all_views(self._notes)
            for token, _ in note.inputs.values()
        }

    def backlogs(self) -> list[Backlog]:
        """What the views have yet to take in, of those that are stepped and are not broken.

        A view that computes its first contents, or lost state, has no backlog yet.
        """
        with self._lock:
            views = list(self._views.items())
        found = [self._backlog(name, view) for name, view in views]
        return [backlog for backlog in found if backlog is not None]

    def _backlog(self, name: GlobalId, view: View) -> Backlog | None:
        try:
            running = self._schedule.of(name)
            group = running.group
            is_stepped = group.dataflow.has_begun and not group.is_rebuilding
            if not is_stepped or group.is_finished or running.problem is not None:
                return None
            waiting = [
                amount_waiting(self._storage, each.capability, group.upper) for each in view.inputs
            ]
        except (KeyError, CapabilityUnknown):  # it is dropped at this moment
            return None
        rows, size = sum(rows for rows, _ in waiting), sum(size for _, size in waiting)
        on_clock = view.errors.writer.frontier.timeline == EPOCH_MILLIS
        age_ms = self._storage.runtime.wall_ms() - (group.upper - 1) if rows and on_clock else 0
        taken = sum(each.rows for each in view.inputs)
        return Backlog(name, self._lineage.behind(name), rows, size, max(0, age_ms), taken)

    def end_hung_steps(self, timeout_s: float) -> str | None:
        """Cancel steps that have got nowhere for so long. Why the engine is to be replaced, if
        that does not help. May hang if the engine does.
        """
        return self._schedule.end_hung_steps(timeout_s)

    @property
    def hung_steps(self) -> int:
        """How many steps were cancelled because they got nowhere."""
        return self._schedule.hung_steps

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
        with self._lock:
            if output in self._awaiting:
                raise self._live.down()
        return self._indexes[output]

    def errors_of(self, collection: GlobalId) -> tuple[GlobalId, ...]:
        """The collections that must be empty at a time for this one to have a value then."""
        return self._lineage.errors_of(collection)

    def close(self) -> None:
        """Stop ticking and receiving. What is installed stays installed."""
        self._schedule.close()
        for view in self._views.values():
            view.close()

    def _retire(self, view: View) -> None:
        """The view will never change again: it needs neither its inputs nor its state.

        An index stays: its rows are here. What the view is stays noted, with its errors.
        """
        if any(each.writer.id in self._indexes for each in view.outputs):
            return
        view.close()
        view.let_go(self._storage)
        self._notes.change({}, [installed.state_key(str(view.name))])

    def _take_up(self, name: GlobalId, note: Installed) -> None:
        self._schedule.add(name, self._opened(name, note))

    def _opened(self, name: GlobalId, note: Installed) -> Group:
        """The view, to be found by its outputs from now on."""
        opened = self._opening.opened(name, note)
        with self._lock:
            self._views[name] = opened.view
            self._indexes.update(opened.indexes)
            if opened.rebuilt is not None:
                self._rebuilt[name] = opened.rebuilt
        self._know(name, note)
        return opened.group

    def _know(self, name: GlobalId, note: Installed) -> None:
        outputs = [GlobalId.parse(result.output) for result in note.results]
        inputs = [GlobalId.parse(collection) for collection in note.inputs]
        self._lineage.add(name, inputs, outputs, GlobalId.parse(note.errors[0]))


def _health(running: Running, *, has_begun: bool) -> Health:
    group = running.group
    if has_begun and group.is_finished:
        return Health.FINISHED
    if running.problem is not None:
        return Health.STALLED
    if has_begun:
        return Health.RUNNING
    return Health.REBUILDING if group.is_rebuilding else Health.HYDRATING


def _require_stored(view: Maintenance, outputs: Sequence[WriteCapability | GlobalId]) -> None:
    """Raise `NotMaintainable` if a result would be kept neither in storage nor as an index."""
    for result, output in zip(view.results, outputs, strict=True):
        if isinstance(output, GlobalId) and result.keys is None:
            raise NotMaintainable(
                f"the result for {output} is neither written back nor has keys",
                hint="Give the write capability of a collection, or the keys of an index.",
            )


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
