"""The options of COPY, from what was written to what they mean, refused as PostgreSQL refuses them.

Options of the old syntax have come as those of the new one. The order of the checks is PostgreSQL's
too: of several mistakes the same one is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from waterclock.adapter.api import CopyFormat, CopyHeader, CopyOptions
from waterclock.adapter.errors import Unsupported
from waterclock.catalog.objects import Relation
from waterclock.errors import WaterclockError
from waterclock.model.errors import UnknownColumn
from waterclock.sql import options as given
from waterclock.sql.ast.changes import CopyDirection
from waterclock.sql.ast.common import NameValue, Option, StringValue
from waterclock.sql.errors import SqlFault, SyntaxFault

_KNOWN = frozenset(
    {"format", "freeze", "delimiter", "null", "header", "quote", "escape", "encoding"}
    | {"force_quote", "force_not_null", "force_null"}
)
_NOT_A_DELIMITER = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
_UTF8 = frozenset({"utf8", "unicode"})


class InvalidOption(SqlFault):
    """The option can not have that value."""

    sqlstate: ClassVar[str] = "22023"


class NotReferenced(WaterclockError):
    """An option names a column that is not copied."""

    sqlstate: ClassVar[str] = "42P10"


def copy_options(
    options: tuple[Option, ...],
    direction: CopyDirection,
    columns: Sequence[str],
    table: Relation | None = None,
) -> CopyOptions:
    """The options, validated; `columns` are those that are copied, from or to a table if it is one.

    Raises a `SqlFault`, `Unsupported`, `UnknownColumn` or `NotReferenced`.
    """
    asked = given.by_name(options, _KNOWN)
    form = _format(asked.get("format"))
    is_csv = form is CopyFormat.CSV
    header = _header(asked.get("header"), direction)
    if "freeze" in asked:
        given.truth(asked["freeze"])
    if "encoding" in asked:
        _require_utf8(asked["encoding"])
    if form is CopyFormat.BINARY:
        for name in ("delimiter", "null"):
            if name in asked:
                raise SyntaxFault(f"cannot specify {name.upper()} in BINARY mode")
    delimiter = _text(asked, "delimiter", "," if is_csv else "\t")
    null = _text(asked, "null", "" if is_csv else "\\N")
    quote = _text(asked, "quote", '"')
    escape = _text(asked, "escape", quote)
    _check_delimiter(delimiter, null, is_csv=is_csv)
    if form is CopyFormat.BINARY and header is not CopyHeader.ABSENT:
        raise Unsupported("cannot specify HEADER in BINARY mode")
    _check_quoting(asked, delimiter, quote, escape, is_csv=is_csv)
    forced = _Forced(direction, columns, table, is_csv)
    return _checked_null(
        CopyOptions(
            form,
            delimiter,
            null,
            header,
            quote,
            escape,
            forced.columns(asked.get("force_quote"), CopyDirection.TO_STDOUT),
            forced.columns(asked.get("force_not_null"), CopyDirection.FROM_STDIN),
            forced.columns(asked.get("force_null"), CopyDirection.FROM_STDIN),
        )
    )


def _format(option: Option | None) -> CopyFormat:
    if option is None:
        return CopyFormat.TEXT
    name = given.text(option)
    for form in CopyFormat:
        if form.value == name:
            return form
    raise InvalidOption(f'COPY format "{name}" not recognized', option.position)


def _header(option: Option | None, direction: CopyDirection) -> CopyHeader:
    if option is None:
        return CopyHeader.ABSENT
    match option.value:
        case NameValue(name):
            word = ".".join(name.parts).lower()
        case StringValue(value):
            word = value.lower()
        case _:
            word = ""
    if word == "match":
        if direction is CopyDirection.TO_STDOUT:
            raise Unsupported('cannot use "match" with HEADER in COPY TO')
        return CopyHeader.MATCH
    try:
        return CopyHeader.PRESENT if given.truth(option) else CopyHeader.ABSENT
    except SyntaxFault:
        message = 'header requires a Boolean value or "match"'
        raise SyntaxFault(message, option.position) from None


def _require_utf8(option: Option) -> None:
    name = given.text(option)
    if name.lower().replace("-", "").replace("_", "") not in _UTF8:
        raise InvalidOption(
            'argument to option "encoding" must be a valid encoding name',
            option.position,
            detail=f'All text is UTF8; "{name}" is not supported.',
        )


def _text(asked: Mapping[str, Option], name: str, usual: str) -> str:
    return given.text(asked[name]) if name in asked else usual


def _check_delimiter(delimiter: str, null: str, *, is_csv: bool) -> None:
    if len(delimiter.encode()) != 1:
        raise Unsupported("COPY delimiter must be a single one-byte character")
    if delimiter in "\r\n":
        raise InvalidOption("COPY delimiter cannot be newline or carriage return")
    if "\r" in null or "\n" in null:
        raise InvalidOption("COPY null representation cannot use newline or carriage return")
    if not is_csv and delimiter in _NOT_A_DELIMITER:
        raise InvalidOption(f'COPY delimiter cannot be "{delimiter}"')


def _check_quoting(
    asked: Mapping[str, Option], delimiter: str, quote: str, escape: str, *, is_csv: bool
) -> None:
    for name, value in (("quote", quote), ("escape", escape)):
        if name in asked and not is_csv:
            raise Unsupported(f"COPY {name} available only in CSV mode")
        if is_csv and len(value.encode()) != 1:
            raise Unsupported(f"COPY {name} must be a single one-byte character")
        if name == "quote" and is_csv and delimiter == quote:
            raise InvalidOption("COPY delimiter and quote must be different")


def _checked_null(options: CopyOptions) -> CopyOptions:
    if options.format is not CopyFormat.BINARY and options.delimiter in options.null:
        raise Unsupported("COPY delimiter must not appear in the NULL specification")
    if options.format is CopyFormat.CSV and options.quote in options.null:
        raise Unsupported("CSV quote character must not appear in the NULL specification")
    return options


class _Forced:
    """Reads the options that name columns."""

    def __init__(
        self, direction: CopyDirection, columns: Sequence[str], table: Relation | None, is_csv: bool
    ) -> None:
        self._direction = direction
        self._columns = columns
        self._table = table
        self._is_csv = is_csv

    def columns(self, option: Option | None, wanted: CopyDirection) -> frozenset[str]:
        """The columns that the option names; it makes sense in one direction only."""
        if option is None:
            return frozenset()
        words = option.name.replace("_", " ")
        if not self._is_csv:
            raise Unsupported(f"COPY {words} available only in CSV mode")
        if self._direction is not wanted:
            word = wanted.value.split()[0]
            raise Unsupported(f"COPY {words} only available using COPY {word}")
        if given.is_star(option):
            return frozenset(self._columns)
        found = given.names(option)
        for name in found:
            if name not in self._columns:
                raise self._unknown(option, name)
        return frozenset(found)

    def _unknown(self, option: Option, name: str) -> WaterclockError:
        if self._table is None:
            return UnknownColumn(f'column "{name}" does not exist')
        if all(column.name != name for column in self._table.columns):
            relation = self._table.name
            return UnknownColumn(f'column "{name}" of relation "{relation}" does not exist')
        return NotReferenced(f'{option.name.upper()} column "{name}" not referenced by COPY')
