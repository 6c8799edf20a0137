"""The eight tables: their columns, their keys, and the ids they have as collections."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.persist.rows import row_schema
from waterclock.storage.sources.tpch.tables import TABLES as SPECIFIED
from waterclock.storage.sources.tpch.tables import rows_at

__all__ = ["TABLES", "Table", "rows_at"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the benchmark."""

    id: GlobalId
    schema: pa.Schema
    key: tuple[str, ...]


TABLES: dict[str, Table] = {
    name: Table(GlobalId.user(number), row_schema(table.schema), table.key)
    for number, (name, table) in enumerate(SPECIFIED.items(), start=1)
}
