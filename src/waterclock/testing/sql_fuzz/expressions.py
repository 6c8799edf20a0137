"""Random expressions of a type, over columns in scope.

They can not fail on the data there is: divisors are never zero, numbers stay small, and texts that
are cast are what they are cast to. So an error on one side only is always a difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Scope = Mapping[str, Sequence[str]]
"""The columns that can be named, by type."""

_LITERALS: dict[str, tuple[str, ...]] = {
    "int4": ("0", "1", "2", "(-1)", "3", "10"),
    "int8": ("0::bigint", "5::bigint", "-7::bigint"),
    "numeric": ("0.5", "1.00", "(-2.25)", "3"),
    "float8": ("0.5::float8", "2::float8", "-1.5::float8"),
    "text": ("''", "'a'", "'abc'", "'B c'", "'é'"),
    "date": ("date '2024-02-29'", "date '2000-01-01'"),
    "timestamp": ("timestamp '2024-02-29 12:34:56.5'", "timestamp '1970-01-01'"),
    "bool": ("true", "false"),
}
TYPES = tuple(_LITERALS)
_COMPARED = ("int4", "int8", "numeric", "float8", "text", "date", "timestamp")
_FORMS: dict[str, tuple[str, ...]] = {
    "int4": (
        *(
            "({int4} + {int4})",
            "({int4} - {int4})",
            "({int4} * {int4})",
            "abs({int4})",
            "(- {int4})",
        ),
        *("({int4} / nullif({int4}, 0))", "({int4} % nullif({int4}, 0))", "length({text})"),
        *("strpos({text}, {text})", "extract(year from {date})::int", "({date} - {date})"),
        *("greatest({int4}, {int4})", "least({int4}, {int4})", "sign({numeric})::int"),
        *("ascii({text})", "({bool})::int", "extract(dow from {timestamp})::int"),
    ),
    "int8": ("({int8} + {int4})", "({int8} - {int8})", "abs({int8})", "{int4}::bigint"),
    "numeric": (
        *("({numeric} + {numeric})", "({numeric} - {numeric})", "({numeric} * {int4})"),
        *("round({numeric}, 1)", "trunc({numeric})", "abs({numeric})", "{int4}::numeric(10,2)"),
        *("ceil({numeric})", "floor({numeric})", "({numeric} % nullif({numeric}, 0))"),
        *("({numeric} / nullif({numeric}, 0))", "sqrt(abs({numeric}))", "greatest({numeric}, 1)"),
    ),
    "float8": (
        *(
            "({float8} + {float8})",
            "({float8} - {float8})",
            "({float8} * {int4})",
            "floor({float8})",
        ),
        *("abs({float8})", "{int4}::float8", "round({float8})"),
    ),
    "text": (
        *("({text} || {text})", "upper({text})", "lower({text})", "substr({text}, 2, 2)"),
        *("left({text}, {int4})", "right({text}, 2)", "replace({text}, 'a', 'zz')", "{int4}::text"),
        *("concat({text}, {int4}, {bool})", "reverse({text})", "lpad({text}, 4, 'x')"),
        *("split_part({text}, 'b', 1)", "btrim({text}, 'a')", "{date}::text", "{numeric}::text"),
        *(
            "to_char({timestamp}, 'YYYY-MM')",
            "repeat({text}, 2)",
            "initcap({text})",
            "{bool}::text",
        ),
        *("translate({text}, 'ab', 'x')", "md5({text})", "regexp_replace({text}, '[ab]+', '-')"),
    ),
    "date": ("({date} + {int4})", "({date} - {int4})", "{timestamp}::date"),
    "timestamp": (
        *("({timestamp} + interval '1 month')", "({timestamp} - interval '36 hours')"),
        *(
            "date_trunc('month', {timestamp})",
            "{date}::timestamp",
            "date_trunc('week', {timestamp})",
        ),
    ),
    "bool": (
        *("({bool} and {bool})", "({bool} or {bool})", "(not {bool})", "({bool} is true)"),
        *("({text} like '%a%')", "({text} ilike 'A%')", "({text} ~ '^[a-c]')", "({bool} is null)"),
        *("({int4} in ({int4}, {int4}, 7))", "({int4} between {int4} and {int4})"),
        *("({int4} is distinct from {int4})", "starts_with({text}, 'a')"),
    ),
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws expressions over a scope; `subquery` gives a scalar one of a type, or None."""

    chance: random.Random
    scope: Scope
    subquery: Callable[[str], str] | None = None

    def expression(self, kind: str, depth: int = 2) -> str:
        chance = self.chance
        if depth <= 0 or chance.random() < 0.25:
            return self._leaf(kind)
        draw = chance.random()
        if draw < 0.08:
            return (
                f"coalesce({self.expression(kind, depth - 1)}, {self.expression(kind, depth - 1)})"
            )
        if draw < 0.16:
            return (
                f"case when {self.expression('bool', depth - 1)} then"
                f" {self.expression(kind, depth - 1)} else {self.expression(kind, depth - 1)} end"
            )
        if draw < 0.20:
            return f"nullif({self.expression(kind, depth - 1)}, {self._leaf(kind)})"
        if draw < 0.25 and self.subquery is not None:
            return self.subquery(kind)
        if kind == "bool" and draw < 0.6:
            return self.comparison(depth)
        return self._filled(chance.choice(_FORMS[kind]), depth)

    def comparison(self, depth: int = 1) -> str:
        kind = self.chance.choice(_COMPARED)
        sign = self.chance.choice(("=", "<>", "<", "<=", ">", ">="))
        return f"({self.expression(kind, depth - 1)} {sign} {self.expression(kind, depth - 1)})"

    def _filled(self, form: str, depth: int) -> str:
        for kind in TYPES:
            while f"{{{kind}}}" in form:
                form = form.replace(f"{{{kind}}}", self.expression(kind, depth - 1), 1)
        return form

    def _leaf(self, kind: str) -> str:
        columns = self.scope.get(kind, ())
        if columns and self.chance.random() < 0.75:
            return self.chance.choice(columns)
        return self.chance.choice(_LITERALS[kind])
