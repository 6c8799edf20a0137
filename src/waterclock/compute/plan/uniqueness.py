"""Which columns tell the rows of a node apart.

If no two rows on the right of a join have the same key, every left row has one partner at most.
Then the rows with a partner are just those of the inner join: a semi join needs no set of keys, and
an outer join no second join to find what is left alone. That is so for most subqueries that are
correlated by equality, which Catalyst turns into an aggregate by the key.
"""

from __future__ import annotations

from collections.abc import Set

from waterclock.compute.plan.nodes import (
    Attributes,
    Distinct,
    Filter,
    Generate,
    Join,
    Linear,
    Node,
    Project,
    Reduce,
    Single,
    TopK,
)


def is_unique(node: Node, ids: Set[int]) -> bool:
    """Whether there is at most one row for each combination of values of these columns.

    A False may mean that it is not known.
    """
    match node:
        case Reduce(_, keys, _, output):
            return _within(output[: len(keys)], ids)
        case Distinct():
            return _within(node.output, ids)
        case Single(_, keys):
            return _within(tuple(node.output[key] for key in keys), ids)
        case TopK(_, keys, _, limit, _) if limit is not None and limit <= 1:
            return _within(tuple(node.output[key] for key in keys), ids)
        case Linear(below, steps, _):
            for step in reversed(steps):
                match step:
                    case Filter():
                        continue
                    case Project():
                        ids = _sources(step, ids)
                    case Generate():
                        return False
            return is_unique(below, ids)
        case Join(left, right, on):
            joined = {right.output[equal.right].id for equal in on}
            return is_unique(left, ids) and is_unique(right, joined)
        case _:
            return False


def _within(columns: Attributes, ids: Set[int]) -> bool:
    return all(column.id in ids for column in columns)


def _sources(step: Project, ids: Set[int]) -> Set[int]:
    """The columns below the step that these columns are copies of, as far as they are."""
    found: set[int] = set()
    for column in step.columns:
        value = column.children[0] if column.kind == "Alias" else column
        if column.expr_id in ids and value.kind == "AttributeReference":
            found.add(value.expr_id)
    return found
