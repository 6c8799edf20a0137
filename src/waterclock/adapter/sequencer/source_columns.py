"""ALTER SOURCE ... ADD COLUMN: a field that messages have got, as a column.

Messages are read in one more way from then on, and what that gives goes to a new collection, which
takes over the name. It begins as a copy of what the source holds, so nothing is read again: rows
from before have null in the column, or the default that an Avro schema has for it. What the source
was stays, as a relation under another name that has the old columns, and whatever was made over the
source still reads that.

Only messages whose fields are columns can get more of them (JSON with declared columns, and Avro
with a schema registry), and only with ENVELOPE NONE and UPSERT: there a row that goes is known by
what is held here. In Debezium's envelope the message says which row goes, with the new field, and
that would not be the row that is held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.changes import Change
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer.messages import require_unlimited
from waterclock.adapter.sequencer.objects import MISSING
from waterclock.adapter.sequencer.source_tables import require_same_source
from waterclock.adapter.sources import KeptSource, description_of
from waterclock.catalog import items, privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.objects import Column, Source, schema_of
from waterclock.catalog.sources import supersede
from waterclock.errors import WaterclockError
from waterclock.model.errors import DuplicateColumn
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import column_type, pg_type_of
from waterclock.model.schema import Column as StoredColumn
from waterclock.model.schema import Schema
from waterclock.persist.errors import Fenced, Unavailable
from waterclock.persist.rows import arrow_type
from waterclock.persist.schema_codec import decode_schema, encode_schema
from waterclock.sql import ast
from waterclock.sql.ast.common import Identifier, ObjectName
from waterclock.sql.ast.objects import AddSourceColumn
from waterclock.sql.ast.relations import ColumnDefinition
from waterclock.sql.parser import parse_statements
from waterclock.sql.printing import create_text
from waterclock.storage.api import ERROR_ROWS
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.formats.api import (
    AvroDefinition,
    JsonDefinition,
    MessageDefinition,
    PlainDefinition,
    UpsertDefinition,
)
from waterclock.storage.formats.choice import registry_at
from waterclock.storage.sources.decode_errors import FAIL
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kafka import connector as kafka
from waterclock.storage.sources.kafka.definition import OUTPUT, KafkaDefinition, decoded
from waterclock.storage.sources.transfer import Pair, Transfer

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


@dataclass(frozen=True, slots=True)
class _Edition:
    """A source with more columns: what is read, what is shown, and what old rows have in them."""

    output: str
    messages: MessageDefinition
    columns: tuple[Column, ...]
    places: tuple[int | None, ...]
    """Where each column was before; None for a new one."""
    defaults: Mapping[str, Any]

    def widen(self, columns: list[pa.Array], count: int) -> list[pa.Array]:
        """Rows with the new columns."""
        found = []
        for column, place in zip(self.columns, self.places, strict=True):
            if place is not None:
                found.append(columns[place])
                continue
            kind = arrow_type(column_type(column.type))
            value = self.defaults.get(column.name)
            found.append(pa.repeat(pa.scalar(value, kind), count))
        return found


@dataclass(frozen=True, slots=True)
class _Ids:
    """The new collections."""

    rows: GlobalId
    errors: GlobalId


async def alter(session: SqlSession, statement: ast.Alter) -> Response:
    """Carry out ADD COLUMN, of which there may be several in one statement."""
    asked = [each for each in statement.actions if isinstance(each, AddSourceColumn)]
    if len(asked) < len(statement.actions):
        raise Unsupported("ADD COLUMN of a source cannot be combined with other actions")
    core, changes = session.front.core, session.front.changes
    done = Done("ALTER SOURCE")
    try:
        source = _source(session, core.current, statement.name)
    except WaterclockError as error:
        if not statement.if_exists or error.sqlstate not in MISSING:
            raise
        session.notify(Notice(f"{error.message}, skipping"))
        return done
    wanted = _wanted(session, source, asked)
    if not wanted:
        return done
    former: list[str] = []

    async def work(change: Change[None]) -> None:
        edition = await changes.in_thread(_edition, session, source, wanted)
        former.append(await _replaced(session, change, source, wanted, edition))
        change.succeed(None)

    await session.watch.outcome_of(changes.begin(work))
    [name] = former
    session.notify(
        Notice(
            f'what was made over source "{source.name}" reads "{name}" from now on',
            detail="It has the columns that the source had, and is filled as before.",
            hint="When nothing needs it any more, drop it:"
            f" ALTER SOURCE {source.name} DROP TABLE {name}.",
        )
    )
    return done


def _source(session: SqlSession, catalog: Catalog, name: ObjectName) -> Source:
    """The source of that name, if it can get columns."""
    found = catalog.named(Source, name_of(name.parts), session.scope)
    privileges.check_owner(catalog, session.role.oid, found)
    described = catalog.described(found)
    if found.connector != kafka.NAME:
        raise Unsupported(
            f"columns cannot be added to {described}",
            hint="ALTER SOURCE ... ADD TABLE reads a table of PostgreSQL with the columns that it"
            " has now.",
        )
    kept = msgspec.msgpack.decode(found.definition, type=KeptSource)
    if kept.output is None or not isinstance(
        decoded(kept.connector).messages.envelope, PlainDefinition | UpsertDefinition
    ):
        raise Unsupported(
            f"columns cannot be added to {described}",
            detail="That is possible with ENVELOPE NONE and UPSERT.",
            hint="Create another source that reads the topic from its beginning.",
        )
    if decoded(kept.connector).messages.errors != FAIL:
        raise Unsupported(
            f"columns cannot be added to {described}",
            detail="It has ON DECODE ERROR SKIP or INLINE.",
            hint="Create another source that reads the topic from its beginning.",
        )
    return found


def _wanted(
    session: SqlSession, source: Source, asked: Sequence[AddSourceColumn]
) -> list[AddSourceColumn]:
    """What is to be added, each once."""
    known = {column.name for column in source.columns}
    found = []
    for each in asked:
        name = each.name.name
        if name not in known:
            known.add(name)
            found.append(each)
        elif each.if_not_exists:
            text = f'column "{name}" of relation "{source.name}" already exists, skipping'
            session.notify(Notice(text, sqlstate="42701"))
        else:
            raise DuplicateColumn(f'column "{name}" of relation "{source.name}" already exists')
    return found


# What is read


def _edition(session: SqlSession, source: Source, wanted: Sequence[AddSourceColumn]) -> _Edition:
    """The source with more columns. It may ask a schema registry. Raises what is wrong."""
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    definition = decoded(kept.connector)
    assert kept.output is not None, "it is not split"
    before = definition.by_output[kept.output]
    defaults: dict[str, Any] = {}
    match before.value:
        case JsonDefinition(columns=columns) if columns is not None:
            value: JsonDefinition | AvroDefinition = _more_json(before.value, wanted)
        case AvroDefinition(connection=str()):
            value, defaults = _more_avro(session, definition, before.value, wanted)
        case _:
            raise Unsupported(
                f'columns cannot be added to source "{source.name}"',
                detail="That is possible for JSON with declared columns, and for Avro with a schema"
                " registry.",
            )
    messages = msgspec.structs.replace(before, value=value)
    look_up = session.front.core.connection_settings
    old = decoding_of(before, look_up).schema.names
    rows = decoding_of(messages, look_up).schema
    places = tuple(old.index(c.name) if c.name in old else None for c in rows.columns)
    given = {each.name.name: each.type for each in wanted}
    columns = tuple(
        _shown(column, given.get(column.name)) if place is None else source.columns[place]
        for column, place in zip(rows.columns, places, strict=True)
    )
    _ = schema_of(columns)  # raises for names that no collection can have
    number = len(definition.by_output) + 1
    while f"{OUTPUT} ({number})" in definition.by_output:
        number += 1
    return _Edition(f"{OUTPUT} ({number})", messages, columns, places, defaults)


def _shown(column: StoredColumn, given: Any) -> Column:
    return Column(column.name, pg_type_of(column.type) if given is None else given)


def _more_json(before: JsonDefinition, wanted: Sequence[AddSourceColumn]) -> JsonDefinition:
    columns = list(decode_schema(before.columns).columns)
    for each in wanted:
        if each.type is None:
            raise Unsupported(
                f'column "{each.name.name}" needs a type',
                hint="Only Avro schemas tell the types of fields.",
            )
        require_unlimited(each.name.name, each.type)
        columns.append(StoredColumn(each.name.name, column_type(each.type)))
    return msgspec.structs.replace(before, columns=encode_schema(Schema(tuple(columns))))


def _more_avro(
    session: SqlSession,
    definition: KafkaDefinition,
    before: AvroDefinition,
    wanted: Sequence[AddSourceColumn],
) -> tuple[AvroDefinition, dict[str, Any]]:
    """The reader's schema with more of the fields of the newest one, and what they have in old
    messages.
    """
    assert before.connection is not None, "there is a registry"
    settings = session.front.core.connection_settings(GlobalId.parse(before.connection))
    subject = f"{definition.topic}-value"
    latest = registry_at(settings).latest(subject)
    newest = {} if latest is None else json.loads(latest.schema)
    known = {field["name"]: field for field in newest.get("fields", ())}
    schema = json.loads(before.schema)
    defaults: dict[str, Any] = {}
    for each in wanted:
        name = each.name.name
        if each.type is not None:
            raise Unsupported(
                f'column "{name}" can not be given a type',
                hint="It has that of the field in the Avro schema.",
            )
        field = known.get(name)
        if field is None:
            raise InvalidSource(f'the newest schema of subject "{subject}" has no field "{name}"')
        if "default" not in field:
            raise InvalidSource(
                f'field "{name}" of subject "{subject}" has no default',
                detail="So messages from before could not be read with it.",
            )
        default = field["default"]
        if default is not None and not _is_plain(field["type"]):
            raise Unsupported(f'the default of field "{name}" is not supported for its type')
        schema["fields"].append(field)
        defaults[name] = default
    return msgspec.structs.replace(before, schema=json.dumps(schema)), defaults


def _is_plain(kind: Any) -> bool:
    """Whether values of the Avro type are in Arrow what they are in JSON."""
    plain = {"null", "boolean", "int", "long", "float", "double", "string"}
    names = kind if isinstance(kind, list) else [kind]
    return all(isinstance(each, str) and each in plain for each in names)


# Taking over


async def _replaced(
    session: SqlSession,
    change: Change[None],
    source: Source,
    wanted: Sequence[AddSourceColumn],
    edition: _Edition,
) -> str:
    """Let the edition be the source, durably; the name of what the source was."""
    core, changes = session.front.core, session.front.changes
    number = core.catalog.draft().numbers.id
    ids = _Ids(number(), number())
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    assert kept.output is not None, "it is not split"
    errors = GlobalId.parse(kept.errors[kept.output])
    pairs = [
        Pair(source.id, ids.rows, schema_of(edition.columns), edition.widen),
        Pair(errors, ids.errors, ERROR_ROWS, lambda columns, _: columns),
    ]
    with core.holds.take([source.id, errors]) as hold:
        transfer = await changes.in_thread(Transfer, core.storage, core.store, hold, pairs)
        change.stop_with(transfer.stop)
        try:
            await changes.in_thread(transfer.join, core.sources, source.id)
            return await _committed(session, change, source, wanted, edition, ids, transfer)
        except (Fenced, Unavailable):
            raise  # nobody knows what the source is now
        except BaseException:
            with suppress(WaterclockError):
                await changes.in_thread(transfer.unseen.release, [ids.rows, ids.errors])
            raise


async def _committed(
    session: SqlSession,
    change: Change[None],
    source: Source,
    wanted: Sequence[AddSourceColumn],
    edition: _Edition,
    ids: _Ids,
    transfer: Transfer,
) -> str:
    core, changes = session.front.core, session.front.changes
    resume: Callable[[], None] = partial(core.sources.resume, source.id)
    try:
        async with changes.drafting() as draft:
            name = items.free_name(draft, source.namespace, f"{source.name}_old")
            made = _superseded(draft, source, wanted, edition, ids, name)
            described = description_of(draft.catalog, made)
            adopted = {each: (reader, None) for each, reader in transfer.unseen.readers.items()}
            changes.hand_on(draft)
            await changes.carry_out(change, draft, adopted=adopted)
        resume = partial(core.sources.resume, source.id, described)
    finally:
        await changes.in_thread(resume)
    return name


def _superseded(
    draft: Draft,
    source: Source,
    wanted: Sequence[AddSourceColumn],
    edition: _Edition,
    ids: _Ids,
    name: str,
) -> Source:
    """The source with more columns, in the draft, and beside it what it was."""
    found = require_same_source(draft, source)
    kept = msgspec.msgpack.decode(found.definition, type=KeptSource)
    assert kept.output is not None, "it is not split"
    known = decoded(kept.connector)
    editions = {**known.by_output, edition.output: edition.messages}
    definition = msgspec.structs.replace(
        kept,
        connector=msgspec.structs.replace(known, editions=editions).encoded(),
        output=edition.output,
        errors=kept.errors | {edition.output: str(ids.errors)},
    )
    made = msgspec.structs.replace(
        found,
        id=ids.rows,
        columns=edition.columns,
        definition=definition.encoded(),
        collections=(*found.collections, ids.errors),
        sql=_text(found, wanted),
    )
    supersede(draft, found, made, name, kept.output)
    return made


def _text(source: Source, wanted: Sequence[AddSourceColumn]) -> str:
    """The statement that would make the source."""
    [made] = parse_statements(source.sql)
    said = made.statement
    assert isinstance(said, ast.CreateSource)
    if said.columns is None:
        return source.sql
    more: list[Any] = [
        Identifier(each.name.name) if each.type is None else ColumnDefinition(each.name, each.type)
        for each in wanted
    ]
    return create_text(replace(said, columns=(*said.columns, *more)))
