"""HAVING that asks which of the GROUPING SETS a row is of.

The engine knows that in the select list alone. So the condition is one more column there, and the
rows are chosen by it one layer further out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from waterclock.sql.binding.blocks import Block
from waterclock.sql.binding.typed import Role, Typed


def asks_for_sets(having: Typed) -> bool:
    return any(part.role is Role.GROUPING for part in having.walk())


def chosen_outside(
    block: Block, having: Typed, settled: Callable[[Typed], Typed], alias: str
) -> Block:
    """The rows of a block without HAVING that it keeps. `alias` is a name nobody else has."""
    values = [settled(output.value) for output in block.outputs]
    keys = [term.key for term in block.order if isinstance(term.key, Typed)]
    inner = [f"{value.sql} AS c{n + 1}" for n, value in enumerate(values)]
    inner += [f"{key.sql} AS s{n + 1}" for n, key in enumerate(keys)]
    inner += [f"{key.sql} AS d{n + 1}" for n, key in enumerate(block.distinct_on or ())]
    source = block.write([*inner, f"{having.sql} AS h"])

    def outside(value: Typed, name: str) -> Typed:
        return replace(value, sql=f"{alias}.{name}", parts=(value,), known=None)

    moved = iter([outside(key, f"s{n + 1}") for n, key in enumerate(keys)])
    order = [t if isinstance(t.key, int) else replace(t, key=next(moved)) for t in block.order]
    distinct_on = None
    if block.distinct_on is not None:
        distinct_on = tuple(outside(k, f"d{n + 1}") for n, k in enumerate(block.distinct_on))
    return Block(
        tuple(
            replace(output, value=outside(value, f"c{n + 1}"))
            for n, (output, value) in enumerate(zip(block.outputs, values, strict=True))
        ),
        lambda shown: f"SELECT {', '.join(shown)} FROM ({source}) AS {alias} WHERE {alias}.h",
        tuple(order),
        distinct_on,
    )
