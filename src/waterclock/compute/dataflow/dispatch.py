"""Which branches of a program need not pass through Spark, when the work is spread over many tasks.

A branch that an operator takes in, and that only picks columns, is sent from where its base is
known (`sending`). One that Python can compute (`plain`) is sent too, as far as that goes: for the
rows of the base for which it does not, the branch is in the stream as others are, over a column of
its own that has just those rows. What is shown at the end is never sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from waterclock.compute.dataflow.operators import operator_of
from waterclock.compute.dataflow.program import Base, Branch, Program
from waterclock.compute.dataflow.sending import Send, Sending
from waterclock.compute.dataflow.structs import schema_of
from waterclock.compute.plan.nodes import Constant, Get


class Dispatch:
    """What is sent straight from where a base is known; nothing, if there is one task."""

    def __init__(self, program: Program, constants: Mapping[Base, str], parts: int) -> None:
        """`constants` has the names of the plan's constants in the stream."""
        self._program = program
        self._constants = dict(constants)
        self._parts = parts
        self.inputs: dict[str, pa.Schema] = {}
        """The columns of what operators take in, under the names it has on its way to a stage."""
        self.sent: set[Branch] = set()
        """Branches that are not in the stream."""
        self.rests: dict[Branch, str] = {}
        """Branches that are sent as far as a stage can compute them, and what the rows of the base
        are called in the stream for which it can not."""
        self._sends: dict[Base, list[Send]] = {}
        if parts > 1:
            self._find()

    def sending(self, bases: Iterable[Base]) -> Sending:
        """What a stage sends that has these bases."""
        sends = tuple(send for base in bases for send in self._sends.get(base, ()))
        return Sending(sends, self.inputs, self._parts)

    def streamed(
        self, name: str, struct: StructType, branches: Iterable[Branch]
    ) -> dict[str, StructType]:
        """What of a base goes into the stream: its rows under its name, or the rests of them."""
        wanted = [b for b in branches if self._program.picks(b) is None and b not in self.sent]
        return {self.rests.get(branch, name): struct for branch in wanted}

    def _find(self) -> None:
        shown = {branch for output in self._program.outputs for branch in output}
        for operator in self._program.operators.values():
            schemas = [schema_of(each) for each in operator.inputs]
            keys = operator_of(operator.node, schemas).routes
            for place, each in enumerate(operator.inputs):
                column = f"{self._program.names[operator.node]}_in{place}"
                self.inputs[column] = schemas[place]
                for branch in each:
                    if branch not in shown:
                        self._add(branch, column, None if keys is None else keys[place])

    def _add(self, branch: Branch, column: str, keys: tuple[str, ...] | None) -> None:
        """Let the branch be sent, if it can be made without Catalyst."""
        made = branch.direct or branch.computed
        if made is None:
            return
        if branch.direct is not None:
            self.sent.add(branch)
        else:
            self.rests.setdefault(branch, f"rest_{len(self.rests)}")
        source = self._name_of(branch.base)
        send = Send(source, made, branch.positive, column, keys, self.rests.get(branch))
        self._sends.setdefault(branch.base, []).append(send)

    def _name_of(self, base: Base) -> str:
        """What the rows of a base are called in the stream."""
        match base:
            case Get():
                return f"in_{base.collection}"
            case Constant():
                return self._constants[base]
            case _:
                return self._program.names[base]
