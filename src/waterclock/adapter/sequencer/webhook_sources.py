"""CREATE SOURCE ... FROM WEBHOOK: how bodies are read, and who may post.

FROM WEBHOOK BODY FORMAT JSON [ARRAY] [INCLUDE HEADERS, HEADER 'h' AS name] [CHECK (...)]

A check is a token or a signature (`adapter.webhooks.checks`):

    CHECK (TOKEN SECRET s, HEADER 'x-token' [, PREFIX 'Bearer '])
    CHECK (HMAC 'sha256', KEY SECRET s, HEADER 'x-signature' [, PREFIX, SEPARATOR, ENCODING,
           KEY ENCODING, MESSAGE, TIMESTAMP, TOLERANCE])
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.retention import RETAIN
from waterclock.adapter.sequencer.decode_errors import refuse_decode_errors
from waterclock.adapter.sequencer.messages import declared_columns, declared_schema
from waterclock.adapter.sequencer.secret_options import secret_of
from waterclock.adapter.webhooks.checks import ALGORITHMS, ENCODINGS, KEY_ENCODINGS, Template
from waterclock.adapter.webhooks.definition import (
    Check,
    HeaderColumn,
    SignatureCheck,
    TokenCheck,
    WebhookDefinition,
)
from waterclock.adapter.webhooks.rows import RowReader
from waterclock.catalog.objects import WEBHOOK, Secret
from waterclock.persist.schema_codec import encode_schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Option
from waterclock.sql.ast.sources import (
    Format,
    FormatKind,
    Include,
    Metadata,
    PlainFormat,
    WebhookConnector,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.formats.api import (
    BytesDefinition,
    FormatDefinition,
    JsonDefinition,
    TextDefinition,
)

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

BODY = "body"
"""The column of bodies that have no columns of their own."""
_TOKEN_OPTIONS = ("token", "header", "prefix")
_SIGNATURE_OPTIONS = (
    *("hmac", "key", "key encoding", "header", "prefix", "separator", "encoding"),
    *("message", "timestamp", "tolerance"),
)


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it."""
    connector = statement.connector
    assert isinstance(connector, WebhookConnector)
    _require_nothing_else(statement)
    check, secret, shown = _check(session, connector)
    definition = WebhookDefinition(
        value=_body_format(statement, connector.format),
        is_array=connector.is_array,
        headers=tuple(map(_header_column, connector.include)),
        check=check,
    )
    rows = RowReader(definition).schema
    columns = declared_columns(statement)
    is_whole = columns is not None and len(columns) == len(rows.columns)
    return PlannedSource(
        WEBHOOK,
        definition.encoded(),
        {BODY: rows},
        is_split=False,
        progress=None,
        connections=() if secret is None else (secret.id,),
        envelope="none",
        value_format=connector.format.kind.value.lower()
        if isinstance(connector.format, PlainFormat)
        else None,
        columns={BODY: columns} if columns is not None and is_whole else {},
        connector=replace(connector, check=shown),
    )


def _require_nothing_else(statement: ast.CreateSource) -> None:
    """What is said of messages elsewhere is said of the body here."""
    for clause, given in (
        ("FORMAT", statement.formats),
        ("INCLUDE", statement.include),
        ("ENVELOPE", statement.envelope),
    ):
        if given:
            raise Unsupported(
                f"{clause} can not stand there in a webhook source",
                hint="Write FROM WEBHOOK BODY FORMAT ... INCLUDE ... CHECK (...), in this order.",
            )
    refuse_decode_errors(
        statement, "webhooks", "A request that can not be read is answered with status 400."
    )
    if statement.progress is not None:
        raise Unsupported(
            "a webhook source has no progress",
            detail="What is posted can not be read again, so nothing tells how far it was read.",
        )
    options.by_name(statement.options, (RETAIN,))


def _body_format(statement: ast.CreateSource, chosen: Format) -> FormatDefinition:
    declared = declared_schema(statement)
    match chosen:
        case PlainFormat(FormatKind.JSON):
            return JsonDefinition(None if declared is None else encode_schema(declared), BODY)
        case _ if declared is not None:
            raise Unsupported("columns with types are supported for BODY FORMAT JSON only")
        case PlainFormat(FormatKind.TEXT):
            return TextDefinition(BODY)
        case PlainFormat(FormatKind.BYTES):
            return BytesDefinition(BODY)
        case _:
            raise Unsupported(
                "a body can not have this format",
                hint="There are JSON, JSON ARRAY, TEXT and BYTES.",
            )


def _header_column(included: Include) -> HeaderColumn:
    match included.what:
        case Metadata.HEADERS:
            name = "headers" if included.alias is None else included.alias.name
            return HeaderColumn(name)
        case Metadata.HEADER if included.alias is not None:
            return HeaderColumn(included.alias.name, included.header)
        case Metadata.HEADER:
            raise SyntaxFault("INCLUDE HEADER requires a name: INCLUDE HEADER 'header' AS name")
        case _:
            raise Unsupported(f"INCLUDE {included.what.value} is not supported for webhooks")


# Checks


def _check(
    session: SqlSession, connector: WebhookConnector
) -> tuple[Check | None, Secret | None, tuple[Option, ...]]:
    """The check, its secret, and its options with the secret's full name."""
    if not connector.check:
        return None, None, ()
    is_token = any(option.name == "token" for option in connector.check)
    asked = options.by_name(connector.check, _TOKEN_OPTIONS if is_token else _SIGNATURE_OPTIONS)
    given = _required(asked, "token" if is_token else "key")
    secret, shown = secret_of(session, given)
    options_shown = tuple(shown if each is given else each for each in connector.check)
    header = options.text(_required(asked, "header"))
    prefix = _text(asked, "prefix", "")
    if is_token:
        return TokenCheck(str(secret.id), header, prefix), secret, options_shown
    tolerance = asked.get("tolerance")
    check = SignatureCheck(
        str(secret.id),
        header,
        _one_of(_required(asked, "hmac"), ALGORITHMS),
        _one_of(asked["key encoding"], KEY_ENCODINGS) if "key encoding" in asked else "text",
        _one_of(asked["encoding"], ENCODINGS) if "encoding" in asked else "hex",
        prefix,
        _text(asked, "separator", ""),
        _template(asked["message"]) if "message" in asked else "{body}",
        _template(asked["timestamp"]) if "timestamp" in asked else None,
        300_000 if tolerance is None else round(options.milliseconds(tolerance)),
    )
    if tolerance is not None and check.timestamp is None:
        raise SyntaxFault("TOLERANCE requires TIMESTAMP", tolerance.position)
    if "{body}" not in check.message:
        raise SyntaxFault(
            "MESSAGE must contain {body}",
            asked["message"].position,
            hint="Otherwise anybody who has seen one request could send any other.",
        )
    return check, secret, options_shown


def _required(asked: Mapping[str, Option], name: str) -> Option:
    if name not in asked:
        raise SyntaxFault(
            f"CHECK requires {name.upper()}",
            hint="Write CHECK (TOKEN SECRET s, HEADER 'name')"
            " or CHECK (HMAC 'sha256', KEY SECRET s, HEADER 'name').",
        )
    return asked[name]


def _text(asked: Mapping[str, Option], name: str, default: str) -> str:
    return options.text(asked[name]) if name in asked else default


def _one_of(option: Option, known: Collection[str]) -> str:
    word = options.text(option).lower()
    if word not in known:
        raise SyntaxFault(
            f'{option.name.upper()} "{word}" is not known',
            option.position,
            hint=f"There are {', '.join(known)}.",
        )
    return word


def _template(option: Option) -> str:
    text = options.text(option)
    try:
        Template(text)
    except ValueError as error:
        raise SyntaxFault(
            f"{option.name.upper()} can not be used: {error}", option.position
        ) from None
    return text
