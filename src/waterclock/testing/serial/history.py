"""Histories: what clients did, when, and what they were told.

An operation is a transaction of one client: appends to lists, writes to registers, and reads of
either. Every value is appended or written once in a history, so that who reads it tells whom it has
seen. Moments are numbers that grow; an operation whose outcome nobody knows has no end.

In a file an operation is a line of JSON. The first line has the longest reading of each list; where
another one is the beginning of that, only its length is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

Value = int
Key = str


class Outcome(StrEnum):
    """What the client knows."""

    OK = "ok"
    FAILED = "failed"
    """It has not happened."""
    UNKNOWN = "unknown"
    """It has happened whole, or not at all."""


class Kind(StrEnum):
    """Which promise an operation is under."""

    UPSTREAM = "upstream"
    """A write in a system that a source reads."""
    WRITE = "write"
    """A transaction here that writes tables."""
    RECENT = "recent"
    """A recent read."""
    READ = "read"
    """Any other read: it need not see what was written upstream before it began."""


@dataclass(frozen=True, slots=True)
class Append:
    """The value was added at the end of a list."""

    key: Key
    value: Value


@dataclass(frozen=True, slots=True)
class Listed:
    """The list held these values, in this order."""

    key: Key
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """The register was set to the value. Writes to one register do not overlap in time."""

    key: Key
    value: Value


@dataclass(frozen=True, slots=True)
class Found:
    """The register had this value, or none yet."""

    key: Key
    value: Value | None


Step = Append | Listed | Write | Found


@dataclass(frozen=True, slots=True)
class Operation:
    """One transaction of a client."""

    number: int
    client: str
    kind: Kind
    steps: tuple[Step, ...]
    begun: int
    ended: int | None
    outcome: Outcome = Outcome.OK

    def on(self, keys: frozenset[Key]) -> Operation | None:
        """What the operation did to these keys; None if nothing."""
        steps = tuple(step for step in self.steps if step.key in keys)
        if not steps:
            return None
        return Operation(
            self.number, self.client, self.kind, steps, self.begun, self.ended, self.outcome
        )

    def __str__(self) -> str:
        told = ", ".join(_told(step) for step in self.steps)
        return f"#{self.number} {self.client} ({self.kind}) [{self.begun}, {self.ended}]: {told}"


History = Sequence[Operation]


def keys_of(history: Iterable[Operation]) -> frozenset[Key]:
    """All keys that anybody has touched."""
    return frozenset(step.key for operation in history for step in operation.steps)


def _told(step: Step) -> str:
    match step:
        case Append(key, value):
            return f"append {value} to {key}"
        case Listed(key, values):
            shown = list(values) if len(values) <= 6 else f"[.. {len(values)} .. {values[-1]}]"
            return f"{key} is {shown}"
        case Write(key, value):
            return f"{key} := {value}"
        case Found(key, found):
            return f"{key} = {found}"


_NAMES: dict[type[Any], str] = {
    Append: "append",
    Listed: "listed",
    Write: "write",
    Found: "found",
}
_KINDS = {name: kind for kind, name in _NAMES.items()}


def save(history: History, path: Path) -> None:
    """One line for each operation, after the one with the lists."""
    longest = _longest(history)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(longest, separators=(",", ":")) + "\n")
        for each in history:
            steps = [[_NAMES[type(s)], s.key, _written(s, longest)] for s in each.steps]
            line = [each.number, each.client, each.kind, each.begun, each.ended, each.outcome]
            file.write(json.dumps([*line, steps], separators=(",", ":")) + "\n")


def _longest(history: History) -> dict[Key, tuple[Value, ...]]:
    found: dict[Key, tuple[Value, ...]] = {}
    for each in history:
        for step in each.steps:
            if isinstance(step, Listed):
                found[step.key] = max(found.get(step.key, ()), step.values, key=len)
    return found


def _written(step: Step, longest: Mapping[Key, tuple[Value, ...]]) -> Any:
    if not isinstance(step, Listed):
        return step.value
    length = len(step.values)
    return length if longest[step.key][:length] == step.values else step.values


def _values(written: int | list[Value], longest: list[Value]) -> tuple[Value, ...]:
    return tuple(longest[:written] if isinstance(written, int) else written)


def load(path: Path) -> list[Operation]:
    """What was saved."""
    found = []
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    longest = json.loads(first)
    for line in lines:
        number, client, kind, begun, ended, outcome, steps = json.loads(line)
        made = tuple(
            _KINDS[name](key, _values(value, longest[key]) if name == "listed" else value)
            for name, key, value in steps
        )
        found.append(Operation(number, client, Kind(kind), made, begun, ended, Outcome(outcome)))
    return found
