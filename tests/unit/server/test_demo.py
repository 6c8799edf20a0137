"""What the demo takes from its surroundings, and what not."""

from __future__ import annotations

from pathlib import Path

from waterclock.server.demo import configured


def test_the_demo_is_on_the_spark_that_is_asked_for_and_elsewhere_on_its_own(
    tmp_path: Path,
) -> None:
    found = configured(
        tmp_path,
        {
            "WATERCLOCK_SPARK_MASTER": "local[1]",
            "WATERCLOCK_SPARK": "spark.driver.memory=2g",
            "WATERCLOCK_DATA": "/of/somebody",
            "WATERCLOCK_LOG": "postgresql://elsewhere/log",
            "WATERCLOCK_PG_PORT": "7000",
        },
    )
    assert found.spark_master == "local[1]"
    assert found.spark == {"spark.driver.memory": "2g"}
    assert found.data == tmp_path / "data"
    assert found.log is None
    assert (found.pg_port, found.http_port) == (0, 0)
