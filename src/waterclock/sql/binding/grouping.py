"""GROUP BY: which expressions are grouped by, and whether everything else may be shown.

An expression that is shown must be computed from grouped expressions, aggregates, constants and
columns of outer queries. Two expressions are the same if their SQL is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import GroupingFault
from waterclock.sql.binding.ordering import check_groupable, group_key_sql
from waterclock.sql.binding.output_keys import output_position
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.representatives import has_twins, representatives, set_representatives
from waterclock.sql.binding.typed import ANY_OF_GROUP, Role, Typed
from waterclock.sql.dialect.types import name_of
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.blocks import Output
    from waterclock.sql.binding.expressions import Expressions


_AGGREGATES = (Role.AGGREGATE, Role.GROUPING)


@dataclass(frozen=True, slots=True)
class Groups:
    """What a query groups by: all keys, and the SQL behind GROUP BY; None for one group of all."""

    keys: tuple[Typed, ...]
    sql: str | None
    has_sets: bool

    @property
    def representatives(self) -> dict[str, Typed]:
        """What is shown of keys that are equal without being the same."""
        return (set_representatives if self.has_sets else representatives)(self.keys)


class Grouping:
    """Binds GROUP BY."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def bind(self, select: tree.Select, outputs: Sequence[Output], place: Place) -> Groups:
        assert select.group_by is not None
        keys: list[Typed] = []
        elements = [self._element(each, outputs, place, keys) for each in select.group_by]
        has_sets = any(isinstance(each, tree.GroupingSet) for each in select.group_by)
        if select.group_distinct and has_sets:
            raise FeatureNotSupported.of("GROUP BY DISTINCT", select.at)
        for key in keys:
            check_groupable(key)
            _refuse_chosen(key)
        if not has_sets:
            plain = ", ".join(key_sql(key) if has_twins(key) else _key(key) for key in keys)
            return Groups(tuple(keys), plain or None, False)
        sets = self._combined(elements)
        return Groups(tuple(keys), sets, True)

    def _element(
        self,
        element: tree.GroupElement,
        outputs: Sequence[Output],
        place: Place,
        keys: list[Typed],
    ) -> list[list[str]]:
        """An element as the grouping sets that it stands for, each a list of keys."""
        match element:
            case tree.GroupKeys(written):
                found = [self.key(each, outputs, place, "GROUP BY") for each in written]
                keys += [key for key in found if all(key.sql != other.sql for other in keys)]
                return [[_key(key) for key in found]]
            case tree.GroupingSet(kind, inner):
                parts = [self._element(each, outputs, place, keys) for each in inner]
                return _expanded(kind, parts)
            case _:
                assert_never(element)

    def _combined(self, elements: list[list[list[str]]]) -> str:
        """Several elements mean every combination of their sets."""
        sets: list[list[str]] = [[]]
        for element in elements:
            sets = [
                [*one, *(k for k in other if k not in one)] for one in sets for other in element
            ]
        texts = ", ".join(f"({', '.join(each)})" for each in sets)
        return f"GROUPING SETS ({texts})"

    def key(
        self, node: tree.Expression, outputs: Sequence[Output], place: Place, clause: str
    ) -> Typed:
        """A key: a position, a column, the name of an output column, or any expression."""
        if isinstance(node, tree.Number) and node.text.isdigit():
            number = output_position(int(node.text), len(outputs), clause, node.at)
            found = outputs[number].value
            return self._allowed(found, found.at)
        if isinstance(node, tree.ColumnRef) and len(node.parts) == 1:
            [name] = node.parts
            if place.scope.try_column(name, node.at) is None:
                for each in outputs:
                    if each.name == name:
                        return self._allowed(each.value, node.at)
        return self._allowed(self._expressions.value(node, place), node.at)

    def _allowed(self, key: Typed, at: int) -> Typed:
        for part in key.walk():
            if part.role is Role.AGGREGATE:
                raise GroupingFault("aggregate functions are not allowed in GROUP BY", at)
            if part.role is Role.WINDOW:
                raise GroupingFault("window functions are not allowed in GROUP BY", at)
        return self._expressions.coercion.settled(key)


def _refuse_chosen(key: Typed) -> None:
    """Refuse a key that asks a query for each row: it was written for one row of each group."""
    if any(part.sql.startswith(ANY_OF_GROUP) for part in key.walk()):
        raise FeatureNotSupported(
            "GROUP BY a subquery that uses columns of this query is not supported",
            key.at,
            hint="Compute it in a subquery in FROM, and group by its column.",
        )


def _key(key: Typed) -> str:
    """A key behind GROUP BY, where a plain number would be a position."""
    if key.known is not None and name_of(key.type) in ("int2", "int4", "int8"):
        return f"CAST({key.sql} AS BIGINT)"
    return group_key_sql(key)


def _expanded(kind: tree.GroupingKind, parts: list[list[list[str]]]) -> list[list[str]]:
    match kind:
        case tree.GroupingKind.SETS:
            return [one for part in parts for one in part]
        case tree.GroupingKind.ROLLUP:
            units = [part[0] for part in parts]
            return [_joined(units[:n]) for n in range(len(units), -1, -1)]
        case tree.GroupingKind.CUBE:
            units = [part[0] for part in parts]
            count = len(units)
            return [
                _joined([u for n, u in enumerate(units) if not chosen >> (count - 1 - n) & 1])
                for chosen in range(2**count)
            ]
        case _:
            assert_never(kind)


def _joined(units: list[list[str]]) -> list[str]:
    return [key for unit in units for key in unit]


def check_grouped(values: Sequence[Typed], groups: Groups, scope: int) -> None:
    """Raise `GroupingFault` for a column that is neither grouped by nor in an aggregate."""
    keys = {key.sql for key in groups.keys}
    for value in values:
        _check_grouping(value, keys)
        for column in _ungrouped(value, keys, scope):
            assert column.column is not None
            source = column.column
            name = source.name if source.table is None else f"{source.table}.{source.name}"
            raise GroupingFault(
                f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate'
                " function",
                column.at,
            )


def _ungrouped(value: Typed, keys: set[str], scope: int) -> Iterator[Typed]:
    if value.sql in keys or value.role in _AGGREGATES:
        return
    if value.column is not None:
        if value.column.scope == scope:
            yield value
        return
    for part in value.parts:
        yield from _ungrouped(part, keys, scope)


def has_aggregate(values: Sequence[Typed]) -> bool:
    return any(part.role in _AGGREGATES for value in values for part in value.walk())


def _check_grouping(value: Typed, keys: set[str]) -> None:
    """The arguments of GROUPING must be grouped by."""
    for part in value.walk():
        if part.role is Role.GROUPING:
            for argument in part.parts:
                if argument.sql not in keys:
                    raise GroupingFault(
                        "arguments to GROUPING must be grouping expressions of the associated"
                        " query level",
                        argument.at,
                    )
