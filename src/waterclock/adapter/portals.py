"""What a session prepares and opens: statements of Parse and PREPARE, portals and cursors."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from waterclock.adapter.api import (
    Format,
    PortalDescription,
    Response,
    Rows,
    StatementDescription,
)
from waterclock.adapter.scrolling import Scroll
from waterclock.catalog.system.session import SessionCursor, SessionStatement
from waterclock.sql.parser import Parsed

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


class Quick(Protocol):
    """A way to run a statement that waits for nothing."""

    def run(self, session: SqlSession, parameters: Sequence[pa.Scalar]) -> Response | None:
        """The answer, or None without a trace if the ordinary way has to be taken."""


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement of Parse or PREPARE; None if its text holds no statement."""

    parsed: Parsed | None
    description: StatementDescription
    shortcut: Quick | None = None
    made: datetime.datetime = field(kw_only=True)
    prepare: str | None = None
    """The whole text of PREPARE, if that has made it."""


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, and what of its rows has not been taken yet."""

    parsed: Parsed | None
    description: PortalDescription
    parameters: tuple[pa.Scalar, ...] = ()
    shortcut: Quick | None = None
    """A quick way to run it, if there may be one."""
    rows: Rows | None = None
    scroll: Scroll | None = None
    """All rows, if it goes both ways; then nothing is left in `rows`."""
    left: list[pa.RecordBatch] = field(default_factory=list)
    position: int = 0
    """How many rows have been taken."""
    is_cursor: bool = False
    is_held: bool = False
    """Whether it shall outlive the transaction, if that is committed."""
    is_kept: bool = False
    """Whether it has."""
    is_done: bool = False
    made: datetime.datetime = field(kw_only=True)
    declare: str | None = None
    """The whole text of DECLARE, if that has made it."""


def statements_shown(statements: Mapping[str, PreparedStatement]) -> tuple[SessionStatement, ...]:
    """The prepared statements as pg_prepared_statements has them; the unnamed one is none."""
    return tuple(
        SessionStatement(
            name,
            each.prepare if each.prepare is not None else each.parsed.text,
            each.made,
            tuple(kind.oid for kind in each.description.parameters),
            each.prepare is not None,
        )
        for name, each in statements.items()
        if name and each.parsed is not None
    )


def cursors_shown(portals: Mapping[str, Portal]) -> tuple[SessionCursor, ...]:
    """The portals as pg_cursors has them; the unnamed one is that of the query itself."""
    return tuple(
        SessionCursor(
            name,
            each.declare if each.declare is not None else each.parsed.text,
            each.made,
            each.is_held,
            Format.BINARY in each.description.formats,
            each.scroll is not None,
        )
        for name, each in portals.items()
        if name and each.parsed is not None
    )
