"""A read that waits tells its client so over the wire, while it waits."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from waterclock.testing.adapter_world import AdapterWorld
from waterclock.testing.pg_endpoint import PgEndpoint

LONG_S = 240.0


def test_a_notice_comes_while_the_statement_runs(tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text("a\n")
    told: list[tuple[str | None, str | None]] = []
    world = AdapterWorld(tmp_path / "data")
    try:
        with PgEndpoint(world.front, world.front) as server:
            dsn = f"host=127.0.0.1 port={server.port} user=waterclock dbname=waterclock"
            with psycopg.connect(dsn, autocommit=True) as client:

                def heard(notice: psycopg.errors.Diagnostic) -> None:
                    """Once it is told, the statement need not go on."""
                    told.append((notice.message_primary, notice.message_hint))
                    for session in world.front.all_sessions():
                        session.cancel()

                client.add_notice_handler(heard)
                client.execute("CREATE TABLE t (a int)")
                client.execute(
                    f"CREATE SOURCE f FROM FILE '{one}' FORMAT TEXT"  # type: ignore[arg-type]
                    " WITH (TIMESTAMP INTERVAL = '20ms')"
                )
                one.unlink()
                deadline = time.monotonic() + LONG_S
                status = "SELECT status FROM mz_internal.mz_source_statuses"
                while client.execute(status).fetchall() != [("stalled",)]:
                    assert time.monotonic() < deadline
                client.execute("INSERT INTO t VALUES (1)")
                with pytest.raises(psycopg.errors.QueryCanceled) as raised:
                    client.execute("SELECT text FROM f")
                [(message, hint)] = told
                assert message == "the read waits for source f"
                assert hint is not None
                assert "SET transaction_isolation = serializable" in hint
                detail = raised.value.diag.message_detail
                assert detail is not None
                assert detail.startswith("It waited for source f. source f is stalled: ")
    finally:
        world.close()
