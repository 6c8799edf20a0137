"""Statements about read holds: named, leased rights to read relations as of a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectName, Option
from waterclock.sql.ast.queries import AsOf, Moment


@dataclass(frozen=True, slots=True)
class CreateReadHold:
    """Without `as_of` the relations are held as a SELECT would read them now."""

    name: Identifier
    relations: tuple[ObjectName, ...]
    as_of: AsOf | Literal[Moment.EARLIEST] | None = None
    if_not_exists: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReadHold:
    """RENEW starts the lease again; ADVANCE TO does that too, and releases what is before."""

    name: Identifier
    advance_to: ExpressionText | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropReadHold:
    names: tuple[Identifier, ...]
    if_exists: bool = False
