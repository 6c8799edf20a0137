"""Makes a failing case small: fewer rows, fewer steps, less SQL, as long as it still fails.

What is tried may have no meaning any more; then it does not fail, and is put back. Any failure
counts, not only the first one: what is left is worth a look in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from waterclock.testing.fuzz.case import Case
from waterclock.testing.fuzz.histories import Life, Steps
from waterclock.testing.fuzz.trees import Tree, simpler

T = TypeVar("T")
Fails = Callable[[Case], bool]


def shrunk(case: Case, fails: Fails) -> Case:
    """A case of one query that still fails, from which no single thing can be left out.

    `fails` decides; it says no when there is no more time.
    """
    while True:
        before = case
        for simplify in (
            _bold,
            _always_there,
            _fewer_steps,
            _fewer_rows,
            _less_sql,
            _fewer_columns,
        ):
            case = simplify(case, fails)
        if case == before:
            return case


def _bold(case: Case, fails: Fails) -> Case:
    """One of the queries inside the query, if it is enough."""
    [asked] = case.queries
    inside = [each for each in asked.tree.below() if each.sort == asked.tree.sort]
    for tree in sorted(inside, key=lambda each: each.size):
        smaller = _asking(case, tree)
        if fails(smaller):
            return smaller
    return case


def _always_there(case: Case, fails: Fails) -> Case:
    """The query from the first step to the last."""
    [asked] = case.queries
    longer = case.asking([replace(asked, comes=0, goes=None)])
    return longer if longer != case and fails(longer) else case


def _fewer_steps(case: Case, fails: Fails) -> Case:
    for steps in _simpler_steps(case.steps):
        smaller = replace(case, steps=steps)
        if fails(smaller):
            return _fewer_steps(smaller, fails)
    return case


def _simpler_steps(steps: Steps) -> Iterator[Steps]:
    uppers = steps.uppers
    if steps != Steps(uppers[-1:]):
        yield Steps(uppers[-1:])
    if steps.wide_rows is not None:
        yield replace(steps, wide_rows=None)
    if steps.restarts or steps.crashes:
        yield replace(steps, restarts=frozenset(), crashes=frozenset())
        yield replace(steps, restarts=frozenset())
        yield replace(steps, crashes=frozenset())
    for place in range(len(uppers) - 1):
        kept = uppers[:place] + uppers[place + 1 :]
        restarts, crashes = (
            frozenset(n for n in marks if n < len(kept))
            for marks in (steps.restarts, steps.crashes)
        )
        yield replace(steps, uppers=kept, restarts=restarts, crashes=crashes)


def _fewer_rows(case: Case, fails: Fails) -> Case:
    def enough(lives: Sequence[Life]) -> bool:
        return fails(replace(case, lives=tuple(lives)))

    return replace(case, lives=tuple(_fewest(case.lives, enough)))


def _fewest(items: Sequence[T], enough: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Leave out halves, then quarters, and so on down to single ones."""
    size = len(items) // 2
    while size:
        place = 0
        while place < len(items):
            fewer = [*items[:place], *items[place + size :]]
            if enough(fewer):
                items = fewer
            else:
                place += size
        size //= 2
    return items


def _less_sql(case: Case, fails: Fails) -> Case:
    for name in case.views:
        views = {other: tree for other, tree in case.views.items() if other != name}
        if fails(replace(case, views=views)):
            return _less_sql(replace(case, views=views), fails)
    for smaller in _less(case):
        if fails(smaller):
            return _less_sql(smaller, fails)
    return case


def _less(case: Case) -> Iterator[Case]:
    for tree in simpler(case.queries[0].tree):
        yield _asking(case, tree)
    for name, view in case.views.items():
        for tree in simpler(view):
            yield replace(case, views={**case.views, name: tree})


def _asking(case: Case, tree: Tree) -> Case:
    return case.asking([replace(case.queries[0], tree=tree)])


def _fewer_columns(case: Case, fails: Fails) -> Case:
    for name, fields in case.relations.items():
        for place in range(len(fields)) if len(fields) > 1 else ():
            smaller = replace(
                case,
                relations={**case.relations, name: _cut(fields, place)},
                lives=tuple(
                    replace(life, row=_cut(life.row, place)) if life.relation == name else life
                    for life in case.lives
                ),
            )
            if fails(smaller):
                return _fewer_columns(smaller, fails)
    return case


def _cut(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return items[:place] + items[place + 1 :]


_SIMPLIFY = (_bold, _always_there, _fewer_steps, _fewer_rows, _less_sql, _fewer_columns)
