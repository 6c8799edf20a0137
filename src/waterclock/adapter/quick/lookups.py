"""A query that picks rows by the whole key of an index, compiled.

The rows of the index are taken before the time is chosen, so nothing has to be held (see
`compute.peek`). The time is the oracle's, asked for after the query has arrived; if the index does
not reach it, or begins only after it, the ordinary way waits or reads elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.api import AtHand, ColumnDescription, Response, Rows
from waterclock.adapter.picking import indexes_with_keys
from waterclock.adapter.planning import Plan
from waterclock.adapter.sequencer.query_plans import described
from waterclock.adapter.timelines import common_timeline
from waterclock.catalog.objects import Table
from waterclock.compute.peek import Key, Shown
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.selection import Isolation
from waterclock.sql.binding import ParameterPlace, SimpleQuery, integer_within

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_MANY_KEYS = 16


@dataclass(frozen=True, slots=True)
class Lookup:
    """Looks the rows of some keys up. `wanted` has the values of each key column."""

    source: GlobalId
    index: GlobalId
    wanted: tuple[tuple[object, ...], ...]
    parameters: int
    shown: Shown
    columns: tuple[ColumnDescription, ...]
    tables: frozenset[GlobalId]
    of_sources: frozenset[GlobalId]
    can_fail: bool
    """Whether something may be wrong with the source: it is more than a table."""
    most_rows: int | None
    """How many rows may be found without having to be ordered or cut."""

    def run(self, session: SqlSession, parameters: Sequence[pa.Scalar]) -> Response | None:
        """The rows, for a statement outside a block."""
        transaction = session.transaction
        if not transaction.may_read_apart or len(parameters) != self.parameters:
            return None
        keys = self._keys(parameters)
        compute = session.front.core.compute
        if keys is None:
            return None
        try:
            peek = compute.index(self.index).peek()
        except KeyError:  # it is being made or dropped
            return None
        read = (self.source, self.index)
        time = session.front.reading.time_at_once(read, peek.upper, can_fail=self.can_fail)
        if time is None:
            return None
        batches: list[pa.RecordBatch] = []
        for key in keys:
            found = peek.rows(time, key, self.shown)
            if found is None:
                return None
            batches += found
        if self.most_rows is not None and sum(b.num_rows for b in batches) > self.most_rows:
            return None
        transaction.read_at_once(time, self.tables, self.of_sources)
        return Rows(self.columns, AtHand(batches))

    def _keys(self, parameters: Sequence[pa.Scalar]) -> list[Key] | None:
        """The keys to look up; None if a parameter is null or does not fit, or if many."""
        filled = []
        for values in self.wanted:
            known = [_value(each, parameters) for each in values]
            if None in known:
                return None
            filled.append(known)
        found = list(itertools.islice(itertools.product(*filled), _MANY_KEYS + 1))
        return None if len(found) > _MANY_KEYS else list(dict.fromkeys(found))


def _value(value: object, parameters: Sequence[pa.Scalar]) -> object | None:
    if not isinstance(value, ParameterPlace):
        return value
    scalar = parameters[value.number - 1]
    if scalar.type != value.held:
        return integer_within(scalar, value.held)
    known: object = scalar.as_py()
    return known


def compiled_lookup(session: SqlSession, plan: Plan) -> Lookup | None:
    """The plan, made without parameters, as a lookup, if it is one."""
    strict = session.settings.get("transaction_isolation") == Isolation.STRICT_SERIALIZABLE
    simple = plan.bound.simple
    if not strict or simple is None or simple.count_star or simple.offset:
        return None
    if session.settings.wants_recency and plan.sources:
        return None  # it has to wait for them
    if plan.bound.uses_now or plan.bound.uses_mz_now or not _uses_all(plan, simple):
        return None
    if common_timeline(session.front.core, [simple.source]) != EPOCH_MILLIS:
        return None
    for index, keys in indexes_with_keys(session.front, simple.source):
        wanted = _wanted(simple, keys)
        shown = session.front.core.compute.index(index).shown(simple.columns)
        if wanted is not None and shown is not None:
            return _lookup(session, plan, simple, index, wanted, shown)
    return None


def _lookup(
    session: SqlSession,
    plan: Plan,
    simple: SimpleQuery,
    index: GlobalId,
    wanted: tuple[tuple[object, ...], ...],
    shown: Shown,
) -> Lookup:
    most = [simple.limit] if simple.limit is not None else []
    source = session.front.core.current.try_item(simple.source)
    return Lookup(
        source=simple.source,
        index=index,
        wanted=wanted,
        parameters=len(plan.bound.parameters),
        shown=shown,
        columns=described(plan),
        tables=plan.tables,
        of_sources=plan.of_sources,
        can_fail=not isinstance(source, Table),
        most_rows=min([*most, 1] if simple.order else most, default=None),
    )


def _uses_all(plan: Plan, simple: SimpleQuery) -> bool:
    """Whether each parameter is compared with a column: else its value may still be wrong."""
    places = [v for c in simple.conditions for v in c.values if isinstance(v, ParameterPlace)]
    return {place.number for place in places} == set(range(1, len(plan.bound.parameters) + 1))


def _wanted(simple: SimpleQuery, keys: Sequence[str]) -> tuple[tuple[object, ...], ...] | None:
    """The values of each key column, if nothing else is asked for."""
    equal = {c.column: c.values for c in simple.conditions if c.operator in ("=", "in")}
    if len(simple.conditions) != len(keys) or set(equal) != set(keys):
        return None
    return tuple(equal[key] for key in keys)
