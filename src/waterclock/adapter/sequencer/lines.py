"""What CREATE SOURCE says of files, wherever they are: their lines, their Parquet, their paths.

`HIVE PARTITIONS (day, country)` names columns whose values are in the path of a file. They are text
unless they are declared, and come after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import catalog_columns
from waterclock.adapter.sequencer.decode_errors import refuse_decode_errors, with_error_column
from waterclock.adapter.sequencer.messages import (
    PlannedMessages,
    declared_columns,
    declared_schema,
    planned_messages,
)
from waterclock.catalog.objects import Column
from waterclock.model.pg_types import TEXT, column_type
from waterclock.model.schema import Column as StoredColumn
from waterclock.model.schema import Schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Identifier, Option
from waterclock.sql.ast.relations import ColumnDefinition
from waterclock.sql.ast.sources import (
    CsvFormat,
    EnvelopeKind,
    Formats,
    Metadata,
)
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.sources.files.path_columns import PathColumns

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

HIVE = "hive partitions"


@dataclass(frozen=True, slots=True)
class PlannedLines:
    """How lines are read, and the rows that come of them.

    `shown` are the columns as they are declared; empty if they are shown as they are held.
    """

    messages: PlannedMessages
    header: tuple[str, ...] | None
    delimiter: str
    path_columns: Schema
    rows: Schema
    shown: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class PlannedParquet:
    """The columns of Parquet, and those of them that are in paths."""

    rows: Schema
    path_columns: Schema
    shown: tuple[Column, ...]


def planned_lines(
    session: SqlSession,
    statement: ast.CreateSource,
    where: str,
    hive: Option | None,
    first_header: Callable[[str], tuple[str, ...]],
) -> PlannedLines:
    """What the clauses of the statement ask for. Raises what is wrong with them.

    `where` is what errors call the files. `first_header` gives the names in the first line of some
    file, given the delimiter.
    """
    _require_no_key(statement, where)
    statement, in_path = _without_path_columns(statement, hive)
    path_columns = _stored_columns(in_path)
    PathColumns(path_columns).require_typed()
    statement, header = _with_header(statement, first_header)
    messages = planned_messages(session, statement, where)
    assert statement.formats is not None
    chosen = statement.formats.value
    delimiter = chosen.delimiter if isinstance(chosen, CsvFormat) else None
    values = decoding_of(messages.definition, session.front.core.connection_settings).schema
    rows = Schema((*values.columns, *path_columns.columns))
    declared = with_error_column(declared_columns(statement), messages.definition.errors)
    if declared is None or len(declared) != len(values.columns):
        declared = catalog_columns(values.columns)
    return PlannedLines(
        messages, header, delimiter or ",", path_columns, rows, (*declared, *in_path)
    )


def planned_parquet(
    statement: ast.CreateSource,
    hive: Option | None,
    first_columns: Callable[[], tuple[Schema, Schema]],
) -> PlannedParquet:
    """The same for Parquet. `first_columns` gives the columns of some file and those in its path,
    which count if the statement declares none.
    """
    if statement.include or (
        statement.envelope is not None and statement.envelope.kind is not EnvelopeKind.NONE
    ):
        raise Unsupported("INCLUDE and ENVELOPE are not supported for Parquet")
    refuse_decode_errors(statement, "Parquet", "A file is read as a whole, or is an error.")
    statement, in_path = _without_path_columns(statement, hive)
    path_columns = _stored_columns(in_path)
    PathColumns(path_columns).require_typed()
    declared = declared_columns(statement)
    inside = declared_schema(statement)
    if inside is None:
        inside, found = first_columns()
        if hive is None:
            path_columns = found
        inside = Schema(tuple(c for c in inside.columns if c.name not in path_columns.names))
    shown = catalog_columns(inside.columns) if declared is None else declared
    rows = Schema((*inside.columns, *path_columns.columns))
    return PlannedParquet(
        rows, path_columns, (*shown, *(in_path or catalog_columns(path_columns.columns)))
    )


def _stored_columns(columns: Sequence[Column]) -> Schema:
    return Schema(tuple(StoredColumn(c.name, column_type(c.type), c.nullable) for c in columns))


def _without_path_columns(
    statement: ast.CreateSource, hive: Option | None
) -> tuple[ast.CreateSource, tuple[Column, ...]]:
    """The statement without the columns that are in paths, and these."""
    if hive is None:
        return statement, ()
    names = options.names(hive)
    given = {c.name: c for c in declared_columns(statement) or ()}
    found = tuple(given.get(name) or Column(name, TEXT, True) for name in names)
    if any(isinstance(each, Identifier) for each in statement.columns or ()):
        raise Unsupported("columns can not be renamed together with HIVE PARTITIONS")
    left = tuple(
        each
        for each in statement.columns or ()
        if isinstance(each, ColumnDefinition) and each.name.name not in names
    )
    return replace(statement, columns=left or None), found


def _require_no_key(statement: ast.CreateSource, where: str) -> None:
    """Lines have no key, and nothing besides them but where they stand."""
    formats, envelope = statement.formats, statement.envelope
    what, _, _ = where.partition(" ")
    if formats is not None and formats.key is not None:
        raise Unsupported(f"KEY FORMAT is not supported for {what}")
    if envelope is not None and envelope.kind is EnvelopeKind.UPSERT:
        raise Unsupported(f"ENVELOPE UPSERT is not supported for {what}")
    for each in statement.include:
        if each.what is not Metadata.OFFSET:
            raise Unsupported(f"INCLUDE {each.what.value} is not supported for {what}")


def _with_header(
    statement: ast.CreateSource, first_header: Callable[[str], tuple[str, ...]]
) -> tuple[ast.CreateSource, tuple[str, ...] | None]:
    """The statement with the names of a header that it does not give, and these names."""
    assert statement.formats is not None
    chosen = statement.formats.value
    if not isinstance(chosen, CsvFormat) or not chosen.header:
        return statement, None
    assert not isinstance(chosen.columns, int)
    names = tuple(column.name for column in chosen.columns)
    declared = declared_columns(statement)
    if not names and declared is not None:
        names = tuple(column.name for column in declared)
    if not names:
        names = first_header(chosen.delimiter or ",")
    columns = tuple(Identifier(name) for name in names)
    formats = Formats(CsvFormat(True, columns, chosen.delimiter))
    return replace(statement, formats=formats), names
