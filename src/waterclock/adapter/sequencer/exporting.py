"""COPY ... TO 'location' WITH (FORMAT PARQUET): a result as files, here or in a bucket.

All rows are as of one time. The client gets the number of rows when the files are whole; if
anything goes wrong before, or the statement is stopped, what was written is removed.

A file here is written with the rights of the server, so that takes a superuser; a bucket is written
with those of a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.api import Done, Rows
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.results import closed
from waterclock.catalog import privileges
from waterclock.catalog.objects import Connection, Privilege
from waterclock.model.pg_types import column_type
from waterclock.model.schema import Column, Schema
from waterclock.sql import options
from waterclock.sql.ast.common import NameValue, Option
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.exports.columns import ExportedColumns
from waterclock.storage.exports.parquet import ParquetExport
from waterclock.storage.exports.places import Place, place_of
from waterclock.storage.sources.aws.clients import AwsAccess, access_of

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_KNOWN = ("format", "aws connection", "max file size")
_FILE_BYTES = 256 << 20
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


class Target:
    """Where a COPY goes, as its options say. They are checked before the query runs."""

    def __init__(self, session: SqlSession, location: str, given: Sequence[Option]) -> None:
        asked = options.by_name(tuple(given), _KNOWN)
        form = options.text(asked["format"]).lower() if "format" in asked else "text"
        if form != "parquet":
            raise Unsupported(
                f"COPY to a location in format {form} is not supported",
                hint="Write WITH (FORMAT PARQUET), or use COPY ... TO STDOUT.",
            )
        size = asked.get("max file size")
        self.file_bytes = _FILE_BYTES if size is None else _bytes(size)
        self._location = location
        self._access: AwsAccess | None = None
        over = asked.get("aws connection")
        if over is not None:
            self._access = _access(session, over)
        else:
            privileges.check_superuser(session.front.core.current, session.role.oid, "write files")

    def place(self) -> Place:
        """The place, which is free. Asks the file system, so not for the event loop."""
        found = place_of(self._location, self._access)
        found.require_free()
        return found


async def export(session: SqlSession, target: Target, response: Rows) -> Done:
    """Write all rows of a response."""
    in_thread = session.front.changes.in_thread
    names = [Column(each.name, column_type(each.type)) for each in response.columns]
    try:
        columns = ExportedColumns(Schema(tuple(names)))
        written = ParquetExport(await in_thread(target.place), columns, target.file_bytes)
    except BaseException:
        await closed(response.batches)
        raise
    try:
        async for batch in response.batches:
            await in_thread(written.write, _named(batch, columns))
        await in_thread(written.finish)
    except BaseException:
        await in_thread(written.abort)
        await closed(response.batches)
        raise
    return Done(f"COPY {written.rows}")


def _named(batch: pa.RecordBatch, columns: ExportedColumns) -> pa.RecordBatch:
    return batch.rename_columns(columns.schema.names)


def _access(session: SqlSession, option: Option) -> AwsAccess:
    if not isinstance(option.value, NameValue):
        raise SyntaxFault("AWS CONNECTION requires the name of a connection", option.position)
    core = session.front.core
    found = core.current.named(Connection, name_of(option.value.name.parts), session.scope)
    privileges.check(core.current, session.role.oid, found, Privilege.USAGE)
    return access_of(core.connection_settings(found.id))


def _bytes(option: Option) -> int:
    text = options.text(option).strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "b"
    if not digits.isascii() or not digits.isdigit() or unit not in _UNITS or not int(digits):
        raise SyntaxFault(
            f"{option.name} requires a size", option.position, hint="Write it as in '256MB'."
        )
    return int(digits) * _UNITS[unit]
