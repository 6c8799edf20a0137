"""Branches as columns: how many deltas travel in one stream of rows.

Between two stages all deltas travel together in one DataFrame, so that each stage runs once whoever
reads it. The stream has one column for each base or branch, a struct of the row's columns, the time
and the diff; a row of the stream is null in all columns but those that it carries an update for.

A branch is computed from its base's column by one Catalyst expression. Filters become `If`, which
is lazy: what a row does not reach is not evaluated for it, and can not fail on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.compute.catalyst.trees import Builder, Expression
from waterclock.compute.catalyst.types import column_name
from waterclock.compute.dataflow.program import Branch
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import Attributes, Filter, Project, Step
from waterclock.persist.rows import DIFF, TIME


class BranchColumns:
    """Makes the columns of branches."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def column(self, branch: Branch, source: Expression, name: str) -> Expression:
        """The branch as a named column, computed from its base's column `source`."""
        build = self._builder
        base = branch.base.output
        width = len(base)
        values = {a.id: build.field(source, i) for i, a in enumerate(base)}
        stamp = [build.field(source, width), build.field(source, width + 1)]
        computed = self._through(branch.steps, values, branch.output, stamp)
        absent = build.null_like(computed)
        return build.alias(
            build.call("If", build.call("IsNotNull", source), computed, absent),
            name,
            build.new_id(),
        )

    def _through(
        self,
        steps: Sequence[Step],
        values: Mapping[int, Expression],
        output: Attributes,
        stamp: list[Expression],
    ) -> Expression:
        build = self._builder
        if not steps:
            return self._struct([*(values[a.id] for a in output), *stamp])
        step, *rest = steps
        match step:
            case Filter(condition):
                kept = self._through(rest, values, output, stamp)
                holds = self._over(condition, values)
                return build.call("If", holds, kept, build.null_like(kept))
            case Project(columns):
                computed = {c.expr_id: self._over(_value(c), values) for c in columns}
                return self._through(rest, computed, output, stamp)
            case _:
                raise NotMaintainable("a view can not be maintained over generated rows yet")

    def _over(self, expression: Expression, values: Mapping[int, Expression]) -> Expression:
        """The expression with its columns replaced by their values."""

        def replace(node: Expression) -> Expression | None:
            return values[node.expr_id] if node.kind == "AttributeReference" else None

        return self._builder.rewrite(expression, replace)

    def _struct(self, values: list[Expression]) -> Expression:
        """All fields may be null: in a row that carries no update for the column, they are."""
        names = [*map(column_name, range(len(values) - 2)), TIME, DIFF]
        fields = [self._builder.call("KnownNullable", value) for value in values]
        return self._builder.struct(dict(zip(names, fields, strict=True)))


def _value(column: Expression) -> Expression:
    return column.children[0] if column.kind == "Alias" else column
