"""Operators that are wrong in ways that are easy to get wrong: the fuzzer must find them.

They stand in the place of the right ones, which they wrap, and go to the executors like them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.dataflow import chain
from waterclock.compute.dataflow.operators import (
    DistinctOperator,
    JoinOperator,
    ReduceOperator,
    Rule,
    StageOperator,
    Stepped,
    operator_of,
)
from waterclock.compute.dataflow.program import Stateful
from waterclock.compute.kernels.linear import union
from waterclock.compute.kernels.trace import Trace
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.rows import DIFF, TIME


@dataclass(frozen=True)
class _Wrapped:
    """An operator that does what another does."""

    inner: StageOperator

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return self.inner.layouts

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.inner.rules

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return self.inner.routes

    def initial(self, time: int) -> pa.Table | None:
        return self.inner.initial(time)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        return self.inner.step(deltas, traces)


@dataclass(frozen=True)
class ForgetfulJoin(_Wrapped):
    """Of the three terms of a join's change, it forgets that of the two changes."""

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        left, right = deltas
        stepped = self.inner.step(deltas, traces)
        parts = [
            self.inner.step([left, right.slice(0, 0)], traces).output,
            self.inner.step([left.slice(0, 0), right], traces).output,
        ]
        return replace(stepped, output=union(parts))


@dataclass(frozen=True)
class HastyDistinct(_Wrapped):
    """It takes all changes of a step as one, at the first of its times."""

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        [delta] = deltas
        if delta.num_rows:
            first = pa.array([pc.min(delta[TIME]).as_py()] * delta.num_rows, pa.int64())
            delta = delta.set_column(delta.column_names.index(TIME), TIME, first)
        return self.inner.step([delta], traces)


@dataclass(frozen=True)
class StubbornReduce(_Wrapped):
    """It shows what groups become, but takes nothing back of what they were."""

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = self.inner.step(deltas, traces)
        kept = stepped.output.filter(pc.greater(stepped.output[DIFF], 0))
        return replace(stepped, output=kept)


SABOTAGE: dict[str, tuple[type, Callable[[StageOperator], StageOperator]]] = {
    "a join without the term of both changes": (JoinOperator, ForgetfulJoin),
    "a distinct that ignores times inside a step": (DistinctOperator, HastyDistinct),
    "a reduction that retracts nothing": (ReduceOperator, StubbornReduce),
}


@contextmanager
def sabotaged(name: str) -> Iterator[None]:
    """Dataflows that are made inside the block are wrong in this way."""
    kind, wrong = SABOTAGE[name]

    def made(node: Stateful, inputs: Sequence[pa.Schema]) -> StageOperator:
        right = operator_of(node, inputs)
        return wrong(right) if isinstance(right, kind) else right

    with mock.patch.object(chain, "operator_of", made):
        yield
