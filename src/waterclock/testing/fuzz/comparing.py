"""Whether what was maintained is right, at each time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.from_scratch import Answer, Wrong
from waterclock.testing.fuzz.histories import Row
from waterclock.testing.fuzz.maintained import Changes

_CLOSE = 1e-9


def mismatch(
    changes: Changes, answers: Mapping[int, Answer], *, is_loose: bool = False
) -> str | None:
    """What is wrong with the changes of a query, or None.

    `answers` has every time at which an input changes; at no other time may the output change,
    save at the very first, where what does not depend on the inputs appears. The query was there
    from its first window to its last, if at all.
    """
    if not changes.windows:
        return None
    begin, end = changes.windows[0][0], changes.windows[-1][1]
    for complaint in _misplaced(changes, {begin, *answers}):
        return complaint
    for time, answer in answers.items():
        if not begin <= time < end:
            continue
        errors = _errors_at(changes, time)
        if isinstance(answer, Wrong):
            if not errors:
                return f"at {time}: no error, but it should be {answer.reason}"
        elif errors:
            return f"at {time}: the error {'; '.join(sorted(errors))}, but it has a value"
        else:
            held, right = _rows_at(changes, time), Counter(_rows(answer))
            if held != right and not (is_loose and _are_close(held, right)):
                return f"at {time}: {_difference(held, right)}"
    return None


def _misplaced(changes: Changes, known: set[int]) -> Iterable[str]:
    for (lower, upper), table in zip(changes.windows, changes.rows, strict=True):
        for time in set(table[TIME].to_pylist()):
            if not lower <= time < upper:
                yield f"a change at {time}, outside of its step from {lower} to {upper}"
            elif time not in known:
                yield f"a change at {time}, when no input changes"


def _errors_at(changes: Changes, time: int) -> set[str]:
    held: Counter[tuple[str, str]] = Counter()
    for table in changes.errors:
        for error in table.to_pylist():
            if error[TIME] <= time:
                held[error["key"], error["message"]] += error[DIFF]
    return {message for (_, message), count in held.items() if count}


def _rows_at(changes: Changes, time: int) -> Counter[Row]:
    held: Counter[Row] = Counter()
    for table in changes.rows:
        times, diffs = table[TIME].to_pylist(), table[DIFF].to_pylist()
        rows = _rows(table.drop_columns([TIME, DIFF]))
        for row, when, diff in zip(rows, times, diffs, strict=True):
            if when <= time:
                held[row] += diff
    return Counter({row: count for row, count in held.items() if count})


def _rows(table: pa.Table) -> list[Row]:
    columns = [[_comparable(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_comparable(each) for each in value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _are_close(held: Counter[Row], right: Counter[Row]) -> bool:
    """Whether the rows agree but for the last digits of floating-point numbers."""
    ones, others = (sorted(each.elements(), key=_sort_key) for each in (held, right))
    if len(ones) != len(others) or min(held.values(), default=1) < 0:
        return False
    return all(
        _is_close(one, other)
        for left, row in zip(ones, others, strict=True)
        for one, other in zip(left, row, strict=True)
    )


def _sort_key(row: Row) -> tuple[tuple[str, ...], tuple[float, ...]]:
    texts = tuple(repr(value) for value in row if not isinstance(value, float))
    return texts, tuple(value for value in row if isinstance(value, float))


def _is_close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(one == other)


def _difference(held: Counter[Row], right: Counter[Row]) -> str:
    extra, missing = held.copy(), right.copy()
    extra.subtract(right)
    missing.subtract(held)
    lines = [f"{count} too many of {row}" for row, count in extra.items() if count > 0]
    lines += [f"{count} missing of {row}" for row, count in missing.items() if count > 0]
    more = f"; and {len(lines) - 6} more" if len(lines) > 6 else ""
    return "; ".join(lines[:6]) + more
