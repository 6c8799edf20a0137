"""From Catalyst's optimized logical plan to the plan of a view.

Catalyst has already resolved, typed, decorrelated, pushed down and pruned. What is left is a tree
of a dozen kinds of nodes. Those that treat each row alone become `Linear`; the others become our
nodes, and what we have no node for is lowered: outer, semi and anti joins to inner ones (`joins`),
aggregates to reductions (`aggregates`), subqueries to joins with their one row (`subqueries`),
numbered rows to the first of each group (`ranking`), and differences of multisets to what they are
(`multisets`).

Sorting alone means nothing to a collection and vanishes; with a limit it is a `TopK`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan import (
    aggregates,
    joins,
    multisets,
    ranking,
    regroup,
    subqueries,
    temporal,
)
from waterclock.compute.plan.calls import is_same
from waterclock.compute.plan.keeping import refuse_unkept
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Constant,
    Generate,
    Get,
    Node,
    Project,
    Union,
)
from waterclock.compute.plan.sharing import Sharing
from waterclock.compute.relations import Relations

_GENERATORS = frozenset({"Explode", "PosExplode", "Inline", "Stack", "ReplicateRows"})


class Translation:
    """Translates plans over known relations."""

    def __init__(self, builder: Builder, relations: Relations) -> None:
        self._relations = relations
        self.linears = Linears(builder)

    def translate(self, plan: Logical) -> Node:
        """The view's plan; `NotMaintainable` names what it can not be made of."""
        temporal.refuse_elsewhere(plan)
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
            case "WindowGroupLimit" | "LocalLimit":  # prunes what is removed above it anyway
                return self.translate(plan.children[0])
            case "GlobalLimit" | "Offset":
                return ranking.limited(self, plan)
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

    def planned(self, plans: Sequence[Logical]) -> tuple[Node, ...]:
        """The plans of the results of one view, which share what they have in common."""
        translated = [self.translate(plan) for plan in plans]
        refuse_unkept(translated)
        return Sharing(self.linears).shared(translated)

    def projected(self, below: Node, project: Logical) -> Node:
        """The columns of a Catalyst projection over a node that has what it reads."""
        columns = project.parts("projectList")
        below, columns = subqueries.lifted(self, below, columns)
        return self.linears.step(below, Project(tuple(columns)))

    def _project(self, plan: Logical) -> Node:
        [child] = plan.children
        if child.kind != "Filter":
            return self.projected(self.translate(child), plan)
        columns = plan.parts("projectList")
        needed = {number for column in columns for number in column.references()}
        return self.projected(self._filter(child, needed), plan)

    def _filter(self, plan: Logical, needed: Set[int] | None = None) -> Node:
        """A filter; `needed` has the ids of the columns that are read above, if it is known."""
        top = ranking.try_filtered(self, plan, needed)
        if top is not None:
            return top
        below = self.translate(plan.children[0])
        lifted, [condition] = subqueries.lifted(self, below, [plan.part("condition")])
        filtered = temporal.filtered(self.linears, lifted, condition)
        return self.linears.pick(filtered, below.output)

    def _generate(self, plan: Logical) -> Node:
        difference = multisets.try_difference(self, plan)
        if difference is not None:
            return difference
        generator = plan.part("generator")
        if generator.kind not in _GENERATORS:
            raise NotMaintainable(
                f"a view can not be maintained over the function {generator.java.prettyName()}",
                hint="explode, posexplode, inline, stack and sequence can be maintained.",
            )
        below = self.translate(plan.children[0])
        below, [lifted] = subqueries.lifted(self, below, [generator])
        if lifted is not generator:
            plan = self.linears.builder.with_generator(plan, lifted)
        return self.linears.generate(below, Generate(plan), attributes_of(plan.output))

    def _union(self, plan: Logical) -> Node:
        output = attributes_of(plan.output)
        inputs = [self.translate(child) for child in plan.children]
        return Union(tuple(self.linears.renamed(i, output) for i in inputs), output)

    def _expand(self, plan: Logical) -> Node:
        below = self.translate(plan.children[0])
        output = attributes_of(plan.output)
        columns = plan.parts("projections")
        if not output:  # nothing of its rows is read but how many they are
            count = plan.java.projections().size()
            return Union((self.linears.computed(below, [], output),) * count, output)
        below, columns = subqueries.lifted(self, below, columns)
        width = len(output)
        branches = [
            self.linears.computed(below, columns[start : start + width], output)
            for start in range(0, len(columns), width)
        ]
        return Union(tuple(branches), output)

    def _window(self, plan: Logical) -> Node:
        """Windows over one partitioning, together: each group is looked at once for all."""
        windows = [plan]
        while (below := windows[0].children[0]).kind == "Window" and _same_groups(below, plan):
            windows.insert(0, below)
        return regroup.windowed(
            self.linears, ranking.pruned(self, below), windows, attributes_of(plan.output)
        )


def _same_groups(one: Logical, other: Logical) -> bool:
    ours, theirs = one.parts("partitionSpec"), other.parts("partitionSpec")
    return len(ours) == len(theirs) and all(map(is_same, ours, theirs))


def _named(kind: str) -> str:
    return "recursive queries" if kind.startswith("UnionLoop") else f"the operator {kind}"
