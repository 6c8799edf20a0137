"""Random expressions of a type over the columns in scope.

They can not fail on the data there is, as far as that can be arranged: SQL leaves open in which
order conditions are evaluated, so whether a query that contains a failing expression fails is not
defined. Extremes overflow all the same; the comparison knows that rule.

Constants are written as `\\x01n\\x02`: `Constants` numbers them, and writes them as literals or as
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from waterclock.testing.judge.choices import Choices
from waterclock.testing.judge.values import EXTREME, ORDINARY, literal

Column = tuple[str, str]
"""How a column is written, and its type."""

_MARK = re.compile("\x01(\\d+)\x02")


@dataclass(slots=True)
class Constants:
    """The constants of a statement."""

    values: list[tuple[str | None, str]] = field(default_factory=list)

    def add(self, value: str | None, kind: str) -> str:
        self.values.append((value, kind))
        return f"\x01{len(self.values) - 1}\x02"

    def as_literals(self, sql: str) -> str:
        return _MARK.sub(lambda mark: literal(*self.values[int(mark[1])]), sql)

    def as_parameters(self, sql: str) -> tuple[str, list[str | None]]:
        """With `$n` for each constant that is used, and their values."""
        used: list[int] = []

        def place(mark: re.Match[str]) -> str:
            number = int(mark[1])
            if number not in used:
                used.append(number)
            kind = self.values[number][1]
            name = kind.removeprefix("_") + ("[]" if kind.startswith("_") else "")
            return f"(${used.index(number) + 1}::{name})"

        text = _MARK.sub(place, sql)
        return text, [self.values[number][0] for number in used]


FORMS: dict[str, tuple[str, ...]] = {
    "int4": (
        *("{int4} % 5 + {int4} % 3", "{int4} % 7 - {int4} % 2", "{int4} / 2", "length({text})"),
        *("-({int4} % 10)", "coalesce({int4}, {int4})", "{int2}::int4", "({bool})::int4"),
        *("strpos({text}, {text})", "sign({int4} % 3)::int4", "greatest({int4}, {int4})"),
        *("least({int4}, 2)", "nullif({int4}, {int4})", "ascii({text})", "~({int4} % 9)"),
        *("({int4} % 9) & 3", "({int4} % 9) # 5", "abs({int4} % 11)", "cardinality({_int4})"),
        *("({_int4})[1]", "extract(year FROM {ts2024})::int4", "array_length({_int4}, 1)"),
        *("octet_length({bytea})", "char_length({bpchar})", "octet_length({varchar})"),
        *("jsonb_array_length(case jsonb_typeof({jsonb}) when 'array' then {jsonb} end)",),
    ),
    "int2": ("coalesce({int2}, 3::int2)", "nullif({int2}, 1::int2)"),
    "int8": (
        *("{int8} % 100 + {int4}", "{int8} / 3", "{int4}::int8", "coalesce({int8}, {int4})"),
        *(
            "greatest({int8}, {int4})",
            "bit_length({text})::int8",
            "(select count(*) from (select 1) z)",
        ),
    ),
    "numeric": (
        *("{numeric} + {int4}", "{numeric} * 2", "round({numeric}, 1)", "trunc({numeric})"),
        *(
            "abs({numeric})",
            "coalesce({numeric}, 0)",
            "{int4} / 4.0",
            "{int4}::numeric",
            "ceil({numeric})",
        ),
        *("{numeric} % 3", "floor({numeric})", "{numeric} / 4", "greatest({numeric}, 1)"),
    ),
    "float8": (
        *(
            "{float8} + 1",
            "{float8} * 2",
            "-{float8}",
            "{int4} / 4::float8",
            "coalesce({float8}, 0)",
        ),
        *("floor({float8})", "abs({float8})", "{int4}::float8", "greatest({float8}, 0.5)"),
    ),
    "text": (
        *(
            "{text} || {text}",
            "upper({text})",
            "lower({text})",
            "substr({text}, 2)",
            "reverse({text})",
        ),
        *(
            "coalesce({text}, 'none')",
            "{int4}::text",
            "concat({text}, {int4}, {bool})",
            "md5({text})",
        ),
        *("left({text}, 2)", "right({text}, -1)", "replace({text}, 'a', 'zz')", "{bool}::text"),
        *(
            "{date}::text",
            "{_int4}::text",
            "{bpchar} || 'x'",
            "{varchar} || {text}",
            "{interval}::text",
        ),
        *("split_part({text}, 'b', 1)", "regexp_replace({text}, '(.)\\1', 'X')", "{jsonb}::text"),
        *("nullif({text}, {text})", "repeat({text}, 2)", "lpad({text}, 4, '*')", "initcap({text})"),
        *("concat_ws('-', {text}, {int4})", "to_char({ts2024}, 'YYYY-MM-DD HH24')", "{uuid}::text"),
        *("encode({bytea}, 'hex')", "{float8}::text", "{numeric}::text", "{jsonb} ->> 'a'"),
        *(
            "translate({text}, 'ab', 'x')",
            "btrim({text}, 'a')",
            "string_to_array({text}, 'b')::text",
        ),
    ),
    "varchar": ("coalesce({varchar}, 'v')",),
    "bpchar": ("coalesce({bpchar}, 'c'::char(3))",),
    "date": (
        "{ts2024}::date",
        "coalesce({date}, date '2024-01-01')",
        "greatest({date}, date '2000-01-01')",
    ),
    "ts2024": (
        *("timestamp '2024-02-29 12:30:00' + ({int4} % 9) * interval '1 hour'",),
        "timestamp '2024-01-31 00:00:00' + ({int4} % 5) * interval '1 month'",
        "date_trunc('day', timestamp '2024-02-29 12:30:00' + ({int4} % 9) * interval '5 hours')",
    ),
    "timestamp": ("{ts2024}", "coalesce({timestamp}, {ts2024})", "date_trunc('month', {ts2024})"),
    "timestamptz": ("coalesce({timestamptz}, timestamptz '2020-01-01 00:00:00+00')",),
    "interval": (
        "coalesce({interval}, interval '1 hour')",
        "{interval} * 2",
        "-{interval}",
        "({int4} % 5) * interval '1 day'",
    ),
    "time": ("coalesce({time}, time '01:02:03')",),
    "uuid": ("coalesce({uuid}, '00000000-0000-0000-0000-00000000000a'::uuid)",),
    "bytea": ("{bytea} || '\\x01'::bytea", "coalesce({bytea}, ''::bytea)", "substr({bytea}, 1, 1)"),
    "_int4": (
        "array[{int4}, {int4}]",
        "{_int4} || {int4}",
        "coalesce({_int4}, '{{}}'::int4[])",
        "array_remove({_int4}, 1)",
    ),
    "jsonb": (
        "to_jsonb({int4})",
        "jsonb_build_object('k', {int4}, 't', {text})",
        "{jsonb} -> 'a'",
        "jsonb_build_array({int4}, {bool})",
        "coalesce({jsonb}, '[]'::jsonb)",
        "to_jsonb({text})",
    ),
    "bool": (
        *(
            "{bool} and {bool}",
            "{bool} or {bool}",
            "not {bool}",
            "{bool} is true",
            "{bool} is unknown",
        ),
        *(
            "{text} like '%a%'",
            "{text} ~ '^[a-c]'",
            "{int4} in ({int4}, 2, null)",
            "{bool} is not false",
        ),
        *("{int4} between {int4} and 5", "{int4} is distinct from {int4}", "{text} is null"),
        *("{text} ilike 'A%'", "{int4} = any ({_int4})", "{jsonb} @> '{{}}'::jsonb"),
        *("({int4}, {text}) = ({int4}, {text})", "({int4}, {int4}) < ({int4}, 2)"),
        *("row({int4}, {text}) is null", "{text} similar to '(a|b)%'", "{bpchar} = 'ab'"),
        *(
            "{int4} > all ({_int4})",
            "{text} is not distinct from {text}",
            "starts_with({text}, 'a')",
        ),
        *("{int4} not in (1, {int4})", "{bpchar} like 'a%'", "{float8} = 'NaN'::float8"),
    ),
}
COMPARED = (
    "int4",
    "text",
    "int8",
    "numeric",
    "float8",
    "date",
    "timestamp",
    "bool",
    "varchar",
    "bpchar",
    "_int4",
    "interval",
    "uuid",
    "bytea",
    "time",
    "timestamptz",
    "jsonb",
    "int2",
)
_SIGNS = ("=", "<", "<>", ">", "<=", ">=")
_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(slots=True)
class Expressions:
    """Draws expressions over a scope. `subquery` gives one of a type over the same scope."""

    choices: Choices
    constants: Constants
    scope: Sequence[Column]
    subquery: Callable[[str, Sequence[Column]], str | None] | None = None
    condition: Callable[[Sequence[Column]], str | None] | None = None

    def of(self, kind: str, depth: int = 2) -> str:
        """An expression of the type, which can stand wherever an operand can."""
        choices = self.choices
        if depth <= 0 or not choices.happens(55):
            return self.leaf(kind)
        draw = choices.below(20)
        if draw == 1:
            return f"(case when {self.of('bool', depth - 1)} then {self.of(kind, depth - 1)}" + (
                f" else {self.of(kind, depth - 1)} end)" if choices.happens(70) else " end)"
            )
        if draw == 2 and self.subquery is not None:
            found = self.subquery(kind, self.scope)
            if found is not None:
                return found
        if kind == "bool":
            if draw in (3, 4, 5, 6, 7):
                return self.comparison(depth)
            if draw in (8, 9) and self.condition is not None:
                found = self.condition(self.scope)
                if found is not None:
                    return found
        forms = FORMS.get(kind)
        if forms is None:
            return self.leaf(kind)
        return f"({self.filled(choices.pick(forms), depth)})"

    def comparison(self, depth: int = 1) -> str:
        kinds = [kind for _, kind in self.scope if kind in COMPARED] or ["int4"]
        kind = self.choices.pick(kinds)
        sign = self.choices.pick(_SIGNS)
        return f"({self.of(kind, depth - 1)} {sign} {self.of(kind, depth - 1)})"

    def leaf(self, kind: str) -> str:
        """A column or a constant."""
        columns = [name for name, found in self.scope if found == kind]
        if columns and not self.choices.happens(25):
            return self.choices.pick(columns)
        if kind == "ts2024":
            return "timestamp '2024-02-29 12:34:56'"
        if kind == "numeric" and self.choices.happens(30):
            narrower = [name for name, found in self.scope if found == "int4"]
            if narrower:
                return f"{self.choices.pick(narrower)}::numeric"
        return self.constant(kind)

    def constant(self, kind: str) -> str:
        choices = self.choices
        if choices.happens(6):
            return self.constants.add(None, kind)
        pool = _POOLS[kind]
        if kind in EXTREME and choices.happens(4):
            pool = EXTREME[kind]
        return self.constants.add(choices.pick(pool), kind)

    def filled(self, form: str, depth: int = 1) -> str:
        """The form with an expression of its type in each hole; `same` is that of the hole before.

        What is ordered by itself has no peers that differ.
        """
        last = ""

        def fill(hole: re.Match[str]) -> str:
            nonlocal last
            last = last if hole[1] == "same" else self.of(hole[1], depth - 1)
            return last

        return _HOLE.sub(fill, form.replace("{{}}", "\x03")).replace("\x03", "{}")


_POOLS = {
    **ORDINARY,
    "varchar": ORDINARY["varchar(5)"],
    "bpchar": ORDINARY["char(3)"],
}
TYPES = tuple(kind for kind in FORMS if kind != "ts2024")
