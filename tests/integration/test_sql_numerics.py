"""Numbers with scales of their own beside a real PostgreSQL: the same to the last zero."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from waterclock.testing.sql_oracle.engine import Engine
from waterclock.testing.sql_oracle.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.service]

PAIRS = 600
CALLS = [
    *(
        "(a3 / 1000)::numeric(9,3) ^ 2",
        "(a2 / 100)::numeric(8,1) ^ 3",
        "power(a3, 2)",
        "a3 ^ 0",
        "a3 ^ 1",
        "a0 ^ 2",
        "power(a0, 3)",
        "a0 ^ 0",
    ),
    *("sqrt(abs(a0))", "sqrt(abs(a2))", "sqrt(abs(a3))", "sqrt(abs(a0) / 7)"),
    *("a0 / a1", "a1 / a0", "a0 + a1", "a0 - a1", "a0 * a1", "a0 % a1", "div(a0, a1)", "- a0"),
    *("abs(a0)", "a0 = a1", "a0 < a1", "a0 <= a1", "a0 / 3", "a0 * 2", "a0 + 1.50", "1 / a0"),
    *("round(a0, 2)", "trunc(a0, 3)", "round(a0)"),
    *("ceil(a0)", "floor(a0)", "trunc(a0)", "sign(a0)"),
    *("a0::text", "a0::numeric(38,4)", "a0::numeric(30,2)"),
    *("a0::float8", "a0 || ''", "to_jsonb(a0)"),
    *("greatest(a0, a1)", "least(a0, a1, 0)", "coalesce(a0, 0)", "nullif(a0, a1)"),
    *("CASE WHEN a0 > a1 THEN a0 ELSE 0 END", "ARRAY[a0, a1, 1.5]", "a0::text::numeric"),
    *("round(a0 / a1, 2)", "a0 / a1 * 100"),
    *("(a0 + a1) / 2", "a0 IN (a1, 1, 2.50)", "a0::float8::numeric"),
    *("to_char(a0, 'FM999999999990.00')", "a0 BETWEEN 0.0 AND a1", "a0 IS DISTINCT FROM a1"),
    *("round(a0, -2)", "trunc(a0, -1)", "mod(a0, 7)", "a2 / a3"),
    *("a3 / a2", "a2 / 7", "1 / a3", "a2 * a3"),
    *("ln(abs(a0))", "ln(abs(a3))", "log(abs(a1))", "log10(abs(a2))", "ln(1 + abs(a1) / 1e9)"),
    *("log(abs(a0) + 2, abs(a1))", "log(abs(a3), abs(a0))", "log(a2, 7)", "ln(a0)", "log(a0, a1)"),
    *("exp(a3 / 10000)", "exp(- abs(a0) / 1e10)", "exp(a1 % 30)", "exp(a3 % 40)"),
    *("abs(a0) ^ 0.5", "abs(a3) ^ (a3 / 100000)", "power(abs(a1) / 100, 2.5)", "a3 ^ (a2 % 4)"),
    *("a3 ^ -2", "a0 ^ -1", "power(abs(a0), 0.3333)", "abs(a0) ^ (a1 % 3)", "a0 ^ 1.5"),
    *("trim_scale(a0)", "min_scale(a0)", "scale(a1)", "trim_scale(a3)", "min_scale(a3)"),
    *("gcd(a0, a1)", "gcd(a2, a3)", "lcm(a3, a2)", "gcd(a0, 0.5)", "lcm(trunc(a0, 2), 0.75)"),
    *("width_bucket(a0, -100, 1000, 12)", "width_bucket(a3, a0, a1, 5)"),
    *("width_bucket(a0, 9, 0.5, a2 % 7)", "width_bucket(a3, 50000, 100.5, 9)"),
    *("round(a0, a2 % 9)", "trunc(a0, a2 % 7 - 2)", "round(a3, a2 % 5 - 2)", "trunc(a3, a2 % 4)"),
    *("round(a3, -2)", "trunc(a3, -3)", "round(a0, 30)", "round(a3, 36)", "round(a0, -40)"),
    *("div(a2, a3)", "div(a3, a1)", "mod(a3, a1)", "mod(a2, a0)", "a2 % a3", "div(a0, 0.7)"),
    *("to_char(a3, '999,999.9')", "to_char(a0, 'S0000.000')", "to_char(a0, 'FM9999999990.099MI')"),
    *("a0 / a3", "a2 * a0", "a3 + a0", "a2 / a3 / 3", "CASE WHEN a3 > 0 THEN a2 ELSE a3 END"),
]
ROWS = (
    *("1.0", "1.00", "1", "2.50", "2.5", None, "0.0", "-0.000", "10", "1e1", "-2.5", "100000.001"),
    *("0.00001", "0.33333", "1.00", "2.500"),
)
QUERIES = (
    "SELECT id, sum(i) OVER (ORDER BY n RANGE BETWEEN 1.5 PRECEDING AND 0.25 FOLLOWING) FROM t"
    " ORDER BY id",
    "SELECT id, count(*) OVER (PARTITION BY g ORDER BY n DESC RANGE BETWEEN 1 PRECEDING AND CURRENT"
    " ROW), max(n) OVER (ORDER BY n RANGE 0.00001 PRECEDING) + 0.0000000 FROM t ORDER BY id",
    "SELECT id, sum(m) OVER (ORDER BY n + 0.1 NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND"
    " 2.50 FOLLOWING) FROM t ORDER BY id",
    "SELECT id, sum(i) OVER (ORDER BY m RANGE BETWEEN 2.5 PRECEDING AND 1 FOLLOWING) FROM t"
    " ORDER BY id",
    "SELECT id, sum(i) OVER (ORDER BY m RANGE BETWEEN 1.245 PRECEDING AND 1000000 FOLLOWING),"
    " sum(i) OVER (ORDER BY m RANGE BETWEEN 1.255 PRECEDING AND 1.2500 FOLLOWING) FROM t"
    " ORDER BY id",
    "SELECT n + 0.0000000 FROM t INTERSECT ALL SELECT n + 0.0000000 FROM t WHERE i % 2 = 0"
    " ORDER BY 1",
    "SELECT n + 0.0000000 FROM t EXCEPT ALL SELECT n FROM t WHERE i % 3 = 0 AND n <> 1 ORDER BY 1",
    "SELECT g, n + 0.0000000 FROM t EXCEPT ALL SELECT 'a', m FROM t ORDER BY 1, 2",
    "SELECT count(*) FROM (SELECT n FROM t INTERSECT ALL SELECT i FROM t) AS x",
    "SELECT count(*), sum(n) + 0.0000000 FROM (SELECT n FROM t EXCEPT ALL SELECT i FROM t) AS x",
    "SELECT sum(n), avg(n), max(n) FROM t",
    "SELECT g, sum(n), avg(n), count(n), count(DISTINCT n) FROM t GROUP BY g ORDER BY g",
    "SELECT g, sum(i), avg(i), avg(m), sum(m), sum(m) / count(*), avg(i) * avg(m) FROM t"
    " GROUP BY g ORDER BY g",
    "SELECT sum(DISTINCT n), avg(DISTINCT n), sum(n) FILTER (WHERE i > 5) FROM t WHERE n"
    " <> 1 AND n <> 2.5",
    "SELECT avg(n), avg(i), sum(n) FROM t WHERE false",
    "SELECT g, stddev(m), variance(m), stddev_pop(i), var_pop(i), var_samp(m) FROM t GROUP BY g"
    " ORDER BY g",
    "SELECT g, stddev(n), variance(n), stddev_pop(n), var_pop(n), var_samp(n) FROM t GROUP BY g"
    " ORDER BY g",
    "SELECT variance(n), stddev(n) FROM t WHERE n = 1",
    "SELECT stddev(m) FROM t WHERE id = 3",
    "SELECT var_pop(m), stddev_pop(i) FROM t WHERE id = 3",
    "SELECT n::float8, count(*) FROM t GROUP BY n ORDER BY n NULLS FIRST",
    "SELECT count(*), sum(c) FROM (SELECT n, count(*) AS c FROM t GROUP BY n) AS x",
    "SELECT count(*) FROM (SELECT DISTINCT n FROM t) AS x",
    "SELECT n + 0.000 FROM (SELECT DISTINCT n FROM t) AS x ORDER BY 1",
    "SELECT a.id, b.id FROM t AS a JOIN t AS b ON a.n = b.n ORDER BY 1, 2",
    "SELECT a.id, b.id FROM t AS a JOIN t AS b ON a.n = b.i ORDER BY 1, 2",
    "SELECT a.id, b.id FROM t AS a LEFT JOIN t AS b ON a.n = b.m ORDER BY 1, 2",
    "SELECT id FROM t WHERE n IN (SELECT m FROM t) ORDER BY id",
    "SELECT id FROM t WHERE n NOT IN (SELECT m FROM t WHERE m > 1) ORDER BY id",
    "SELECT id, n IN (SELECT n FROM t WHERE id > 3) FROM t ORDER BY id",
    "SELECT id, n, lag(n) OVER (ORDER BY id), sum(n) OVER (ORDER BY id), avg(n) OVER"
    " (ORDER BY id) FROM t ORDER BY id",
    "SELECT id, rank() OVER (ORDER BY n), count(*) OVER (PARTITION BY n) FROM t ORDER BY id",
    "SELECT 1.5 UNION ALL SELECT 2.25 ORDER BY 1",
    "SELECT 1.5 UNION SELECT 2.25 UNION SELECT 3 ORDER BY 1",
    "SELECT n + 0.0000000 FROM t UNION SELECT m + 0.0000000 FROM t ORDER BY 1",
    "SELECT n + 0.0000000 FROM t INTERSECT SELECT m + 0.0000000 FROM t ORDER BY 1",
    "SELECT n + 0.0000000 FROM t EXCEPT SELECT m FROM t ORDER BY 1",
    "SELECT * FROM (VALUES (1.5), (2), (3.250)) AS v(x) ORDER BY x",
    "SELECT n FROM t ORDER BY n DESC, id LIMIT 5",
    "SELECT n FROM t ORDER BY n DESC NULLS LAST, id",
    "SELECT array_agg(n ORDER BY id), string_agg(n::text, ',' ORDER BY id), jsonb_agg(n"
    " ORDER BY id) FROM t",
    "SELECT g, count(*), GROUPING(n), n * 1.0000000 FROM t WHERE n IS NOT NULL GROUP BY"
    " GROUPING SETS ((g, n), (g), ()) ORDER BY 1, 3, 4, 2",
    "SELECT generate_series(1, 2.5, 0.5)",
    "SELECT generate_series(1.50, 4)",
    "SELECT id, generate_series(n, n + 1.250, 0.5) FROM t ORDER BY id, 2",
    "SELECT id, generate_series(3, n, -1.25) FROM t ORDER BY id, 2",
    "SELECT generate_series(1::numeric, NULL, 2)",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY m) FROM t",
    "SELECT 100.0 * sum(CASE WHEN g = 'a' THEN m ELSE 0 END) / sum(m) FROM t",
    "SELECT sum(CASE WHEN g = 'a' THEN m ELSE 0 END), sum(CASE WHEN g = 'zz' THEN m ELSE"
    " 0 END) FROM t",
    "SELECT coalesce(sum(m), 0), coalesce(sum(m) FILTER (WHERE false), 0) FROM t",
    "SELECT ARRAY[1.0, 2] = ARRAY[1.00, 2.0], ARRAY[1.0, n] @> ARRAY[1.000] FROM t ORDER BY id",
    "SELECT array_position(ARRAY[n, 1.0], 1.000), array_remove(ARRAY[n, 2.0, 1.00], 1)"
    " FROM t ORDER BY id",
    "SELECT 2.50 = ANY (array_agg(n)), 7 = ANY (array_agg(n)) FROM t",
    "SELECT DISTINCT ON (n) n + 0.0000000 FROM t ORDER BY n",
    "SELECT (SELECT max(n) FROM t), (SELECT min(n) + 0.000 FROM t WHERE n > 1)",
    "SELECT n FROM t WHERE n > 0.5 AND n <= 2.5 ORDER BY id",
    "SELECT (n, m) = (1, 1.50), (n, id) < (2.5, 100) FROM t ORDER BY id",
    "SELECT mode() WITHIN GROUP (ORDER BY n) * 1.0000 FROM t",
)


def _drawn(chance: random.Random) -> Decimal:
    digits = chance.randrange(1, 12)
    number = Decimal(chance.randrange(0, 10**digits)).scaleb(-chance.randrange(0, 10))
    if chance.random() < 0.3:  # the first digits of both decide, so let them often be the same
        number = Decimal(chance.choice((0, 1, 9, 10, 100, 9999, 10000, 12345))).scaleb(
            -chance.randrange(0, 7)
        )
    return -number if chance.random() < 0.2 else number


def test_arithmetic_on_random_numbers_of_random_scales(engine: Engine, oracle: Oracle) -> None:
    chance = random.Random(5)
    rows = [
        (
            f"{_drawn(chance):f}" if chance.random() < 0.95 else None,
            f"{_drawn(chance):f}",
            f"{chance.randrange(-10_000, 10_000_000)}",
            f"{Decimal(chance.randrange(-500, 10_000_000)).scaleb(-2):f}",
        )
        for _ in range(PAIRS)
    ]
    types = ("numeric", "numeric", "int4", "numeric(12,2)")
    engine.create("numbers", types, rows)
    oracle.create("numbers", types, rows)
    wrong, beyond = [], 0
    for call, answer in zip(CALLS, engine.answers("numbers", CALLS), strict=True):
        theirs = oracle.outcomes("numbers", call)
        outcomes = getattr(answer, "outcomes", None)
        assert outcomes is not None, (call, answer)
        for number, row in enumerate(rows):
            ours = outcomes[number]
            if ours == theirs[number] or (ours or "").startswith("!") is True:
                is_value = (theirs[number] or "").startswith("=")
                beyond += bool((ours or "").startswith("!") and is_value)
                continue
            wrong.append((call, row, ours, theirs[number]))
    assert not wrong, str(wrong[:12] + wrong[:: len(wrong) // 12 + 1])
    assert beyond < PAIRS * len(CALLS) // 100, "only what has more digits than there are fails"


def test_queries_over_numbers_of_many_scales(engine: Engine, oracle: Oracle) -> None:
    types = {"g": "text", "i": "int4", "n": "numeric", "m": "numeric(8,2)"}
    rows = [("abc"[n % 3], str(n), value, f"{n * 5 / 4:.2f}") for n, value in enumerate(ROWS)]
    engine.create_named("t", types, rows)
    oracle.create_named("t", types, rows)
    wrong = []
    for query in QUERIES:
        ours, theirs = engine.rows(query), oracle.texts(query)
        found = ours if isinstance(ours, str) else ours[1]
        if found != theirs:
            wrong.append((query, found, theirs))
    assert wrong == []
