"""Views that are maintained together: one dataflow, many inputs, many outputs.

A step takes what the inputs did up to the least of their uppers, or less if that is too much at
once (`stepsize`, `persist.cutting`), runs the dataflow over it, and appends the changes of all
outputs and of the errors in one write. After that, and only then, the dataflow's state counts and
the inputs forget what was used. If anything fails before the write, nothing has happened, and the
same step is done again.

A step in which no input did anything, and nothing is due by the time alone, costs no Spark job: the
outputs' uppers just move on. Groups that all have such a step can do it in one write (`move_on`).

State that was lost is computed again before the first step, from the inputs as they were where the
outputs are; they are held until then. The outputs stay as they are. Only if they would be others
now, because another version of Spark computes other values, say, they are corrected, from the next
time on: what was answered for a time never changes.

Views that read the same collections are put into one group when they are equally far, because a
step of several views costs little more than that of one. A group whose step fails, or takes long,
is taken apart again, so that each view pays for itself only.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.job import Ticked
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.faults import is_out_of_memory
from waterclock.compute.inputs import FINISHED, LARGE_ROWS, STEP_LIMIT, Input
from waterclock.compute.installed import state_key
from waterclock.compute.plan.nodes import Node
from waterclock.compute.snapshot import lacking, stored_at
from waterclock.compute.stepsize import StepSize
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import Timeline
from waterclock.persist.consolidate import consolidate
from waterclock.persist.cutting import Limit, Times, cut, total
from waterclock.persist.notes import Notes
from waterclock.persist.portions import Listing
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Plan
from waterclock.storage import riders
from waterclock.storage.api import Write, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityUnknown

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Output:
    """A collection that the view writes, and the Arrow columns of its updates."""

    writer: WriteCapability
    columns: pa.Schema


@dataclass(frozen=True, slots=True)
class View:
    """One view: its plans, what it reads, and what it writes."""

    name: GlobalId
    """The id of its first output."""
    plans: tuple[Node, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    errors: Output
    planned_in: int = 0
    """The number of the engine's life that the plans belong to."""

    @property
    def upper(self) -> int:
        """Up to where all inputs are complete, by what was received."""
        return min((each.upper for each in self.inputs), default=FINISHED)

    @property
    def written(self) -> tuple[Output, ...]:
        """All that it writes."""
        return (*self.outputs, self.errors)

    def close(self) -> None:
        """Stop receiving. What is installed stays installed."""
        for each in self.inputs:
            each.close()

    def let_go(self, storage: Storage) -> None:
        """Give back every capability."""
        for each in self.inputs:
            if not each.capability.frontier.is_empty:
                each.capability = storage.drop_capability(each.capability)
        for output in self.written:
            if not output.writer.frontier.is_empty:
                output.writer = storage.drop_capability(output.writer)


class Group:
    """Views that are stepped together. One thread steps them at a time."""

    def __init__(
        self,
        storage: Storage,
        notes: Notes,
        dataflow: Dataflow,
        views: Sequence[View],
        rebuilt_to: int | None = None,
        *,
        is_noted: bool = True,
        limit: Limit = STEP_LIMIT,
    ) -> None:
        """The dataflow's program has the plans of the views, in this order.

        What is remembered of their state goes into the notes, with the next step if it is not there
        yet. If the state was lost, the outputs, up to `rebuilt_to`, are ahead of the dataflow,
        which has not begun.
        """
        self._storage = storage
        self._notes = notes
        self.dataflow = dataflow
        self.views = tuple(views)
        self._rebuilt_to = rebuilt_to
        self._owed: dict[GlobalId, pa.Table] = {}
        """What the outputs lack, to be written with the next step."""
        self._is_noted = is_noted
        """Whether what is noted of the state is true."""
        self.is_quiet = False
        """Whether there was nothing to compute in the last step."""
        self.is_finished = dataflow.has_begun and dataflow.upper == FINISHED
        self.since = 0
        """The outputs can be read from this time on, as far as is known here."""
        self.size = StepSize(limit)
        self.is_loaded = False
        """Whether the last step had so much to take in that it may well have taken long.

        Each view for itself would have to take in as much, and they would fall behind farther.
        """
        self._recomputed: list[list[pa.Table]] = []
        """What the steps of a rebuild gave so far, for each output."""

    def renewed(self, dataflow: Dataflow, views: Sequence[View]) -> Group:
        """The group as it stands, with a dataflow of another engine that has the same state."""
        fresh = self._as_it_stands(dataflow, views)
        if dataflow.has_begun and dataflow.bring_together():
            fresh._is_noted = False
        return fresh

    def without(self, name: GlobalId) -> Group:
        """The group as it stands, without one of its views, to be planned anew before a step."""
        rest = [view for view in self.views if view.name != name]
        return self._as_it_stands(self.dataflow, rest)

    def _as_it_stands(self, dataflow: Dataflow, views: Sequence[View]) -> Group:
        fresh = Group(
            self._storage, self._notes, dataflow, views, self._rebuilt_to, is_noted=self._is_noted
        )
        fresh._owed = self._owed
        fresh.is_quiet = self.is_quiet
        fresh.is_finished = self.is_finished
        fresh.since = self.since
        fresh.size = self.size
        fresh._recomputed = self._recomputed
        return fresh

    @property
    def upper(self) -> int:
        """Up to where the outputs are."""
        return self.dataflow.upper if self._rebuilt_to is None else self._rebuilt_to

    @property
    def _complete_to(self) -> int:
        """Up to where all inputs are complete, by what was received."""
        return min(view.upper for view in self.views)

    @property
    def _timeline(self) -> Timeline[int]:
        """What all times here are of. Views that share an input share its timeline."""
        return self.views[0].errors.writer.frontier.timeline

    @property
    def is_rebuilding(self) -> bool:
        """Whether the state has yet to be brought to where the outputs are."""
        return self._rebuilt_to is not None

    @property
    def is_owing(self) -> bool:
        """Whether the next step has to write more than what it computes."""
        return bool(self._owed) or not self._is_noted

    @property
    def rows_read(self) -> int:
        """How many updates of the inputs have been received."""
        return sum(each.rows for view in self.views for each in view.inputs)

    def rows_of(self, view: GlobalId) -> int:
        """How many updates the state of a view holds."""
        own = f"{view}_op"
        found = self.dataflow.arrangements.items()
        return sum(arrangement.rows for name, arrangement in found if name.startswith(own))

    def stop(self) -> None:
        """Give up the step that is going on, as soon as possible; it raises, or does nothing."""
        self._set_stopped(True)
        self.dataflow.cancel()

    def go_on(self) -> None:
        """Steps may be done again."""
        self._set_stopped(False)

    def _set_stopped(self, stopped: bool) -> None:
        for view in self.views:
            for each in view.inputs:
                each.is_stopped = stopped

    @property
    def reads(self) -> frozenset[GlobalId]:
        """The collections that some view reads."""
        return frozenset(each.collection for view in self.views for each in view.inputs)

    @property
    def writes(self) -> frozenset[GlobalId]:
        """The collections that other views may read."""
        return frozenset(each.writer.id for view in self.views for each in view.outputs)

    def receive(self) -> None:
        """Take in what the inputs have by now. To be done before each step."""
        if self.is_finished:
            return
        for view in self.views:
            for each in view.inputs:
                each.receive()

    def must_part(self) -> bool:
        """Whether one of several views has come to its end, which it has to do alone."""
        return len(self.views) > 1 and any(view.upper == FINISHED for view in self.views)

    def has_changes(self) -> bool:
        """Whether there is something to compute in the next step, which then takes its time."""
        upper = self._complete_to
        if upper == FINISHED or any(each.is_waiting for v in self.views for each in v.inputs):
            return True
        return self.dataflow.due_before(upper)

    def has_only_to_move(self) -> bool:
        """Whether the next step changes nothing but the uppers of the outputs, if anything."""
        begun = self.dataflow.has_begun and self._rebuilt_to is None
        parting = self.is_finished or self.must_part()
        return begun and not parting and not self.is_owing and not self.has_changes()

    def moves(self) -> list[Write]:
        """What moves the outputs to where all inputs are complete, if they are not there."""
        upper = self._complete_to
        if upper <= self.dataflow.upper:
            return []
        frontier = self._timeline.frontier(upper)
        return [Write(each.writer, None, frontier) for view in self.views for each in view.written]

    def moved(self, writers: Iterator[WriteCapability]) -> None:
        """The moves are written: go on from there."""
        self._take_writers(writers)
        self._count(self._complete_to, self.dataflow.unchanged())

    def advance(self) -> bool:
        """Go as far as all inputs are complete; False if the views are there already."""
        if self.is_finished:
            return False
        upper = self._complete_to
        is_rebuilding = self._rebuilt_to is not None and self._rebuilt_to < FINISHED
        if is_rebuilding and self._rebuilt_to is not None:
            upper = min(upper, self._rebuilt_to)
        if upper <= self.dataflow.upper:
            return False
        if is_rebuilding:
            self._rebuild(upper)
            return True
        if upper == FINISHED:
            self._finish()
        else:
            self._step(upper)
        return True

    def _finish(self) -> None:
        """Nothing more will come: do the last steps, and close the outputs for good.

        Time goes on, so the view does too until time alone changes nothing any more. Then the state
        is right for ever. If that was lost after the outputs were closed, it is all there is to do.
        """
        inputs = [each for view in self.views for each in view.inputs]
        last = max([self.dataflow.upper, *(each.latest() for each in inputs)]) + 1
        while self.dataflow.upper < last:
            self._step(last)
        while (due := self.dataflow.last_due()) is not None:
            self._step(due + 1)
        nothing = self.dataflow.unchanged()
        self._write(nothing, self._timeline.empty())
        self.dataflow.commit(FINISHED, nothing)
        self._rebuilt_to = None
        self.is_finished = True

    def _step(self, upper: int) -> None:
        """Go as far as `upper`, or as far as one step may go."""
        if self._has_waiting() or self.dataflow.due_before(upper) or not self.dataflow.has_begun:
            self.is_quiet = False
            upper, ticked = self._compute(upper)
            self._is_noted = False
        else:
            self.is_quiet = True
            self.is_loaded = False
            ticked = self.dataflow.unchanged()
        self._write(ticked, self._timeline.frontier(upper))
        self._count(upper, ticked)

    def _compute(self, upper: int) -> tuple[int, Ticked]:
        """The changes up to `upper`, or to where one step gets; and where that is.

        One that runs out of memory is tried again with less. It has left nothing behind.
        """
        while True:
            end = self._step_end(upper)
            try:
                ticked = self.dataflow.compute(
                    end, self._deltas(end), self._listed(end), spread=self.size.spread
                )
            except Exception as error:
                if not is_out_of_memory(error) or not self.size.failed():
                    raise
                names = ", ".join(str(view.name) for view in self.views)
                limit = self.size.limit
                _LOG.warning(
                    "a step of %s ran out of memory; retrying with %s rows and %s times the tasks",
                    *(names, limit.rows, self.size.spread),
                )
            else:
                self.size.succeeded()
                return end, ticked

    def _step_end(self, upper: int) -> int:
        """How far the next step goes: to `upper`, unless that is too much at once."""
        inputs = self._inputs()
        chunks = [chunk for each in inputs for chunk in each.chunks()]
        self.is_loaded = total(chunks)[0] >= LARGE_ROWS

        def times_before(end: int) -> Times:
            return np.concatenate([each.times_before(end) for each in inputs])

        return cut(chunks, self.dataflow.upper, upper, self.size.limit, times_before)

    def _has_waiting(self) -> bool:
        return any(each.is_waiting for each in self._inputs())

    def _inputs(self) -> list[Input]:
        """One input for each collection: what several views have received of one is the same."""
        found: dict[GlobalId, Input] = {}
        for view in self.views:
            for each in view.inputs:
                found.setdefault(each.collection, each)
        return list(found.values())

    def _rebuild(self, upper: int) -> None:
        """Bring the state nearer to where the outputs are; once there, find out what they lack."""
        upper, ticked = self._compute(upper)
        self._recomputed.append([changes for _, changes in self._told(ticked)])
        self._is_noted = False
        if upper == self._rebuilt_to:
            self._compare(upper, ticked)
        self._count(upper, ticked)

    def _compare(self, upper: int, ticked: Ticked) -> None:
        """The state has been computed again up to where the outputs are: see whether they agree."""
        steps, self._recomputed = self._recomputed, []
        outputs = [output for output, _ in self._told(ticked)]
        for output, parts in zip(outputs, zip(*steps, strict=True), strict=True):
            changes = consolidate(pa.concat_tables(parts))
            stored = stored_at(self._storage, output.writer.id, upper - 1, output.columns)
            lacks = None if stored is None else lacking(stored, _as(changes, output.columns), upper)
            if lacks is not None and lacks.num_rows:
                _LOG.warning(
                    "collection %s is corrected from time %s on: this version computes %s changes",
                    output.writer.id,
                    upper,
                    lacks.num_rows,
                )
                self._owed[output.writer.id] = lacks
        if not self._owed:  # else only together with what is owed
            self._notes.change(_encoded(self.dataflow.kept_after(ticked)))
            self._is_noted = True
        self._rebuilt_to = None

    def _deltas(self, upper: int) -> dict[GlobalId, pa.Table]:
        """The changes of the inputs before `upper` that were received and not used yet."""
        found = ((each.collection, each.before(upper)) for each in self._inputs())
        return {collection: table for collection, table in found if table is not None}

    def _listed(self, upper: int) -> dict[GlobalId, Listing]:
        """Where the changes of the inputs before `upper` are that were not received."""
        found = ((each.collection, each.listed(upper)) for each in self._inputs())
        return {collection: listing for collection, listing in found if listing is not None}

    def _count(self, upper: int, ticked: Ticked) -> None:
        """What a step gave is durable: let its state count."""
        self.dataflow.commit(upper, ticked)
        for view in self.views:
            for each in view.inputs:
                each.forget(upper)
        if ticked.runs or self.dataflow.is_apart:
            self.dataflow.merge(self.since)

    def _told(self, ticked: Ticked) -> list[tuple[Output, pa.Table]]:
        """The changes of all outputs, and those of the errors."""
        told: list[tuple[Output, pa.Table]] = []
        changes = iter(zip(ticked.outputs, ticked.errors_of, strict=True))
        for view in self.views:
            wrong = []
            for output in view.outputs:
                updates, errors = next(changes)
                wrong.append(errors)
                told.append((output, updates))
            errors = consolidate(pa.concat_tables(wrong)) if len(wrong) > 1 else wrong[0]
            told.append((view.errors, errors))
        return told

    def _write(self, ticked: Ticked, frontier: Frontier[int]) -> None:
        """Append the changes of all outputs, and those of the errors, together.

        What there is to remember of the state rides along.
        """
        if self._is_closed:
            self._note_at_end(frontier)
            return
        writes = [
            Write(output.writer, self._with_owed(output, changes), frontier)
            for output, changes in self._told(ticked)
        ]
        if self._is_noted:
            moved = self._storage.append(*writes)
        else:
            noting = self._noting(self.dataflow.kept_after(ticked))
            moved = riders.append(self._storage, writes, noting)
        self._is_noted = True
        self._owed.clear()
        self._take_writers(iter(moved))

    def _take_writers(self, moved: Iterator[WriteCapability]) -> None:
        """The capabilities of all outputs and of the errors, as a write has left them."""
        for view in self.views:
            for output in view.written:
                output.writer = next(moved)

    @property
    def _is_closed(self) -> bool:
        """Whether the outputs are what they will ever be."""
        return self.views[0].errors.writer.frontier.is_empty

    def _note_at_end(self, frontier: Frontier[int]) -> None:
        """Remember state that was computed again for closed outputs, once it is complete."""
        if frontier.is_empty:
            self._notes.change(_encoded(self.dataflow.kept_after()))
            self._is_noted = True

    def _with_owed(self, output: Output, changes: pa.Table) -> pa.Table | None:
        """The changes with what the output has lacked since its state was rebuilt."""
        updates, owed = _as(changes, output.columns), self._owed.get(output.writer.id)
        if owed is None:
            return updates
        return owed if updates is None else consolidate(pa.concat_tables([owed, updates]))

    def _noting(self, kept: Mapping[str, Kept]) -> Plan[None]:
        events = self._notes.events(_encoded(kept))

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            del state
            return events, None

        return plan

    def release_inputs(self) -> None:
        """Let the inputs be compacted as far as the outputs are, and as they have been used."""
        sinces = [self._since(output) for view in self.views for output in view.outputs]
        self.since = max(self.since, min(sinces, default=0))
        time = min(self.since, self.dataflow.upper - 1)
        moving = [each for view in self.views for each in view.inputs if each.is_held_before(time)]
        if moving:
            frontier = self._timeline.frontier(time)
            moves = [(each.capability, frontier) for each in moving]
            for each, moved in zip(
                moving, self._storage.downgrade_capabilities(moves), strict=True
            ):
                each.capability = moved

    def _since(self, output: Output) -> int:
        """From when on an output can be read; its end if nobody can read it any more.

        One whose writer is gone is finished, or is being dropped: it lets go of nothing here.
        """
        try:
            found = riders.frontiers(self._storage, [output.writer])
        except CapabilityUnknown:
            return self.since
        since = found[output.writer.id][0].only()
        return self.dataflow.upper if since is None else since


def move_on(storage: Storage, groups: Sequence[Group]) -> list[bool]:
    """Let groups go on that have only to move, in one write; tells which of them were behind.

    If it fails, nobody has moved.
    """
    moves = [group.moves() for group in groups]
    writers = iter(storage.append(*itertools.chain.from_iterable(moves)) if any(moves) else ())
    for group, own in zip(groups, moves, strict=True):
        if own:
            group.moved(writers)
    return [bool(own) for own in moves]


def _encoded(kept: Mapping[str, Kept]) -> dict[str, bytes]:
    """What is remembered of the state of some views, as notes."""
    return {state_key(owner): msgspec.msgpack.encode(each) for owner, each in kept.items()}


def _as(changes: pa.Table, columns: pa.Schema) -> pa.Table | None:
    """Updates with the names and types that storage has for them; None if there are none."""
    if not changes.num_rows:
        return None
    return changes.rename_columns(columns.names).cast(columns)
