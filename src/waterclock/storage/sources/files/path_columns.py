"""Columns whose values are in the paths of files: `day=2024-01-31/country=GB/part-0.parquet`.

Hive lays out tables so, and Spark does when it is told to partition what it writes. A value is text
with everything unusual in the form `%2F`, and `__HIVE_DEFAULT_PARTITION__` is null. A file without
such a part in its path has null there.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from waterclock.model.schema import Column, Schema, Text
from waterclock.persist.rows import DIFF, arrow_type, row_schema
from waterclock.storage.formats.typed import typed
from waterclock.storage.sources.api import ERROR, OFFSET

_NULL = "__HIVE_DEFAULT_PARTITION__"


def values_in(path: str) -> dict[str, str | None]:
    """The parts `name=value` of the folders of a path, in their order."""
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, mark, value = part.partition("=")
        if mark and name:
            found[unquote(name)] = None if value == _NULL else unquote(value)
    return found


def columns_in(path: str, besides: Schema) -> Schema:
    """The columns that the path of a file has besides those that are in it, as text."""
    names = [name for name in values_in(path) if name not in besides.names]
    return Schema(tuple(Column(name, Text()) for name in names))


@dataclass(frozen=True)
class PathColumns:
    """Takes columns from paths. It can be pickled."""

    schema: Schema

    def require_typed(self) -> None:
        """Raises `InvalidSource` if a column has a type that no text can have."""
        for column in self.schema.columns:
            typed(pa.array([], pa.string()), column)

    def of(self, path: str, origin: str) -> tuple[list[pa.Scalar], str | None]:
        """The values in the path, and what is wrong with them if something is."""
        texts = values_in(path)
        values: list[pa.Scalar] = []
        for column in self.schema.columns:
            text = texts.get(column.name)
            if text is None and not column.nullable:
                return [], f'22004 the path of {origin} has no value for column "{column.name}"'
            [value], [wrong] = typed(pa.array([text], pa.string()), column)
            if wrong.is_valid:
                return [], (
                    f'22P02 the path of {origin} has no valid value for column "{column.name}": '
                    f"{wrong.as_py()}"
                )
            values.append(value)
        return values, None

    def added(self, batch: pa.RecordBatch, path: str, origin: str) -> pa.RecordBatch:
        """Messages with these columns before `mz_offset`; one error instead if they are wrong."""
        if not self.schema.columns:
            return batch
        values, wrong = self.of(path, origin)
        place = batch.schema.get_field_index(OFFSET)
        columns, fields = list(batch.columns), list(batch.schema)
        types = [arrow_type(column.type) for column in self.schema.columns]
        if wrong is None:
            new = [pa.repeat(v.cast(t), len(batch)) for v, t in zip(values, types, strict=True)]
        else:
            new = [pa.nulls(len(batch), kind) for kind in types]
        shown = [field.with_nullable(True) for field in row_schema(self.schema)]
        columns[place:place] = new
        fields[place:place] = shown
        found = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        if wrong is None or not len(found):
            return found
        return error_message(found.schema, found.column(OFFSET)[0].as_py(), wrong)


NO_PATH_COLUMNS = PathColumns(Schema(()))


def error_message(schema: pa.Schema, offset: int, text: str, diff: int = 1) -> pa.RecordBatch:
    """A message that says what is wrong; the schema of others is given, with or without `mz_error`.

    `text` is a SQLSTATE, a blank, and what is wrong.
    """
    fields = [
        field if field.name in (OFFSET, DIFF) else field.with_nullable(True)
        for field in schema
        if field.name != ERROR
    ]
    fields.append(pa.field(ERROR, pa.string()))
    told = {OFFSET: offset, DIFF: diff, ERROR: text}
    columns = [pa.array([told.get(field.name)], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
