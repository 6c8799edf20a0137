"""CREATE SOURCE ... FROM FILE: lines as FORMAT says, or Parquet.

FROM FILE 'path or URL' (PATTERN '*.json') FORMAT ... [WITH (FOLLOW = false)]
"""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer.messages import (
    declared_columns,
    declared_schema,
    planned_messages,
)
from waterclock.catalog import privileges
from waterclock.persist.schema_codec import encode_schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Identifier
from waterclock.sql.ast.sources import (
    CsvFormat,
    EnvelopeKind,
    FileConnector,
    FormatKind,
    Formats,
    Metadata,
    PlainFormat,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.sources.api import Surroundings
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.files import connector as files
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.parquet import columns_of
from waterclock.storage.sources.files.places import place_of

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_HEAD = 1 << 20


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. It looks at the files that are there.

    The server reads with rights of its own, so only superusers may ask it to.
    """
    connector = statement.connector
    assert isinstance(connector, FileConnector)
    privileges.check_superuser(session.front.core.current, session.role.oid, "read files")
    if statement.formats is None:
        raise SyntaxFault("a source of files requires FORMAT")
    asked = options.by_name(connector.options, ("pattern", "follow"))
    pattern = options.text(asked["pattern"]) if "pattern" in asked else None
    follow = options.truth(asked["follow"]) if "follow" in asked else True
    place_of(connector.location, pattern)
    if statement.formats.value == PlainFormat(FormatKind.PARQUET):
        return _parquet(statement, connector.location, pattern, follow)
    return _lines(session, statement, connector.location, pattern, follow)


def _parquet(
    statement: ast.CreateSource, location: str, pattern: str | None, follow: bool
) -> PlannedSource:
    if statement.include or (
        statement.envelope is not None and statement.envelope.kind is not EnvelopeKind.NONE
    ):
        raise Unsupported("INCLUDE and ENVELOPE are not supported for Parquet")
    rows = declared_schema(statement) or columns_of(location, pattern)
    definition = FilesDefinition(
        location=location, pattern=pattern, columns=encode_schema(rows), follow=follow
    )
    shown = declared_columns(statement)
    return PlannedSource(
        files.NAME,
        files.encoded(definition),
        {files.OUTPUT: rows},
        is_split=False,
        progress=files.KIND.progress,
        envelope="none",
        value_format="parquet",
        columns={} if shown is None else {files.OUTPUT: shown},
    )


def _lines(
    session: SqlSession,
    statement: ast.CreateSource,
    location: str,
    pattern: str | None,
    follow: bool,
) -> PlannedSource:
    _require_no_key(statement)
    statement, header = _with_header(statement, location, pattern)
    messages = planned_messages(session, statement, f'files at "{location}"')
    assert statement.formats is not None
    chosen = statement.formats.value
    delimiter = chosen.delimiter if isinstance(chosen, CsvFormat) else None
    definition = FilesDefinition(
        location=location,
        pattern=pattern,
        messages=messages.definition,
        header=header,
        delimiter=delimiter or ",",
        follow=follow,
    )
    surroundings = Surroundings(lambda: 0, None, session.front.core.connection_settings)
    rows = files.connector_of(definition, surroundings).outputs[files.OUTPUT]
    shown = declared_columns(statement)
    whole = shown is not None and len(shown) == len(rows.columns)
    return PlannedSource(
        files.NAME,
        files.encoded(definition),
        {files.OUTPUT: rows},
        is_split=False,
        progress=files.KIND.progress,
        connections=messages.connections,
        envelope=messages.envelope,
        value_format=messages.value_format,
        is_fallible=True,
        takes_notes=True,
        columns={files.OUTPUT: shown} if shown is not None and whole else {},
    )


def _require_no_key(statement: ast.CreateSource) -> None:
    """Lines have no key, and nothing besides them but where they stand."""
    formats, envelope = statement.formats, statement.envelope
    if formats is not None and formats.key is not None:
        raise Unsupported("KEY FORMAT is not supported for files")
    if envelope is not None and envelope.kind is EnvelopeKind.UPSERT:
        raise Unsupported("ENVELOPE UPSERT is not supported for files")
    for each in statement.include:
        if each.what is not Metadata.OFFSET:
            raise Unsupported(f"INCLUDE {each.what.value} is not supported for files")


def _with_header(
    statement: ast.CreateSource, location: str, pattern: str | None
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
        names = _first_header(location, pattern, chosen.delimiter or ",")
    columns = tuple(Identifier(name) for name in names)
    formats = Formats(CsvFormat(True, columns, chosen.delimiter))
    return replace(statement, formats=formats), names


def _first_header(location: str, pattern: str | None, delimiter: str) -> tuple[str, ...]:
    """The names in the first line of the first file that is there."""
    place = place_of(location, pattern)
    try:
        for file in place.files():
            with place.system.open_input_file(file) as opened:
                line, newline, _ = bytes(opened.read(_HEAD)).partition(b"\n")
            if newline:
                return tuple(next(csv.reader([line.decode().rstrip("\r")], delimiter=delimiter)))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSource(f"could not look into the files: {error}") from None
    raise InvalidSource(
        "there is no file yet whose header could be taken",
        hint="Give the names: CSV WITH HEADER (name, ...).",
    )
