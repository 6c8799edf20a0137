"""The database inside a program that has a Spark session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import waterclock
from waterclock.client.api import Connection
from waterclock.persist.errors import DataInUse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def connection(path: Path, spark: SparkSession) -> Iterator[Connection]:
    with waterclock.connect(path, spark) as connection:
        yield connection


def test_a_program_with_the_database_inside(
    path: Path, connection: Connection, spark: SparkSession
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    connection.sql("CREATE TABLE t (k int NOT NULL, v text)")
    connection.sql("CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM t GROUP BY k")
    with pytest.raises(DataInUse):
        waterclock.connect(path, spark)

    rows = spark.createDataFrame([(1, "a"), (1, None), (2, "b")], "k int, v string")
    with connection.subscribe("counts") as subscription:
        assert connection.append("t", rows) == 3
        told: dict[int, int] = {}
        upper = 0
        for changes in subscription:
            assert changes.upper > upper
            upper = changes.upper
            for change in changes.updates.to_pylist():
                told[change["k"]] = told.get(change["k"], 0) + change["n"] * change["mz_diff"]
            if told:
                break
        assert told == {1: 2, 2: 1}, "all of the append at once"

    result = connection.sql("SELECT k, n FROM counts WHERE k = $1", 1)
    assert result.arrow().schema == pa.schema([("k", pa.int32()), ("n", pa.int64())])
    assert result.rows == [(1, 2)]
    assert [tuple(row) for row in result.df().collect()] == [(1, 2)]
    assert spark.conf.get("spark.sql.session.timeZone") == before, "the session is the program's"

    connection.close()
    with waterclock.connect(path, spark) as again:
        assert sorted(again.sql("SELECT k, n FROM counts").rows) == [(1, 2), (2, 1)]
