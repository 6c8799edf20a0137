"""Views that are maintained together: one dataflow, many inputs, many outputs.

A step takes what the inputs did up to the least of their uppers, runs the dataflow over it, and
appends the changes of all outputs and of the errors in one write. After that, and only then, the
dataflow's state counts and the inputs forget what was used. If anything fails before the write,
nothing has happened, and the same step is done again.

A step in which no input did anything, and nothing is due by the time alone, costs no Spark job: the
outputs' uppers just move on.

Views that read the same collections are put into one group when they are equally far, because a
step of several views costs little more than that of one. A group whose step fails, or takes long,
is taken apart again, so that each view pays for itself only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.job import Ticked
from waterclock.compute.inputs import FINISHED, Input
from waterclock.compute.plan.nodes import Node
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.consolidate import consolidate
from waterclock.storage.api import Write, WriteCapability
from waterclock.storage.controller import Storage


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

    def upper(self) -> int:
        """Up to where all inputs are complete."""
        return min((each.receive() for each in self.inputs), default=FINISHED)

    def close(self) -> None:
        """Stop receiving. What is installed stays installed."""
        for each in self.inputs:
            each.close()

    def let_go(self, storage: Storage) -> None:
        """Give back every capability."""
        for each in self.inputs:
            if not each.capability.frontier.is_empty:
                each.capability = storage.drop_capability(each.capability)
        for output in (*self.outputs, self.errors):
            if not output.writer.frontier.is_empty:
                output.writer = storage.drop_capability(output.writer)


class Group:
    """Views that are stepped together. One thread steps them at a time."""

    def __init__(self, storage: Storage, dataflow: Dataflow, views: Sequence[View]) -> None:
        """The dataflow's program has the plans of the views, in this order."""
        self._storage = storage
        self.dataflow = dataflow
        self.views = tuple(views)
        self.is_finished = False
        self.since = 0
        """The outputs can be read from this time on, as far as is known here."""

    @property
    def upper(self) -> int:
        return self.dataflow.upper

    @property
    def reads(self) -> frozenset[GlobalId]:
        """The collections that some view reads."""
        return frozenset(each.collection for view in self.views for each in view.inputs)

    def must_part(self) -> bool:
        """Whether one of several views has come to its end, which it has to do alone."""
        return len(self.views) > 1 and any(view.upper() == FINISHED for view in self.views)

    def advance(self) -> bool:
        """Go as far as all inputs are complete; False if the views are there already."""
        if self.is_finished:
            return False
        upper = min(view.upper() for view in self.views)
        if upper <= self.dataflow.upper:
            return False
        if upper == FINISHED:
            self._finish()
        else:
            self._step(upper)
        return True

    def _finish(self) -> None:
        """Nothing more will come: do the last steps, and close the outputs for good.

        Time goes on, so the view does too until time alone changes nothing any more.
        """
        inputs = [each for view in self.views for each in view.inputs]
        last = max([self.dataflow.upper, *(each.latest() for each in inputs)]) + 1
        self._step(last)
        while (due := self.dataflow.last_due()) is not None:
            self._step(due + 1)
        self._write(self.dataflow.unchanged(), EPOCH_MILLIS.empty())
        self.is_finished = True

    def _step(self, upper: int) -> None:
        deltas: dict[GlobalId, pa.Table] = {}
        for view in self.views:
            for each in view.inputs:
                if each.collection not in deltas and (table := each.before(upper)) is not None:
                    deltas[each.collection] = table
        if deltas or self.dataflow.due_before(upper) or not self.dataflow.has_begun:
            ticked = self.dataflow.compute(upper, deltas)
        else:
            ticked = self.dataflow.unchanged()
        self._write(ticked, EPOCH_MILLIS.frontier(upper))
        self.dataflow.commit(upper, ticked)
        for view in self.views:
            for each in view.inputs:
                each.forget(upper)
        self.dataflow.merge(self.since)

    def _write(self, ticked: Ticked, frontier: Frontier[int]) -> None:
        """Append the changes of all outputs, and those of the errors, together."""
        outputs: list[Output] = []
        writes: list[Write] = []
        changes = iter(zip(ticked.outputs, ticked.errors_of, strict=True))
        for view in self.views:
            wrong = []
            for output in view.outputs:
                updates, errors = next(changes)
                wrong.append(errors)
                outputs.append(output)
                writes.append(Write(output.writer, _as(updates, output.columns), frontier))
            errors = consolidate(pa.concat_tables(wrong)) if len(wrong) > 1 else wrong[0]
            outputs.append(view.errors)
            writes.append(Write(view.errors.writer, _as(errors, view.errors.columns), frontier))
        for output, writer in zip(outputs, self._storage.append(*writes), strict=True):
            output.writer = writer

    def release_inputs(self) -> None:
        """Let the inputs be compacted as far as the outputs are, and as they have been used."""
        outputs = [output for view in self.views for output in view.outputs]
        since = min((self._since_of(output) for output in outputs), default=0)
        self.since = max(self.since, since)
        for view in self.views:
            for each in view.inputs:
                each.hold(min(self.since, self.dataflow.upper - 1))

    def _since_of(self, output: Output) -> int:
        reader, _ = self._storage.acquire_capabilities(output.writer.id, write=False)
        since = reader.frontier.only()
        if since is None:  # nobody can read it any more
            return self.dataflow.upper
        self._storage.drop_capability(reader)
        return since


def _as(changes: pa.Table, columns: pa.Schema) -> pa.Table | None:
    """Updates with the names and types that storage has for them; None if there are none."""
    if not changes.num_rows:
        return None
    return changes.rename_columns(columns.names).cast(columns)
