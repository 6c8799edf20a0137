"""What a PostgreSQL source has to remember of the server it reads.

A table is known by its number there and not by its name, and a column by its name, its number and
its type: what has another one is not what the source was created for. `held` is the type that we
hold a value as; the server always sends text, so a column that we hold as text needs no support.
"""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType, column_type, with_fixed_scale
from waterclock.model.schema import Column, Schema, Text
from waterclock.storage.sources.decode_errors import FAIL, DecodeErrors

_SIMPLE = re.compile(r"[a-z_][a-z0-9_$]*")


class UpstreamColumn(msgspec.Struct, frozen=True):
    """A column that is read. `type` and `modifier` are those that the server has for it, `version`
    is the number of the transaction that defined it last, `default` is that of its default, or 0.
    """

    name: str
    number: int
    type: int
    modifier: int
    held: PgType
    nullable: bool
    version: str = ""
    default: int = 0


class UpstreamTable(msgspec.Struct, frozen=True, dict=True):
    """A table that is read, and how it is published.

    `membership` has the numbers of the rows in the server's catalog by which the table is in the
    publication; they change when it is taken out and put in again. `file` is where its rows are;
    it changes when they are written anew, all of them at once.

    The same table may be read several times, each time with the columns that it had when it was
    added to the source: these are its editions.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[UpstreamColumn, ...]
    membership: tuple[int, ...] = ()
    filter: str | None = None
    file: int = 0
    edition: int = 1
    errors: DecodeErrors = FAIL

    @cached_property
    def shown(self) -> str:
        """Its name with its schema, quoted where needed."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @cached_property
    def output(self) -> str:
        """The name of the connector's output."""
        return self.shown if self.edition == 1 else f"{self.shown} ({self.edition})"

    @cached_property
    def rows(self) -> Schema:
        inline = self.errors.column
        columns = tuple(
            Column(c.name, column_type(c.held), c.nullable or inline is not None)
            for c in self.columns
        )
        return Schema(columns if inline is None else (*columns, Column(inline, Text())))


class PostgresDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A source. `system` is the identifier of the server, which no other has.

    `version` is the number of the transaction that wrote the publication's properties last.
    Without `own_scales` it is of the time when numbers of no declared scale were held with 18
    digits behind the point, and so they stay.
    """

    connection: str
    publication: str
    version: str
    slot: str
    system: str
    tables: tuple[UpstreamTable, ...]
    owns_publication: bool = False
    """Whether the publication was made for the source, and goes with it."""
    own_scales: bool = False

    @property
    def connection_id(self) -> GlobalId:
        return GlobalId.parse(self.connection)

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def definition_of(encoded: bytes) -> PostgresDefinition:
    """The definition that was encoded."""
    found = msgspec.msgpack.decode(encoded, type=PostgresDefinition)
    if found.own_scales:
        return found
    return msgspec.structs.replace(found, tables=tuple(map(_with_fixed_scale, found.tables)))


def _with_fixed_scale(table: UpstreamTable) -> UpstreamTable:
    columns = tuple(
        msgspec.structs.replace(column, held=with_fixed_scale(column.held))
        for column in table.columns
    )
    return msgspec.structs.replace(table, columns=columns)


def quoted(name: str) -> str:
    """A name as SQL writes it. It need not be quoted less than PostgreSQL would."""
    return name if _SIMPLE.fullmatch(name) else always_quoted(name)


def always_quoted(name: str) -> str:
    """A name in quotes, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def shown_lsn(lsn: int) -> str:
    """A place in the write-ahead log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parsed_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
