"""Functions that make several rows of one, as arrays.

A delta travels as one value for each row, so what a generator makes of a row is an array of them,
and everything after it is applied to each element. A generator is written as an array whose
elements hold its output columns.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.compute.catalyst.trees import Builder, Expression, Logical

Body = Callable[[list[Expression]], Expression]
"""What is made of the output columns of one generated row."""


class Generators:
    """Applies generators to rows."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def generated(
        self, generate: Logical, over: Callable[[Expression], Expression], body: Body
    ) -> Expression:
        """The array of what `body` makes of each row that a Catalyst `Generate` makes of a row.

        `over` puts the values of the row's columns into an expression.
        """
        build = self._builder
        function = Expression(generate.java.generator())
        rows, columns = self._as_array(function, over)
        if generate.java.outer():
            nothing = build.array([build.null_element_of(rows)])
            some = build.call("GreaterThan", build.size(rows), build.literal(0, '"integer"'))
            rows = build.call("If", some, rows, nothing)
        return build.transformed(rows, lambda row, _: body(columns(row)))

    def _as_array(
        self, function: Expression, over: Callable[[Expression], Expression]
    ) -> tuple[Expression, Callable[[Expression], list[Expression]]]:
        """The generated rows as an array, and how the columns are found in an element."""
        build = self._builder
        arguments = [over(child) for child in function.children]
        match function.kind:
            case "Explode" if _is_map(arguments[0]):
                return build.call("MapEntries", arguments[0]), self._fields(2)
            case "Explode":
                return arguments[0], lambda row: [row]
            case "PosExplode":
                return self._numbered(arguments[0])
            case "Inline":
                width = len(function.children[0].java.dataType().elementType().fields())
                return arguments[0], self._fields(width)
            case "Stack":
                return self._stacked(arguments)
            case "ReplicateRows":
                count, *values = arguments
                row = build.struct({f"c{i}": value for i, value in enumerate(values)})
                repeated = build.call("ArrayRepeat", row, build.cast(count, '"integer"'))
                return repeated, self._fields(len(values))
            case kind:
                raise AssertionError(f"the generator {kind} is refused when a view is planned")

    def _numbered(
        self, values: Expression
    ) -> tuple[Expression, Callable[[Expression], list[Expression]]]:
        build = self._builder
        width = 1
        if _is_map(values):
            values, width = build.call("MapEntries", values), 2

        def with_place(element: Expression, place: Expression) -> Expression:
            parts = [element] if width == 1 else [build.field(element, 0), build.field(element, 1)]
            return build.struct({"pos": place, **{f"c{i}": p for i, p in enumerate(parts)}})

        return build.transformed(values, with_place), self._fields(1 + width)

    def _stacked(
        self, arguments: list[Expression]
    ) -> tuple[Expression, Callable[[Expression], list[Expression]]]:
        build = self._builder
        count: int = arguments[0].java.eval(None)
        values = arguments[1:]
        width = -(-len(values) // count)
        rows = []
        for start in range(0, count * width, width):
            row = values[start : start + width]
            row += [build.null_like(values[i]) for i in range(len(row), width)]
            fields = {f"c{i}": build.call("KnownNullable", v) for i, v in enumerate(row)}
            rows.append(build.struct(fields))
        return build.array(rows), self._fields(width)

    def _fields(self, width: int) -> Callable[[Expression], list[Expression]]:
        return lambda row: [self._builder.field(row, place) for place in range(width)]


def _is_map(expression: Expression) -> bool:
    return '"type":"map"' in expression.type_json[:20]
