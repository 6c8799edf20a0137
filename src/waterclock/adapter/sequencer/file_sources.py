"""CREATE SOURCE ... FROM FILE: lines as FORMAT says, or Parquet.

FROM FILE 'path or URL' (PATTERN '*.json', FOLLOW = false, HIVE PARTITIONS (day)) FORMAT ...
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer.lines import HIVE, planned_lines, planned_parquet
from waterclock.catalog import privileges
from waterclock.persist.schema_codec import encode_schema
from waterclock.sql import ast, options
from waterclock.sql.ast.sources import FileConnector, FormatKind, PlainFormat
from waterclock.sql.errors import SyntaxFault
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
    asked = options.by_name(connector.options, ("pattern", "follow", HIVE))
    location = connector.location
    pattern = options.text(asked["pattern"]) if "pattern" in asked else None
    follow = options.truth(asked["follow"]) if "follow" in asked else True
    place = place_of(location, pattern)
    notices = () if place.is_there() else (f'"{place.path}" does not exist yet',)
    where, hive = f'files at "{location}"', asked.get(HIVE)
    if statement.formats.value == PlainFormat(FormatKind.PARQUET):
        found = planned_parquet(statement, hive, lambda: columns_of(location, pattern))
        definition = FilesDefinition(
            location=location,
            pattern=pattern,
            columns=encode_schema(found.rows),
            path_columns=encode_schema(found.path_columns),
            follow=follow,
        )
        return PlannedSource(
            files.NAME,
            files.encoded(definition),
            {files.OUTPUT: found.rows},
            is_split=False,
            progress=files.KIND.progress,
            envelope="none",
            value_format="parquet",
            columns={files.OUTPUT: found.shown},
            notices=notices,
        )
    lines = planned_lines(
        session, statement, where, hive, lambda mark: _first_header(location, pattern, mark)
    )
    definition = FilesDefinition(
        location=location,
        pattern=pattern,
        messages=lines.messages.definition,
        path_columns=encode_schema(lines.path_columns),
        header=lines.header,
        delimiter=lines.delimiter,
        follow=follow,
    )
    return PlannedSource(
        files.NAME,
        files.encoded(definition),
        {files.OUTPUT: lines.rows},
        is_split=False,
        progress=files.KIND.progress,
        connections=lines.messages.connections,
        envelope=lines.messages.envelope,
        value_format=lines.messages.value_format,
        is_fallible=True,
        takes_notes=True,
        columns={files.OUTPUT: lines.shown},
        notices=notices,
    )


def _first_header(location: str, pattern: str | None, delimiter: str) -> tuple[str, ...]:
    """The names in the first line of the first file that is there."""
    place = place_of(location, pattern)
    try:
        for file in place.files():
            with place.system.open_input_file(file) as opened:
                line, newline, _ = bytes(opened.read(_HEAD)).partition(b"\n")
            if newline:
                return names_in_header(line, delimiter)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSource(f"could not look into the files: {error}") from None
    raise InvalidSource(
        "there is no file yet whose header could be taken",
        hint="Give the names: CSV WITH HEADER (name, ...).",
    )


def names_in_header(line: bytes, delimiter: str) -> tuple[str, ...]:
    """The names in the first line of a file of CSV. Raises `UnicodeDecodeError`."""
    return tuple(next(csv.reader([line.decode().rstrip("\r")], delimiter=delimiter)))
