"""Branches as columns: how many deltas travel in one stream of rows.

Between two stages all deltas travel together in one DataFrame, so that each stage runs once whoever
reads it. The stream has one column for each base or branch, a struct of the row's columns and of
two stamps that say when it counts (see `shape`); a row of the stream is null in all columns but
those that it carries an update for.

A branch is computed from its base's column by one Catalyst expression. Filters become `If`, which
is lazy: what a row does not reach is not evaluated for it, and can not fail on it. Generators
become arrays. A branch that may fail carries its errors beside its updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.compute.catalyst.trees import Builder, Expression
from waterclock.compute.catalyst.types import arrow_schema, column_name, update_struct
from waterclock.compute.dataflow.failures import Failures, Part
from waterclock.compute.dataflow.generators import Generators
from waterclock.compute.dataflow.program import Branch
from waterclock.compute.dataflow.shape import Shape
from waterclock.compute.plan.nodes import Attributes, Filter, Generate, Project, Regroup, Step
from waterclock.persist.rows import DIFF, TIME

Values = Mapping[int, Expression]
"""Attribute id -> its value, over the base's column."""


class BranchColumns:
    """Makes the columns of branches."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._failures = Failures(builder)
        self._generators = Generators(builder)

    def column(self, branch: Branch, source: Expression, name: str) -> tuple[Expression, Shape]:
        """The branch as a named column, computed from its base's column `source`."""
        build = self._builder
        width = len(branch.base.output)
        values = {a.id: build.field(source, i) for i, a in enumerate(branch.base.output)}
        stamp = [build.field(source, width), build.field(source, width + 1)]
        parts: list[Part] = []
        computed = self._through(branch.steps, values, branch.output, stamp, parts)
        if parts:
            computed = self._failures.guarded(computed, self._told(branch, values), parts, stamp)
        present = build.call("IsNotNull", source)
        column = build.call("If", present, computed, build.null_like(computed))
        shape = Shape(
            arrow_schema(update_struct(branch.output)),
            many=any(isinstance(step, Generate) for step in branch.steps),
            lasting=isinstance(branch.base, Regroup),
            fallible=bool(parts),
        )
        return build.alias(column, name, build.new_id()), shape

    def _told(self, branch: Branch, values: Values) -> Expression:
        """What an error says of the row: the columns that the branch reads.

        The others may not be there: see `operators.JoinOperator`.
        """
        output = [branch.base.output[place] for place in sorted(branch.reads)]
        if not output:
            return self._builder.text("{}")
        return self._builder.struct({a.name: values[a.id] for a in output})

    def _through(
        self,
        steps: Sequence[Step],
        values: Values,
        output: Attributes,
        stamp: list[Expression],
        parts: list[Part],
    ) -> Expression:
        """The branch after the steps; `parts` gathers what in them may fail."""
        build = self._builder
        if not steps:
            return self._struct([*(values[a.id] for a in output), *stamp])
        step, *rest = steps
        match step:
            case Filter(condition):
                holds = self._over(condition, values, parts)
                kept = self._through(rest, values, output, stamp, parts)
                return build.call("If", holds, kept, build.null_like(kept))
            case Project(columns):
                computed = {c.expr_id: self._over(_value(c), values, parts) for c in columns}
                return self._through(rest, computed, output, stamp, parts)
            case Generate(generate):

                def each(made: list[Expression]) -> Expression:
                    ids = [Expression(a).expr_id for a in generate.field("generatorOutput")]
                    known = {**values, **dict(zip(ids, made, strict=True))}
                    return self._through(rest, known, output, stamp, parts)

                made = self._generators.generated(
                    generate, lambda e: self._over(e, values, parts), each
                )
                if any(isinstance(later, Generate) for later in rest):
                    return build.call("Flatten", build.present(made))
                return made

    def _over(
        self,
        expression: Expression,
        values: Values,
        parts: list[Part],
    ) -> Expression:
        """The expression with its columns replaced by their values."""

        def replace(node: Expression) -> Expression | None:
            return values[node.expr_id] if node.kind == "AttributeReference" else None

        fallible = self._failures.fallible(expression)
        parts += [Part(part, self._builder.rewrite(part, replace)) for part in fallible]
        return self._builder.rewrite(expression, replace)

    def _struct(self, values: list[Expression]) -> Expression:
        """All fields may be null: in a row that carries no update for the column, they are."""
        names = [*map(column_name, range(len(values) - 2)), TIME, DIFF]
        fields = [self._builder.nullable(value) for value in values]
        return self._builder.struct(dict(zip(names, fields, strict=True)))


def _value(column: Expression) -> Expression:
    return column.children[0] if column.kind == "Alias" else column
