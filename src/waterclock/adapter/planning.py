"""From a query's text to what can be run: names looked up, types found, SQL for the engine.

A query of a user is planned against the catalog as it is now. A view that is not materialized is
planned from its own text, with the names in it meaning what they meant when it was made.

Reading a view that has an index reads the index; maintaining something over it does not, since an
index has no rows in storage. In a transaction that has changed tables, neither indexes nor what is
maintained over these tables is read: such views are planned from their text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from waterclock.adapter.reading import index_on
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.errors import WrongKind
from waterclock.catalog.names import Name, Scope
from waterclock.catalog.objects import (
    AnyRelation,
    Binding,
    MaterializedView,
    Query,
    Relation,
    Source,
    SourceProgress,
    Subsource,
    View,
)
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType, column_type
from waterclock.model.schema import Column, Schema
from waterclock.sql.ast.common import ExpressionText
from waterclock.sql.binding import (
    BoundColumn,
    BoundQuery,
    BoundRelation,
    SessionFacts,
    bind_query,
)
from waterclock.sql.binding.parts import Parts
from waterclock.sql.budget import Meter
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.lexer import lex
from waterclock.sql.tokens import Kind


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that a statement has made, for what comes next in it to read under a name."""

    id: GlobalId
    columns: tuple[BoundColumn, ...]
    rows: pa.Table

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Column(c.name, column_type(c.type), True) for c in self.columns))


_LONGEST_NAME = 1000
"""Characters of a name as it is written; what counts of it is much shorter."""
AllGiven = Mapping[str, Given | None]
"""By their names; None for what makes no rows."""
NOTHING_GIVEN: AllGiven = {}


@dataclass(frozen=True, slots=True)
class Plan:
    """A query that can be run or maintained."""

    bound: BoundQuery
    inputs: Mapping[GlobalId, Schema]
    """What it reads: collections, and indexes in the place of views."""
    named: tuple[AnyRelation, ...]
    """The relations that the text names, for asking whether they may be read."""
    query: Query
    """The text, with what its names mean."""
    tables: frozenset[GlobalId]
    """All tables behind it."""
    sources: frozenset[GlobalId]
    """All sources behind it, whether it reads their rows or their progress."""
    of_sources: frozenset[GlobalId]
    """The collections of these sources that it depends on."""
    given: Mapping[GlobalId, Given] = field(default_factory=dict)
    """What it reads that is no collection."""
    at: Callable[[int, Meter], Plan] | None = None
    """What it is at a time, if that depends on the time beyond what is read."""


@dataclass(slots=True)
class _Views:
    """The views that one statement names, and the parts of its query."""

    parts: Parts = field(default_factory=Parts)
    bound: dict[GlobalId, tuple[BoundQuery, Mapping[GlobalId, Schema]]] = field(
        default_factory=dict
    )


class Names:
    """Looks names up for the binder, and remembers what it found."""

    def __init__(
        self,
        catalog: Catalog,
        facts: SessionFacts,
        *,
        scope: Scope | None = None,
        bindings: Mapping[str, GlobalId] | None = None,
        maintained: bool,
        written: frozenset[GlobalId] = frozenset(),
        given: AllGiven = NOTHING_GIVEN,
        meter: Meter | None = None,
        views: _Views | None = None,
    ) -> None:
        """With `bindings`, names mean what they did when a view was made, and nothing else.

        `written` are tables that the reader has changed; nobody else knows of it.
        """
        self._catalog = catalog
        self._facts = facts
        self._scope = scope
        self._bindings = bindings
        self._maintained = maintained
        self._written = written
        self._given = given
        self._meter = meter or Meter()
        self._views = views or _Views()
        self.read_given: dict[GlobalId, Given] = {}
        self.found: dict[str, AnyRelation] = {}
        self.inputs: dict[GlobalId, Schema] = {}

    def relation(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        """What the name means; raises what the catalog says of unknown ones."""
        if parts[-1] in self._given and len(parts) == 1:
            return self._rows_given(parts[0], position)
        item = self._item(parts)
        self.found[".".join(parts)] = item
        columns = tuple(BoundColumn(c.name, c.type, c.nullable) for c in item.columns)
        if isinstance(item, Source) and not item.columns:
            raise WrongKind(
                f'source "{item.name}" has no rows of its own',
                hint="Read its subsources; SHOW SOURCES lists them.",
            )
        if isinstance(item, SourceProgress):
            return self._progress(item, columns)
        is_stale = bool(self._written) and self._is_stale(item)
        if isinstance(item, View) or (is_stale and isinstance(item, MaterializedView)):
            computed = self._maintained or is_stale
            index = None if computed else index_on(self._catalog, item.id)
            if index is None:
                return BoundRelation(item.name, columns, self._inlined(item), item.oid)
            self.inputs[index.id] = item.schema
            return BoundRelation(item.name, columns, index.id, item.oid)
        self.inputs[item.id] = item.schema
        return BoundRelation(item.name, columns, item.id, item.oid)

    def _rows_given(self, name: str, position: int) -> BoundRelation:
        given = self._given[name]
        if given is None:
            what = f'WITH query "{name}" does not have a RETURNING clause'
            raise FeatureNotSupported(what, position)
        self.read_given[given.id] = given
        return BoundRelation(name, given.columns, given.id, 0)

    def described(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        """What the name means, without reading it. What is maintained still depends on it."""
        del position
        item = self._item(parts)
        if self._maintained:
            self.found[".".join(parts)] = item
        columns = tuple(BoundColumn(c.name, c.type, c.nullable) for c in item.columns)
        return BoundRelation(item.name, columns, item.id, item.oid)

    def _is_stale(self, item: AnyRelation) -> bool:
        """Whether what is maintained lacks changes that the reader has to see."""
        return any(each.id in self._written for each in _behind(self._catalog, [item.id]))

    def _progress(self, item: SourceProgress, columns: tuple[BoundColumn, ...]) -> BoundRelation:
        """The bindings. They are shown with the time of the read by whoever reads at one time."""
        source = self._catalog.item(item.source)
        remap = source.collections[0]
        self.inputs[remap] = item.schema if self._maintained else item.read_schema
        shown = columns[1:] if self._maintained else columns
        return BoundRelation(item.name, shown, remap, item.oid)

    def _item(self, parts: tuple[str, ...]) -> AnyRelation:
        if self._bindings is not None:
            item = self._catalog.item(self._bindings[".".join(parts)])
            assert isinstance(item, Relation)
            return item
        assert self._scope is not None
        return self._catalog.relation(name_of(parts), self._scope)

    def _inlined(self, view: View | MaterializedView) -> BoundQuery:
        """The view's query, which is bound once for a statement however often it is named."""
        known = self._views.bound.get(view.id)
        if known is None:
            known = self._views.bound[view.id] = self._made_of(view)
        bound, inputs = known
        self.inputs |= inputs
        return bound

    def _made_of(
        self, view: View | MaterializedView
    ) -> tuple[BoundQuery, Mapping[GlobalId, Schema]]:
        bindings = {binding.name: binding.id for binding in view.query.bindings}
        inner = Names(
            self._catalog,
            self._facts,
            bindings=bindings,
            maintained=self._maintained,
            written=self._written,
            meter=self._meter,
            views=self._views,
        )
        parts = self._views.parts
        before = self._meter.nodes - parts.nodes
        wanted = [column.type for column in view.columns]
        with self._meter.view():
            bound = self._bound(view, inner)
            if [column.type for column in bound.columns] != wanted:
                bound = self._bound(view, inner, wanted)
        nodes = self._meter.nodes - parts.nodes - before
        types = [column.type for column in bound.columns]
        return replace(bound, sql=parts.add(bound.sql, types, nodes)), inner.inputs

    def _bound(
        self, view: View | MaterializedView, inner: Names, types: Sequence[PgType] = ()
    ) -> BoundQuery:
        """The view's query. An older version may have found other digits: those stay."""
        return bind_query(
            view.query.sql,
            1,
            inner,
            facts=self._facts.of_views(),
            maintained=self._maintained,
            target_types=types,
            meter=self._meter,
            parts=self._views.parts,
        )


def name_of(parts: Sequence[str]) -> Name:
    """A written name of up to three parts."""
    *outer, item = parts
    schema = outer.pop() if outer else None
    database = outer.pop() if outer else None
    if outer:
        raise SyntaxFault(f"improper qualified name (too many dotted names): {'.'.join(parts)}")
    return Name(item, schema, database)


def column_named(expression: ExpressionText) -> str | None:
    """The column that the expression is, if it is just one."""
    if len(expression.text) > _LONGEST_NAME:
        return None
    tokens = [token for token in lex(expression.text) if token.kind is not Kind.END]
    if len(tokens) == 1 and tokens[0].kind in (Kind.WORD, Kind.QUOTED):
        return tokens[0].value
    return None


def plan_query(
    catalog: Catalog,
    scope: Scope,
    facts: SessionFacts,
    text: str,
    position: int,
    *,
    parameter_types: Sequence[PgType | None] = (),
    parameters: Sequence[pa.Scalar] | None = None,
    maintained: bool = False,
    target_types: Sequence[PgType | None] = (),
    target_names: Sequence[str] = (),
    written: frozenset[GlobalId] = frozenset(),
    assigned: Sequence[int] | None = None,
    given: AllGiven = NOTHING_GIVEN,
    meter: Meter | None = None,
    is_run: bool = True,
) -> Plan:
    """Plan the query; raises what is wrong with it.

    If it is not run, only kept as the text of a view, it may be too large to be maintained, and its
    SQL is not written out.
    """
    assert not (maintained and (written or given)), "what is maintained is for everybody"
    views, meter = _Views(), meter or Meter()
    names = Names(
        catalog,
        facts,
        scope=scope,
        maintained=maintained,
        written=written,
        given=given,
        meter=meter,
        views=views,
    )
    bound = bind_query(
        text,
        position,
        names,
        facts=facts,
        parameter_types=parameter_types,
        parameters=parameters,
        maintained=maintained,
        target_types=target_types,
        target_names=target_names,
        assigned=assigned,
        meter=meter,
        parts=views.parts,
    )
    if is_run:
        bound = views.parts.assembled(bound, maintained, meter)
    bindings = tuple(Binding(name, item.id) for name, item in names.found.items())
    return _planned(catalog, names, bound, Query(text, bindings))


def plan_again(
    catalog: Catalog, facts: SessionFacts, query: Query, meter: Meter | None = None
) -> Plan:
    """The plan of maintaining a query whose names mean what they did when it was kept."""
    bindings = {binding.name: binding.id for binding in query.bindings}
    views, meter = _Views(), meter or Meter()
    names = Names(catalog, facts, bindings=bindings, maintained=True, meter=meter, views=views)
    bound = bind_query(
        query.sql,
        1,
        names,
        facts=facts.of_views(),
        maintained=True,
        meter=meter,
        parts=views.parts,
    )
    bound = views.parts.assembled(bound, True, meter)
    return _planned(catalog, names, bound, query)


def _planned(catalog: Catalog, names: Names, bound: BoundQuery, query: Query) -> Plan:
    behind = _behind(catalog, [item.id for item in names.found.values()])
    return Plan(
        bound,
        names.inputs,
        tuple({item.id: item for item in names.found.values()}.values()),
        query,
        frozenset(item.id for item in behind if item.is_written_here),
        frozenset(i.id for i in behind if isinstance(i, Source) and not i.is_written_here),
        _filled_behind(catalog, [item.id for item in names.found.values()]),
        names.read_given,
    )


def _filled_behind(catalog: Catalog, ids: Sequence[GlobalId]) -> frozenset[GlobalId]:
    """The collections of sources that the relations are made from."""
    found: set[GlobalId] = set()
    seen: set[GlobalId] = set()
    rest = list(ids)
    while rest:
        each = rest.pop()
        if each in seen:
            continue
        seen.add(each)
        match catalog.try_item(each):
            case Source() as item if item.is_written_here:
                pass
            case Source() | Subsource():
                found.add(each)
            case SourceProgress() as item:
                found.add(catalog.item(item.source).collections[0])
            case Relation() as item:
                rest += item.uses
    return frozenset(found)


def _behind(catalog: Catalog, ids: Sequence[GlobalId]) -> list[Relation]:
    """The relations, and everything they are made from."""
    seen: dict[GlobalId, Relation] = {}
    rest = list(ids)
    while rest:
        each = rest.pop()
        item = catalog.try_item(each)
        if each not in seen and isinstance(item, Relation):
            seen[each] = item
            rest += item.uses
    return list(seen.values())
