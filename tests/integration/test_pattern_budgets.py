"""No pattern runs for ever, whatever the constants and the data, no function makes a value that is
too large for the machine, and JSON is read in one pass however deep or large; the JVM lives on.
"""

from __future__ import annotations

import random
import re
import threading
import time

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.compute.faults import EngineFault
from waterclock.compute.live_session import LiveSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def evaluator(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    return Evaluator(LiveSession.of(spark), tmp_path_factory.mktemp("patterns") / "queries")


def value(evaluator: Evaluator, sql: str) -> object:
    return evaluator.evaluate(f"SELECT {sql} AS v", {}, {}, "g")["v"][0].as_py()


HOSTILE = {
    "like": ("WC_LIKE(repeat('a', 10000), '%a%a%a%a%a%a%a%a%a%a%ab', '')", False),
    "like of a million": (
        "WC_LIKE(repeat('a', 1000000), concat('%', repeat('a', 10000), 'b'), '')",
        "54000",
    ),
    "many ways": (f"WC_MATCHES(repeat('a', 100), '{'(a*)' * 9}b')", "54000"),
    "deep": ("WC_MATCHES(repeat('ab', 1000000), '^(a|b)*$')", "54001"),
    "repeat": ("length(WC_REPEAT('x', 2000000000))", "54000"),
    "lpad": ("length(WC_LPAD('x', 2000000000, 'ab'))", "54000"),
    "rpad": ("length(WC_RPAD('x', 2000000000, 'ab'))", "54000"),
    "replace": ("length(WC_REPLACE(repeat('x', 1000000), 'x', repeat('y', 1000)))", "54000"),
    "replaced": (
        "length(WC_MATCH_REPLACED(repeat('x', 1000000), 'x', repeat('y', 1000), 1, 0))",
        "54000",
    ),
    "deep JSON": (
        "WC_JSON_FAULT(concat(repeat('[', 1000000), repeat(']', 1000000)))",
        "54001 stack depth limit exceeded",
    ),
    "deep and no JSON": (
        'WC_JSON_FAULT(concat(repeat(\'[\', 2000), \'{"a": [1, {}], "b":[{"c": []\','
        " repeat(']', 2003)))",
        "22P02 invalid input syntax for type json",
    ),
    "deep members": (
        "WC_JSON_RAW_FAULT(concat(repeat('[', 2000), '{\"a\": [1, { } ], \"b\" : [{} ] }',"
        " repeat(' ]', 2000)))",
        "54001 stack depth limit exceeded",
    ),
    "many elements": (
        "WC_JSON_ELEMENT(WC_JSON_NORMAL(concat('[', repeat('1,', 1000000), '2]')), -1)",
        "2",
    ),
    "many members": (
        "WC_JSON_NORMAL(concat('{', repeat('\"a\":1,', 1000000), '\"a\": 2}'))",
        '{"a": 2}',
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("constant", [True, False])
def test_hostile_calls_end(evaluator: Evaluator, name: str, constant: bool) -> None:
    sql, expected = HOSTILE[name]
    if not constant:  # nothing that Catalyst could fold
        sql = re.sub(r"repeat\('(\w+)', ", r"repeat(if(id >= 0, '\1', ''), ", sql)
        sql = f"max({sql}) AS v FROM range(1)"
        query = f"SELECT {sql}"
    else:
        query = f"SELECT {sql} AS v"
    if expected in ("54000", "54001"):
        with pytest.raises(EngineFault) as refused:
            evaluator.evaluate(query, {}, {}, "g")
        assert refused.value.sqlstate == expected
        if expected == "54000":
            assert "setting max_" in str(refused.value.hint)
    else:
        assert evaluator.evaluate(query, {}, {}, "g")["v"].to_pylist() == [expected]
    assert value(evaluator, "1 + 1") == 2


def test_like_agrees_with_its_definition(spark: SparkSession) -> None:
    chosen = random.Random(7)
    rows = []
    while len(rows) < 3000:
        text = "".join(chosen.choice("ab%_\\é") for _ in range(chosen.randrange(8)))
        pattern = "".join(chosen.choice("ab%%__\\é") for _ in range(chosen.randrange(8)))
        if re.search(r"(?<!\\)(\\\\)*\\$", pattern):
            continue  # ends with an escape
        pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
        regex = "".join({"%": ".*", "_": "."}.get(each) or re.escape(each[-1]) for each in pieces)
        rows.append((text, pattern, re.fullmatch(regex, text, re.DOTALL) is not None))
    made = spark.createDataFrame(rows, "t string, p string, r boolean")
    wrong = made.selectExpr("t", "p", "r", "WC_LIKE(t, p, '\\\\') AS l").where("l <> r")
    assert wrong.collect() == []
    assert any(matches for _, _, matches in rows)


def test_a_match_is_ended_by_a_cancel(spark: SparkSession, evaluator: Evaluator) -> None:
    slow = (
        "SELECT count(*) AS v FROM range(10000)"
        " WHERE WC_LIKE(concat(repeat('a', 20000), id), concat('%', repeat('a', 4000), 'b'), '')"
    )
    found: list[BaseException] = []

    def run() -> None:
        try:
            evaluator.evaluate(slow, {}, {}, "slow")
        except EngineFault as error:
            found.append(error)

    tracker = spark.sparkContext.statusTracker()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not tracker.getActiveJobsIds() and thread.is_alive():
        time.sleep(0.01)
    evaluator.cancel("slow")
    thread.join(60)
    assert not thread.is_alive()
    assert [type(error) for error in found] == [EngineFault]
    assert value(evaluator, "2") == 2
