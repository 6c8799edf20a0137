"""Faults that the judge must find: a PostgreSQL that answers wrongly in one way stands for us.

With the faulty system and the right one both being PostgreSQL, a case takes milliseconds, so that
thousands can be tried; and without a fault the two must agree on every case, which shows that the
grammar asks for nothing that SQL leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from waterclock.testing.judge.systems import Answer, System

Rewrite = Callable[[str], str]


def _replace(old: str, new: str) -> Rewrite:
    return lambda sql: sql.replace(old, new)


def _substitute(pattern: str, new: str) -> Rewrite:
    compiled = re.compile(pattern)
    return lambda sql: compiled.sub(new, sql)


_SIDE = r"\(select ((?:(?!\bselect\b).)*?) from (\w+) as (\w+) where ((?:(?!\bselect\b).)*?)\)"
_EXCEPT = re.compile(rf"{_SIDE} except {_SIDE}")


def _except_as_filter(sql: str) -> str:
    """What an optimizer does that takes EXCEPT over one table for a condition."""

    def rewritten(match: re.Match[str]) -> str:
        items, table, alias, condition, _, other, its_alias, its_condition = match.groups()
        if table != other:
            return match[0]
        same = re.sub(rf"\b{its_alias}\.", f"{alias}.", its_condition)
        return (
            f"(select distinct {items} from {table} as {alias}"
            f" where ({condition}) and not coalesce({same}, false))"
        )

    return _EXCEPT.sub(rewritten, sql)


REWRITES: Mapping[str, Rewrite] = {
    "EXCEPT over one table becomes a condition": _except_as_filter,
    "EXCEPT keeps duplicates": _substitute(r" except \(", " except all ("),
    "EXCEPT ALL drops duplicates": _replace(" except all ", " except "),
    "INTERSECT ALL drops duplicates": _replace(" intersect all ", " intersect "),
    "UNION keeps duplicates": _substitute(r" union \(", " union all ("),
    "UNION ALL drops duplicates": _substitute(r" union all \(", " union ("),
    "the empty grouping set has no row": _replace("grouping sets ((), ", "grouping sets ("),
    "the total over no rows is missing": _substitute(
        r"group by rollup (\([^()]*\))", r"group by rollup \1 having count(*) > 0"
    ),
    "ROLLUP is taken for CUBE": _replace(" rollup (", " cube ("),
    "GROUP BY () groups nothing": _replace(" group by ()", ""),
    "LEFT JOIN drops rows without a match": _substitute(r"\bleft join (?!lateral)", "join "),
    "LEFT JOIN LATERAL drops rows": _replace("left join lateral", "join lateral"),
    "FULL JOIN is a LEFT JOIN": _replace("full join", "left join"),
    "RIGHT JOIN is a JOIN": _replace("right join", "join"),
    "NULLS FIRST is ignored": _replace(" nulls first", ""),
    "DISTINCT is ignored": _replace("select distinct ", "select "),
    "FILTER is ignored": _replace("filter (where ", "filter (where true or "),
    "DISTINCT in an aggregate is ignored": _replace("count(distinct ", "count("),
    "GROUPS frames count rows": _replace(" groups between", " rows between"),
    "EXCLUDE TIES is ignored": _replace(" exclude ties", ""),
    "EXCLUDE CURRENT ROW is ignored": _replace(" exclude current row", ""),
    "IS DISTINCT FROM does not see nulls": _replace(" is distinct from ", " <> "),
    "WITH TIES is ignored": _replace(" with ties", " only"),
    "OFFSET is ignored": _replace(" limit 2 offset 1", " limit 2"),
    "lag looks ahead": _replace(" lag(", " lead("),
    "ALL over no rows is unknown": _replace(" all (", " any ("),
    "groups in a regular expression are shifted": _replace(r"(.)\1", "(.)"),
    "char(n) keeps its blanks": _replace("::bpchar", "::text"),
    "a view drops duplicates": _substitute(
        r"^select \* from (m\d+)$", r"select distinct * from \1"
    ),
    "ROLLBACK commits": _substitute("^rollback$", "commit"),
    "DELETE leaves nulls": _substitute(
        r"^delete from (\w+) where (.*)$", r"delete from \1 where (\2) and \1 is not null"
    ),
}
"""By name: what happens to each statement."""


class FaultySystem(System):
    """PostgreSQL that is given other statements."""

    def __init__(self, connection: psycopg.Connection[Any], rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        super().__init__(connection)

    def run(self, sql: str) -> Answer:
        return super().run(_as_view(self._rewrite(sql)))

    def run_prepared(
        self, sql: str, parameters: Sequence[str | None], *, binary: bool = False
    ) -> Answer:
        return super().run_prepared(self._rewrite(sql), parameters, binary=binary)


class StaleSystem(FaultySystem):
    """Shows maintained views as they were before the last change."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._shown: dict[str, Answer] = {}
        super().__init__(connection, lambda sql: sql)

    def run(self, sql: str) -> Answer:
        found = super().run(sql)
        if sql.startswith("create schema"):
            self._shown.clear()
        if not sql.startswith("select * from m"):
            return found
        before = self._shown.get(sql, found)
        self._shown[sql] = found
        return before


class ForgetfulSystem(FaultySystem):
    """Takes a null parameter for an empty or zero one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection, lambda sql: sql)

    def run_prepared(
        self, sql: str, parameters: Sequence[str | None], *, binary: bool = False
    ) -> Answer:
        known = ["0" if value is None else value for value in parameters]
        return super().run_prepared(sql, known, binary=binary)


def _as_view(sql: str) -> str:
    """PostgreSQL computes its views when they are read; an index makes no difference."""
    if sql.startswith(("create default index", "create index")):
        return "select 1"
    return sql.replace("create materialized view", "create view", 1)
