"""What a source of files is asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from waterclock.storage.formats.api import MessageDefinition


class FilesDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines are read as `messages` say; without, files are Parquet with these columns.

    `header` has the names that the first line of each file must have, if there is such a line.
    `path_columns` are columns whose values are in the paths of files; for Parquet they are also
    among the columns. Without `follow`, the source ends when everything that is there has been
    read.
    """

    location: str
    pattern: str | None = None
    messages: MessageDefinition | None = None
    columns: Any = None
    path_columns: Any = ()
    header: tuple[str, ...] | None = None
    delimiter: str = ","
    follow: bool = True
