"""Functions in FROM: their rows as a relation.

The rows are an array that is exploded with the places of its elements. So they have an order, and
WITH ORDINALITY can show it. An ordinary function gives an array of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import INT8, PgType
from waterclock.sql.binding.api import BoundColumn
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.named_sources import Source, named
from waterclock.sql.binding.populating import is_populating
from waterclock.sql.binding.records import records
from waterclock.sql.binding.row_order import numbered
from waterclock.sql.binding.scope import Scope
from waterclock.sql.dialect.types import spark_type
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.functions.json_rows import RECORDS
from waterclock.sql.functions.registry import Kind
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class FunctionSources:
    """Binds functions in FROM."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def bind(self, item: tree.FunctionTable, scope: Scope) -> Source:
        """The rows of the functions; those of several stand side by side."""
        calls = _calls(item)
        if len(calls) > 1:
            return self._beside(item, calls, scope)
        [node] = calls
        place = Place(scope, "functions in FROM")
        if is_populating(node):
            return self._populated(item, node, scope)
        if item.definitions:
            return self._record(item, node, scope)
        candidate, values = self._expressions.calling.set_returning(node, place)
        name = node.name[-1]
        if candidate.function.kind is not Kind.SET:
            return self._single(item, node, name, scope)
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        del converted
        array = self._expressions.operators.filled(candidate.function, use, node.at)
        fields = candidate.function.columns or ((self._column_name(item, name), use.result),)
        paths = None
        if len(candidate.function.columns) > 1:
            paths = [field for field, _ in fields]
        return self._exploded(array, fields, paths, item, name, scope)

    def _populated(self, item: tree.FunctionTable, node: tree.Call, scope: Scope) -> Source:
        """JSON as rows of a relation's columns."""
        if item.definitions:
            what = "a column definition list is redundant for a function returning a named"
            raise SyntaxFault(f"{what} composite type", item.defined_at)
        place = Place(scope, "functions in FROM")
        found = self._expressions.calling.populating.rows(node, place)
        paths = [f"f{n}" for n in range(len(found.columns))]
        return self._exploded(found.sql, found.columns, paths, item, node.name[-1], scope)

    def _record(self, item: tree.FunctionTable, node: tree.Call, scope: Scope) -> Source:
        """JSON as rows of the columns that are told."""
        place = Place(scope, "functions in FROM")
        candidate, values = self._expressions.calling.set_returning(node, place)
        name = candidate.function.name
        if name not in RECORDS:
            what = "a column definition list is only allowed for functions returning"
            raise SyntaxFault(f'{what} "record"', item.defined_at)
        if item.with_ordinality:
            raise SyntaxFault(
                "WITH ORDINALITY cannot be used with a column definition list", item.at
            )
        [value], use = self._expressions.operators.use(candidate, values, node.at)
        array = records(name, value, item.definitions, use.manner, node.at)
        paths = [f"f{n}" for n in range(len(item.definitions))]
        return self._exploded(array, item.definitions, paths, item, name, scope)

    def _beside(self, item: tree.FunctionTable, calls: Sequence[tree.Call], scope: Scope) -> Source:
        """Functions whose rows stand side by side; where one has no more of them there are nulls.

        The rows of each are an array, which may be null where there are none.
        """
        arrays, fields = [], []
        for call in calls:
            array, declared = self._array(call, scope)
            arrays.append(f"COALESCE({array}, ARRAY())")
            fields.append((call.name[-1], declared))
        paths = [f"f{n}" for n in range(len(arrays))]
        kinds = ", ".join(
            f"{path}: {spark_type(declared)}"
            for path, (_, declared) in zip(paths, fields, strict=True)
        )
        zipped = f"CAST(ARRAYS_ZIP({', '.join(arrays)}) AS ARRAY<STRUCT<{kinds}>>)"
        return self._exploded(zipped, fields, paths, item, calls[0].name[-1], scope)

    def _array(self, call: tree.Call, scope: Scope) -> tuple[str, PgType]:
        """The rows of a function of one column as an array, and the type of the column."""
        place = Place(scope, "functions in FROM")
        candidate, values = self._expressions.calling.set_returning(call, place)
        if candidate.function.kind is not Kind.SET:
            value = self._expressions.value(call, place)
            return f"ARRAY({value.sql})", value.type
        if len(candidate.function.columns) > 1:
            what = "a function of several columns beside others"
            raise FeatureNotSupported.of(what, call.at)
        _, use = self._expressions.operators.use(candidate, values, call.at)
        return self._expressions.operators.filled(candidate.function, use, call.at), use.result

    def _column_name(self, item: tree.FunctionTable, name: str) -> str:
        """A function's only column is called as the function is, or as its alias."""
        return name if item.alias is None else item.alias.name

    def _single(self, item: tree.FunctionTable, node: tree.Call, name: str, scope: Scope) -> Source:
        """An ordinary function in FROM: one row of its value."""
        value = self._expressions.value(node, Place(scope, "functions in FROM"))
        fields = ((self._column_name(item, name), value.type),)
        return self._exploded(f"ARRAY({value.sql})", fields, None, item, name, scope)

    def _exploded(
        self,
        array: str,
        fields: Sequence[tuple[str, PgType]],
        paths: Sequence[str] | None,
        item: tree.FunctionTable,
        name: str,
        scope: Scope,
    ) -> Source:
        """The elements of an array as rows; with `paths`, they are structs of these fields."""
        columns = [BoundColumn(field, declared) for field, declared in fields]
        shown = ["f.col"] if paths is None else [f"f.col.{path}" for path in paths]
        if item.with_ordinality:
            columns.append(BoundColumn("ordinality", INT8, nullable=False))
            shown.append("CAST(f.pos + 1 AS BIGINT)")
        shown.append("f.pos")
        order = numbered(f"c{len(shown)}")
        inner = f"SELECT POSEXPLODE({array}) AS (pos, col)"
        sql = f"LATERAL (SELECT {', '.join(shown)} FROM ({inner}) AS f)"
        width = len(shown)
        source = named(
            self._expressions.statement,
            sql,
            columns,
            (name,),
            item.alias,
            scope,
            order=order,
            width=width,
        )
        [relation] = source.relations
        return replace(source, relations=(replace(relation, is_value=len(columns) == 1),))


def _calls(item: tree.FunctionTable) -> list[tree.Call]:
    """The calls; `unnest` of several arrays is one for each."""
    found: list[tree.Call] = []
    if item.definitions and len(item.calls) > 1:
        raise FeatureNotSupported.of("a column definition list beside ROWS FROM", item.at)
    for node in item.calls:
        if not isinstance(node, tree.Call):
            raise FeatureNotSupported.of("this expression in FROM", item.at)
        if node.name[-1] == "unnest" and len(node.arguments) > 1:
            found += [replace(node, arguments=(each,)) for each in node.arguments]
        else:
            found.append(node)
    return found
