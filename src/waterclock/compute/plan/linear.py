"""Building runs of row-by-row steps on top of nodes.

Adjacent steps become one `Linear`, so that Catalyst compiles a whole run at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from waterclock.compute.catalyst.trees import Builder, Expression
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import (
    Attribute,
    Attributes,
    Filter,
    Generate,
    Linear,
    Node,
    Project,
    Step,
)

_COLLATION = re.compile(r'"string collate (\w+)"|"__COLLATIONS":\{"[^"]*":"(?:\w+\.)?(\w+)"')


def attributes_of(columns: Iterable[Expression]) -> Attributes:
    """The output columns that named expressions make.

    Strings are compared by their bytes wherever rows are related to one another, so a column with
    a collation that says otherwise is `NotMaintainable`.
    """
    return tuple(Attribute(c.expr_id, c.name, _type(c), c.nullable) for c in columns)


def _type(column: Expression) -> str:
    text = column.type_json
    collation = _COLLATION.search(text)
    if collation is not None:
        raise NotMaintainable(
            f"a view can not be maintained over strings with collation {max(collation.groups(''))}",
            hint="Compare lower(...) of the strings, or another form of them, by its bytes.",
        )
    return text


class Linears:
    """Makes `Linear` nodes."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def step(self, below: Node, step: Project | Filter) -> Node:
        """One more step on top of a node."""
        if isinstance(step, Filter):
            return _stacked(below, step, below.output)
        return _stacked(below, step, attributes_of(step.columns))

    def generate(self, below: Node, step: Generate, output: Attributes) -> Node:
        return _stacked(below, step, output)

    def reference(self, attribute: Attribute) -> Expression:
        """An expression that reads the column."""
        return self.builder.attribute(
            attribute.id, attribute.name, attribute.type, attribute.nullable
        )

    def fresh(self, expression: Expression, name: str) -> Expression:
        """The expression as a column of its own."""
        return self.builder.alias(expression, name, self.builder.new_id())

    def pick(self, below: Node, output: Attributes) -> Node:
        """Only these of the columns, in this order."""
        if [a.id for a in below.output] == [a.id for a in output]:
            return below
        return self.step(below, Project(tuple(self.reference(a) for a in output)))

    def computed(self, below: Node, columns: Sequence[Expression], output: Attributes) -> Node:
        """Columns computed by expressions, under the names and ids of `output`."""
        named = [
            self.builder.alias(column, attribute.name, attribute.id)
            for column, attribute in zip(columns, output, strict=True)
        ]
        return self.step(below, Project(tuple(named)))

    def renamed(self, below: Node, output: Attributes) -> Node:
        """The same columns, by position, under other names and ids."""
        if [a.id for a in below.output] == [a.id for a in output]:
            return below
        return self.computed(below, [self.reference(a) for a in below.output], output)

    def copied(self, below: Node) -> Node:
        """The same rows under new ids, for joining a node with itself."""
        output = tuple(
            Attribute(self.builder.new_id(), a.name, a.type, a.nullable) for a in below.output
        )
        return self.renamed(below, output)

    def copied_keys(self, below: Node, width: int) -> Node:
        """The same rows with new ids for the first columns, for joining on them."""
        keys = tuple(
            Attribute(self.builder.new_id(), a.name, a.type, a.nullable)
            for a in below.output[:width]
        )
        return self.renamed(below, keys + below.output[width:])

    def with_columns(
        self, below: Node, wanted: Sequence[Expression]
    ) -> tuple[Node, tuple[int, ...]]:
        """The node with the wanted expressions among its columns, and their positions.

        An expression that is a column already is not computed again, unless it is wanted twice: the
        positions are distinct.
        """
        place = {a.id: i for i, a in enumerate(below.output)}
        places: list[int] = []
        added: list[Expression] = []
        for expression in wanted:
            known = place.get(expression.expr_id) if _is_column(expression) else None
            if known is None or known in places:
                known = len(below.output) + len(added)
                added.append(self.fresh(expression, f"computed_{len(added)}"))
            places.append(known)
        if not added:
            return below, tuple(places)
        kept = [self.reference(a) for a in below.output]
        return self.step(below, Project((*kept, *added))), tuple(places)


def _is_column(expression: Expression) -> bool:
    return expression.kind == "AttributeReference"


def _stacked(below: Node, step: Step, output: Attributes) -> Linear:
    if isinstance(below, Linear):
        return Linear(below.input, (*below.steps, step), output)
    return Linear(below, (step,), output)
