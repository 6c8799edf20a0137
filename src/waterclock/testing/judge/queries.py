"""Random queries whose result is defined: everything that is ordered is ordered by all columns.

`Queries.top` draws one. Inside it are joins of every kind, lateral and correlated subqueries, set
operations over the same table, grouping sets with constants and repeated keys, windows with every
frame, common table expressions, VALUES and functions that return rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from waterclock.testing.judge.choices import Choices
from waterclock.testing.judge.expressions import Column, Constants, Expressions

SELECTED = (
    "int4",
    "text",
    "int8",
    "numeric",
    "bool",
    "date",
    "float8",
    "timestamp",
    "_int4",
    "interval",
    "jsonb",
    "bpchar",
    "varchar",
    "timestamptz",
    "uuid",
    "bytea",
    "time",
    "int2",
)
_AGGREGATES: dict[str, tuple[str, ...]] = {
    "int8": (
        "count(*)",
        "count({int4})",
        "sum({int4})",
        "count(distinct {text})",
        "count({bool})",
        "count(distinct {int4})",
        "max({int8})",
        "regr_count({float8}, {int4})",
        "rank(2) WITHIN GROUP (ORDER BY {int4})",
        "dense_rank('b') WITHIN GROUP (ORDER BY {text} DESC)",
    ),
    "numeric": (
        "sum({numeric})",
        "max({numeric})",
        "avg({int4})",
        "sum({int8})",
        "min({numeric})",
        "sum(distinct {int4}::numeric)",
        "avg(distinct {int4})",
        "variance({int4})",
    ),
    "int4": (
        "min({int4})",
        "max({int4})",
        "bit_and({int4})",
        "bit_or({int4})",
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY {int4})",
        "min(distinct {int4})",
        "mode() WITHIN GROUP (ORDER BY {int4})",
    ),
    "text": (
        "max({text})",
        "min({text})",
        "string_agg({text}, ',' ORDER BY {same})",
        "string_agg(distinct {text}, '')",
    ),
    "date": ("min({date})", "max({date})"),
    "timestamp": ("min({timestamp})", "max({timestamp})"),
    "bool": ("bool_and({bool})", "bool_or({bool})", "every({bool})"),
    "float8": (
        "sum({float8})",
        "max({float8})",
        "min({float8})",
        "count({float8})::float8",
        "percent_rank(1) WITHIN GROUP (ORDER BY {int4})",
        "cume_dist(1) WITHIN GROUP (ORDER BY {int4})",
    ),
    "_int4": ("array_agg({int4} ORDER BY {same})", "array_agg(distinct {int4})"),
    "jsonb": ("jsonb_agg({int4} ORDER BY {same})", "jsonb_agg({text} ORDER BY {same})"),
    "interval": ("sum({interval})", "max({interval})", "min({interval})"),
}
_WINDOW_CALLS: dict[str, tuple[str, ...]] = {
    "int8": ("row_number()", "rank()", "dense_rank()", "count(*)", "count({int4})", "sum({int4})"),
    "int4": (
        "lag({int4})",
        "lead({int4}, 2)",
        "first_value({int4})",
        "last_value({int4})",
        "nth_value({int4}, 2)",
        "min({int4})",
        "max({int4})",
        "ntile(3)",
        "lag({int4}, 1, 0)",
        "lag({int4}, {int4} % 3)",
        "lead({int4}, 1, {int4})",
        "nth_value({int4}, abs({int4} % 3) + 1)",
        "ntile(null)",
        "ntile(abs({int4} % 3) + 1)",
    ),
    "text": ("lead({text})", "max({text})", "first_value({text})", "lag({text}, 0)"),
    "numeric": ("sum({numeric})", "avg({int4})", "max({numeric})"),
    "float8": ("cume_dist()", "percent_rank()"),
    "bool": ("bool_or({bool})", "bool_and({bool})"),
}
_EDGES = (
    "unbounded preceding",
    "2 preceding",
    "1 preceding",
    "current row",
    "1 following",
    "3 following",
    "unbounded following",
)
_EXCLUSIONS = (
    "",
    " exclude ties",
    " exclude current row",
    " exclude group",
    "",
    " exclude no others",
)
_EMPTY_FRAMES = ("3 following and 1 following", "1 preceding and 2 preceding")
_OF_PEERS = ("sum", "count", "min", "max", "avg", "bool_or", "bool_and")
"""Functions that do not ask which of two peers comes first."""
_SET_WORDS = ("except", "union", "intersect", "union all", "except all", "intersect all")


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that can stand in FROM, with its columns."""

    name: str
    columns: tuple[Column, ...]


@dataclass(slots=True)
class Queries:
    """Draws queries over some relations."""

    choices: Choices
    constants: Constants
    relations: Sequence[Relation]
    is_view: bool = False
    """Whether it shall be maintained: then there is no recursion."""
    _names: int = field(default=0)
    _sides: int = field(default=0)
    """How many set operations there are around, directly."""

    def top(self) -> tuple[str, bool, tuple[Column, ...]]:
        """A query, whether its rows have an order, and its columns."""
        choices = self.choices
        draw = choices.below(10)
        prefix = ""
        known = self.relations
        if draw in (6, 7):
            prefix = self._with()
        kinds = self._kinds()
        body = self._body(kinds, (), depth=2)
        names = [f"c{n}" for n in range(len(kinds))]
        if body.lstrip("(").startswith("values "):
            body = f"select * from ({body}) as o({', '.join(names)})"
        ordered = False
        if choices.happens(20):
            ends = ("", " desc", " nulls first", " desc nulls last")
            keys = ", ".join(f"{n + 1}{choices.pick(ends)}" for n in range(len(kinds)))
            limit = choices.pick(
                (
                    "",
                    " limit 3",
                    " limit 2 offset 1",
                    " offset 2",
                    " limit 0",
                    " fetch first 2 rows with ties",
                )
            )
            body = f"select * from ({body}) as o({', '.join(names)}) order by {keys}{limit}"
            ordered = True
        self.relations = known
        return prefix + body, ordered, tuple(zip(names, kinds, strict=True))

    def _kinds(self) -> list[str]:
        choices = self.choices
        available = sorted({kind for each in self.relations for _, kind in each.columns})
        wanted = [kind for kind in SELECTED if kind in available] or ["int4"]
        return [
            choices.pick(wanted) if not choices.happens(30) else choices.pick(SELECTED)
            for _ in range(choices.between(1, 4))
        ]

    def _with(self) -> str:
        """WITH, whose names are known from then on."""
        choices, parts = self.choices, []
        for _ in range(choices.between(1, 3)):
            kinds = self._kinds()
            name = self._fresh("w")
            columns = tuple((f"c{n}", kind) for n, kind in enumerate(kinds))
            hint = choices.pick(("", "", "materialized ", "not materialized "))
            listed = ", ".join(column for column, _ in columns)
            if not self.is_view and choices.happens(10):
                parts.append(
                    f"{name}(c0) as (select 1 union all select c0 + 1 from {name} where c0 < 4)"
                )
                columns = (("c0", "int4"),)
            else:
                parts.append(f"{name}({listed}) as {hint}({self._body(kinds, (), depth=1)})")
            self.relations = [*self.relations, Relation(name, columns)]
            if choices.happens(70):  # mostly the newest is read
                self.relations = [self.relations[-1], *self.relations[:-1]]
        return f"with recursive {', '.join(parts)} "

    # One SELECT, or several put together

    def _body(self, kinds: Sequence[str], outer: Sequence[Column], depth: int) -> str:
        choices = self.choices
        draw = choices.below(12)
        if draw in (1, 2) and depth > 0:
            return self._set_operation(kinds, outer, depth)
        if draw in (3, 4, 5):
            return self._grouped(kinds, outer, depth)
        if draw in (6, 7):
            return self._windowed(kinds, outer, depth)
        if draw == 8 and depth > 0:
            return self._distinct_on(kinds, outer, depth)
        if draw == 9 and choices.happens(30):
            rows = [
                ", ".join(self._expressions(outer, 0).of(kind, 1) for kind in kinds)
                for _ in range(choices.between(1, 3))
            ]
            return "values " + ", ".join(f"({row})" for row in rows)
        return self._plain(kinds, outer, depth)

    def _plain(self, kinds: Sequence[str], outer: Sequence[Column], depth: int) -> str:
        choices = self.choices
        source, scope = self._from(outer, depth)
        drawing = self._expressions([*scope, *outer], depth)
        items = self._items([drawing.of(kind) for kind in kinds])
        distinct = "distinct " if choices.happens(15) else ""
        return f"select {distinct}{items}{source}{self._where(scope, outer, depth)}"

    def _items(self, expressions: Sequence[str]) -> str:
        return ", ".join(f"{text} as c{n}" for n, text in enumerate(expressions))

    def _set_operation(self, kinds: Sequence[str], outer: Sequence[Column], depth: int) -> str:
        choices = self.choices
        parts = []
        for number in range(choices.between(2, 3)):
            if choices.happens(50):
                part = self._picked(kinds, outer)
            else:
                self._sides += 1
                part = self._body(kinds, outer, depth - 1)
                self._sides -= 1
            word = f" {choices.pick(_SET_WORDS)} " if number else ""
            parts.append(f"{word}({part})")
        return "".join(parts)

    def _picked(self, kinds: Sequence[str], outer: Sequence[Column]) -> str:
        """Plain columns of one relation with a condition: sides over one table look alike."""
        choices = self.choices
        relation = self.relations[0]
        alias = self._fresh("t")
        scope = [(f"{alias}.{name}", kind) for name, kind in relation.columns]
        drawing = self._expressions(scope, 0)
        items = self._items([drawing.leaf(kind) for kind in kinds])
        if outer and choices.happens(40):
            drawing = self._expressions([*scope, *outer], 0)
        where = f" where {drawing.of('bool', 1)}" if choices.happens(70) else ""
        return f"select {items} from {relation.name} as {alias}{where}"

    def _distinct_on(self, kinds: Sequence[str], outer: Sequence[Column], depth: int) -> str:
        inner = self._body(kinds, outer, depth - 1)
        names = [f"c{n}" for n in range(len(kinds))]
        listed = ", ".join(names)
        count = self.choices.between(1, len(names))
        on = ", ".join(names[:count])
        alias = self._fresh("d")
        return (
            f"(select distinct on ({on}) {listed} from ({inner}) as {alias}({listed})"
            f" order by {listed})"
        )

    # FROM and WHERE

    def _from(self, outer: Sequence[Column], depth: int) -> tuple[str, list[Column]]:
        choices = self.choices
        if choices.happens(4):
            return "", []
        text, scope = self._item(depth)
        for _ in range(choices.pick((0, 0, 1, 1, 2))):
            text, scope = self._joined(text, scope, outer, depth)
        return f" from {text}", scope

    def _joined(
        self, text: str, scope: list[Column], outer: Sequence[Column], depth: int
    ) -> tuple[str, list[Column]]:
        choices = self.choices
        draw = choices.below(12)
        if draw in (1, 2) and depth > 0:
            kinds = self._kinds()
            alias = self._fresh("l")
            names = [f"c{n}" for n in range(len(kinds))]
            body = self._body(kinds, [*scope, *outer], depth - 1)
            own = [(f"{alias}.{name}", kind) for name, kind in zip(names, kinds, strict=True)]
            word = choices.pick(("join", "left join", "cross join"))
            on = "" if word == "cross join" else f" on {self._on([*scope, *own], scope, own)}"
            return (
                f"{text} {word} lateral ({body}) as {alias}({', '.join(names)}){on}",
                [*scope, *own],
            )
        if draw == 5 and " join " not in text:
            return self._joined_using(text, scope)
        if draw == 3:
            alias = self._fresh("g")
            bound = self._expressions(scope, 0).leaf("int4")
            call = f"generate_series(1, least({bound}, 3))"
            own = [(f"{alias}.n", "int4")]
            if choices.happens(30):
                call += f" with ordinality as {alias}(n, o)"
                own.append((f"{alias}.o", "int8"))
            else:
                call += f" as {alias}(n)"
            word = choices.pick(("cross join lateral", "left join lateral"))
            on = " on true" if word.startswith("left") else ""
            return f"{text} {word} {call}{on}", [*scope, *own]
        if draw == 4:
            arrays = [name for name, kind in scope if kind == "_int4"]
            if arrays:
                alias = self._fresh("u")
                return (
                    f"{text} cross join lateral unnest({choices.pick(arrays)}) as {alias}(e)",
                    [*scope, (f"{alias}.e", "int4")],
                )
        other, own = self._item(depth)
        word = choices.pick(("join", "left join", "right join", "full join", "cross join"))
        if word == "cross join":
            return f"{text} cross join {other}", [*scope, *own]
        if word == "full join":
            return f"{text} full join {other} on {self._equality(scope, own)}", [*scope, *own]
        return f"{text} {word} {other} on {self._on([*scope, *own], scope, own)}", [*scope, *own]

    def _joined_using(self, text: str, scope: list[Column]) -> tuple[str, list[Column]]:
        """A join by a column that both sides have, perhaps with a name for it."""
        choices = self.choices
        relation = choices.pick(self.relations)
        names = [name.partition(".")[2] for name, _ in scope]
        shared = [
            (name, kind)
            for name, kind in relation.columns
            if any(f".{name}" in mine and same == kind for mine, same in scope)
            and names.count(name) == 1
        ]
        if not shared:
            other, own = self._item(0)
            return f"{text} cross join {other}", [*scope, *own]
        name, kind = choices.pick(shared)
        alias, merged = self._fresh("t"), self._fresh("u")
        word = choices.pick(("join", "left join", "right join", "full join"))
        own = [(f"{alias}.{each}", its) for each, its in relation.columns]
        return (
            f"{text} {word} {relation.name} as {alias} using ({name}) as {merged}",
            [*scope, *own, (f"{merged}.{name}", kind)],
        )

    def _on(self, both: list[Column], left: list[Column], right: list[Column]) -> str:
        choices = self.choices
        draw = choices.below(10)
        if draw == 1:
            return "true"
        if draw == 2:
            return self._expressions(both, 0).of("bool", 1)
        condition = self._equality(left, right)
        if draw in (3, 4):
            condition += f" and {self._expressions(both, 0).of('bool', 1)}"
        return condition

    def _equality(self, left: list[Column], right: list[Column]) -> str:
        pairs = [f"{one} = {other}" for one, kind in left for other, same in right if kind == same]
        return self.choices.pick(pairs) if pairs else "1 = 1"

    def _item(self, depth: int) -> tuple[str, list[Column]]:
        choices = self.choices
        if depth > 0 and choices.happens(15):
            kinds = self._kinds()
            alias = self._fresh("s")
            names = [f"c{n}" for n in range(len(kinds))]
            body = self._body(kinds, (), depth - 1)
            scope = [(f"{alias}.{name}", kind) for name, kind in zip(names, kinds, strict=True)]
            return f"({body}) as {alias}({', '.join(names)})", scope
        relation = choices.pick(self.relations)
        alias = self._fresh("t")
        return (
            f"{relation.name} as {alias}",
            [(f"{alias}.{name}", kind) for name, kind in relation.columns],
        )

    def _where(self, scope: Sequence[Column], outer: Sequence[Column], depth: int) -> str:
        if not self.choices.happens(60):
            return ""
        return f" where {self._expressions([*scope, *outer], depth).of('bool', 2)}"

    # Subqueries in expressions

    def _expressions(self, scope: Sequence[Column], depth: int) -> Expressions:
        if depth <= 0:
            return Expressions(self.choices, self.constants, scope)
        return Expressions(
            self.choices,
            self.constants,
            scope,
            self._scalar,
            lambda around: self._predicate(around, depth - 1),
        )

    def _scalar(self, kind: str, around: Sequence[Column]) -> str | None:
        """A subquery of one value: an aggregate, or the first row in a total order."""
        choices = self.choices
        source, scope = self._from(around, 0)
        inner = self._expressions([*scope, *around], 0)
        where = f" where {inner.of('bool', 1)}" if choices.happens(70) else ""
        if kind in _AGGREGATES and not choices.happens(30):
            return f"(select {self._aggregate(kind, [*scope, *around])}{source}{where})"
        value = inner.of(kind, 1)
        if kind == "_int4" and choices.happens(50):
            return f"array(select {inner.of('int4', 1)}{source}{where} order by 1)"
        return f"(select {value}{source}{where} order by 1 limit 1)"

    def _predicate(self, around: Sequence[Column], depth: int) -> str | None:
        choices = self.choices
        negation = choices.pick(("", "not "))
        draw = choices.below(6)
        if draw == 4:
            source, scope = self._from(around, 0)
            condition = self._expressions([*scope, *around], 0).of("bool", 1)
            return f"({negation}exists (select{source} where {condition}))"
        if draw == 5:
            kinds = [choices.pick([k for _, k in around if k in SELECTED] or ["int4"]), "int4"]
            drawing = self._expressions(around, 0)
            row = ", ".join(drawing.of(kind, 1) for kind in kinds)
            return f"(({row}) {negation}in ({self._body(kinds, around, min(depth, 1))}))"
        if draw in (0, 1):
            kind = choices.pick([kind for _, kind in around if kind in SELECTED] or ["int4"])
            value = self._expressions(around, 0).of(kind, 1)
            body = self._body([kind], around, min(depth, 1))
            if draw == 0:
                return f"({value} {negation}in ({body}))"
            sign, word = choices.pick(("=", "<>", "<", ">=")), choices.pick(("any", "all"))
            return f"({value} {sign} {word} ({body}))"
        body = self._body(self._kinds(), around, min(depth, 1))
        return f"({negation}exists ({body}))"

    # Groups

    def _aggregate(self, kind: str, scope: Sequence[Column]) -> str:
        choices = self.choices
        drawing = self._expressions(scope, 0)
        form = drawing.filled(choices.pick(_AGGREGATES[kind]))
        if choices.happens(15):
            form += f" filter (where {drawing.of('bool', 1)})"
        return form

    def _grouped(self, kinds: Sequence[str], outer: Sequence[Column], depth: int) -> str:
        choices = self.choices
        source, scope = self._from(outer, depth)
        where = self._where(scope, outer, depth)
        drawing = self._expressions(scope or list(outer), 0)
        items: list[str] = []
        keys: list[str] = []
        for kind in kinds:
            if kind in ("int8", "int4") and choices.happens(15):
                items.append(self._of_groups(kind, keys, scope))
            elif kind in _AGGREGATES and choices.happens(60):
                items.append(self._aggregate(kind, scope))
            elif choices.happens(12):
                items.append(drawing.constant(kind))
                if choices.happens(50):
                    keys.append(str(len(items)))
            else:
                key = drawing.of(kind, 1) if choices.happens(30) else drawing.leaf(kind)
                items.append(key)
                keys.append(key if key[0] not in "\x01" and "\x01" not in key else str(len(items)))
                if keys[-1] == key and choices.happens(50):
                    keys[-1] = str(len(items))
        if self._sides:
            # PostgreSQL 15 shows a constant also where it is a key that is not in the set.
            names = [name for name, _ in (*scope, *outer)]
            shown = [items[int(key) - 1] if key.isdigit() else key for key in keys]
            keys = [
                key for key, text in zip(keys, shown, strict=True) if any(n in text for n in names)
            ]
        group = self._grouping(keys)
        having = ""
        if group and choices.happens(20):
            having = f" having {choices.pick(('count(*) > 1', 'count(*) <= 2', 'min(1) = 1'))}"
        return f"select {self._items(items)}{source}{where}{group}{having}"

    def _of_groups(self, kind: str, keys: list[str], scope: Sequence[Column]) -> str:
        """What depends on the groups themselves: which keys they have, and how they compare."""
        choices = self.choices
        written = [key for key in keys if not key.isdigit()]
        if kind == "int4":
            return f"grouping({', '.join(written)})" if written else "max(1)"
        numbers = [key for key in written if dict(scope).get(key) == "int4"]
        if numbers and choices.happens(50):
            order = self._expressions(scope, 0).leaf("int4")
            return f"rank({choices.pick(numbers)}) WITHIN GROUP (ORDER BY {order})"
        return choices.pick(("rank() over (order by count(*))", "sum(count(*)) over ()::int8"))

    def _grouping(self, keys: list[str]) -> str:
        choices = self.choices
        if not keys:
            return choices.pick(("", "", " group by ()", " group by grouping sets ((), ())"))
        listed = ", ".join(keys)
        draw = choices.below(10)
        if draw == 1:
            return f" group by rollup ({listed})"
        if draw == 2:
            return f" group by cube ({listed})"
        if draw == 3:
            sets = ["()", f"({listed})", *(f"({key})" for key in choices.some(keys, 50))]
            return f" group by grouping sets ({', '.join(sets)})"
        if draw == 4:
            return f" group by {listed}, rollup ({choices.pick(keys)})"
        if draw == 5:
            return f" group by distinct rollup ({listed}), cube ({choices.pick(keys)})"
        return f" group by {listed}"

    # Windows

    def _windowed(self, kinds: Sequence[str], outer: Sequence[Column], depth: int) -> str:
        choices = self.choices
        source, scope = self._from(outer, depth)
        if not scope:
            return f"select {self._items([self._expressions(outer, 0).of(k) for k in kinds])}"
        where = self._where(scope, outer, depth)
        drawing = self._expressions(scope, 0)
        items = []
        for kind in kinds:
            if kind in _WINDOW_CALLS and choices.happens(75):
                call = choices.pick(_WINDOW_CALLS[kind])
                items.append(self._call(drawing.filled(call), call, scope))
            else:
                items.append(drawing.of(kind, 1))
        return f"select {self._items(items)}{source}{where}"

    def _call(self, call: str, form: str, scope: Sequence[Column]) -> str:
        choices = self.choices
        part = ""
        if choices.happens(50):
            part = f"partition by {choices.pick([name for name, _ in scope])} "
        ends = ("", " desc", " nulls first", " desc nulls last")
        order = "order by " + ", ".join(f"{name}{choices.pick(ends)}" for name, _ in scope)
        frame = ""
        name = form.partition("(")[0]
        takes_frame = name not in (
            "row_number",
            "rank",
            "dense_rank",
            "lag",
            "lead",
            "ntile",
            "cume_dist",
            "percent_rank",
        )
        if takes_frame and choices.happens(60):
            unit = choices.pick(("rows", "groups", "range"))
            peers = name in _OF_PEERS
            if unit == "groups" and peers and choices.happens(60):
                order = f"order by {choices.pick([column for column, _ in scope])}"
                order += choices.pick(ends)
            if unit == "range":
                numbers = [column for column, kind in scope if kind in ("int4", "int8", "numeric")]
                if not numbers or not peers:
                    return f"{call} over ({part}{order})"
                order = f"order by {choices.pick(numbers)}{choices.pick(ends)}"
            begin = choices.below(len(_EDGES) - 1)
            end = choices.between(max(begin, 1), len(_EDGES) - 1)
            frame = f" {unit} between {_EDGES[begin]} and {_EDGES[end]}{choices.pick(_EXCLUSIONS)}"
            if choices.happens(6):
                frame = f" {unit} between {choices.pick(_EMPTY_FRAMES)}"
        elif name in (
            "sum",
            "count",
            "min",
            "max",
            "avg",
            "bool_or",
            "bool_and",
        ) and choices.happens(30):
            order = ""
        return f"{call} over ({part}{order}{frame})"

    def _fresh(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"
