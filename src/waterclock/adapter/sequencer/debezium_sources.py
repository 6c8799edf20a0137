"""CREATE SOURCE ... FROM KAFKA with a transaction topic: tables of a database, whole transactions.

FROM KAFKA CONNECTION name (TRANSACTION TOPIC 'prefix.transaction') FORMAT ... ENVELOPE DEBEZIUM
FOR TABLES (schema.table [AS name] [(column type, ...)], ...) | FOR ALL TABLES | FOR SCHEMAS (...)

Tables are named as upstream. The topic of one is called as Debezium calls it, by the prefix that it
was told and the table's name; the prefix is what the transaction topic's name begins with, unless
TOPIC PREFIX says otherwise. All tables are those that have a topic when the source is created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer.messages import (
    PlannedMessages,
    planned_messages,
    shown_columns,
)
from waterclock.adapter.sequencer.naming import full_name
from waterclock.catalog.objects import Column, Connection
from waterclock.model.schema import Schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import ObjectName, Option
from waterclock.sql.ast.sources import (
    AvroFormat,
    EnvelopeKind,
    ExternalConnector,
    TablesOfSchemas,
    TheseTables,
    UpstreamTable,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.envelopes.transactions import json_ends
from waterclock.storage.formats.api import JsonDefinition, MessageDefinition
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kafka import connector as kafka
from waterclock.storage.sources.kafka import transactions
from waterclock.storage.sources.kafka.creation import Wanted, define, topics_at
from waterclock.storage.sources.kafka.definition import KafkaDefinition, TransactionsDefinition

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

TOPIC = "transaction topic"
_OPTIONS = (TOPIC, "topic prefix", "group id prefix")
_ENDING = ".transaction"
Define = Callable[[str, MessageDefinition], KafkaDefinition]


@dataclass(frozen=True, slots=True)
class _Table:
    """One of the tables, how its messages are read, and what it is here."""

    name: str
    topic: KafkaDefinition
    messages: PlannedMessages
    rows: Schema
    shown: tuple[Column, ...] | None
    local: ObjectName


def planned(
    session: SqlSession, statement: ast.CreateSource, connection: Connection
) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it, or upstream."""
    external = statement.connector
    assert isinstance(external, ExternalConnector)
    asked = options.by_name(external.options, _OPTIONS)
    _require_debezium(statement)
    prefix, ends = _prefix(asked), options.text(asked[TOPIC])
    defined = _definer(session, connection, asked)
    wanted = _wanted_tables(session, statement, connection, prefix)
    read = _Reader(session, statement, defined)
    tables = [read.table(prefix, table) for table in wanted]
    about = read.ends(ends)
    topics = {table.name: table.topic for table in tables}
    if len(topics) < len(tables):
        raise SyntaxFault("a table is named twice", wanted[0].upstream.position)
    first = tables[0].messages
    core = session.front.core
    return PlannedSource(
        transactions.NAME,
        TransactionsDefinition(ends=about, tables=topics).encoded(),
        {table.name: table.rows for table in tables},
        is_split=True,
        progress=transactions.KIND.progress,
        connections=(connection.id, *first.connections),
        envelope=first.envelope,
        key_format=first.key_format,
        value_format=first.value_format,
        is_fallible=True,
        takes_notes=True,
        columns={table.name: table.shown for table in tables if table.shown is not None},
        local_names={table.name: table.local for table in tables},
        connector=replace(
            external, connection=full_name(core.current, connection.namespace, connection.name)
        ),
        shown_as=kafka.NAME,
    )


def _require_debezium(statement: ast.CreateSource) -> None:
    envelope = statement.envelope
    if envelope is None or envelope.kind is not EnvelopeKind.DEBEZIUM:
        raise SyntaxFault("TRANSACTION TOPIC requires ENVELOPE DEBEZIUM")
    if statement.subsources is None:
        raise SyntaxFault(
            "a source with a transaction topic needs FOR TABLES or FOR ALL TABLES",
            hint="Name the tables as they are upstream: FOR TABLES (public.orders AS orders).",
        )
    value = None if statement.formats is None else statement.formats.value
    if isinstance(value, AvroFormat) and isinstance(value.schema, str):
        raise Unsupported(
            "a schema can not be given for the topics of several tables",
            hint="Use FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY, or FORMAT JSON.",
        )


def _wanted_tables(
    session: SqlSession, statement: ast.CreateSource, connection: Connection, prefix: str
) -> tuple[UpstreamTable, ...]:
    """The tables that are named, or that there are."""
    asked = statement.subsources
    assert asked is not None
    if isinstance(asked, TheseTables):
        return asked.tables
    schemas = None
    if isinstance(asked, TablesOfSchemas):
        schemas = {schema.name for schema in asked.schemas}
    names = topics_at(session.front.core.connection_settings(connection.id))
    found = tables_of(names, prefix, schemas)
    if not found:
        raise InvalidSource(
            f'there is no topic "{prefix}.schema.table"',
            detail="The connector makes the topic of a table when it first writes to it.",
            hint="Name the tables, or create the source when their topics are there.",
        )
    return tuple(UpstreamTable(ObjectName(table)) for table in found)


def tables_of(
    topics: Sequence[str], prefix: str, schemas: Collection[str] | None = None
) -> list[tuple[str, ...]]:
    """The tables whose topics these are, those of some schemas if they are given.

    Other topics of the connector have the prefix and one word more, as that of transactions has.
    """
    found = []
    for topic in topics:
        parts = tuple(topic.removeprefix(f"{prefix}.").split("."))
        is_table = topic.startswith(f"{prefix}.") and len(parts) > 1 and all(parts)
        if is_table and (schemas is None or parts[-2] in schemas):
            found.append(parts)
    return found


def _prefix(asked: Mapping[str, Option]) -> str:
    if "topic prefix" in asked:
        return options.text(asked["topic prefix"])
    topic = options.text(asked[TOPIC])
    prefix = topic.removesuffix(_ENDING)
    if prefix == topic or not prefix:
        raise SyntaxFault(
            f'TOPIC PREFIX is required, for topic "{topic}" is not called "prefix{_ENDING}"',
            asked[TOPIC].position,
            hint="It is what the names of the tables' topics begin with.",
        )
    return prefix


def _definer(session: SqlSession, connection: Connection, asked: Mapping[str, Option]) -> Define:
    """What asks the brokers for a topic, which must have its beginning still."""
    settings = session.front.core.connection_settings(connection.id)
    group = options.text(asked["group id prefix"]) if "group id prefix" in asked else ""

    def defined(topic: str, messages: MessageDefinition) -> KafkaDefinition:
        wanted = Wanted(topic, group_prefix=group)
        found = define(
            connection.id, settings, wanted, messages, session.front.core.runtime.wall_ms
        )
        for partition, offset in found.start.items():
            if offset:
                raise InvalidSource(
                    f'topic "{topic}" does not have its beginning any more',
                    detail=f"Partition {partition} begins at offset {offset}, so that there may"
                    " be transactions of which not all is there.",
                    hint="Let the connector write the tables anew.",
                )
        return found

    return defined


class _Reader:
    """Reads what the statement says of tables and their messages."""

    def __init__(self, session: SqlSession, statement: ast.CreateSource, defined: Define) -> None:
        self._session = session
        self._statement = statement
        self._defined = defined

    def table(self, prefix: str, wanted: UpstreamTable) -> _Table:
        name = ".".join(wanted.upstream.parts)
        topic = f"{prefix}.{name}"
        statement = replace(self._statement, columns=wanted.columns or None)
        messages = planned_messages(self._session, statement, f'topic "{topic}"', topic)
        connections = self._session.front.core.connection_settings
        rows = decoding_of(messages.definition, connections).schema
        return _Table(
            name,
            self._defined(topic, messages.definition),
            messages,
            rows,
            shown_columns(statement, rows),
            wanted.local or ObjectName((wanted.upstream.parts[-1],)),
        )

    def ends(self, topic: str) -> KafkaDefinition:
        """The transaction topic."""
        statement = replace(
            self._statement, columns=None, envelope=None, on_error=None, errors=None
        )
        found = planned_messages(self._session, statement, f'topic "{topic}"', topic).definition
        if isinstance(found.value, JsonDefinition):
            found = msgspec.structs.replace(found, value=json_ends())
        names = decoding_of(found, self._session.front.core.connection_settings).schema.names
        if not {"status", "id", "data_collections"} <= set(names):
            raise InvalidSource(
                f'topic "{topic}" does not tell of transactions',
                detail="Its schema must have the fields status, id and data_collections.",
            )
        return self._defined(topic, found)
