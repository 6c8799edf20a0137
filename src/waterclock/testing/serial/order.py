"""Which operation came before which, as far as the reads of a history tell.

For a list, the longest that was read is the order of its values; all other reads have to be
beginnings of it. For a register, the order of its writes is that in which they were made, since
they do not overlap. That gives, for each key:

- *ww*: who wrote a value came before who wrote the next one;
- *wr*: who wrote a value came before who read it;
- *rw*: who read the state before a value came before who wrote that value. What was acknowledged
  and is in no read comes after everything that was read.

An operation whose outcome is not known has happened if somebody has read it, and else tells
nothing. What can not be, whatever the order, is raised at once.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.testing.serial.history import (
    Append,
    Found,
    History,
    Key,
    Listed,
    Operation,
    Outcome,
    Value,
    Write,
)


class Violation(AssertionError):
    """No order of the operations explains what was read."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One operation, by its number, was before another; `why` is `ww`, `wr`, `rw` or `realtime`."""

    before: int
    after: int
    why: str
    key: Key = ""


def edges_of(history: History) -> list[Edge]:
    """All edges that reads and writes tell. Raises `Violation`."""
    lists: dict[Key, _Course] = defaultdict(_Course)
    registers: dict[Key, _Course] = defaultdict(_Course)
    for each in history:
        for step in each.steps:
            match step:
                case Append(key, value):
                    lists[key].wrote(each, value)
                case Listed(key, values):
                    lists[key].reads.append((each, values))
                case Write(key, value):
                    registers[key].wrote(each, value)
                case Found(key, found):
                    registers[key].reads.append((each, () if found is None else (found,)))
    edges: list[Edge] = []
    for key, course in lists.items():
        edges += course.edges(key, course.longest(key))
    for key, course in registers.items():
        edges += course.edges(key, course.in_time(key), is_register=True)
    return [edge for edge in edges if edge.before != edge.after]


class _Course:
    """What happened to one key."""

    def __init__(self) -> None:
        self.writers: dict[Value, Operation] = {}
        self.reads: list[tuple[Operation, tuple[Value, ...]]] = []

    def wrote(self, operation: Operation, value: Value) -> None:
        assert value not in self.writers, f"{value} is written twice by the clients"
        self.writers[value] = operation

    def longest(self, key: Key) -> list[Value]:
        """The order of a list's values. All reads are beginnings of it."""
        told: tuple[Value, ...] = max((values for _, values in self.reads), key=len, default=())
        if len(set(told)) < len(told):
            twice = next(value for value in told if told.count(value) > 1)
            raise Violation(f"{key} holds {twice} more than once")
        for reader, values in self.reads:
            if values != told[: len(values)]:
                place = next(i for i, v in enumerate(values) if v != told[i])
                raise Violation(
                    f"{key} was read in two orders: {values[place]} and {told[place]} are both at"
                    f" {place}\n  {reader}"
                )
        return list(told)

    def in_time(self, key: Key) -> list[Value]:
        """The order of a register's values: that of its writes, the read ones among the unknown."""
        seen = {value for _, values in self.reads for value in values}
        happened = [
            (operation.begun, value)
            for value, operation in self.writers.items()
            if operation.outcome is Outcome.OK or value in seen
        ]
        order = [value for _, value in sorted(happened)]
        for one, other in itertools.pairwise(order):
            ended = self.writers[one].ended
            if ended is not None and ended > self.writers[other].begun:
                raise ValueError(f"writes to the register {key} overlap: {one} and {other}")
        return order

    def edges(self, key: Key, order: list[Value], *, is_register: bool = False) -> Iterator[Edge]:
        for value in order:
            writer = self.writers.get(value)
            if writer is None:
                raise Violation(f"{key} holds {value}, which nobody wrote")
            if writer.outcome is Outcome.FAILED:
                raise Violation(f"{key} holds {value}, which was refused\n  {writer}")
        for before, after in itertools.pairwise(order):
            yield Edge(self.writers[before].number, self.writers[after].number, "ww", key)
        known = set(order)
        unread = [w for v, w in self.writers.items() if v not in known and w.outcome is Outcome.OK]
        if order:
            last = self.writers[order[-1]].number
            yield from (Edge(last, writer.number, "ww", key) for writer in unread)
        places = {value: place for place, value in enumerate(order)}
        for reader, values in self.reads:
            if values and values[-1] not in places:
                raise Violation(f"{key} holds {values[-1]}, which nobody wrote\n  {reader}")
            length = places[values[-1]] + 1 if values else 0
            if not is_register:
                assert length == len(values), "a read is a beginning of the order"
            if length:
                yield Edge(self.writers[order[length - 1]].number, reader.number, "wr", key)
            if length < len(order):
                yield Edge(reader.number, self.writers[order[length]].number, "rw", key)
            else:
                yield from (Edge(reader.number, each.number, "rw", key) for each in unread)
