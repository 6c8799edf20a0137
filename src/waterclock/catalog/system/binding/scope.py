"""Which column a name means, at one place in a query.

FROM is built up as a `Source`: DuckDB's text, and the columns in the order of `*`. Names are
PostgreSQL's, folded and quoted as there; DuckDB only ever sees names of our own (`t3.c1`), which
keeps its rules out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from waterclock.catalog.system.binding.parsing import MARK
from waterclock.catalog.system.binding.typed import Statement, Typed
from waterclock.catalog.system.errors import (
    AmbiguousColumn,
    DuplicateAlias,
    UndefinedColumn,
    UndefinedTable,
)


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    name: str
    value: Typed


@dataclass(frozen=True, slots=True)
class ScopeTable:
    """What a name in FROM stands for. `hidden` columns are found by name and not part of `*`."""

    alias: str
    columns: tuple[ScopeColumn, ...]
    hidden: tuple[ScopeColumn, ...] = ()
    schema: str | None = None
    key: tuple[str, ...] = ()
    """The texts of the columns of the primary key."""


@dataclass(frozen=True, slots=True)
class Source:
    """An item of FROM, or several joined."""

    sql: str
    columns: tuple[ScopeColumn, ...]
    """What `*` shows: columns that a join merged stand once."""
    tables: tuple[ScopeTable, ...]


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of WITH."""

    name: str
    columns: tuple[ScopeColumn, ...]
    """Without a table in front: the values are column names."""


@dataclass(slots=True)
class Scope:
    """The names that can be used at a place, and where it stands inside an outer query."""

    statement: Statement
    outer: Scope | None = None
    source: Source | None = None
    common: dict[str, CommonTable] = field(default_factory=dict)

    def inner(self, source: Source | None = None) -> Scope:
        return Scope(self.statement, self, source)

    def common_table(self, name: str) -> CommonTable | None:
        found = self.common.get(name)
        if found is None and self.outer is not None:
            return self.outer.common_table(name)
        return found

    def column(self, node: exp.Column) -> Typed:
        """The column that the node names; 42703, 42P01 or 42702 as in PostgreSQL."""
        name = folded(node.this)
        if node.args.get("table") is not None:
            return self._qualified(node, name)
        found = self._bare(name, node)
        if found is not None:
            return found
        raise self.statement.fail(UndefinedColumn, f'column "{name}" does not exist', node)

    def _bare(self, name: str, node: exp.Column) -> Typed | None:
        if self.source is not None:
            found = [column for column in self.source.columns if column.name == name]
            if not found:
                found = [
                    column
                    for table in self.source.tables
                    for column in table.hidden
                    if column.name == name
                ]
            if len(found) > 1:
                message = f'column reference "{name}" is ambiguous'
                raise self.statement.fail(AmbiguousColumn, message, node)
            if found:
                return found[0].value
        return self.outer._bare(name, node) if self.outer is not None else None

    def _qualified(self, node: exp.Column, name: str) -> Typed:
        alias = folded(node.args["table"])
        schema = folded(node.args["db"]) if node.args.get("db") is not None else None
        table = self.table(alias, schema)
        if table is None:
            message = f'missing FROM-clause entry for table "{alias}"'
            raise self.statement.fail(UndefinedTable, message, node)
        found = [c for c in (*table.columns, *table.hidden) if c.name == name]
        if not found:
            message = f"column {alias}.{name} does not exist"
            raise self.statement.fail(UndefinedColumn, message, node)
        if len(found) > 1:
            message = f'column reference "{name}" is ambiguous'
            raise self.statement.fail(AmbiguousColumn, message, node)
        return found[0].value

    def table(self, alias: str, schema: str | None = None) -> ScopeTable | None:
        """The table of that name, here or further out."""
        for table in self.source.tables if self.source is not None else ():
            if table.alias == alias and schema in (None, table.schema):
                return table
        return self.outer.table(alias, schema) if self.outer is not None else None


def folded(identifier: exp.Expr) -> str:
    """The name as PostgreSQL keeps it."""
    name = identifier.name
    if isinstance(identifier, exp.Identifier) and identifier.args.get("quoted"):
        return name
    return name.lower()


def unmarked(name: str) -> str:
    """The name without the mark of functions, which a name before a parenthesis got too."""
    return name.removeprefix(MARK)


def as_source(sql: str, table: ScopeTable) -> Source:
    return Source(sql, table.columns, (table,))


def renamed(table: ScopeTable, alias: str, names: list[str], statement: Statement) -> ScopeTable:
    """The table under an alias, with its first columns renamed."""
    if len(names) > len(table.columns):
        message = (
            f'table "{alias}" has {len(table.columns)} columns available'
            f" but {len(names)} columns specified"
        )
        raise statement.fail(UndefinedColumn, message)
    columns = tuple(
        ScopeColumn(name, column.value) for name, column in zip(names, table.columns, strict=False)
    )
    return replace(table, alias=alias, columns=columns + table.columns[len(names) :], schema=None)


def combined_tables(
    left: tuple[ScopeTable, ...], right: tuple[ScopeTable, ...], statement: Statement
) -> tuple[ScopeTable, ...]:
    """The tables of both sides; a name may be used once."""
    names: Mapping[tuple[str, str | None], ScopeTable] = {(t.alias, t.schema): t for t in left}
    for table in right:
        if (table.alias, table.schema) in names:
            message = f'table name "{table.alias}" specified more than once'
            raise statement.fail(DuplicateAlias, message)
    return left + right
