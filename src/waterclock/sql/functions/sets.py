"""Functions that give rows. In Spark they are arrays, taken apart."""

from __future__ import annotations

from waterclock.model.exact import Exact
from waterclock.model.pg_types import (
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    PgType,
)
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect import scaled
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.types import (
    ANYARRAY,
    ANYELEMENT,
    TEXT_ARRAY,
    common_numeric,
    is_unconstrained,
    padded_numeric,
    spark_type,
)
from waterclock.sql.functions import arrays, patterns
from waterclock.sql.functions.json_paths import PATH_ROWS
from waterclock.sql.functions.json_rows import JSON_ROWS
from waterclock.sql.functions.registry import Argument, Function, Refused, SqlRule, Use, rows

_ZERO_STEP = raised("22023", "step size cannot equal zero")
_MOST = 10_000_000
_MOST_BY_MONTHS = 20_000
"""Steps of months are added one by one, each to a copy of the rows before."""


def _too_many(most: int) -> str:
    """All rows are made at once, so that there must be room for them."""
    return raised("0A000", f"generate_series() of more than {most} rows is not supported")


_TOO_MANY = _too_many(_MOST)


def _series(use: Use) -> str:
    start, stop, *rest = (each.sql for each in use.arguments)
    if not rest:
        many = f"CAST({stop} AS DECIMAL(20,0)) - {start} >= {_MOST}"
        return (
            f"(CASE WHEN {many} THEN {_TOO_MANY}"
            f" WHEN {start} <= {stop} THEN SEQUENCE({start}, {stop}) ELSE ARRAY() END)"
        )
    [step] = rest
    many = f"(CAST({stop} AS DECIMAL(20,0)) - {start}) / {step} >= {_MOST}"
    return (
        f"(CASE WHEN {step} = 0 THEN {_ZERO_STEP} WHEN {many} THEN {_TOO_MANY}"
        f" WHEN ({step} > 0 AND {start} <= {stop}) OR ({step} < 0 AND {start} >= {stop})"
        f" THEN SEQUENCE({start}, {stop}, {step}) ELSE ARRAY() END)"
    )


def _numeric_series_type(arguments: tuple[Argument, ...]) -> PgType:
    types = [each.type for each in arguments]
    if any(map(is_unconstrained, types)) or is_unconstrained(padded_numeric(types)):
        return NUMERIC
    return common_numeric(types)


def _numeric_series(use: Use) -> str:
    """Spark has sequences of integers only: count the steps, and multiply."""
    if is_unconstrained(use.result):
        return _scaled_series(use)
    kind = spark_type(use.result)
    start, stop = use.arguments[0].sql, use.arguments[1].sql
    step = use.arguments[2].sql if len(use.arguments) > 2 else "1BD"
    count = f"CAST(FLOOR(({stop} - {start}) / {step}) AS BIGINT)"
    values = f"TRANSFORM(SEQUENCE(0L, {count}), n -> CAST({start} + n * {step} AS {kind}))"
    going = f"({step} > 0 AND {start} <= {stop}) OR ({step} < 0 AND {start} >= {stop})"
    return (
        f"(CASE WHEN {step} = 0 THEN {_ZERO_STEP} WHEN {count} >= {_MOST} THEN {_TOO_MANY}"
        f" WHEN {going} THEN {values} ELSE CAST(ARRAY() AS ARRAY<{kind}>) END)"
    )


def _scaled_series(use: Use) -> str:
    """The first has the digits of the start, the others those of the step too."""
    start, stop, *rest = (scaled.number_of(each.sql, each.type) for each in use.arguments)
    [step] = rest or [scaled.number_of("1", INT4)]
    span = f"{Exact.DIFFERENCE}({stop}, {start})"
    count = f"{scaled.held(f'{Exact.WHOLE_QUOTIENT}({span}, {step})')}.v.w"
    moved = f"{Exact.PRODUCT}({step}, {scaled.number_of('n', INT8)})"
    later = scaled.held(f"{Exact.SUM}({start}, {moved})")
    each = f"CASE WHEN n = 0 THEN {scaled.held(start)} ELSE {later} END"
    values = f"TRANSFORM(SEQUENCE(0L, CAST({count} AS BIGINT)), n -> {each})"
    return (
        f"(CASE WHEN {Exact.SIGN}({step}) = 0 THEN {_ZERO_STEP}"
        f" WHEN {count} >= {_MOST} THEN {_TOO_MANY}"
        f" WHEN {Exact.SIGN}({step}) * {Exact.SIGN}({span}) >= 0 THEN {values}"
        f" ELSE CAST(ARRAY() AS ARRAY<{scaled.KIND}>) END)"
    )


def _time_series(use: Use) -> str:
    """Each is the one before with a step added, so once the end of a month is cut it stays so."""
    start, stop, step = use.arguments
    if step.value is None:
        raise Refused("generate_series() by an interval that is not constant")
    zoned = start.type.oid == TIMESTAMPTZ.oid
    length = f"CAST({dt.total_micros(step.sql)} AS BIGINT)"
    # No step is shorter than 28 days for a month, so this many are enough.
    spans = dt.micros_of(stop.sql, zoned=zoned) + " - " + dt.micros_of(start.sql, zoned=zoned)
    count = f"(({spans}) DIV ({length}) + ({spans}) DIV ({length}) DIV 10 + 2)"
    fields = step.value
    many = dt.Span("", f"{fields['days']} * n", f"{fields['micros']}L * n")
    most = _MOST_BY_MONTHS if fields["months"] else _MOST
    # The optimizer computes what is constant also where it is not asked for.
    numbers = f"SEQUENCE(0, CAST(LEAST({count}, {most}) AS INT))"
    if fields["months"]:
        following = _later("ELEMENT_AT(l, -1)", dt.Span.of("", fields), use, zoned=zoned)
        values = f"AGGREGATE({numbers}, ARRAY({start.sql}), (l, n) -> ARRAY_APPEND(l, {following}))"
    else:
        values = f"TRANSFORM({numbers}, n -> {_later(start.sql, many, use, zoned=zoned)})"
    ahead = f"CASE WHEN {length} > 0 THEN {{0}} <= {stop.sql} ELSE {{0}} >= {stop.sql} END"
    kept = f"FILTER({values}, m -> {ahead.format('m')})"
    going = ahead.format(start.sql)
    empty = f"CAST(ARRAY() AS ARRAY<{spark_type(start.type)}>)"
    return (
        f"(CASE WHEN {length} = 0 THEN {_ZERO_STEP} WHEN {count} >= {most} THEN {_too_many(most)}"
        f" WHEN {going} THEN {kept} ELSE {empty} END)"
    )


def _later(moment: str, span: dt.Span, use: Use, *, zoned: bool) -> str:
    if zoned:
        return dt.moment_plus_interval(moment, span, use.zone)
    return dt.plus_interval(moment, span)


def _of_integers(kind: PgType) -> list[Function]:
    doc = "The numbers from one to another."
    return [
        rows("generate_series", (kind, kind), kind, _series, doc),
        rows("generate_series", (kind, kind, kind), kind, _series, doc),
    ]


def _of_times(kind: PgType) -> Function:
    doc = "The times from one to another, by an interval."
    return rows("generate_series", (kind, kind, INTERVAL), kind, _time_series, doc)


_split_regex: SqlRule = patterns.split
_all_matches: SqlRule = patterns.matches
_split_text: SqlRule = arrays.split
FUNCTIONS: tuple[Function, ...] = (
    *_of_integers(INT4),
    *_of_integers(INT8),
    *(
        rows(
            "generate_series",
            (NUMERIC,) * count,
            _numeric_series_type,
            _numeric_series,
            "The numbers from one to another.",
        )
        for count in (2, 3)
    ),
    _of_times(TIMESTAMP),
    _of_times(TIMESTAMPTZ),
    rows("unnest", (ANYARRAY,), ANYELEMENT, "{0}", "The elements of an array."),
    rows("regexp_split_to_table", (TEXT, TEXT), TEXT, _split_regex, "The pieces between matches."),
    rows("string_to_table", (TEXT, TEXT), TEXT, _split_text, "The pieces between separators."),
    rows("string_to_table", (TEXT,) * 3, TEXT, _split_text, "The pieces, some of them as nulls."),
    *(
        rows("regexp_matches", (TEXT,) * count, TEXT_ARRAY, _all_matches, "The groups of matches.")
        for count in (2, 3)
    ),
    *JSON_ROWS,
    *PATH_ROWS,
)
