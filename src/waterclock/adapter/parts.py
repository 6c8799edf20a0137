"""Queries with parts that are computed once, before what reads them (see `sql.binding.parts`).

Each part is a query of its own over the same contents, and over the parts before it. All are
computed at one time, so the answer is the one that the query would give if it were one text.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from waterclock.adapter.reading import Reading
from waterclock.adapter.results import shaped
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import column_type
from waterclock.model.schema import Column, Schema
from waterclock.sql.binding import BoundQuery


async def evaluated_over(
    reading: Reading,
    query: BoundQuery,
    inputs: Mapping[GlobalId, Schema],
    contents: Mapping[GlobalId, pa.Table],
    time: int | None,
) -> pa.Table:
    """The result of the query over contents; `time` is what `mz_now()` tells."""
    if not query.parts:
        return await reading.evaluate_over(query.sql, inputs, contents, time)
    schemas, rows = dict(inputs), dict(contents)
    for part in query.parts:
        names = [f"c{number + 1}" for number in range(len(part.types))]
        found = part.rows
        if found is None:
            made = await _over(reading, part.sql, schemas, rows, time)
            found = shaped(made, part.types).rename_columns(names)
        columns = zip(names, part.types, strict=True)
        schemas[part.id] = Schema(tuple(Column(n, column_type(t), True) for n, t in columns))
        rows[part.id] = found
    return await _over(reading, query.sql, schemas, rows, time)


async def _over(
    reading: Reading,
    sql: str,
    schemas: Mapping[GlobalId, Schema],
    rows: Mapping[GlobalId, pa.Table],
    time: int | None,
) -> pa.Table:
    """The result of SQL, over those of the contents that it names."""
    named = [each for each in schemas if f"`{each}`" in sql]
    inputs = {each: schemas[each] for each in named}
    return await reading.evaluate_over(sql, inputs, {each: rows[each] for each in named}, time)
