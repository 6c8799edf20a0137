"""The history that is published in `docs/histories`: its verdict, and that lies in it are seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from waterclock.testing.serial.history import (
    Append,
    Found,
    Kind,
    Listed,
    Operation,
    Outcome,
    Write,
    load,
)
from waterclock.testing.serial.order import Violation
from waterclock.testing.serial.record import judge

FOLDER = Path(__file__).parents[3] / "docs" / "histories"
History = list[Operation]


@pytest.fixture(scope="module")
def history() -> History:
    return load(FOLDER / "recent-reads.jsonl")


def with_step(history: History, place: int, number: int, step: object) -> History:
    """The history with one step of one operation changed."""
    told = history[place]
    steps = [*told.steps[:number], step, *told.steps[number + 1 :]]
    changed = replace(told, steps=tuple(steps))  # type: ignore[arg-type]
    return [*history[:place], changed, *history[place + 1 :]]


def readings(
    history: History, kinds: Sequence[Kind], wanted: Callable[[Listed], bool]
) -> list[tuple[int, int, Listed]]:
    """Where lists were read: the operation, the step, and the reading."""
    return [
        (place, number, step)
        for place, each in enumerate(history)
        if each.kind in kinds
        for number, step in enumerate(each.steps)
        if isinstance(step, Listed) and wanted(step)
    ]


def of_sources(step: Listed) -> bool:
    return len(step.values) > 5 and not step.key.startswith("table")


# The lies. Each takes a history that holds and gives one that does not.


def a_stale_recent_read(history: History, rng: random.Random) -> History:
    """It lacks the last value, which was acknowledged before it began."""
    ended = {
        step.value: each.ended
        for each in history
        if each.kind is Kind.UPSTREAM
        for step in each.steps
        if isinstance(step, Append)
    }
    found = [
        (place, number, step)
        for place, number, step in readings(history, [Kind.RECENT], of_sources)
        if (acknowledged := ended.get(step.values[-1])) is not None
        and acknowledged < history[place].begun
    ]
    place, number, step = rng.choice(found)
    return with_step(history, place, number, replace(step, values=step.values[:-1]))


def a_read_that_goes_back(history: History, rng: random.Random) -> History:
    """It is not recent, and lacks what a recent read has seen that had ended before."""
    del rng
    place, number, step = readings(history, [Kind.READ], of_sources)[-1]
    return with_step(history, place, number, replace(step, values=step.values[:2]))


def a_lost_write(history: History, rng: random.Random) -> History:
    """A value in the middle of a list, which was acknowledged, is in no read any more."""
    _, _, longest = max(readings(history, list(Kind), of_sources), key=lambda r: len(r[2].values))
    lost = rng.choice(longest.values[2:-2])
    for place, number, step in readings(history, list(Kind), lambda s: lost in s.values):
        left = tuple(value for value in step.values if value != lost)
        history = with_step(history, place, number, replace(step, values=left))
    return history


def two_values_swapped(history: History, rng: random.Random) -> History:
    place, number, step = rng.choice(readings(history, [Kind.RECENT, Kind.READ], of_sources))
    *others, one, other = step.values
    return with_step(history, place, number, replace(step, values=(*others, other, one)))


def a_value_twice(history: History, rng: random.Random) -> History:
    place, number, step = rng.choice(readings(history, [Kind.RECENT, Kind.READ], of_sources))
    return with_step(history, place, number, replace(step, values=(*step.values, step.values[-1])))


def a_value_that_nobody_wrote(history: History, rng: random.Random) -> History:
    place, number, step = rng.choice(readings(history, [Kind.RECENT], of_sources))
    return with_step(history, place, number, replace(step, values=(*step.values, 10**9)))


def a_value_that_was_refused(history: History, rng: random.Random) -> History:
    """A write of a table was refused, and yet somebody has read it."""
    seen = {v for _, _, step in readings(history, list(Kind), lambda _: True) for v in step.values}
    places = [
        place
        for place, each in enumerate(history)
        if each.kind is Kind.WRITE
        and each.outcome is Outcome.OK
        and any(isinstance(step, Append) and step.value in seen for step in each.steps)
    ]
    place = rng.choice(places)
    return [
        *history[:place],
        replace(history[place], outcome=Outcome.FAILED),
        *history[place + 1 :],
    ]


def half_of_a_transaction(history: History, rng: random.Random) -> History:
    """Of two records that were written in one transaction, a read has only one."""
    pairs = [
        [step for step in each.steps if isinstance(step, Append)]
        for each in history
        if each.kind is Kind.UPSTREAM and len(each.steps) == 2 and each.outcome is Outcome.OK
    ]
    found = []
    for pair in pairs:
        if len(pair) != 2:
            continue
        first, second = pair
        for place, each in enumerate(history):
            lists = {s.key: (n, s) for n, s in enumerate(each.steps) if isinstance(s, Listed)}
            if first.key in lists and second.key in lists:
                (_, one), (number, other) = lists[first.key], lists[second.key]
                if first.value in one.values and other.values[-1:] == (second.value,):
                    found.append((place, number, other))
    place, number, step = rng.choice(found)
    return with_step(history, place, number, replace(step, values=step.values[:-1]))


def an_old_register(history: History, rng: random.Random) -> History:
    """A recent read has a value of a register that was replaced before it began."""
    written: dict[str, list[Operation]] = {}
    found = []
    for place, each in enumerate(history):
        for number, step in enumerate(each.steps):
            if isinstance(step, Write) and each.outcome is Outcome.OK:
                written.setdefault(step.key, []).append(each)
            if each.kind is not Kind.RECENT or not isinstance(step, Found):
                continue
            before = [
                w for w in written.get(step.key, ()) if w.ended is not None and w.ended < each.begun
            ]
            if len(before) > 1:
                [old] = [s for s in before[-2].steps if s.key == step.key and isinstance(s, Write)]
                found.append((place, number, Found(step.key, old.value)))
    return with_step(history, *rng.choice(found))


LIES = (
    a_stale_recent_read,
    a_read_that_goes_back,
    a_lost_write,
    two_values_swapped,
    a_value_twice,
    a_value_that_nobody_wrote,
    a_value_that_was_refused,
    half_of_a_transaction,
    an_old_register,
)


@pytest.mark.semantics(135, 137)
def test_the_verdict_is_the_one_that_is_published(history: History) -> None:
    lines = [f"    {line}" for verdict in judge(history) for line in verdict.lines()]
    assert "\n".join(lines) in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_seen(history: History, lie: Callable[[History, random.Random], History]) -> None:
    with pytest.raises(Violation):
        judge(lie(history, random.Random(1)))
