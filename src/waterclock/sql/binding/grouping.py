"""GROUP BY: which expressions are grouped by, and whether everything else may be shown.

An expression that is shown must be computed from grouped expressions, aggregates, constants and
columns of outer queries. Two expressions are the same if their SQL is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from waterclock.sql.binding.blocks import Output
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import GroupingFault, WindowFault
from waterclock.sql.binding.naming import asks_queries, is_same, output_name
from waterclock.sql.binding.ordering import check_groupable, group_key_sql
from waterclock.sql.binding.output_keys import output_position
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.representatives import has_twins, representatives, set_representatives
from waterclock.sql.binding.row_keys import keys_of
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.typed import ANY_OF_GROUP, Role, Typed
from waterclock.sql.dialect.types import name_of
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


_AGGREGATES = (Role.AGGREGATE, Role.GROUPING)


@dataclass(frozen=True, slots=True)
class Groups:
    """What a query groups by: all keys, and the SQL behind GROUP BY; None for one group of all."""

    keys: tuple[Typed, ...]
    sql: str | None
    has_sets: bool
    is_bare: bool = False
    """Whether nothing else tells the engine that all rows are one group."""
    columns: str = ""
    """What FROM gets beside its relations: keys that the engine must tell from what equals them."""
    shown: Mapping[int, Typed] = field(default_factory=dict)
    """Such keys, by the places of the output columns that show them."""

    @property
    def representatives(self) -> dict[str, Typed]:
        """What is shown of keys that are equal without being the same."""
        return (set_representatives if self.has_sets else representatives)(self.keys)


class _OwnColumns:
    """Keys of grouping sets that become columns of their own.

    The engine makes null whatever equals a key, wherever it stands: so it can not tell two keys
    that are equal from each other, and a constant from a key that is one. As columns of FROM they
    are what nothing else equals.
    """

    def __init__(self, alias: Callable[[], str]) -> None:
        self._alias = alias
        self._name = ""
        self._values: list[str] = []
        self._by_place: dict[tuple[str, int | None], Typed] = {}
        self._linked: dict[str, int | None] = {}
        self.shown: dict[int, Typed] = {}

    def key(self, key: Typed, place: int | None) -> Typed:
        """The key, which is shown at a place of the select list, or a column in its stead."""
        has_columns = any(part.column is not None for part in key.walk())
        if has_columns and self._linked.setdefault(key.sql, place) == place:
            return key
        known = self._by_place.get((key.sql, place))
        if known is None:
            known = self._by_place[key.sql, place] = self._new(key)
            if place is not None:
                twins = set_representatives([known])
                self.shown[place] = twins.get(known.sql, known)
        return known

    def _new(self, key: Typed) -> Typed:
        self._name = self._name or self._alias()
        self._values.append(key.sql)
        sql = f"{self._name}.c{len(self._values)}"
        return Typed(sql, key.type, key.at, nullable=True)

    @property
    def source(self) -> str:
        if not self._values:
            return ""
        names = ", ".join(f"c{n + 1}" for n in range(len(self._values)))
        return f"LATERAL (SELECT {', '.join(self._values)}) AS {self._name}({names})"


class Grouping:
    """Binds GROUP BY."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._own: _OwnColumns | None = None

    def bind(self, select: tree.Select, outputs: Sequence[Output], place: Place) -> Groups:
        assert select.group_by is not None
        keys: list[Typed] = []
        has_sets = has_grouping_sets(select)
        self._own = _OwnColumns(self._expressions.statement.alias) if has_sets else None
        own = self._own
        elements = [self._element(each, outputs, place, keys) for each in select.group_by]
        for key in keys:
            check_groupable(key)
        if not has_sets:
            plain = ", ".join(key_sql(key) if has_twins(key) else _key(key) for key in keys)
            return Groups(tuple(keys), plain or None, False)
        assert own is not None
        sets = self._combined(elements, distinct=select.group_distinct)
        return Groups(tuple(keys), sets, True, columns=own.source, shown=own.shown)

    def _element(
        self,
        element: tree.GroupElement,
        outputs: Sequence[Output],
        place: Place,
        keys: list[Typed],
        *,
        is_set: bool = False,
    ) -> list[list[str]]:
        """An element as the grouping sets that it stands for, each a list of keys."""
        match element:
            case tree.GroupKeys(written):
                found = [
                    key
                    for each in written
                    for key in self._keys(each, outputs, place, is_set=is_set)
                ]
                keys += [key for key in found if all(key.sql != other.sql for other in keys)]
                return [[_key(key) for key in found]]
            case tree.GroupingSet(kind, inner):
                parts = [self._element(each, outputs, place, keys, is_set=True) for each in inner]
                return _expanded(kind, parts)
            case _:
                assert_never(element)

    def _combined(self, elements: list[list[list[str]]], *, distinct: bool) -> str:
        """Several elements mean every combination of their sets: each once, if `distinct`."""
        sets: list[list[str]] = [[]]
        for element in elements:
            sets = [
                [*one, *(k for k in other if k not in one)] for one in sets for other in element
            ]
        if distinct:
            sets = list({frozenset(each): each for each in reversed(sets)}.values())[::-1]
        texts = ", ".join(f"({', '.join(each)})" for each in sets)
        return f"GROUPING SETS ({texts})"

    def _keys(
        self, node: tree.Expression, outputs: Sequence[Output], place: Place, *, is_set: bool
    ) -> list[Typed]:
        """What an expression is grouped by: it, or the fields of a row."""
        found = self._written(node, outputs, place)
        value = found.row or found.value
        is_made = value.composite is not None and value.composite.is_made
        if is_set and value.role is Role.ROW and not is_made:
            raise FeatureNotSupported.of("GROUPING SETS of whole rows", node.at)
        keys = keys_of(value, self._expressions.coercion.settled)
        if self._own is not None and found.row is None:
            at_place = _shown_at(found, keys, outputs)
            keys = [self._own.key(self._allowed(key, found.value.at), at_place) for key in keys]
        for key in keys:
            if _asks_for_rows(found.written, key, place.scope.number):
                _check_shown(key, outputs)
        return [self._allowed(key, found.value.at) for key in keys]

    def _written(self, node: tree.Expression, outputs: Sequence[Output], place: Place) -> Output:
        """A position, a column, the name of an output column, or any expression."""
        if isinstance(node, tree.Number) and node.text.isdigit():
            return outputs[output_position(int(node.text), len(outputs), "GROUP BY", node.at)]
        if isinstance(node, tree.ColumnRef) and len(node.parts) == 1:
            [name] = node.parts
            if place.scope.try_column(name, node.at) is None:
                for each in outputs:
                    if each.name == name:
                        return replace(each, value=each.value.at_position(node.at))
        if asks_queries(node):
            for each in outputs:
                if is_same(each.written, node):
                    return each
        return Output("", self._expressions.bind(node, place), written=node)

    def _allowed(self, key: Typed, at: int) -> Typed:
        for part in key.walk():
            if part.role is Role.AGGREGATE:
                raise GroupingFault("aggregate functions are not allowed in GROUP BY", at)
            if part.role is Role.WINDOW:
                raise WindowFault("window functions are not allowed in GROUP BY", at)
        return self._expressions.coercion.settled(key)


def has_grouping_sets(select: tree.Select) -> bool:
    return any(isinstance(each, tree.GroupingSet) for each in select.group_by or ())


def _shown_at(found: Output, keys: Sequence[Typed], outputs: Sequence[Output]) -> int | None:
    """The place of the output column that shows what is grouped by."""
    for place, each in enumerate(outputs):
        if each.name == found.name and each.written is found.written:
            return place
    if found.written is not None and len(keys) == 1:
        for place, each in enumerate(outputs):
            if each.value.sql == keys[0].sql:
                return place
    return None


def grouped_by(
    select: tree.Select, items: Sequence[tree.SelectItem], scope: Scope
) -> list[tree.SelectItem]:
    """The items with queries inside that GROUP BY names or repeats.

    They are the keys themselves, so that the queries are asked for each row, not for each group.
    """
    keys = [key for element in select.group_by or () for key in keys_in(element)]
    has_stars = any(isinstance(item.expression, tree.Star | tree.AllFields) for item in items)

    def is_key(item: tree.SelectItem, number: int, key: tree.Expression) -> bool:
        match key:
            case tree.Number(text):
                return text == str(number) and not has_stars
            case tree.ColumnRef((name,)) if scope.try_column(name, key.at) is None:
                return name == (item.label or output_name(item.expression))
            case _:
                return is_same(item.expression, key)

    return [
        item
        for number, item in enumerate(items, start=1)
        if any(is_key(item, number, key) for key in keys) and asks_queries(item.expression)
    ]


def keys_in(element: tree.GroupElement) -> Iterator[tree.Expression]:
    match element:
        case tree.GroupKeys(keys):
            yield from keys
        case tree.GroupingSet(_, inner):
            for each in inner:
                yield from keys_in(each)
        case _:
            assert_never(element)


def _asks_for_rows(written: tree.Expression | None, key: Typed, scope: int) -> bool:
    """Whether a key asks a query that uses columns of ours."""
    columns = (part.column for part in key.walk() if part.column is not None)
    return asks_queries(written) and any(column.scope == scope for column in columns)


def _check_shown(key: Typed, outputs: Sequence[Output]) -> None:
    """Refuse such a key unless it is shown as it is: the engine wants it in the select list."""
    is_of_group = any(part.sql.startswith(ANY_OF_GROUP) for part in key.walk())
    is_shown = any(output.value.sql == key.sql for output in outputs)
    if has_twins(key) or is_of_group or not is_shown:
        raise FeatureNotSupported(
            "GROUP BY a subquery that uses columns of this query, and is not shown as it is, is"
            " not supported",
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
        _check_grouping(value, keys, scope)
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


def _check_grouping(value: Typed, keys: set[str], scope: int) -> None:
    """The arguments of GROUPING must be grouped by."""
    for part in value.walk():
        if part.role is Role.GROUPING:
            for argument in part.parts:
                if argument.sql not in keys:
                    columns = [each.column for each in argument.walk() if each.column is not None]
                    if columns and all(column.scope != scope for column in columns):
                        what = "GROUPING of an outer query's columns"
                        raise FeatureNotSupported.of(what, argument.at)
                    raise GroupingFault(
                        "arguments to GROUPING must be grouping expressions of the associated"
                        " query level",
                        argument.at,
                    )
