"""Queries that only pick rows of one collection, answered without Spark.

They have conditions that compare a column with constants, an order by columns, a limit, and either
plain columns or `count(*)` to show. If there is an index whose key columns are all compared for
equality, only those keys are looked up. Rows and order are the same as the engine's: strings
compare by their bytes, nulls are placed as asked for, ties are broken by the columns shown. Numbers
with scales of their own compare by value (`adapter.twins`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter import twins
from waterclock.adapter.reading import Moment
from waterclock.catalog.objects import Index, Relation
from waterclock.compute.kernels.codes import flat
from waterclock.compute.kernels.order import ranks
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.rows import NUMERIC, row_schema
from waterclock.sql.binding import Comparison, SimpleQuery

if TYPE_CHECKING:
    from waterclock.adapter.front import SqlFront
    from waterclock.adapter.session import SqlSession

_MANY_KEYS = 10_000
_FEW_ROWS = 1_000
_PATIENCE_S = 1.0


async def pick(
    front: SqlFront, moment: Moment, query: SimpleQuery, schema: Schema, session: SqlSession
) -> pa.Table:
    """The rows that the query picks at the moment."""
    source, wanted = looked_up(front, query, schema)
    if wanted is not None and not await _can_serve(front, moment, source):
        source, wanted = query.source, None
    rows = await front.reading.contents(moment, source, schema, session.cancellation, wanted)
    if rows.num_rows <= _FEW_ROWS:  # done sooner than another thread would be awake
        return picked(rows, query)
    return await asyncio.to_thread(picked, rows, query)


def picked(rows: pa.Table, query: SimpleQuery) -> pa.Table:
    """What the query shows of the collection's rows."""
    rows = kept(rows, query.conditions)
    if query.count_star:
        return pa.table({"count": pa.array([rows.num_rows], pa.int64())})
    if query.order:
        ties = [(name, False, True) for name in query.columns]
        rows = rows.take(in_order(rows, [*query.order, *ties]))
    if query.offset or query.limit is not None:
        rows = rows.slice(query.offset or 0, query.limit)
    names = [f"c{place}" for place in range(len(query.columns))]
    return pa.Table.from_arrays([rows[name] for name in query.columns], names=names)


def kept(rows: pa.Table, conditions: Sequence[Comparison]) -> pa.Table:
    """The rows for which all conditions hold."""
    for comparison in conditions:
        rows = rows.filter(_holds(rows[comparison.column], comparison))
    return rows


def _holds(column: pa.ChunkedArray, comparison: Comparison) -> pa.ChunkedArray | pa.Array:
    if column.type == NUMERIC and comparison.values:
        return twins.holds(flat(column), comparison)
    match comparison.operator:
        case "is null":
            return pc.is_null(column)
        case "is not null":
            return pc.is_valid(column)
        case "in":
            return pc.is_in(column, value_set=_values(comparison, column.type), skip_nulls=True)
        case operator:
            [value] = comparison.values
            compare = {
                "=": pc.equal,
                "<": pc.less,
                "<=": pc.less_equal,
                ">": pc.greater,
                ">=": pc.greater_equal,
            }[operator]
            return compare(column, pa.scalar(value, column.type))


def _values(comparison: Comparison, kind: pa.DataType) -> pa.Array:
    return pa.array([value for value in comparison.values if value is not None], kind)


def in_order(rows: pa.Table, keys: Sequence[tuple[str, bool, bool]]) -> pa.Array:
    """The places of the rows in an order of columns: name, descending, nulls first.

    Nulls and NaN have columns of their own to sort by: where Arrow puts them is not where SQL does.
    Rows that are equal stay as they are.
    """
    columns: list[Any] = []
    order: list[str] = []
    for name, descending, nulls_first in keys:
        column = rows[name]
        columns.append(pc.is_valid(column) if nulls_first else pc.is_null(column))
        order.append("ascending")
        if pa.types.is_floating(column.type):
            columns.append(pc.fill_null(pc.is_nan(column), False))
            order.append("descending" if descending else "ascending")
        columns.append(_sortable(column))
        order.append("descending" if descending else "ascending")
    alike = [flat(rows[name]) for name, _, _ in keys if rows[name].type == NUMERIC]
    for twin in alike:  # equal numbers of different scales, where all else is equal too
        columns.append(pa.array(ranks(twin)))
        order.append("ascending")
    columns.append(pa.array(range(rows.num_rows), pa.int64()))
    names = [str(place) for place in range(len(columns))]
    sort_keys = list(zip(names, [*order, "ascending"], strict=True))
    return pc.sort_indices(pa.table(columns, names=names), sort_keys=sort_keys)


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Arrow sorts no structs; their ranks sort as they do, a number's as its value."""
    if not pa.types.is_nested(column.type):
        return column
    array = flat(column)
    return pa.array(ranks(array.flatten()[0] if array.type == NUMERIC else array))


def looked_up(
    front: SqlFront, query: SimpleQuery, schema: Schema
) -> tuple[GlobalId, pa.Table | None]:
    """Where to fetch rows from, and with which keys, if they are looked up in an index."""
    equal = {c.column: c.values for c in query.conditions if c.operator in ("=", "in")}
    kinds = row_schema(schema)
    for index, keys in indexes_with_keys(front, query.source):
        if all(key in equal for key in keys):
            wanted = _combinations([_held(equal[key], kinds.field(key).type) for key in keys])
            if wanted is not None:
                return index, _table(keys, wanted, schema)
    return query.source, None


def indexes_with_keys(front: SqlFront, source: GlobalId) -> Iterator[tuple[GlobalId, list[str]]]:
    """The indexes on a collection whose keys are columns, and these; the oldest comes first.

    An index may stand for the view that it is on.
    """
    catalog = front.core.current
    item = catalog.try_item(source)
    relation = item.on if isinstance(item, Index) else source
    for user in sorted(catalog.users.get(relation, ())):
        index = catalog.item(user)
        if isinstance(index, Index) and front.core.compute.has_index(index.id):
            keys = _key_columns(front, index)
            if keys:
                yield index.id, keys


async def _can_serve(front: SqlFront, moment: Moment, index: GlobalId) -> bool:
    """Whether the index has the moment: it may begin only later, or be behind.

    As a rule it is one step behind, and waiting for that is much less than reading everything.
    """
    held = moment.hold.times.get(index)
    if held is None or held > moment.time:
        return False
    if moment.time < front.core.compute.index(index).arrangement.upper:
        return True
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await front.reading.complete(moment, [index])
    except TimeoutError:
        return False
    return True


def _key_columns(front: SqlFront, index: Index) -> list[str] | None:
    """The index's keys, if all of them are columns."""
    relation = front.core.current.item(index.on)
    assert isinstance(relation, Relation)
    if any(key.column is None for key in index.keys):
        return None
    return [relation.columns[(key.column or 0) - 1].name for key in index.keys]


def _held(values: tuple[object, ...], kind: pa.DataType) -> tuple[object, ...]:
    """The values that are equal to one of these, as keys have them."""
    return twins.spellings(values) if kind == NUMERIC else values


def _combinations(values: list[tuple[object, ...]]) -> list[tuple[object, ...]] | None:
    """All keys to look up; None if they are too many to be worth it."""
    found = list(itertools.islice(itertools.product(*values), _MANY_KEYS + 1))
    return None if len(found) > _MANY_KEYS else found


def _table(keys: list[str], wanted: list[tuple[object, ...]], schema: Schema) -> pa.Table:
    """The keys, without those that hold a null: nothing equals it."""
    kinds = row_schema(schema)
    sound = [key for key in dict.fromkeys(wanted) if None not in key]
    return pa.table(
        {
            name: _column([key[place] for key in sound], kinds.field(name).type)
            for place, name in enumerate(keys)
        }
    )


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return twins.read(values) if kind == NUMERIC else pa.array(values, kind)
