"""A server whose log is in PostgreSQL and whose blobs are in S3 outlives its machine.

It is killed, and another one starts with nothing of its directory but the key of the secrets. All
that was acknowledged is there, and views go on. A third, started while the second runs, takes over,
and the second can not write any more.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.fs as pafs
import pytest

from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer, S3Server

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(1800)]

ROWS = 60_000
TOTALS = "SELECT g, n, total FROM totals ORDER BY g"


def answer(server: ServerProcess, query: str) -> list[tuple[Any, ...]]:
    with server.connect() as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


def fill(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (a bigint, g int)")
        connection.execute(
            "CREATE MATERIALIZED VIEW totals AS"
            " SELECT g, count(*) AS n, sum(a) AS total FROM t GROUP BY g"
        )
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for number in range(ROWS):
                copy.write_row((number, number % 3))
        connection.execute("CREATE SECRET hidden AS 'x'")


def expected(more: int = 0) -> list[tuple[Any, ...]]:
    numbers = [*range(ROWS), *([1_000_000] * more)]
    groups = [[n for n in numbers if (n % 3 if n < ROWS else 0) == g] for g in range(3)]
    return [(g, len(group), sum(group)) for g, group in enumerate(groups)]


def test_data_outlive_the_machine(
    tmp_path: Path,
    postgres_server: PostgresServer,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    s3_server.make_bucket("elsewhere")
    blobs = f"s3://elsewhere/wc?endpoint={s3_server.endpoint}&region=us-east-1"
    flags = ("--log", postgres_server.create_database("elsewhere"), "--blobs", blobs)

    first = ServerProcess(tmp_path / "first", *flags)
    first.start()
    try:
        fill(first)
        assert answer(first, TOTALS) == expected()
    finally:
        first.kill()
    assert not (first.data / "log.db").exists()
    inside = pafs.FileSelector("elsewhere/wc", recursive=True)
    objects = s3_server.filesystem().get_file_info(inside)
    assert any(each.type == pafs.FileType.File for each in objects)

    second = ServerProcess(tmp_path / "second", *flags)
    second.data.mkdir()
    shutil.copy(first.data / "secrets.key", second.data)
    shutil.rmtree(first.data)
    with second:
        assert answer(second, TOTALS) == expected()
        answer(second, "INSERT INTO t VALUES (1000000, 0) RETURNING a")
        assert answer(second, TOTALS) == expected(1)

        with ServerProcess(tmp_path / "third", *flags) as third:
            assert answer(third, TOTALS) == expected(1)
            answer(third, "INSERT INTO t VALUES (1000000, 0) RETURNING a")
            with pytest.raises(psycopg.Error):
                answer(second, "INSERT INTO t VALUES (5, 0) RETURNING a")
            assert answer(third, TOTALS) == expected(2)
