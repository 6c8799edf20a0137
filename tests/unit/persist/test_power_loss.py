"""A power failure within a write loses nothing acknowledged, and is not taken for damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.persist.errors import Damaged
from waterclock.testing import power_loss
from waterclock.testing.damage import memory_folder


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_survives_a_power_failure(seed: int) -> None:
    with memory_folder() as folder:
        outcomes = power_loss.run(folder, seed, 40)
    assert len(outcomes) == 2, "the entry under way was there, and was not"


def test_a_disk_that_lies_about_syncs_is_noticed(tmp_path: Path) -> None:
    """So the trials above are worth something, and so is the witness."""
    with memory_folder() as folder:
        moments = power_loss.history(folder, 1)
    disk = moments[3].files | {"log.db-head": moments[5].files["log.db-head"]}
    for name, data in disk.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(Damaged, match="acknowledged entries are missing"):
        power_loss.judge(tmp_path, moments, 6, 1)
