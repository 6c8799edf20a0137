"""What the connector of a CREATE SOURCE makes of its part of the statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from waterclock.catalog.objects import Column
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import pg_type_of
from waterclock.model.schema import Column as StoredColumn
from waterclock.model.schema import Schema
from waterclock.sql.ast.common import ObjectName
from waterclock.sql.ast.sources import Connector
from waterclock.storage.reclock.shape import ProgressShape


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source as its connector will run it.

    With `is_split` its outputs are subsources, otherwise the only one is the source itself.
    """

    kind: str
    definition: bytes
    outputs: Mapping[str, Schema]
    is_split: bool
    progress: ProgressShape | None
    """Of which columns its progress is. None: its rows are posted, and the writer of tables writes
    them."""
    connections: tuple[GlobalId, ...] = ()
    envelope: str | None = None
    key_format: str | None = None
    value_format: str | None = None
    is_fallible: bool = False
    """Whether something may be wrong with its data: then each output has errors beside it."""
    takes_notes: bool = False
    """Whether its envelopes have to remember something."""
    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    """The columns of outputs as they are shown, if not as they are held."""
    local_names: Mapping[str, ObjectName] | None = None
    """The names of the subsources by output, if the connector has chosen them."""
    connector: Connector | None = None
    """The connector's part of the statement with names that mean the same everywhere."""
    shown_as: str | None = None
    """What catalogs call its kind, if otherwise."""
    notices: tuple[str, ...] = ()
    """What the user should know, although it is no error."""
    undo: Callable[[], None] | None = None
    """What takes back what was made outside for it, if the source is not created in the end."""


def catalog_columns(columns: Sequence[StoredColumn]) -> tuple[Column, ...]:
    """Stored columns as the catalog lists them, for those that are not declared otherwise."""
    return tuple(Column(c.name, pg_type_of(c.type), c.nullable) for c in columns)
