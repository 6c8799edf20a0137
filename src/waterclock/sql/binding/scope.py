"""Names in scope: the columns of FROM, and those of the queries around it.

A name without a relation in front means a column that exactly one relation in FROM has; if none has
it, one of the query around. Columns that USING or NATURAL has merged are one under that name, and
stay two under the names of their relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from waterclock.model.pg_types import RECORD
from waterclock.sql.binding.errors import (
    AmbiguousColumn,
    DuplicateAlias,
    InvalidColumnReference,
    UndefinedColumn,
    UndefinedRelation,
)
from waterclock.sql.binding.row_order import UNKNOWN_ORDER, RowOrder
from waterclock.sql.binding.typed import Column, Composite, Role, Typed
from waterclock.sql.errors import FeatureNotSupported


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in FROM. `parts` is the whole name, if it is known by that too."""

    name: str | None
    columns: tuple[Column, ...]
    parts: tuple[str, ...] = ()
    is_value: bool = False
    """Whether its rows are the values of a function, so that its name means the value too."""
    is_padded: bool = False
    """Whether a join may give a row of nulls in its place."""
    witness: str | None = None
    """The SQL of a column that is null only in such a row."""
    hidden_name: str | None = None
    """The name that an alias stands in front of."""

    def is_called(self, parts: Sequence[str]) -> bool:
        if len(parts) == 1:
            return self.name == parts[0]
        return bool(self.parts) and self.parts[-len(parts) :] == tuple(parts)


@dataclass(slots=True)
class Scope:
    """What can be named in one query. `outer` is the scope of the query around it."""

    number: int
    outer: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    visible: list[Column] = field(default_factory=list)
    """The columns that `*` stands for, and that can be named alone."""
    named_from_inside: list[Typed] = field(default_factory=list)
    """Columns of this query, or of those around it, that queries inside it have named."""
    extended: list[str] = field(default_factory=list)
    """What is computed of the rows, under names of their own, before the select list."""
    extended_first: list[str] = field(default_factory=list)
    """What is computed of the rows before WHERE."""
    brought_in: list[str] = field(default_factory=list)
    """Columns of the query around, under names of their own, that stand in FROM as one row."""
    order: RowOrder = UNKNOWN_ORDER
    """The order in which the rows of FROM come."""
    is_cut: bool = False
    """Whether only some of the rows are kept, or counted, here or by a query that reads this."""
    conditions: list[Typed] = field(default_factory=list)
    """Conditions of joins that are asked of the rows of FROM afterwards."""
    barred: list[Column] = field(default_factory=list)
    """Columns on the left of a RIGHT or FULL JOIN, which its right side can not name."""

    def bar(self, columns: Sequence[Column]) -> None:
        """Let these columns not be named, although they are in scope."""
        self.barred += columns

    def _check_barred(self, columns: Sequence[Column], at: int) -> None:
        for column in columns:
            if any(column is each for each in self.barred):
                raise InvalidColumnReference(
                    f'invalid reference to FROM-clause entry for table "{column.table}"',
                    at,
                    detail="The combining JOIN type must be INNER or LEFT for a LATERAL reference.",
                )

    def add(self, relation: Relation, at: int) -> None:
        if relation.name is not None and any(r.name == relation.name for r in self.relations):
            raise DuplicateAlias(f'table name "{relation.name}" specified more than once', at)
        self.relations.append(relation)

    def column(self, parts: tuple[str, ...], at: int) -> Typed:
        """The column of that name; raises what is wrong with the name."""
        found = self._found(parts, at)
        if found is None and len(parts) == 1:
            found = self._row_named(parts, at)
        if found is not None:
            return found
        raise self._unknown(parts, at)

    def whole_row(self, parts: tuple[str, ...], at: int) -> Typed | None:
        """The row of the relation that a name means; None if it means a column, or nothing."""
        if self._found(parts, at) is not None:
            return None
        found = self._row_named(parts, at)
        return None if found is None or found.composite is None else found

    def row_of(self, parts: tuple[str, ...], at: int) -> Typed:
        """`t.*` as one value; raises if there is no such relation."""
        found = self._row_named(parts, at)
        if found is None:
            raise self._missing(parts[-1], at)
        return found

    def _row_named(self, parts: tuple[str, ...], at: int) -> Typed | None:
        """The row of a relation; of a function that gives values, just the value."""
        relation = self.row(parts)
        if relation is None:
            return None
        fields = self.starred(parts, at)
        if relation.is_value:
            [value] = fields
            return value
        names = tuple(column.name for column in relation.columns)
        composite = Composite(
            names, is_padded=relation.is_padded, witness=relation.witness, relation=relation.name
        )
        return Typed("", RECORD, at, tuple(fields), role=Role.ROW, composite=composite)

    def row(self, parts: Sequence[str]) -> Relation | None:
        """The relation, of this query or one around, whose whole row the name means."""
        scope: Scope | None = self
        while scope is not None:
            relation = scope.relation(parts)
            if relation is not None:
                return relation
            scope = scope.outer
        return None

    def try_column(self, name: str, at: int) -> Typed | None:
        """The column of this query alone that has the name, if there is one."""
        found = self._named([each for each in self.visible if each.name == name], name, at)
        return None if found is None else _reference(found, at)

    def _found(self, parts: tuple[str, ...], at: int) -> Typed | None:
        scope: Scope | None = self
        while scope is not None:
            column = scope._own(parts, at)
            if column is not None:
                scope._check_barred([column], at)
                self._require_near(scope, parts, at)
                reference = _reference(column, at)
                self._tell_outer([reference])
                return reference
            scope = scope.outer
        return None

    def _require_near(self, scope: Scope, parts: tuple[str, ...], at: int) -> None:
        """Raise if the scope is that of a query further out than the next one around."""
        if scope is not self and scope is not self.outer:
            raise _too_far(".".join(parts), at)

    def check_reach(self, named: Sequence[Typed], at: int) -> None:
        """Raise if a query of WITH names columns that are too far away where it is read.

        It was bound in a query around this one, perhaps nearer to them.
        """
        for each in named:
            column = each.column
            if column is not None and (self.outer is None or column.scope != self.outer.number):
                raise _too_far(column.name, at)

    def _tell_outer(self, references: list[Typed]) -> None:
        """Let the queries around know which of their columns were named in here."""
        scope = self.outer
        while scope is not None:
            known = {self.number}
            scope.named_from_inside += [
                each for each in references if each.column and each.column.scope not in known
            ]
            scope = scope.outer

    def _own(self, parts: tuple[str, ...], at: int) -> Column | None:
        *qualifier, name = parts
        if not qualifier:
            return self._named([each for each in self.visible if each.name == name], name, at)
        relation = self.relation(qualifier)
        if relation is None:
            return None
        columns = [each for each in relation.columns if each.name == name]
        if not columns:
            shown = ".".join((*qualifier[-1:], name))
            raise UndefinedColumn(f"column {shown} does not exist", at)
        return self._named(columns, name, at)

    @staticmethod
    def _named(columns: Sequence[Column], name: str, at: int) -> Column | None:
        if len(columns) > 1:
            raise AmbiguousColumn(f'column reference "{name}" is ambiguous', at)
        return columns[0] if columns else None

    def relation(self, parts: Sequence[str]) -> Relation | None:
        """The relation of this query alone that has the name."""
        for relation in self.relations:
            if relation.is_called(parts):
                return relation
        return None

    def starred(self, parts: tuple[str, ...], at: int) -> list[Typed]:
        """What `*` or `t.*` stands for."""
        if not parts:
            return [_reference(each, at) for each in self.visible]
        scope: Scope | None = self
        while scope is not None:
            relation = scope.relation(parts)
            if relation is not None:
                scope._check_barred(relation.columns, at)
                self._require_near(scope, parts, at)
                references = [_reference(each, at) for each in relation.columns]
                self._tell_outer(references)
                return references
            scope = scope.outer
        raise self._missing(parts[-1], at)

    def _unknown(self, parts: tuple[str, ...], at: int) -> Exception:
        *qualifier, name = parts
        if qualifier:
            return self._missing(qualifier[-1], at)
        return UndefinedColumn(f'column "{name}" does not exist', at)

    def _missing(self, name: str, at: int) -> Exception:
        """No relation has the name: or one would, if it had no alias."""
        scope: Scope | None = self
        while scope is not None:
            for relation in scope.relations:
                if relation.hidden_name == name:
                    what = f'invalid reference to FROM-clause entry for table "{name}"'
                    hint = f'Perhaps you meant to reference the table alias "{relation.name}".'
                    return UndefinedRelation(what, at, hint=hint)
            scope = scope.outer
        return UndefinedRelation(f'missing FROM-clause entry for table "{name}"', at)


def _too_far(name: str, at: int) -> FeatureNotSupported:
    return FeatureNotSupported(
        f'"{name}" of a query more than one level around is not supported',
        at,
        hint="Join the relations in FROM instead.",
    )


def _reference(column: Column, at: int) -> Typed:
    return Typed(column.sql, column.type, at, nullable=column.nullable, column=column)
