"""Statements that create databases, schemas, tables, views and indexes."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.model.pg_types import PgType
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ObjectName,
    Option,
    QueryText,
    SortKey,
)


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: ObjectName
    if_not_exists: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """`owner` is the role behind AUTHORIZATION; without a name the schema is called after it."""

    name: ObjectName
    if_not_exists: bool = False
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    columns: tuple[Identifier, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Unique:
    columns: tuple[Identifier, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    condition: ExpressionText
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """`referenced` is empty if the other table's primary key is meant."""

    columns: tuple[Identifier, ...]
    table: ObjectName
    referenced: tuple[Identifier, ...] = ()
    name: str | None = None


Constraint = PrimaryKey | Unique | Check | ForeignKey


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column. Its own constraints are given as those of the table, over this one column."""

    name: Identifier
    type: PgType
    not_null: bool = False
    default: ExpressionText | None = None
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTable:
    name: ObjectName
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[Constraint, ...] = ()
    if_not_exists: bool = False
    temporary: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    name: ObjectName
    query: QueryText
    columns: tuple[Identifier, ...] | None = None
    if_not_exists: bool = False
    temporary: bool = False
    with_data: bool = True
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateView:
    name: ObjectName
    query: QueryText
    columns: tuple[Identifier, ...] | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class CreateMaterializedView:
    name: ObjectName
    query: QueryText
    columns: tuple[Identifier, ...] | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    cluster: Identifier | None = None
    options: tuple[Option, ...] = ()
    with_data: bool = True


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """`keys` is None for the default key; `method` is what USING names, in lower case."""

    relation: ObjectName
    keys: tuple[SortKey, ...] | None
    name: Identifier | None = None
    if_not_exists: bool = False
    cluster: Identifier | None = None
    method: str | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class RefreshMaterializedView:
    name: ObjectName
    concurrently: bool = False
    with_data: bool = True
