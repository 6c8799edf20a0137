"""One case: relations, views, queries, a history and its steps.

A case comes from a seed and nothing else. Written as JSON it stands for itself, whatever later
changes of the grammar make of the seed: that is how cases that once failed are kept.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from waterclock.testing.fuzz.expressions import Column, Exactness
from waterclock.testing.fuzz.grammar import Grammar
from waterclock.testing.fuzz.histories import Life, Steps, history, steps, times_of
from waterclock.testing.fuzz.schemas import Field, Relations, relations
from waterclock.testing.fuzz.trees import Tree, query
from waterclock.testing.fuzz.values import KINDS, from_json, to_json

NOW = "mz_now()"
QUERIES = 4
"""Queries that share a history: one run of the dataflow serves them all."""
COMING, GOING = 0.12, 0.06
"""How often a query is there for a part of the history only: the later part, or the earlier one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of a case."""

    tree: Tree
    is_loose: bool = False
    """Whether floating-point numbers are compared up to a relative 1e-9."""
    features: frozenset[str] = frozenset()
    comes: int = 0
    """The step before which it is installed."""
    goes: int | None = None
    """The step before which it is dropped."""

    def is_there(self, step: int) -> bool:
        return self.comes <= step and (self.goes is None or step < self.goes)

    @property
    def sql(self) -> str:
        return self.tree.text


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a run needs."""

    relations: Relations
    queries: tuple[Asked, ...]
    lives: tuple[Life, ...]
    steps: Steps
    views: Mapping[str, Tree] = field(default_factory=dict)

    @property
    def is_temporal(self) -> bool:
        """Whether something in it changes as time passes, without a change of the inputs."""
        trees = [*(asked.tree for asked in self.queries), *self.views.values()]
        return any(NOW in tree.text for tree in trees)

    @property
    def times(self) -> list[int]:
        """The times at which its queries may change: all of them, if they look at the time."""
        if self.is_temporal:
            return list(range(self.steps.uppers[-1]))
        return times_of(self.lives) or [0]

    def there(self, step: int) -> list[int]:
        """The numbers of the queries that are maintained during a step."""
        return [number for number, asked in enumerate(self.queries) if asked.is_there(step)]

    def asking(self, queries: Sequence[Asked]) -> Case:
        """The same with other queries."""
        return replace(self, queries=tuple(queries))

    def alone(self, number: int) -> Case:
        """The same with one of the queries only."""
        return self.asking([self.queries[number]])


def drawn(seed: int, *, temporal: bool = False) -> Case:
    """The case of a seed; with `temporal`, of queries that look at the time."""
    pick = random.Random(seed)
    tables = relations(pick)
    edge = 0.1 if pick.random() < 0.04 else 0.0
    lives = history(pick, tables, edge=edge)
    views: dict[str, Tree] = {}
    columns: dict[str, tuple[Column, ...]] = {}
    for number in range(pick.choice((0, 1, 1, 2))):
        view = Grammar(pick, tables, columns, temporal=temporal).draw(
            0, first_name=100 * (number + 1)
        )
        usable = tuple(c for c in view.columns if c.exactness < Exactness.LOOSE)
        if usable and not view.failing:
            views[f"v{number + 1}"] = view.tree
            columns[f"v{number + 1}"] = usable
    asked = []
    for _ in range(QUERIES):
        found = Grammar(pick, tables, columns, temporal=temporal).draw(pick.choice((0, 1, 1, 2)))
        asked.append(Asked(found.tree, found.is_loose, found.features))
    taken = steps(pick, lives)
    lasting = [_lasting(pick, each, len(taken.uppers)) for each in asked]
    return Case(tables, tuple(lasting), tuple(lives), taken, views)


def _lasting(pick: random.Random, asked: Asked, steps: int) -> Asked:
    """The query; now and then it comes after the first step, or goes before the last."""
    dice = pick.random()
    if steps == 1 or dice > COMING + GOING:
        return asked
    step = pick.randrange(1, steps)
    return replace(asked, comes=step) if dice < COMING else replace(asked, goes=step)


def to_text(case: Case) -> str:
    """The case as JSON, a line for each thing in it."""
    kinds = {name: [f.kind for f in fields] for name, fields in case.relations.items()}
    assert all(kind in KINDS for each in kinds.values() for kind in each)
    parts: dict[str, Any] = {
        "relations": {n: ", ".join(f.sql for f in fs) for n, fs in case.relations.items()},
        "views": {name: tree.text for name, tree in case.views.items()},
        "queries": [asked.sql for asked in case.queries],
        "loose": [number for number, asked in enumerate(case.queries) if asked.is_loose],
        "rows": [
            [life.relation, [to_json(v) for v in life.row], life.born, life.died, life.copies]
            for life in case.lives
        ],
        "uppers": list(case.steps.uppers),
        "restarts": sorted(case.steps.restarts),
        "crashes": sorted(case.steps.crashes),
        "wide_rows": case.steps.wide_rows,
        "comes": [asked.comes for asked in case.queries],
        "goes": [asked.goes for asked in case.queries],
    }
    return "{\n" + ",\n".join(f"  {json.dumps(n)}: {_lines(v)}" for n, v in parts.items()) + "\n}"


def _lines(part: Any) -> str:
    """A list of lists or of texts with one element on a line, anything else on one line."""
    if isinstance(part, list) and part and not isinstance(part[0], int):
        inside = ",\n".join(f"    {json.dumps(each, ensure_ascii=False)}" for each in part)
        return f"[\n{inside}\n  ]"
    return json.dumps(part, ensure_ascii=False)


def from_parts(parts: Mapping[str, Any]) -> Case:
    """The case that JSON holds."""
    tables = {name: _fields(text) for name, text in parts["relations"].items()}
    lives = tuple(
        Life(name, _row(tables, name, row), born, died, copies)
        for name, row, born, died, copies in parts["rows"]
    )
    return Case(
        tables,
        tuple(_asked(parts, number) for number in range(len(parts["queries"]))),
        lives,
        Steps(
            tuple(parts["uppers"]),
            frozenset(parts.get("restarts", ())),
            frozenset(parts.get("crashes", ())),
            parts.get("wide_rows"),
        ),
        {name: query(sql) for name, sql in parts.get("views", {}).items()},
    )


def _asked(parts: Mapping[str, Any], number: int) -> Asked:
    return Asked(
        query(parts["queries"][number]),
        number in parts.get("loose", ()),
        comes=parts["comes"][number] if "comes" in parts else 0,
        goes=parts["goes"][number] if "goes" in parts else None,
    )


def _row(tables: Relations, name: str, row: list[Any]) -> tuple[Any, ...]:
    return tuple(from_json(f.kind, v) for f, v in zip(tables[name], row, strict=True))


def _fields(text: str) -> tuple[Field, ...]:
    by_sql = {kind.sql: name for name, kind in KINDS.items()}
    fields = []
    for column in re.split(r", (?=\w+ [A-Z])", text):
        name, _, rest = column.partition(" ")
        kind = rest.removesuffix(" NOT NULL")
        fields.append(Field(name, by_sql[kind], nullable=kind == rest))
    return tuple(fields)
