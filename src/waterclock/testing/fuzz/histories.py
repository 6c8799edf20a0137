"""Random histories of the inputs, and the steps they arrive in.

A history is a set of *lives*: a row is there from the time it is born, in some number of copies,
until the time it dies. So no history ever takes away what is not there, and any subset of a history
is one too, which is what shrinking needs. A life that ends when it begins is two updates that
cancel; a row whose key moves is two lives that meet at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from waterclock.testing.fuzz.schemas import Fields, Relations
from waterclock.testing.fuzz.values import value

Row = tuple[Any, ...]
Updates = list[tuple[Row, int, int]]
"""Row, time, diff."""

WIDE = 0.12
"""How often steps are spread over many tasks, all of them or the larger ones."""


@dataclass(frozen=True, slots=True)
class Life:
    """A row of an input, from when to when it is there, and how many times."""

    relation: str
    row: Row
    born: int
    died: int | None = None
    copies: int = 1

    def is_at(self, time: int) -> bool:
        return self.born <= time and (self.died is None or time < self.died)


@dataclass(frozen=True, slots=True)
class Steps:
    """Where steps end, and before which of them everything is opened anew, or dies and is."""

    uppers: tuple[int, ...]
    restarts: frozenset[int] = frozenset()
    crashes: frozenset[int] = frozenset()
    """Steps that are computed, lost before they are durable, and computed again."""
    wide_rows: int | None = None
    """From so many changes on a step is spread over many tasks, if not only from very many on."""


def times_of(lives: Iterable[Life]) -> list[int]:
    """The times at which something changes."""
    born_or_died = {time for life in lives for time in (life.born, life.died)}
    return sorted(time for time in born_or_died if time is not None)


def contents(lives: Iterable[Life], relation: str, time: int) -> list[Row]:
    """The rows of an input at a time."""
    there = [life for life in lives if life.relation == relation and life.is_at(time)]
    return [life.row for life in there for _ in range(life.copies)]


def updates(lives: Iterable[Life], relation: str, lower: int, upper: int) -> Updates:
    """The changes of an input in a window of times, not consolidated."""
    found: Updates = []
    for life in lives:
        if life.relation != relation:
            continue
        if lower <= life.born < upper:
            found.append((life.row, life.born, life.copies))
        if life.died is not None and lower <= life.died < upper:
            found.append((life.row, life.died, -life.copies))
    return found


def history(pick: random.Random, relations: Relations, *, edge: float = 0.0) -> list[Life]:
    """Changes of all inputs at four to seven times; now and then an input becomes empty."""
    times = sorted(pick.sample(range(24), pick.randrange(4, 8)))
    lives: list[Life] = []
    for relation, fields in relations.items():
        alive: list[Life] = []
        for number, time in enumerate(times):
            ended, begun = _changes(pick, relation, fields, alive, time, number == 0, edge)
            alive = [life for life in alive if life not in ended] + begun
            lives += [Life(life.relation, life.row, life.born, time, life.copies) for life in ended]
        lives += alive
    return lives


def _changes(
    pick: random.Random,
    relation: str,
    fields: Fields,
    alive: list[Life],
    time: int,
    first: bool,
    edge: float,
) -> tuple[list[Life], list[Life]]:
    """Lives that end at a time, and those that begin."""
    dice = pick.random()
    if alive and dice < 0.08:
        return list(dict.fromkeys(alive)), []
    ended: list[Life] = []
    begun: list[Life] = []
    for _ in range(pick.randrange(2, 7) if first else pick.randrange(5)):
        dice = pick.random()
        left = [life for life in alive if life not in ended]
        if left and dice < 0.3:
            ended.append(pick.choice(left))
        elif left and dice < 0.5:
            moved = pick.choice(left)
            ended.append(moved)
            begun.append(Life(relation, _moved(pick, fields, moved.row), time, None, moved.copies))
        elif left and dice < 0.6:
            begun.append(Life(relation, pick.choice(left).row, time))
        else:
            row = tuple(_field(pick, field.kind, field.nullable, edge) for field in fields)
            copies = pick.choice((2, 2, 2, 5)) if pick.random() < 0.15 else 1
            begun.append(Life(relation, row, time, None, copies))
    return ended, begun


def _moved(pick: random.Random, fields: Fields, row: Row) -> Row:
    place = pick.randrange(len(fields))
    new = _field(pick, fields[place].kind, fields[place].nullable, 0.0)
    return (*row[:place], new, *row[place + 1 :])


def _field(pick: random.Random, kind: str, nullable: bool, edge: float) -> Any:
    return None if nullable and pick.random() < 0.15 else value(pick, kind, edge=edge)


def steps(pick: random.Random, lives: Iterable[Life]) -> Steps:
    """Two to four steps over the history, with a restart or a crash in between now and then."""
    times = times_of(lives)
    count = min(len(times), pick.randrange(2, 5))
    inner = sorted(pick.sample(times[1:], count - 1)) if count > 1 else []
    uppers = (*inner, times[-1] + 1 + pick.randrange(2))
    later = range(1, len(uppers))
    restarts = frozenset(step for step in later if pick.random() < 0.25)
    crashes = frozenset(step for step in range(len(uppers)) if pick.random() < 0.06)
    wide_rows = pick.choice((1, 4)) if pick.random() < WIDE else None
    return Steps(uppers, restarts, crashes, wide_rows)
