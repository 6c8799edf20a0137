"""How many tasks run at a time on one machine."""

from __future__ import annotations

import pytest

from waterclock.compute.spark import with_room


@pytest.mark.parametrize("processors", [1, 2, 16])
def test_two_large_jobs_leave_room_for_small_ones(
    monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    master, settings = with_room("local[*]")
    places = int(master.removeprefix("local[").removesuffix("]"))
    assert settings == {"spark.default.parallelism": str(processors)}
    assert places > 2 * processors


@pytest.mark.parametrize("master", ["local[3]", "local", "spark://somewhere:7077"])
def test_a_master_that_somebody_chose_is_left_alone(master: str) -> None:
    assert with_room(master) == (master, {})
