"""Values that are equal without being the same: 1.0 and 1, in `jsonb` too; a month and 30 days.

Rows are grouped by a form of the value in which equal ones are the same. What a group shows is one
of the values that it was made from: of those PostgreSQL shows the first that it meets, here it is
the one that comes first as it is held, so that it depends on the data alone. Of several columns it
is the values of one row.

INTERSECT ALL and EXCEPT ALL show it as often as the group has rows on both sides, or more rows on
the first.

GROUPING SETS and DISTINCT inside an aggregate do not choose where `jsonb` is concerned: there a
number with zeros at its end is an error when it is met (`ordering.grouped_sql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from waterclock.model.pg_types import PgType
from waterclock.sql.binding.blocks import Block, Output
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.dialect.equality import may_look_different
from waterclock.sql.dialect.types import element_type, is_array, is_unconstrained
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

_HAVING = {
    tree.SetOperator.UNION: "",
    tree.SetOperator.INTERSECT: " HAVING MIN(x.s) = 0 AND MAX(x.s) = 1",
    tree.SetOperator.EXCEPT: " HAVING MAX(x.s) = 0",
}


def has_twins(value: Typed) -> bool:
    """Whether values of the type can be equal and look different."""
    return may_look_different(value.type)


def is_scaled(declared: PgType) -> bool:
    """Whether it is a `numeric`, or an array of them, whose values have scales of their own."""
    return is_unconstrained(element_type(declared) if is_array(declared) else declared)


def representatives(keys: Sequence[Typed]) -> dict[str, Typed]:
    """What stands for each such key where it is shown, by the SQL of the key."""
    shown = zip(keys, _chosen(keys), strict=True)
    return {
        key.sql: replace(key, sql=sql, parts=(key,), role=Role.AGGREGATE)
        for key, sql in shown
        if has_twins(key)
    }


def set_representatives(keys: Sequence[Typed]) -> dict[str, Typed]:
    """The same where there are grouping sets, in some of which a key is null."""
    return {
        key.sql: replace(
            key,
            sql=f"(CASE WHEN GROUPING({key_sql(key)}) = 0 THEN MIN({key.sql}) END)",
            parts=(key,),
            role=Role.AGGREGATE,
        )
        for key in keys
        if has_twins(key)
    }


def distinct(block: Block, alias: str) -> Block:
    """A block without rows that are equal, made of one that may have them."""
    for term in block.order:
        if isinstance(term.key, Typed):
            what = "sorting by a row beside DISTINCT of values that may look different"
            raise FeatureNotSupported.of(what, term.key.at)
    columns = _columns(block, "x")
    source = (
        f"(SELECT {', '.join(_chosen(columns))} FROM ({block.sql(ordered=False)})"
        f" AS x({_names(block)}) GROUP BY {', '.join(map(key_sql, columns))})"
    )
    outputs = tuple(
        Output(output.name, replace(output.value, sql=f"{alias}.c{n + 1}", parts=(output.value,)))
        for n, output in enumerate(block.outputs)
    )
    names = _names(block)
    return replace(
        block,
        outputs=outputs,
        write=lambda shown: f"SELECT {', '.join(shown)} FROM {source} AS {alias}({names})",
        simple=None,
    )


def combined(left: Block, right: Block, operator: tree.SetOperator) -> str:
    """The rows of a set operation without ALL, each of them once."""
    is_left = operator is not tree.SetOperator.UNION
    return f"({_groups(left, right, is_left=is_left)}{_HAVING[operator]})"


def combined_all(left: Block, right: Block, operator: tree.SetOperator) -> str:
    """The rows of INTERSECT ALL or EXCEPT ALL."""
    one, other = (f"CAST(SUM(IF(x.s = {side}, 1, 0)) AS INT)" for side in range(2))
    times = f"LEAST({one}, {other})"
    if operator is tree.SetOperator.EXCEPT:
        times = f"({one} - {other})"
    names = _names(left)
    groups = f"({_groups(left, right, times, is_left=True)}) AS g(n, {names})"
    copies = "LATERAL VIEW EXPLODE(ARRAY_REPEAT(0, GREATEST(n, 0))) AS copy"
    return f"(SELECT {names} FROM {groups} {copies})"


def _groups(left: Block, right: Block, *shown: str, is_left: bool) -> str:
    """Both sides together, which `x.s` tells apart, as groups of rows that are equal.

    A group shows one of its rows; with `is_left`, one of the first side.
    """
    columns, names = _columns(left, "x"), _names(left)
    sides = " UNION ALL ".join(
        f"SELECT {side} AS s, y.* FROM ({block.sql(ordered=False)}) AS y({names})"
        for side, block in enumerate((left, right))
    )
    keys = ", ".join(map(key_sql, columns))
    chosen = ", ".join([*shown, *_chosen(columns, "IF(x.s = 0, {0}, NULL)" if is_left else "{0}")])
    return f"SELECT {chosen} FROM ({sides}) AS x(s, {names}) GROUP BY {keys}"


def _chosen(keys: Sequence[Typed], of_rows: str = "{0}") -> list[str]:
    """The keys of a group as it shows them, where `of_rows` leaves `{0}` null in some rows."""
    twins = [key for key in keys if has_twins(key) or key_sql(key) != key.sql]
    if len(twins) == 1:
        return [f"MIN({of_rows.format(k.sql)})" if k in twins else k.sql for k in keys]
    fields = ", ".join(f"'v{n}', {key.sql}" for n, key in enumerate(twins))
    least = f"MIN({of_rows.format(f'NAMED_STRUCT({fields})')})"
    numbers = {key.sql: n for n, key in enumerate(twins)}
    return [f"{least}.v{numbers[key.sql]}" if key in twins else key.sql for key in keys]


def _columns(block: Block, alias: str) -> list[Typed]:
    return [
        replace(output.value, sql=f"{alias}.c{n + 1}") for n, output in enumerate(block.outputs)
    ]


def _names(block: Block) -> str:
    return ", ".join(f"c{n + 1}" for n in range(len(block.outputs)))
