"""From Catalyst's optimized logical plan to the plan of a view.

Catalyst has already resolved, typed, decorrelated, pushed down and pruned. What is left is a tree
of a dozen kinds of nodes. Those that treat each row alone become `Linear`; the others become our
nodes, and what we have no node for is lowered: outer, semi and anti joins to inner ones (`joins`),
aggregates to reductions (`aggregates`).

Sorting alone means nothing to a collection and vanishes; with a limit it is a `TopK`.
"""

from __future__ import annotations

from waterclock.compute.catalyst.trees import Builder, Expression, Logical, items
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan import aggregates, joins
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Constant,
    Filter,
    Generate,
    Get,
    Node,
    Order,
    Project,
    Regroup,
    TopK,
    Union,
)
from waterclock.compute.relations import Relations


class Translation:
    """Translates plans over known relations."""

    def __init__(self, builder: Builder, relations: Relations) -> None:
        self._relations = relations
        self.linears = Linears(builder)

    def translate(self, plan: Logical) -> Node:
        """The view's plan; `NotMaintainable` names what it can not be made of."""
        match plan.kind:
            case "Project":
                return self._project(plan)
            case "Filter":
                return self._filter(plan)
            case "Generate":
                return self._generate(plan)
            case "Join":
                return joins.lowered(self, plan)
            case "Aggregate":
                return aggregates.lowered(self, plan)
            case "Window":
                return self._window(plan)
            case "WindowGroupLimit":  # prunes what the filter above it removes anyway
                return self.translate(plan.children[0])
            case "GlobalLimit" | "LocalLimit" | "Offset":
                return self._top(plan)
            case "Sort" | "RepartitionByExpression" | "Repartition" | "RebalancePartitions":
                return self.translate(plan.children[0])
            case "Union":
                return self._union(plan)
            case "Expand":
                return self._expand(plan)
            case "LogicalRDD":
                return Get(self._relations.collection_of(plan), attributes_of(plan.output))
            case "LocalRelation" | "OneRowRelation" | "Range":
                return Constant(plan, attributes_of(plan.output))
            case unknown:
                raise NotMaintainable(f"a view can not be maintained over {_named(unknown)}")

    def _project(self, plan: Logical) -> Node:
        return self._projected(self.translate(plan.children[0]), plan)

    def _projected(self, below: Node, project: Logical) -> Node:
        columns = [Expression(c) for c in project.field("projectList")]
        below, columns = self._lifted(below, columns)
        return self.linears.step(below, Project(tuple(columns)))

    def _filter(self, plan: Logical) -> Node:
        below = self.translate(plan.children[0])
        lifted, [condition] = self._lifted(below, [Expression(plan.java.condition())])
        filtered = self.linears.step(lifted, Filter(condition))
        return self.linears.pick(filtered, below.output)

    def _generate(self, plan: Logical) -> Node:
        below = self.translate(plan.children[0])
        return self.linears.generate(below, Generate(plan), attributes_of(plan.output))

    def _lifted(self, below: Node, uses: list[Expression]) -> tuple[Node, list[Expression]]:
        """Scalar subqueries in the expressions, as columns joined to every row below."""
        for use in uses:
            for found in use.walk():
                if found.kind == "ScalarSubquery":
                    return self._lifted(*self._lift(below, uses, found))
        return below, uses

    def _lift(
        self, below: Node, uses: list[Expression], subquery: Expression
    ) -> tuple[Node, list[Expression]]:
        plan = Logical(subquery.java.plan())
        if not _gives_one_row(plan):
            raise NotMaintainable(
                "a view can not be maintained over a scalar subquery without an aggregate yet",
                hint="Put the subquery's column into an aggregate such as max().",
            )
        value = self.translate(plan)
        joined = joins.crossed(below, value)
        column = self.linears.reference(value.output[0])

        def replace(expression: Expression) -> Expression | None:
            same = expression.kind == "ScalarSubquery" and expression.expr_id == subquery.expr_id
            return column if same else None

        return joined, [self.linears.builder.rewrite(use, replace) for use in uses]

    def _union(self, plan: Logical) -> Node:
        output = attributes_of(plan.output)
        inputs = [self.translate(child) for child in plan.children]
        return Union(tuple(self.linears.renamed(i, output) for i in inputs), output)

    def _expand(self, plan: Logical) -> Node:
        below = self.translate(plan.children[0])
        output = attributes_of(plan.output)
        branches = []
        for projection in plan.field("projections"):
            columns = [Expression(column) for column in items(projection)]
            branches.append(self.linears.computed(below, columns, output))
        return Union(tuple(branches), output)

    def _window(self, plan: Logical) -> Node:
        below = self.translate(plan.children[0])
        partition = [Expression(e) for e in plan.field("partitionSpec")]
        keyed, keys = self.linears.with_columns(below, partition)
        output = keyed.output + attributes_of(plan.output)[len(below.output) :]
        window = Regroup(keyed, keys, plan, "window functions look at the whole group", output)
        return self.linears.pick(window, attributes_of(plan.output))

    def _top(self, plan: Logical) -> Node:
        limit: int | None = None
        offset = 0
        node = plan
        while node.kind in ("GlobalLimit", "LocalLimit", "Offset"):
            if node.kind == "GlobalLimit":
                limit = _constant(Expression(node.java.limitExpr()))
            elif node.kind == "Offset":
                offset = _constant(Expression(node.java.offsetExpr()))
            elif limit is None:
                limit = _constant(Expression(node.java.limitExpr()))
            node = node.children[0]
        above: list[Logical] = []
        while node.kind == "Project":  # computes columns of the rows that are chosen below it
            above.append(node)
            node = node.children[0]
        orders = node.field("order") if node.kind == "Sort" else []
        below = self.translate(node)
        keyed, places = self.linears.with_columns(below, [Expression(o.child()) for o in orders])
        order = tuple(
            Order(
                place,
                o.direction().toString() == "Descending",
                o.nullOrdering().toString() == "NullsFirst",
            )
            for place, o in zip(places, orders, strict=True)
        )
        top = self.linears.pick(TopK(keyed, (), order, limit, offset), below.output)
        for project in reversed(above):
            top = self._projected(top, project)
        return top


def _gives_one_row(plan: Logical) -> bool:
    """Whether the plan has exactly one row whatever its inputs hold."""
    while plan.kind == "Project":
        plan = plan.children[0]
    if plan.kind == "OneRowRelation":
        return True
    return plan.kind == "Aggregate" and not plan.field("groupingExpressions")


def _constant(expression: Expression) -> int:
    value: int = expression.java.eval(None)
    return value


def _named(kind: str) -> str:
    return "recursive queries" if kind.startswith("UnionLoop") else f"the operator {kind}"
