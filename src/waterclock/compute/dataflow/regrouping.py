"""Window functions over the versions of groups, inside the stream.

A stage has put the versions of the groups that changed into a column (see `kernels.versions`). Here
Catalyst's windows are evaluated over the whole stream, with the version's number as the partition:
rows that carry something else form a partition of their own, whose results nobody looks at. While
the stream is in one task nothing is shuffled; if it is spread, each version is brought together.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.compute.catalyst.trees import Builder, Expression, Logical
from waterclock.compute.catalyst.types import column_name
from waterclock.compute.kernels.versions import BEGIN, END
from waterclock.compute.plan.nodes import Regroup


class Regrouping:
    """Evaluates regroups over their versions."""

    def __init__(self, builder: Builder, parts: int) -> None:
        self._builder = builder
        self._parts = parts

    def evaluated(self, stream: Logical, name: str, node: Regroup) -> Logical:
        """The stream with the column of versions replaced by the regroup's output."""
        build = self._builder
        at = {column.name: column for column in stream.output}
        others = [column for column in stream.output if column.name != name]
        source = at[name]
        row = node.input.output
        values = [
            build.alias(build.field(source, place), attribute.name, attribute.id)
            for place, attribute in enumerate(row)
        ]
        version = build.alias(build.field(source, len(row) + 2), "version", build.new_id())
        plan = Logical(build.project([*stream.output, *values, version], stream))
        by_id = {column.expr_id: column for column in plan.output}
        number = by_id[version.expr_id]
        if self._parts > 1:
            plan = build.brought_together(number, self._parts, plan)
        ties = [build.ascending(by_id[a.id]) for a in row if build.is_orderable(by_id[a.id])]
        for windows in node.windows:
            keys = [build.ascending(number), *windows.order, *ties]
            plan = build.windows(windows.columns, number, windows.order, build.sorted(keys, plan))
        found = {column.expr_id: column for column in plan.output}
        outputs = [found[attribute.id] for attribute in node.output]
        return Logical(build.project([*others, self._column(node, source, outputs, name)], plan))

    def _column(
        self, node: Regroup, source: Expression, outputs: Sequence[Expression], name: str
    ) -> Expression:
        build = self._builder
        width = len(node.input.output)
        stamp = [build.field(source, width), build.field(source, width + 1)]
        names = [*map(column_name, range(len(outputs))), BEGIN, END]
        fields = [build.nullable(each) for each in (*outputs, *stamp)]
        row = build.struct(dict(zip(names, fields, strict=True)))
        shown = build.call("IsNotNull", source)
        if node.whole:
            shown = build.call("And", shown, build.field(source, width + 3))
        return build.alias(build.call("If", shown, row, build.null_like(row)), name, build.new_id())
