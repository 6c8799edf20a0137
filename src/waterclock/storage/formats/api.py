"""The words between a connector that has bytes and the envelope that wants rows.

A connector that reads messages as bytes gives them as *records* (`RECORDS`): the key, the value,
and what is known besides. A `Format` turns one column of bytes into typed columns. A `Decoding` has
the formats of key and value and the columns that INCLUDE asks for, and turns records into the
messages that the source's envelope takes. All of these are values that can be pickled, so that
decoding runs on executors as well as here. A connector does this and no more:

    definition: MessageDefinition            a part of its own definition, from CREATE SOURCE
    decoding_of(definition, connection)      envelopes.choice; `connection` as in `Surroundings`;
                                             its `schema` is that of the output
    batch = decoding.decode(records)         anywhere; pure; messages in the order of the records
    Messages(output, partition, batch)       what `Connector.read` gives
    envelope_of(definition)                  envelopes.choice; for `Kind.envelope`
    definition.takes_notes                   whether the source needs a collection of notes

What can not be decoded is data: the message carries a text in the column `mz_error` instead of
values, and the envelope brings it to the error collection of the output, where it stays until an
upsert replaces it or it is retracted. While it is there, reads at that time fail with the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from waterclock.model.schema import Column, Schema
from waterclock.storage.sources.decode_errors import FAIL, DecodeErrors

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORDS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("headers", pa.list_(HEADER)),
    ]
)
"""Records as connectors give them. A column that no INCLUDE asks for may be all null."""
LONG_RECORDS = pa.schema(
    [
        RECORDS.field("key"),
        RECORDS.field("value"),
        pa.field("partition", pa.string()),
        pa.field("offset", pa.string(), nullable=False),
        RECORDS.field("timestamp"),
        RECORDS.field("headers"),
    ]
)
"""The same where partitions have names, and offsets are numbers of any length, in decimal digits.
"""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The columns that bytes say, and for each row what is wrong with it (null = nothing).

    The values of a row that is wrong are null, also in columns that have no nulls otherwise.
    """

    columns: tuple[pa.Array, ...]
    errors: pa.Array


class Format(Protocol):
    """How bytes are read. Implementations can be pickled, and used by one thread at a time."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it makes of the bytes."""
        ...

    @property
    def sqlstate(self) -> str:
        """The code of the error that bytes of another form are."""
        ...

    def decode(self, payloads: pa.Array) -> Decoded:
        """Each element of a binary array. A null is decoded to nulls and is not wrong.

        Raises `TransientFault` if something that is needed can not be reached at present.
        """
        ...


class JsonDefinition(msgspec.Struct, frozen=True, tag="json", omit_defaults=True):
    """JSON: one jsonb column, or the columns of a schema (see `persist.schema_codec`)."""

    columns: Any = None
    name: str = "data"


class TextDefinition(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """The bytes as text in UTF-8."""

    name: str = "text"


class BytesDefinition(msgspec.Struct, frozen=True, tag="bytes", omit_defaults=True):
    """The bytes themselves."""

    name: str = "data"


class CsvDefinition(msgspec.Struct, frozen=True, tag="csv", omit_defaults=True):
    """One line of CSV, as the columns of a schema."""

    columns: Any
    delimiter: str = ","


class AvroDefinition(msgspec.Struct, frozen=True, tag="avro", omit_defaults=True):
    """Avro, read as the schema says (its JSON text).

    With a registry, a message names the schema it was written with; without, it is the same.
    `connection` is the id of the connection to the registry: what is needed to reach it is not in
    here, but asked for when the source is opened.
    """

    schema: str
    connection: str | None = None
    name: str = "data"
    """Of the column, if the schema is not that of a record."""


FormatDefinition = (
    JsonDefinition | TextDefinition | BytesDefinition | CsvDefinition | AvroDefinition
)


class Included(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of what is known besides the value.

    `what` is `key`, `partition`, `offset`, `timestamp`, `headers` or `header`; `header` names the
    one that is wanted. In long records, `shard` and `sequence number` take the place of `partition`
    and `offset`. The name of the key's column counts only if its format has a single one.
    """

    what: str
    name: str
    header: str | None = None


class PlainDefinition(msgspec.Struct, frozen=True, tag="none"):
    """ENVELOPE NONE: each message is a row."""


class UpsertDefinition(msgspec.Struct, frozen=True, tag="upsert"):
    """ENVELOPE UPSERT: each message is the row of its key from now on."""


class DebeziumDefinition(msgspec.Struct, frozen=True, tag="debezium", omit_defaults=True):
    """ENVELOPE DEBEZIUM: each message is a row before and after a change.

    The value's format is given for the row, not for the message around it, unless it is Avro.
    """


class MaterializeDefinition(msgspec.Struct, frozen=True, tag="materialize", omit_defaults=True):
    """ENVELOPE MATERIALIZE: messages are updates with times, and statements of progress.

    With `keeps_times` the times of the messages are those of the output, which is on a timeline of
    its own; otherwise they only tell what belongs together.
    """

    keeps_times: bool = False


EnvelopeDefinition = PlainDefinition | UpsertDefinition | DebeziumDefinition | MaterializeDefinition


class MessageDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the messages of one output are read. `origin` says where they come from, as errors tell
    it: `topic "orders"`. With `long_offsets` they come as `LONG_RECORDS`.
    """

    origin: str
    value: FormatDefinition
    key: FormatDefinition | None = None
    include: tuple[Included, ...] = ()
    envelope: EnvelopeDefinition = PlainDefinition()
    long_offsets: bool = False
    errors: DecodeErrors = FAIL

    @property
    def offset_type(self) -> pa.DataType:
        """The type of `mz_offset` in the messages."""
        return (LONG_RECORDS if self.long_offsets else RECORDS).field("offset").type

    @property
    def takes_notes(self) -> bool:
        """Whether the envelope has to remember something besides its rows and errors."""
        if isinstance(self.envelope, UpsertDefinition):
            return self.errors.column is not None
        return isinstance(self.envelope, DebeziumDefinition | MaterializeDefinition)


class Decoding(Protocol):
    """Turns records into messages. Implementations can be pickled."""

    @property
    def schema(self) -> Schema:
        """The rows of the output: columns of the key, of the value, and included ones."""
        ...

    @property
    def messages(self) -> pa.Schema:
        """What `decode` gives: for the envelope to understand, but `mz_offset` is among it."""
        ...

    def decode(self, records: pa.RecordBatch, origin: str | None = None) -> pa.RecordBatch:
        """The messages of some records of one partition (see `RECORDS`), in their order.

        `origin` is where they come from, if it is not what the definition says.
        """
        ...
