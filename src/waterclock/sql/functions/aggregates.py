"""Aggregates: functions of all rows of a group.

In a template `{d}` is where DISTINCT stands, and `{f}` behind each aggregate of Spark's is where
FILTER or OVER go. Those that depend on an order (`array_agg`, `string_agg`) are written by the
binder, which knows the ORDER BY; their entries say so with `ORDERED`.
"""

from __future__ import annotations

from dataclasses import replace

from waterclock.model.exact import Exact
from waterclock.model.pg_types import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    MZ_TIMESTAMP,
    NUMERIC,
    OID,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UINT8,
    PgType,
    array_of,
)
from waterclock.persist.numerics import MOST_SCALE
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect import divisions, scaled
from waterclock.sql.dialect.types import (
    ANY,
    ANYARRAY,
    ANYELEMENT,
    BPCHAR,
    JSON,
    MOST_DIGITS,
    bounded,
    digits,
    is_unconstrained,
    spark_type,
)
from waterclock.sql.functions.registry import (
    Argument,
    D,
    F,
    Function,
    Refused,
    SqlRule,
    Use,
    aggregate,
    same_type,
)
from waterclock.sql.functions.times import divided_interval

ORDERED = "{ordered}"
"""The template of an aggregate whose result depends on the order of the rows."""
WITHOUT_DISTINCT = frozenset(
    {"stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"}
)
"""Of exact numbers they are made of several sums, which would each leave out other rows."""
WITHIN = "{within}"
"""That of one whose values come in WITHIN GROUP; the binder writes it, as the ordered ones."""
_SUM_DIGITS = 10
_COUNT = "COUNT({d}{0}){f}"


def _sum_type(arguments: tuple[Argument, ...]) -> PgType:
    declared = arguments[0].type
    if is_unconstrained(declared):
        return NUMERIC
    precision, scale = digits(declared)
    return bounded(precision + _SUM_DIGITS, scale)


def _sum(use: Use) -> str:
    value = use.arguments[0].sql
    if is_unconstrained(use.arguments[0].type):
        return _scaled_sum(use)
    return f"CAST(SUM({D}{value}){F} AS {spark_type(use.result)})"


def _scaled_sum(use: Use) -> str:
    """The sum of numbers with scales of their own has the longest of them."""
    value = use.arguments[0].sql
    longest = f"MAX({value}.s){F}"
    if not use.is_distinct:
        return scaled.held(scaled.total_of(value, f"SUM({{0}}){F}", longest))
    added = scaled.combined(
        *(Exact.SUM, "a", NUMERIC),
        *(f"NAMED_STRUCT('v', e, 's', {MOST_SCALE}S)", NUMERIC),
    )
    zero = scaled.made("0BD", "0BD", "0S")
    total = f"AGGREGATE(COLLECT_SET({value}.v){F}, {zero}, (a, e) -> {added})"
    number = scaled.number_of(total, NUMERIC)
    return scaled.held(f"{Exact.ROUNDED}({number}, CAST({longest} AS INT))")


_BIG = bounded(19, 0)
_BIG_SUM = bounded(19 + _SUM_DIGITS, 0)


def _big_sum(use: Use) -> str:
    return f"SUM({D}CAST({use.arguments[0].sql} AS {spark_type(_BIG)})){F}"


def _mean_type(arguments: tuple[Argument, ...]) -> PgType:
    del arguments
    return NUMERIC


def _mean(use: Use) -> str:
    """The sum divided by the count, as PostgreSQL does it."""
    [value] = use.arguments
    if is_unconstrained(value.type):
        total, counted = _scaled_sum(use), f"{value.sql}.v"
    else:
        total = f"SUM({D}CAST({value.sql} AS {spark_type(_held(value.type))})){F}"
        counted = value.sql
    count = f"CAST(NULLIF(COUNT({D}{counted}){F}, 0L) AS {spark_type(_BIG)})"
    return divisions.quotient_sql(total, _sum_type(use.arguments), count, _BIG)


def _held(declared: PgType) -> PgType:
    return bounded(*digits(declared))


def _interval_sum(use: Use) -> str:
    if use.is_distinct:
        raise Refused("a sum or mean of distinct intervals")
    value = use.arguments[0].sql
    fields = [f"SUM({value}.{name}){F}" for name in dt.FIELDS]
    return dt.unless_null(fields[0], dt.computed_interval(*fields))


def _interval_mean(use: Use) -> str:
    count = f"CAST(COUNT({use.arguments[0].sql}){F} AS DOUBLE)"
    total = Argument(_interval_sum(use), INTERVAL)
    return divided_interval(replace(use, arguments=(total, Argument(count, FLOAT8))))


def _first_by_length(name: str) -> SqlRule:
    """The shortest or the longest; of those that are equal the same one each time."""

    def written(use: Use) -> str:
        value = use.arguments[0].sql
        both = f"NAMED_STRUCT('k', {dt.total_micros(value)}, 'v', {value})"
        return f"({name}({dt.unless_null(value, both)}){F}).v"

    return written


def _exact_variance(*, is_sample: bool, is_root: bool) -> SqlRule:
    """From the count, the sum and the sum of squares, all of them exact."""

    def written(use: Use) -> str:
        [value] = use.arguments
        counted = f"{value.sql}.v" if is_unconstrained(value.type) else value.sql
        count = f"CAST(COUNT({counted}){F} AS {spark_type(_BIG)})"
        less = f"({count} - 1BD)" if is_sample else count
        squares, total = _sums(value)
        found = (
            f"{Exact.VARIANCE}({Exact.OF_DECIMAL}({count}), {squares}, {total},"
            f" {Exact.OF_DECIMAL}({less}))"
        )
        return scaled.held(f"{Exact.ROOT_OF_SAME_SCALE}({found})" if is_root else found)

    return written


def _sums(value: Argument) -> tuple[str, str]:
    """The sum of the squares and the sum, as numbers of Java's."""
    if is_unconstrained(value.type) or 2 * digits(value.type)[0] > MOST_DIGITS:
        held = scaled.into(value.sql, value.type)
        square = scaled.combined(Exact.PRODUCT, held, NUMERIC, held, NUMERIC)
        total = f"SUM({{0}}){F}"
        return (
            scaled.total_of(square, total, f"MAX({square}.s){F}"),
            scaled.total_of(held, total, f"MAX({held}.s){F}"),
        )
    number = f"CAST({value.sql} AS {spark_type(_held(value.type))})"
    return (
        f"{Exact.OF_DECIMAL}(SUM({number} * {number}){F})",
        f"{Exact.OF_DECIMAL}(SUM({number}){F})",
    )


def _extremes() -> list[Function]:
    found = []
    plain = (INT2, INT4, INT8, OID, FLOAT4, FLOAT8, TEXT, DATE, TIME, TIMESTAMP, TIMESTAMPTZ)
    for name, doc in (("min", "The least."), ("max", "The greatest.")):
        template = f"{name.upper()}({{0}}){{f}}"
        kinds = (*plain, UINT8, MZ_TIMESTAMP, BPCHAR)
        found += [aggregate(name, (each,), each, template, doc) for each in kinds]
        found.append(aggregate(name, (NUMERIC,), same_type, template, doc))
        by_length = _first_by_length(name.upper())
        found.append(aggregate(name, (INTERVAL,), INTERVAL, by_length, doc))
    return found


def _variances() -> list[Function]:
    names = {
        "stddev": "STDDEV_SAMP",
        "stddev_samp": "STDDEV_SAMP",
        "stddev_pop": "STDDEV_POP",
        "variance": "VAR_SAMP",
        "var_samp": "VAR_SAMP",
        "var_pop": "VAR_POP",
    }
    found = []
    for name, spark in names.items():
        doc = "The deviation." if name.startswith("std") else "The variance."
        found.append(aggregate(name, (FLOAT8,), FLOAT8, f"{spark}({{d}}{{0}}){{f}}", doc))
        rule = _exact_variance(is_sample=spark.endswith("SAMP"), is_root=name.startswith("std"))
        found += [
            aggregate(name, (exact,), NUMERIC, rule, doc) for exact in (NUMERIC, INT2, INT4, INT8)
        ]
    return found


def _pairs() -> list[Function]:
    names = {
        "corr": "The correlation.",
        "covar_pop": "The covariance of the population.",
        "covar_samp": "The covariance of a sample.",
        "regr_slope": "The slope of the line that fits best.",
        "regr_intercept": "Where that line begins.",
        "regr_r2": "How well that line fits.",
        "regr_avgx": "The mean of the second argument.",
        "regr_avgy": "The mean of the first argument.",
        "regr_sxx": "The squares of the second argument's deviations.",
        "regr_syy": "The squares of the first argument's deviations.",
        "regr_sxy": "The products of both arguments' deviations.",
    }
    return [
        *(
            aggregate(name, (FLOAT8, FLOAT8), FLOAT8, f"{name.upper()}({{0}}, {{1}}){{f}}", doc)
            for name, doc in names.items()
        ),
        aggregate(
            *("regr_count", (FLOAT8, FLOAT8), INT8, "REGR_COUNT({0}, {1}){f}"),
            "How many rows have both.",
            never_null=True,
        ),
    ]


def _bits() -> list[Function]:
    docs = {"bit_and": "Bits that all have.", "bit_or": "Bits that some have.", "bit_xor": "XOR."}
    return [
        aggregate(name, (each,), each, f"{name.upper()}({{d}}{{0}}){{f}}", doc)
        for name, doc in docs.items()
        for each in (INT2, INT4, INT8)
    ]


FUNCTIONS: tuple[Function, ...] = (
    aggregate("count", (), INT8, "COUNT(1){f}", "How many rows.", never_null=True),
    aggregate("count", (ANY,), INT8, _COUNT, "How many that are not null.", never_null=True),
    aggregate("sum", (INT2,), INT8, "SUM({d}{0}){f}", "The sum."),
    aggregate("sum", (INT4,), INT8, "SUM({d}{0}){f}", "The sum."),
    aggregate("sum", (INT8,), _BIG_SUM, _big_sum, "The sum."),
    aggregate("sum", (NUMERIC,), _sum_type, _sum, "The sum."),
    aggregate("sum", (UINT8,), _sum_type, _sum, "The sum."),
    aggregate("sum", (FLOAT4,), FLOAT4, "CAST(SUM({d}{0}){f} AS FLOAT)", "The sum."),
    aggregate("sum", (FLOAT8,), FLOAT8, "SUM({d}{0}){f}", "The sum."),
    aggregate("sum", (INTERVAL,), INTERVAL, _interval_sum, "All together."),
    *(
        aggregate("avg", (each,), _mean_type, _mean, "The mean.")
        for each in (INT2, INT4, INT8, NUMERIC)
    ),
    aggregate("avg", (FLOAT4,), FLOAT8, "AVG({d}CAST({0} AS DOUBLE)){f}", "The mean."),
    aggregate("avg", (FLOAT8,), FLOAT8, "AVG({d}{0}){f}", "The mean."),
    aggregate("avg", (INTERVAL,), INTERVAL, _interval_mean, "The mean."),
    *_extremes(),
    *_variances(),
    *_pairs(),
    *_bits(),
    *(
        aggregate(
            name, (BOOL,), BOOL, f"BOOL_{'OR' if name == 'bool_or' else 'AND'}({{0}}){{f}}", doc
        )
        for name, doc in {
            "bool_and": "Whether all are true.",
            "every": "Whether all are true.",
            "bool_or": "Whether one is true.",
        }.items()
    ),
    aggregate("array_agg", (ANYELEMENT,), ANYARRAY, ORDERED, "All values, as an array."),
    aggregate("string_agg", (TEXT, TEXT), TEXT, ORDERED, "All texts, with a separator between."),
    aggregate("jsonb_agg", (ANYELEMENT,), JSONB, ORDERED, "All values, as a JSON array."),
    aggregate("jsonb_object_agg", (ANY, ANY), JSONB, ORDERED, "An object of names and values."),
    aggregate("json_agg", (ANYELEMENT,), JSON, ORDERED, "All values, as a JSON array."),
    aggregate("json_object_agg", (ANY, ANY), JSON, ORDERED, "An object of names and values."),
    aggregate(
        *("percentile_cont", (FLOAT8,), FLOAT8, WITHIN),
        "The value at a fraction of the order, or between two: WITHIN GROUP (ORDER BY number)."
        " Of intervals too.",
    ),
    aggregate(
        *("percentile_disc", (FLOAT8,), ANYELEMENT, WITHIN),
        "The first value at or behind a fraction of the order: WITHIN GROUP (ORDER BY value).",
    ),
    *(
        aggregate(name, (array_of(FLOAT8),), ANY, WITHIN, "The same for each of some fractions.")
        for name in ("percentile_cont", "percentile_disc")
    ),
    aggregate(
        *("mode", (), ANYELEMENT, WITHIN), "The most frequent value: WITHIN GROUP (ORDER BY value)."
    ),
)
