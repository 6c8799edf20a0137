"""CREATE SOURCE ... FROM PUBNUB: what the statement says, and what the service says to it.

FROM PUBNUB (SUBSCRIBE KEY 'key', CHANNEL 'name' [, ORIGIN, USER ID, AUTH KEY SECRET s, HISTORY,
             START TIMESTAMP ms]) FORMAT ...

The service is asked before anything is created; whoever plans does so in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.adapter.connections import open_secret
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer.messages import planned_messages, shown_columns
from waterclock.adapter.sequencer.secret_options import secret_of
from waterclock.catalog.objects import Secret
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Option
from waterclock.sql.ast.sources import (
    AvroFormat,
    EnvelopeKind,
    ExternalConnector,
    Metadata,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.sources.pubnub import connector as pubnub
from waterclock.storage.sources.pubnub.creation import Wanted, define
from waterclock.storage.sources.pubnub.service import ORIGIN

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

KIND = "pubnub"
_AUTH = "auth key"
_OPTIONS = (
    *("subscribe key", "channel", "origin", "user id", _AUTH),
    *("history", "start timestamp"),
)


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it, or upstream."""
    external = statement.connector
    assert isinstance(external, ExternalConnector)
    if external.connection is not None:
        raise Unsupported(
            "a PubNub source has no connection",
            hint="Write FROM PUBNUB (SUBSCRIBE KEY '...', CHANNEL '...').",
        )
    _require_what_fits(statement)
    asked = options.by_name(external.options, _OPTIONS)
    secret, shown_auth = secret_of(session, asked[_AUTH]) if _AUTH in asked else (None, None)
    wanted = _wanted(asked, secret)
    messages = planned_messages(session, statement, f'channel "{wanted.channel}"')
    core = session.front.core
    key = None if secret is None else open_secret(core.current, secret.id, core.secrets)
    definition = define(wanted, key, messages.definition)
    rows = decoding_of(messages.definition, core.connection_settings).schema
    columns = shown_columns(statement, rows)
    shown = tuple(
        shown_auth if shown_auth is not None and each.name == _AUTH else each
        for each in external.options
    )
    return PlannedSource(
        pubnub.NAME,
        definition.encoded(),
        {pubnub.OUTPUT: rows},
        is_split=False,
        progress=pubnub.KIND.progress,
        connections=() if secret is None else (secret.id,),
        envelope=messages.envelope,
        value_format=messages.value_format,
        is_fallible=True,
        takes_notes=True,
        columns={} if columns is None else {pubnub.OUTPUT: columns},
        connector=replace(external, options=shown),
        notices=_notices(definition.origin, key),
    )


def _require_what_fits(statement: ast.CreateSource) -> None:
    """Messages are values of JSON, and have no key."""
    formats, envelope = statement.formats, statement.envelope
    if formats is not None and formats.key is not None:
        raise Unsupported("KEY FORMAT is not supported for PubNub, whose messages have no key")
    if formats is not None and isinstance(formats.value, AvroFormat):
        raise Unsupported(
            "FORMAT AVRO is not supported for PubNub, whose messages are JSON",
            hint="Use FORMAT JSON, with columns that are declared or without.",
        )
    if envelope is not None and envelope.kind is EnvelopeKind.UPSERT:
        raise Unsupported(
            "ENVELOPE UPSERT is not supported for PubNub, whose messages have no key",
            hint="Select the last message of each key by DISTINCT ON in a view.",
        )
    for each in statement.include:
        if each.what is Metadata.KEY:
            raise Unsupported("INCLUDE KEY is not supported for PubNub")


def _wanted(asked: Mapping[str, Option], secret: Secret | None) -> Wanted:
    for name in ("subscribe key", "channel"):
        if name not in asked:
            raise SyntaxFault(f"{name.upper()} option is required")
    history, start = asked.get("history"), asked.get("start timestamp")
    uses = True if history is None else options.truth(history)
    if start is not None and not uses:
        raise SyntaxFault(
            "START TIMESTAMP can not be given with HISTORY = false",
            start.position,
            hint="Messages of the past are read from history.",
        )
    return Wanted(
        options.text(asked["subscribe key"]),
        options.text(asked["channel"]),
        options.text(asked["origin"]) if "origin" in asked else ORIGIN,
        options.text(asked["user id"]) if "user id" in asked else None,
        None if secret is None else secret.id,
        "auto" if history is None else "on" if uses else "off",
        None if start is None else options.integer(start),
    )


def _notices(origin: str, key: str | None) -> tuple[str, ...]:
    if key is None or origin.startswith("https://"):
        return ()
    return (f"the auth key is sent to {origin} without encryption",)
