"""What a session prepares and opens: statements of Parse and PREPARE, portals and cursors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from waterclock.adapter.api import PortalDescription, Response, Rows, StatementDescription
from waterclock.adapter.scrolling import Scroll
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
