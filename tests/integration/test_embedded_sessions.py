"""The database runs on a Spark session that a program made the ordinary way, and leaves it alone.

Each program is a process of its own: its session is made by Spark's own builder, knows nothing of
Waterclock, and is set in ways that would change what SQL means.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.compute.spark import UnsupportedSession, adopt_session
from waterclock.testing.brief_spark import brief_options

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = """
import sys
from decimal import Decimal

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.optimizer.excludedRules":
        "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
}
builder = SparkSession.builder.master("local[2]")
builder = builder.config("spark.driver.extraJavaOptions", sys.argv[2])
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "5")  # set later than the rest
spark.range(3).createOrReplaceTempView("mine")
before = {name: spark.conf.get(name) for name in SETTINGS}

import waterclock

with waterclock.connect(sys.argv[1], spark=spark) as db:
    db.sql("CREATE TABLE orders (customer int NOT NULL, amount numeric(10,2), day date)")
    db.sql(
        "CREATE MATERIALIZED VIEW sales AS SELECT customer, sum(amount) AS total FROM orders"
        " GROUP BY customer"
    )
    db.sql("INSERT INTO orders VALUES (1, 10.50, '2024-01-01'), (2, 7, NULL), (1, 3, NULL)")
    sales = db.sql("SELECT * FROM sales WHERE total > $1", 5)
    assert sorted(sales.rows) == [(1, Decimal("13.50")), (2, Decimal("7.00"))], sales.rows
    assert sorted(map(tuple, sales.df().collect())) == sorted(sales.rows)
    assert db.sql("SELECT count(*) FROM ORDERS WHERE Day < '2024-02-01'").rows == [(1,)]
    assert db.sql("SELECT regexp_replace('foobarrbazz', '(.)\\\\1', 'X')").rows == [("fXbarrbazz",)]
    try:
        db.sql("SELECT amount / (customer - 1) FROM orders")
    except Exception as error:
        assert error.sqlstate == "22012", error
    else:
        raise AssertionError("the program's ANSI mode decides what a division is")

assert before == {name: spark.conf.get(name) for name in SETTINGS}
assert spark.sql("SELECT count(*) FROM mine").collect()[0][0] == 3
assert spark.sql("SELECT 1 / 0").collect()[0][0] is None
spark.stop()
"""


def test_a_session_made_by_sparks_own_builder(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "data"), brief_options()],
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_session_without_a_jvm_is_refused() -> None:
    with pytest.raises(UnsupportedSession) as refused:
        adopt_session(object())  # type: ignore[arg-type]  # as one of Spark Connect is
    assert refused.value.hint is not None
