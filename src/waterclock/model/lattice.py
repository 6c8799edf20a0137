"""Lattices: what a set of times must offer before anything can be said about it.

A lattice is a partially ordered set in which every two elements have a least element at or
after both (their join) and a greatest element at or before both (their meet). All lattices here
have a least element, none needs a greatest one.

Invariant of every implementation: join and meet are associative, commutative, idempotent and
absorb each other, and `less_equal(a, b)` holds exactly when `join(a, b) == b`. Elements are
hashable and equal exactly when they are the same element.

A lattice does not know which timeline it serves. Telling two sets of milliseconds apart is the
business of `timeline.Timeline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from waterclock.model.errors import NotATime

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

MAX_EPOCH_MILLIS = 2**63 - 1


class Lattice(Protocol[T]):
    """A set of times with its order. Only `check` looks at values it was not promised."""

    def least(self) -> T:
        """The element at or before every other."""
        ...

    def join(self, a: T, b: T) -> T:
        """The least element at or after both."""
        ...

    def meet(self, a: T, b: T) -> T:
        """The greatest element at or before both."""
        ...

    def less_equal(self, a: T, b: T) -> bool:
        """Whether `a` is at or before `b`. Both this and its mirror are false if incomparable."""
        ...

    def check(self, value: object) -> T:
        """The value itself if it is an element; otherwise raises `NotATime`."""
        ...


@dataclass(frozen=True, slots=True)
class EpochMillis:
    """Milliseconds since 1970 as plain integers that fit 63 bits. A total order."""

    def least(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return a if a >= b else b

    def meet(self, a: int, b: int) -> int:
        return a if a <= b else b

    def less_equal(self, a: int, b: int) -> bool:
        return a <= b

    def check(self, value: object) -> int:
        if type(value) is int and 0 <= value <= MAX_EPOCH_MILLIS:
            return value
        raise NotATime(
            f"not a number of milliseconds since the epoch: {value!r}",
            detail=f"Such a time is an integer from 0 to {MAX_EPOCH_MILLIS}.",
        )


@dataclass(frozen=True, slots=True)
class Product(Generic[A, B]):
    """Pairs, ordered in both coordinates at once: the typical partial order."""

    left: Lattice[A]
    right: Lattice[B]

    def least(self) -> tuple[A, B]:
        return (self.left.least(), self.right.least())

    def join(self, a: tuple[A, B], b: tuple[A, B]) -> tuple[A, B]:
        return (self.left.join(a[0], b[0]), self.right.join(a[1], b[1]))

    def meet(self, a: tuple[A, B], b: tuple[A, B]) -> tuple[A, B]:
        return (self.left.meet(a[0], b[0]), self.right.meet(a[1], b[1]))

    def less_equal(self, a: tuple[A, B], b: tuple[A, B]) -> bool:
        return self.left.less_equal(a[0], b[0]) and self.right.less_equal(a[1], b[1])

    def check(self, value: object) -> tuple[A, B]:
        if isinstance(value, tuple) and len(value) == 2:
            return (self.left.check(value[0]), self.right.check(value[1]))
        raise NotATime(f"not a pair of times: {value!r}")
