"""Every optimizer rule that Spark has was reviewed, and those that are excluded do not run."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.catalyst.rules import EXCLUDED, PACKAGE, REVIEWED, excluded_rules

pytestmark = pytest.mark.slow


def rules_of(batches: Any) -> set[str]:
    return {
        rule.ruleName().removeprefix(PACKAGE)
        for batch in _each(batches)
        for rule in _each(batch.rules())
    }


def _each(of_scala: Any) -> list[Any]:
    found, iterator = [], of_scala.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def test_every_rule_of_spark_was_reviewed(spark: SparkSession) -> None:
    rules = rules_of(spark._jsparkSession.sessionState().optimizer().defaultBatches())
    assert rules - EXCLUDED.keys() - REVIEWED.keys() == set(), "rules that nobody has looked at"
    assert (EXCLUDED.keys() | REVIEWED.keys()) - rules == set(), "rules that Spark no longer has"
    assert not EXCLUDED.keys() & REVIEWED.keys()


def test_excluded_rules_do_not_run(spark: SparkSession) -> None:
    session = spark.newSession()
    assert session.conf.get("spark.sql.optimizer.excludedRules") == excluded_rules()
    # An optimizer asks for the settings of the session that is active, whosever it is.
    active = SparkSession._get_j_spark_session_class(spark._jvm)
    active.setActiveSession(session._jsparkSession)
    try:
        batches = session._jsparkSession.sessionState().optimizer().batches()
        assert rules_of(batches) == REVIEWED.keys()
    finally:
        active.setActiveSession(spark._jsparkSession)


def test_except_is_never_made_a_filter(spark: SparkSession) -> None:
    """The rule can not be excluded; a setting turns it off."""
    spark.createDataFrame([(1, 1), (2, 1)], "k int, v int").createOrReplaceTempView("pairs")
    both = "SELECT v AS c FROM pairs WHERE k = 1 EXCEPT SELECT v AS c FROM pairs WHERE k = 2"
    plan = spark.sql(both)._jdf.queryExecution().optimizedPlan().toString()
    assert "LeftAnti" in plan
