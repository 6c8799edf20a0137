"""A query whose only row is made of constants, such as `SELECT 1`, compiled to that row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.api import AtHand, ColumnDescription, Response, Rows
from waterclock.adapter.planning import Plan
from waterclock.adapter.results import shaped
from waterclock.adapter.sequencer.evaluation import known_row
from waterclock.adapter.sequencer.query_plans import described

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


@dataclass(frozen=True, slots=True)
class Constants:
    """The row, which is the same at all times."""

    columns: tuple[ColumnDescription, ...]
    batches: tuple[pa.RecordBatch, ...]

    def run(self, session: SqlSession, _: Sequence[pa.Scalar]) -> Response | None:
        """The row, unless something has to end first: a transaction that failed, or wrote."""
        transaction = session.transaction
        if transaction.has_failed or transaction.has_written:
            return None
        return Rows(self.columns, AtHand(self.batches))


def compiled_constants(plan: Plan) -> Constants | None:
    """The row of a plan, if it is known and the time does not change it."""
    bound = plan.bound
    if bound.row is None or bound.uses_now or bound.uses_mz_now or bound.parameters:
        return None
    row = shaped(known_row(plan, bound.row), [column.type for column in bound.columns])
    return Constants(described(plan), tuple(row.to_batches()))
