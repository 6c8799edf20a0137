"""What a path of SQL/JSON is made of.

A path begins at a document (`$`), at the value a filter looks at (`@`), at a variable or at a
constant, and steps from there to members and elements. Conditions stand in filters, or are the
whole path.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Root:
    """`$`."""


@dataclass(frozen=True, slots=True)
class Current:
    """`@`."""


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: Decimal | str | bool | None


@dataclass(frozen=True, slots=True)
class Member:
    """`.name`, or `.*` without one."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Bound:
    """A place from the first element on, or counted back from the last one."""

    offset: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class Elements:
    """`[1, 3 to last]`, or `[*]` without ranges."""

    ranges: tuple[tuple[Bound, Bound], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Condition


@dataclass(frozen=True, slots=True)
class Method:
    """`.size()` or `.type()`."""

    name: str


Step: TypeAlias = Member | Elements | Filter | Method


@dataclass(frozen=True, slots=True)
class Walk:
    """Steps from a value."""

    start: Root | Current | Variable | Constant
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    sign: str
    left: Walk
    right: Walk


@dataclass(frozen=True, slots=True)
class Joined:
    """AND or OR."""

    word: str
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Negated:
    inner: Condition


@dataclass(frozen=True, slots=True)
class Exists:
    walk: Walk


@dataclass(frozen=True, slots=True)
class StartsWith:
    walk: Walk
    prefix: str


@dataclass(frozen=True, slots=True)
class LikeRegex:
    walk: Walk
    pattern: str
    flags: str


@dataclass(frozen=True, slots=True)
class IsUnknown:
    inner: Condition


Condition: TypeAlias = Compared | Joined | Negated | Exists | StartsWith | LikeRegex | IsUnknown
Path: TypeAlias = Walk | Condition
