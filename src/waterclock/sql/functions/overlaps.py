"""`(a, b) OVERLAPS (c, d)`: whether two spans of time have a moment in common.

A span is given by its two ends in any order, or by its start and its length. It holds its first
moment and not its last, unless they are the same. An end that is null is unknown, and the answer is
too if it depends on it.
"""

from __future__ import annotations

from dataclasses import replace

from waterclock.model.pg_types import BOOL, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, PgType
from waterclock.sql.functions.registry import Argument, Function, Use, scalar
from waterclock.sql.functions.times import shifted, time_shifted


def _end(start: Argument, end: Argument, use: Use) -> str:
    if end.type.oid != INTERVAL.oid:
        return end.sql
    rule = time_shifted("") if start.type.oid == TIME.oid else shifted("")
    return rule(replace(use, arguments=(start, end), result=start.type))


def _overlap(use: Use) -> str:
    one, one_end, other, other_end = use.arguments
    first, second = _end(one, one_end, use), _end(other, other_end, use)
    fields = (
        f"NAMED_STRUCT('a', {one.sql}, 'b', {first}, 'c', {other.sql}, 'd', {second})",
        "NAMED_STRUCT('a', LEAST(v.a, v.b), 'b', v.a IS NOT NULL AND v.b IS NOT NULL,"
        " 'e', GREATEST(v.a, v.b), 'c', LEAST(v.c, v.d),"
        " 'd', v.c IS NOT NULL AND v.d IS NOT NULL, 'f', GREATEST(v.c, v.d))",
    )
    later = "CASE WHEN NOT v.d THEN NULL WHEN v.a < v.f THEN TRUE WHEN v.b THEN FALSE END"
    sooner = "CASE WHEN NOT v.b THEN NULL WHEN v.c < v.e THEN TRUE WHEN v.d THEN FALSE END"
    chosen = (
        f"CASE WHEN v.a > v.c THEN {later} WHEN v.a < v.c THEN {sooner}"
        " WHEN v.a = v.c AND v.b AND v.d THEN TRUE END"
    )
    ordered = f"TRANSFORM(ARRAY({fields[0]}), v -> {fields[1]})"
    return f"ELEMENT_AT(TRANSFORM({ordered}, v -> {chosen}), 1)"


def _entries(kind: PgType) -> list[Function]:
    doc = "Whether two spans have a moment in common: (start, end) OVERLAPS (start, end)."
    ends = ((kind, kind), (kind, INTERVAL), (INTERVAL, kind), (INTERVAL, INTERVAL))
    return [
        scalar("overlaps", (kind, first, kind, second), BOOL, _overlap, doc)
        for first, second in ends
    ]


OVERLAPS: tuple[Function, ...] = tuple(
    entry for kind in (TIMESTAMP, TIMESTAMPTZ, TIME) for entry in _entries(kind)
)
