"""What a session prepares and opens: statements of Parse and PREPARE, portals and cursors."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from waterclock.adapter.api import PortalDescription, Rows, StatementDescription
from waterclock.sql.parser import Parsed


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement of Parse or PREPARE; None if its text holds no statement."""

    parsed: Parsed | None
    description: StatementDescription


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, and what of its rows has not been taken yet."""

    parsed: Parsed | None
    description: PortalDescription
    parameters: tuple[pa.Scalar, ...] = ()
    rows: Rows | None = None
    left: list[pa.RecordBatch] = field(default_factory=list)
    position: int = 0
    """How many rows have been taken."""
    is_cursor: bool = False
    is_held: bool = False
    """Whether it shall outlive the transaction, if that is committed."""
    is_kept: bool = False
    """Whether it has."""
    is_done: bool = False
