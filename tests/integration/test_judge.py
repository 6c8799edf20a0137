"""Random cases on a real server beside PostgreSQL: a fixed number of seeds."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from waterclock.testing.judge.__main__ import runner_over
from waterclock.testing.judge.cases import drawn_case
from waterclock.testing.judge.choices import Choices
from waterclock.testing.judge.runner import Tally
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.service]

SEEDS = range(1, 13)


def test_every_answer_is_that_of_postgres(tmp_path: Path, postgres_server: PostgresServer) -> None:
    tally = Tally()
    with (
        ServerProcess(tmp_path / "data") as server,
        closing(runner_over(server, postgres_server, tally)) as runner,
    ):
        for seed in SEEDS:
            found = runner.run(drawn_case(Choices(seed)), with_restart=seed == SEEDS[-1])
            assert found == [], f"seed {seed}"
    assert tally.answers > 200
    assert tally.rows > 500
    assert tally.rules["refused"] < 0.1 * tally.answers
