"""Rows of system relations as Arrow tables, in the column order that PostgreSQL has.

A row is written as the columns that matter; the others get the value that means nothing: null
where the column allows it, else zero, false or the empty string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from waterclock.catalog.system.facts import FactRelation, Facts
from waterclock.catalog.system.types import Types

Key = tuple[str, str]
"""A relation, by schema and name."""

_ARROW = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "INTERVAL": pa.month_day_nano_interval(),
    "UUID": pa.string(),
    "BLOB": pa.binary(),
    "DECIMAL(38, 6)": pa.decimal128(38, 6),
}
_NOTHING = {"BOOLEAN": False, "VARCHAR": "", "FLOAT": 0.0, "DOUBLE": 0.0}


def arrow_of(held: str) -> pa.DataType:
    """The Arrow type that DuckDB takes as the one named."""
    if held.endswith("[]"):
        return pa.list_(arrow_of(held[:-2]))
    return _ARROW[held]


class Layout:
    """How rows of one relation are written."""

    def __init__(self, relation: FactRelation, types: Types) -> None:
        self.relation = relation
        self.names = tuple(column.name for column in relation.columns)
        held = [types.held_as(types.base_oid(column.type)) for column in relation.columns]
        self.ddl = ", ".join(
            f'"{name}" {kind}' for name, kind in zip(self.names, held, strict=True)
        )
        self.schema = pa.schema(
            [(name, arrow_of(kind)) for name, kind in zip(self.names, held, strict=True)]
        )
        self._blank = {
            column.name: _blank(kind) if column.not_null else None
            for column, kind in zip(relation.columns, held, strict=True)
        }

    def row(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """A full row; `values` must name columns of the relation."""
        return tuple(map({**self._blank, **values}.__getitem__, self.names))

    def table(self, rows: Iterable[Sequence[Any]]) -> pa.Table:
        columns = list(zip(*rows, strict=True))
        if not columns:
            return self.schema.empty_table()
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


class Layouts:
    """The layouts of all relations, each made when it is first needed."""

    def __init__(self, facts: Facts, types: Types) -> None:
        self._facts = facts
        self._types = types
        self._made: dict[Key, Layout] = {}

    def __getitem__(self, key: Key) -> Layout:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Layout(self._facts.columns[key], self._types)
        return found


def _blank(held: str) -> Any:
    if held.endswith("[]"):
        return []
    return _NOTHING.get(held, 0)
