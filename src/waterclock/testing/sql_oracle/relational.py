"""Aggregates, window functions and functions that give rows, beside PostgreSQL.

They are compared as whole queries: all that take the same types in one query over a relation in
groups, and one by one if a query fails on either side. Rows are drawn so that groups differ: one of
a single row, one of nulls only, one with everything twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.model.pg_types import FLOAT4, FLOAT8, PgType
from waterclock.sql.functions.registry import Kind
from waterclock.sql.types import parse_type_name
from waterclock.testing.sql_oracle.arguments import Row, Value, pool
from waterclock.testing.sql_oracle.calls import Call
from waterclock.testing.sql_oracle.comparing import Tally, is_same
from waterclock.testing.sql_oracle.engine import Engine, Refusal
from waterclock.testing.sql_oracle.oracle import Oracle

_TAME: dict[str, tuple[Value, ...]] = {
    **dict.fromkeys(
        ("float4", "float8"), (None, "0", "1", "0.5", "-0.5", "1.5", "2.5", "100", "-7", "3")
    ),
    **dict.fromkeys(("int4", "int8", "int2"), (None, "0", "1", "-1", "2", "3", "5", "10", "-7")),
    **dict.fromkeys(("numeric", "numeric(10,2)"), (None, "0.00", "1.50", "-2.25", "2.50", "10.10")),
    "timestamp": (None, "2024-02-29 12:34:56.789", "2024-03-05 00:00:00", "2024-01-31 23:00:00"),
    "timestamptz": (None, "2024-02-29 12:34:56.789+00", "2024-03-05 00:00:00+00"),
}
"""Sums of these are exact in any order, and series between them are short."""
_ROWS = 48
_GROUPS = 6


@dataclass(frozen=True, slots=True)
class _Query:
    """A query of several calls: the columns that name a row, then one for each call."""

    text: str
    calls: tuple[Call, ...]


def compare_relational(
    engine: Engine, oracle: Oracle, calls: Iterable[Call], tally: Tally, seed: int = 0
) -> None:
    """Compare calls of aggregates, window functions and functions that give rows."""
    groups: dict[tuple[str, ...], list[Call]] = {}
    for call in calls:
        if call.entry.kind is not Kind.SCALAR:
            groups.setdefault(call.columns, []).append(call)
    for number, (columns, members) in enumerate(groups.items()):
        relation = f"q{number}"
        types = ["int", *(each or "int" for each in columns)]
        rows = _drawn(columns, seed + number)
        engine.create(relation, types, rows)
        oracle.create(relation, types, rows)
        _compare_group(engine, oracle, relation, members, tally)


def _drawn(columns: Sequence[str], seed: int) -> list[Row]:
    chance = random.Random(seed)
    pools = [
        (_TAME.get(each) or pool(parse_type_name(each), each)) if each else ("0",)
        for each in columns
    ]
    rows: list[Row] = [("0", *(chance.choice(p) for p in pools))]
    rows += [("1", *(None for _ in pools))] * 3
    while len(rows) < _ROWS:
        row = (str(chance.randrange(2, _GROUPS)), *(chance.choice(p) for p in pools))
        rows += [row] * (2 if row[0] == "2" else 1)
    return rows


def _compare_group(
    engine: Engine, oracle: Oracle, relation: str, calls: Sequence[Call], tally: Tally
) -> None:
    for kind in (Kind.AGGREGATE, Kind.WINDOW):
        members = tuple(_shifted(each) for each in calls if each.entry.kind is kind)
        good = [each for each in members if _is_bound(engine, relation, each, tally)]
        if good:
            _compare(engine, oracle, _query(relation, tuple(good)), relation, tally)
    for call in calls:
        if call.entry.kind is Kind.SET:
            query = _query(relation, (_shifted(call),))
            if _is_bound(engine, relation, query.calls[0], tally):
                _compare(engine, oracle, query, relation, tally)


def _shifted(call: Call) -> Call:
    """The relation has the group as its first column: `a0` of a call is `a1` here."""
    text = call.sql
    for place in reversed(range(len(call.columns))):
        text = text.replace(f"a{place}", f"a{place + 1}")
    if call.entry.name in ("array_agg", "string_agg", "jsonb_agg", "json_agg"):
        text = f"{text[:-1]} ORDER BY a1)"
    elif call.entry.name.endswith("_object_agg"):
        text = f"{text[:-1]} ORDER BY a1, a2)"
    return Call(call.label, text, call.entry, call.columns)


def _query(relation: str, calls: tuple[Call, ...]) -> _Query:
    columns = ", ".join(f"{each.sql} AS c{n}" for n, each in enumerate(calls))
    match calls[0].entry.kind:
        case Kind.AGGREGATE:
            text = f"SELECT a0 AS k, {columns} FROM {relation} GROUP BY a0"
        case Kind.WINDOW:
            over = "OVER (PARTITION BY a0 ORDER BY id)"
            columns = ", ".join(f"{each.sql} {over} AS c{n}" for n, each in enumerate(calls))
            text = f"SELECT id AS k, {columns} FROM {relation}"
        case _:
            text = f"SELECT r.id AS k, f.* FROM {relation} AS r, {calls[0].sql} AS f"
    return _Query(text, calls)


def _is_bound(engine: Engine, relation: str, call: Call, tally: Tally) -> bool:
    bound = engine.bind(_query(relation, (call,)).text)
    if not isinstance(bound, Refusal):
        return True
    if bound.sqlstate in ("0A000", "42883"):
        tally.refused[f"{call.sql} of {call.columns}"] = bound.message
    else:
        tally.differences.append(f"{call.sql} {call.columns}: {bound.sqlstate} {bound.message}")
    return False


def _compare(engine: Engine, oracle: Oracle, query: _Query, relation: str, tally: Tally) -> None:
    ours, theirs = engine.rows(query.text), oracle.texts(query.text)
    is_error = isinstance(ours, str) or isinstance(theirs, str)
    if is_error and len(query.calls) > 1:
        for call in query.calls:
            _compare(engine, oracle, _query(relation, (call,)), relation, tally)
        return
    tally.calls += len(query.calls)
    tally.labels.update(call.label for call in query.calls)
    if isinstance(ours, str) or isinstance(theirs, str):
        if ours == theirs:
            tally.errors += 1
        else:
            tally.differences.append(f"{query.text}: {ours!r:.300}, not {theirs!r:.300}")
        return
    types, rows = ours
    _compare_rows(query, types, rows, theirs, tally)


def _compare_rows(
    query: _Query,
    types: Sequence[PgType],
    ours: Sequence[Row],
    theirs: Sequence[Row],
    tally: Tally,
) -> None:
    if len(ours) != len(theirs):
        tally.differences.append(f"{query.text}: {len(ours)} rows, not {len(theirs)}")
        return
    for one, other in zip(sorted(ours, key=_key), sorted(theirs, key=_key), strict=True):
        for place, (mine, right) in enumerate(zip(one, other, strict=True)):
            call = query.calls[min(place, len(query.calls)) - 1]
            if _same(mine, right, types[place], call.entry.name):
                tally.values += 1
            else:
                tally.differences.append(f"{call.sql} {other[0]}: {mine!r}, not {right!r}")


def _key(row: Row) -> list[tuple[bool, str]]:
    number = row[0] or ""
    return [(False, number.zfill(9)), *((v is None, v or "") for v in row[1:])]


def _same(ours: Value, theirs: Value, declared: PgType, function: str) -> bool:
    if ours == theirs:
        return True
    if ours is None or theirs is None:
        return False
    if declared.oid in (FLOAT4.oid, FLOAT8.oid):
        one, other = float(ours), float(theirs)
        return abs(one - other) <= 1e-9 * max(1.0, abs(other))
    return is_same(f"={ours}", f"={theirs}", declared, function)
