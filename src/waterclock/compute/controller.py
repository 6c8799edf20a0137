"""Compute: views that are kept up to date from the collections they read into the ones they write.

`maintain_view` takes read capabilities for the inputs, all at one frontier, the view as SQL over
their ids, and the write capability of the output. From then on, and after every restart, each tick
brings the output up to where all inputs are complete.

What holds at every moment:

- the output's upper is not beyond any input's, since a step ends at the least of them;
- the inputs are held at or before the output's since, so that the output could be made again;
- the output's upper says which steps are done. The dataflow's state is opened at it, so output and
  state agree after any
  crash, and there is nothing else to be kept in step with them.

A view writes one output, which is in storage. Ticks are run by whoever owns this object, one at a
time; a view whose data has no value at some time (an overflow, say) stops the tick with
`ViewFailed`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.errors import FrontiersDiffer, ViewFailed
from waterclock.compute.inputs import FINISHED, Input
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.notes import Notes
from waterclock.persist.rows import row_schema, update_schema
from waterclock.persist.schema_codec import decode_schema, encode_schema
from waterclock.storage.api import ReadCapability, Token, Write, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityMisstated

C = TypeVar("C", ReadCapability, WriteCapability)


@dataclass(frozen=True, slots=True)
class View:
    """What to maintain: SQL over collections named by their ids, and the columns of all of them."""

    sql: str
    inputs: Mapping[GlobalId, Schema]
    output: Schema


class _Note(msgspec.Struct, frozen=True):
    """What is kept of a view so that it is taken up again after a restart."""

    sql: str
    inputs: dict[str, tuple[str, Any]]
    """Input id -> token of its read capability, and its columns."""
    output: Any
    writer: str
    as_of: int


@dataclass(slots=True)
class _Maintained:
    """A view with its dataflow, its inputs, and the right to write its output."""

    columns: pa.Schema
    dataflow: Dataflow
    inputs: list[Input]
    writer: WriteCapability


class Compute:
    """The views of one server, over its storage and a Spark session."""

    def __init__(self, storage: Storage, notes: Notes, spark: SparkSession, folder: Path) -> None:
        """Take up every view that was installed before. `folder` holds their state."""
        self._storage = storage
        self._notes = notes
        self._spark = spark
        self._folder = folder
        self._builder = Builder(spark.sparkContext._jvm)
        self._relations = Relations(spark)
        self._views: dict[GlobalId, _Maintained] = {}
        for key, note in notes.all().items():
            collection = GlobalId.parse(key)
            kept = msgspec.msgpack.decode(note, type=_Note)
            self._views[collection] = self._opened(collection, kept)

    def maintain_view(
        self, inputs: Sequence[ReadCapability], view: View, output: WriteCapability
    ) -> ReadCapability:
        """Keep the output equal to the view at every time from the inputs' common frontier on.

        Takes the capabilities over and returns one to read the output. Durable on return: the view
        is maintained again after a restart. Raises `FrontiersDiffer`, or `NotMaintainable` with
        what the view can not be made of; then nothing has changed.
        """
        as_of = _common_time(inputs, output)
        given = {str(c.id): (str(c.token), encode_schema(view.inputs[c.id])) for c in inputs}
        note = _Note(view.sql, given, encode_schema(view.output), str(output.token), as_of)
        maintained = self._opened(output.id, note)
        self._notes.put(str(output.id), msgspec.msgpack.encode(note))
        self._views[output.id] = maintained
        reader, _ = self._storage.acquire_capabilities(output.id, write=False)
        return reader

    def drop_view(self, output: GlobalId) -> None:
        """Maintain the view no longer: its state goes, and so do its capabilities."""
        maintained = self._views.pop(output)
        self._notes.drop(str(output))
        for each in maintained.inputs:
            each.close()
            self._storage.drop_capability(each.capability)
        self._storage.drop_capability(maintained.writer)
        shutil.rmtree(self._folder / str(output))

    def tick(self) -> bool:
        """Bring every view as far as its inputs are complete; False if all of them were there."""
        advanced = [self._advance(output) for output in list(self._views)]
        return any(advanced)

    def close(self) -> None:
        """Stop receiving. What is installed stays installed."""
        for maintained in self._views.values():
            for each in maintained.inputs:
                each.close()

    def _advance(self, output: GlobalId) -> bool:
        view = self._views[output]
        upper = min(each.receive() for each in view.inputs)
        if upper <= view.dataflow.upper:
            return False
        if upper == FINISHED:
            return self._finish(output, view)
        self._step(output, view, upper, EPOCH_MILLIS.frontier(upper))
        self._release_inputs(output, view)
        return True

    def _finish(self, output: GlobalId, view: _Maintained) -> bool:
        """Nothing more will come: do the last step, and close the output for good."""
        last = max(view.dataflow.upper, *(each.latest() for each in view.inputs)) + 1
        self._step(output, view, last, EPOCH_MILLIS.empty())
        self._notes.drop(str(output))
        for each in view.inputs:
            each.close()
            self._storage.drop_capability(each.capability)
        del self._views[output]
        return True

    def _step(
        self, output: GlobalId, view: _Maintained, upper: int, frontier: Frontier[int]
    ) -> None:
        """Compute up to `upper`, and move the output there with what has changed."""
        taken = {each.collection: each.take(upper) for each in view.inputs}
        deltas = {collection: table for collection, table in taken.items() if table is not None}
        ticked = view.dataflow.compute(upper, deltas)
        if ticked.errors.num_rows:
            raise ViewFailed(
                f"view {output} has no value at some time",
                detail="; ".join(ticked.errors["message"].unique().to_pylist()),
            )
        [changes] = ticked.outputs
        updates = changes.rename_columns(view.columns.names).cast(view.columns)
        [view.writer] = self._storage.append(Write(view.writer, updates, frontier))
        view.dataflow.commit(upper, ticked)
        view.dataflow.merge()

    def _release_inputs(self, output: GlobalId, view: _Maintained) -> None:
        """Let the inputs be compacted as far as the output is, and as they have been used."""
        reader, _ = self._storage.acquire_capabilities(output, write=False)
        since = reader.frontier.only()
        if since is None:
            return
        self._storage.drop_capability(reader)
        for each in view.inputs:
            each.hold(min(since, view.dataflow.upper - 1))

    def _opened(self, output: GlobalId, note: _Note) -> _Maintained:
        schemas = {GlobalId.parse(c): decode_schema(s) for c, (_, s) in note.inputs.items()}
        for collection, schema in schemas.items():
            self._relations.add(collection, from_arrow_schema(row_schema(schema)))
        optimized = self._spark.sql(note.sql)._jdf.queryExecution().optimizedPlan()
        program = Program()
        program.add(Translation(self._builder, self._relations).translate(Logical(optimized)))
        start = EPOCH_MILLIS.start()
        writer = self._restated(WriteCapability(Token(note.writer), output, start))
        written = writer.frontier.only()
        assert written is not None, "a maintained view can be written"
        begun = written > note.as_of
        upper = written if begun else note.as_of
        dataflow = Dataflow(
            self._spark,
            self._builder,
            program,
            self._folder / str(output),
            upper=upper,
            begun=begun,
        )
        inputs = [
            Input(
                self._storage,
                self._restated(ReadCapability(Token(token), GlobalId.parse(collection), start)),
                upper,
                contents=not begun,
            )
            for collection, (token, _) in note.inputs.items()
        ]
        columns = update_schema(decode_schema(note.output))
        return _Maintained(columns, dataflow, inputs, writer)

    def _restated(self, guess: C) -> C:
        """The capability as storage has it, of which only the token is known for sure."""
        try:
            return self._storage.downgrade_capability(guess, guess.frontier)
        except CapabilityMisstated as error:
            kept = error.kept
            assert isinstance(kept, type(guess)), "a token keeps its kind"
            return kept


def _common_time(inputs: Sequence[ReadCapability], output: WriteCapability) -> int:
    frontiers = {capability.frontier.only() for capability in inputs}
    [as_of] = frontiers if len(frontiers) == 1 else [None]
    written = output.frontier.only()
    if as_of is None or written is None or written > as_of:
        shown = ", ".join(f"{c.id} at {c.frontier}" for c in inputs)
        raise FrontiersDiffer(
            "the inputs of a view must be at one frontier, and its output not beyond it",
            detail=f"The inputs are {shown}; the output {output.id} is at {output.frontier}.",
        )
    return as_of
