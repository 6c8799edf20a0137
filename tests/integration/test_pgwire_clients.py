"""Real clients against the protocol server: psycopg, asyncpg, pg8000 and psql over real sockets.

The adapter behind it is the fake one, so what is tested is the conversation, not SQL.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pg8000.native
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from waterclock.adapter.api import ColumnDescription
from waterclock.adapter.credentials import make_verifier
from waterclock.model.pg_types import FLOAT8, INT4, INT8, TEXT, TIMESTAMPTZ
from waterclock.pgwire.limits import Limits
from waterclock.pgwire.tls import TlsIdentity, self_made_identity
from waterclock.testing.fake_adapter import FakeAuthenticator, FakeFront, FakeSession, FakeTable
from waterclock.testing.pg_endpoint import PgEndpoint

pytestmark = [pytest.mark.service, pytest.mark.timeout(1200)]

SECONDS = 240
USER, PASSWORD = "waterclock", "correct horse ½"
ROWS = [(1, "a"), (2, None), (None, "c\td\n\\")]


def front() -> FakeFront:
    few = pa.record_batch(
        [pa.array([row[0] for row in ROWS], pa.int32()), pa.array([row[1] for row in ROWS])],
        names=["a", "b"],
    )
    many = pa.record_batch([pa.array(range(10_000), pa.int64())], names=["n"])
    return FakeFront(
        {
            "few": FakeTable((ColumnDescription("a", INT4), ColumnDescription("b", TEXT)), (few,)),
            "many": FakeTable((ColumnDescription("n", INT8),), (many, many)),
        }
    )


@pytest.fixture
def endpoint() -> Iterator[PgEndpoint]:
    with PgEndpoint(front(), FakeAuthenticator()) as server:
        yield server


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsIdentity, Path]:
    folder = tmp_path_factory.mktemp("tls")
    return self_made_identity(folder, "localhost"), folder / "server.crt"


@pytest.fixture(params=["uvloop", "asyncio"])
def secure(
    request: pytest.FixtureRequest, identity: tuple[TlsIdentity, Path]
) -> Iterator[PgEndpoint]:
    verifiers = {USER: make_verifier(PASSWORD, os.urandom(16))}
    options: dict[str, Any] = {}
    if request.param == "asyncio":
        options["new_loop"] = asyncio.new_event_loop
    with PgEndpoint(front(), FakeAuthenticator(verifiers), tls=identity[0], **options) as server:
        yield server


def connect(server: PgEndpoint, **options: Any) -> psycopg.Connection[Any]:
    given = {"host": "127.0.0.1", "port": server.port, "user": USER, "dbname": USER}
    return psycopg.connect(**{**given, "autocommit": True, "connect_timeout": SECONDS, **options})


async def connect_asyncpg(server: PgEndpoint, **options: Any) -> asyncpg.Connection:
    return await asyncpg.connect(
        host="127.0.0.1", port=server.port, user=USER, database=USER, timeout=SECONDS, **options
    )


def run_psql(
    server: PgEndpoint, *commands: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    arguments = [argument for command in commands for argument in ("-c", command)]
    environment = {"PATH": os.environ["PATH"], "PGPASSWORD": PASSWORD, "HOME": "/nonexistent"}
    target = " ".join(f"{name}={value}" for name, value in settings.items())
    return subprocess.run(
        [
            "psql",
            f"host=127.0.0.1 port={server.port} user={USER} dbname={USER} {target}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
        check=False,
    )


def statuses(connection: psycopg.Connection[Any]) -> str:
    return connection.info.transaction_status.name


VALUES = [
    ("int2", 7),
    ("int4", -(2**31)),
    ("int8", 2**62),
    ("text", "é\n\0"[:2]),
    ("float8", 0.1),
    ("bool", True),
    ("numeric", Decimal("-1234.5678")),
    ("date", dt.date(2024, 2, 29)),
    ("time", dt.time(1, 2, 3, 4)),
    ("timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("timestamptz", dt.datetime(1999, 12, 31, 23, 59, 59, 999999, dt.UTC)),
    ("interval", dt.timedelta(days=3, seconds=4, microseconds=5)),
    ("uuid", uuid.UUID(int=2**127 + 1)),
    ("bytea", b"\x00\xff\\"),
    ("text[]", ["a", None, 'b "c', "NULL", ""]),
    ("int4", None),
]


class TestPsycopg:
    def test_simple_and_extended_queries(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            assert connection.execute("select 7").fetchall() == [(7,)]
            assert connection.execute("table few").fetchall() == ROWS
            assert connection.execute("table few", binary=True).fetchall() == ROWS
            assert connection.execute("table few", prepare=True).fetchall() == ROWS
            assert connection.execute("").description is None
            cursor = connection.execute("table many")
            assert [row[0] for row in cursor] == [*range(10_000)] * 2
            assert cursor.statusmessage == "SELECT 20000"
            description = connection.execute("table few").description
            assert description is not None
            assert [(c.name, c.type_code) for c in description] == [("a", 23), ("b", 25)]

    @pytest.mark.parametrize("binary", [False, True])
    @pytest.mark.parametrize(("name", "value"), VALUES)
    def test_values_come_back(
        self, endpoint: PgEndpoint, name: str, value: Any, binary: bool
    ) -> None:
        with connect(endpoint) as connection, connection.cursor(binary=binary) as cursor:
            placeholder = "%b" if binary else "%t"
            query = sql.SQL("select " + placeholder + "::" + name)  # type: ignore[arg-type]
            assert cursor.execute(query, (value,)).fetchone() == (value,)

    @pytest.mark.parametrize("binary", [False, True])
    def test_json(self, endpoint: PgEndpoint, binary: bool) -> None:
        with connect(endpoint) as connection, connection.cursor(binary=binary) as cursor:
            value = {"b": [1, 2.5, None], "a": "x"}
            assert cursor.execute("select %s::jsonb", (Jsonb(value),)).fetchone() == (value,)

    def test_bad_parameters(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught:
                connection.execute("select %s::int4", ("x",))
            assert 'invalid input syntax for type integer: "x"' in str(caught.value)
            assert connection.execute("select 1").fetchone() == (1,)

    def test_transaction_status_follows(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint, autocommit=False) as connection:
            connection.execute("select 1")
            assert statuses(connection) == "INTRANS"
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("fail")
            assert statuses(connection) == "INERROR"
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                connection.execute("select 1")
            connection.rollback()
            assert statuses(connection) == "IDLE"

    def test_several_statements_stop_at_an_error(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            cursor = connection.execute("select 1; table few; set application_name = 'x'")
            assert cursor.fetchall() == [(1,)]
            assert cursor.nextset()
            assert cursor.fetchall() == ROWS
            assert cursor.nextset()
            assert cursor.statusmessage == "SET"
            assert connection.info.parameter_status("application_name") == "x"
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("select 1; fail; set application_name = 'y'")
            assert connection.info.parameter_status("application_name") == "x"

    def test_pipeline_discards_after_an_error(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            with connection.pipeline():
                cursors = [connection.execute("select %s::int8", (i,)) for i in range(50)]
            assert [cursor.fetchone() for cursor in cursors] == [(i,) for i in range(50)]
            with pytest.raises(psycopg.errors.DivisionByZero):
                self.fail_in_a_pipeline(connection)
            assert connection.info.parameter_status("application_name") == "before"

    def fail_in_a_pipeline(self, connection: psycopg.Connection[Any]) -> None:
        with connection.pipeline() as pipeline:
            connection.execute("set application_name = 'before'")
            connection.execute("fail")
            connection.execute("set application_name = 'after'")
            pipeline.sync()

    def test_server_cursor(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint, autocommit=False) as connection:
            connection.execute("begin")
            connection.execute("declare c cursor for endless")
            assert connection.execute("fetch 3 from c").fetchall() == [(0,), (1,), (2,)]
            assert connection.execute("fetch forward 2 from c").fetchall() == [(3,), (4,)]
            connection.execute("close c")
            with pytest.raises(psycopg.errors.InvalidCursorName):
                connection.execute("fetch 1 from c")

    def test_stream_may_be_left(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            with connection.cursor() as cursor:
                seen = []
                for row in cursor.stream("endless"):
                    seen.append(row[0])
                    if len(seen) == 250:
                        break
            assert seen == list(range(250))
            assert connection.execute("select 1").fetchone() == (1,)

    @pytest.mark.parametrize("form", ["text", "csv", "binary"])
    def test_copy_out(self, endpoint: PgEndpoint, form: str) -> None:
        with connect(endpoint) as connection, connection.cursor() as cursor:
            with cursor.copy(f"copy few to stdout (format {form})") as copy:  # type: ignore[arg-type]
                data = b"".join(bytes(part) for part in copy)
            assert cursor.rowcount == 3
            if form == "text":
                assert data == b"1\ta\n2\t\\N\n\\N\tc\\td\\n\\\\\n"
            elif form == "csv":
                assert data == b'1,a\n2,\n,"c\td\n\\"\n'

    @pytest.mark.parametrize("form", ["text", "binary"])
    def test_copy_in(self, endpoint: PgEndpoint, form: str) -> None:
        with connect(endpoint) as connection, connection.cursor() as cursor:
            with cursor.copy(f"copy few from stdin (format {form})") as copy:  # type: ignore[arg-type]
                if form == "binary":
                    copy.set_types(["int4", "text"])
                for _ in range(10_000):
                    for row in ROWS:
                        copy.write_row(row)
            assert cursor.rowcount == 30_000
        table = pa.Table.from_batches(received(endpoint, "few"))
        assert table.num_rows == 30_000
        assert [tuple(row.values()) for row in table.slice(0, 3).to_pylist()] == ROWS

    def test_copy_in_that_fails(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection, connection.cursor() as cursor:
            with (
                pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught,
                cursor.copy("copy few from stdin") as copy,
            ):
                copy.write(b"1\ta\nx\tb\n" + b"3\tc\n" * 100_000)
            assert caught.value.diag.context == 'COPY few, line 2, column a: "x"'
            with pytest.raises(ZeroDivisionError):
                self.give_up_a_copy(cursor)
            assert connection.execute("select 1").fetchone() == (1,)
        assert "few" not in received_all(endpoint)

    def give_up_a_copy(self, cursor: psycopg.Cursor[Any]) -> None:
        with cursor.copy("copy few from stdin") as copy:
            copy.write(b"1\ta\n")
            raise ZeroDivisionError

    def test_cancel(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            session = sessions(endpoint)[0]
            with (
                canceled_when(connection, lambda: session.slept > 0),
                pytest.raises(psycopg.errors.QueryCanceled),
            ):
                connection.execute("sleep")
            with (
                canceled_when(connection, lambda: session.pulled > 0),
                pytest.raises(psycopg.errors.QueryCanceled),
                connection.cursor() as cursor,
                cursor.copy("copy endless to stdout") as copy,
            ):
                for _ in copy:
                    pass
            assert connection.execute("select 1").fetchone() == (1,)

    def test_notices(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            seen: list[str | None] = []
            connection.add_notice_handler(lambda diag: seen.append(diag.message_primary))
            connection.execute("notice mind the gap")
            assert seen == ["mind the gap"]

    def test_settings_at_startup(self, endpoint: PgEndpoint) -> None:
        with connect(
            endpoint, options="-c TimeZone=Europe/Berlin", application_name="me"
        ) as connection:
            assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
            assert connection.info.parameter_status("application_name") == "me"
            moment = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
            (text,) = connection.execute("select %s::timestamptz", (moment,)).fetchone() or (None,)
            assert text == moment
            assert text.utcoffset() == dt.timedelta(hours=2)

    def test_prepared_statements_share_a_namespace(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint, prepare_threshold=0) as connection:
            connection.execute("select %s::int8", (1,))
            connection.execute("deallocate _pg3_0")
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                connection.execute("select %s::int8", (2,))

    def test_async(self, endpoint: PgEndpoint) -> None:
        async def main() -> None:
            async with await psycopg.AsyncConnection.connect(
                host="127.0.0.1", port=endpoint.port, user=USER, autocommit=True
            ) as connection:
                cursor = await connection.execute("select %s::int8", (5,))
                assert await cursor.fetchone() == (5,)
                async with connection.cursor() as cursor, cursor.copy("copy few to stdout") as copy:
                    assert len([row async for row in copy.rows()]) == 3

        asyncio.run(main())


@contextmanager
def canceled_when(
    connection: psycopg.Connection[Any], is_running: Callable[[], bool]
) -> Iterator[None]:
    """What runs inside is canceled from another thread as soon as it does."""

    def cancel() -> None:
        eventually(is_running)
        # Not `cancel`: it waits for the server without letting go of Python's lock.
        connection.cancel_safe(timeout=SECONDS)

    canceling = threading.Thread(target=cancel)
    canceling.start()
    yield
    canceling.join()


def received_all(server: PgEndpoint) -> dict[str, list[pa.RecordBatch]]:
    fake = server.front
    assert isinstance(fake, FakeFront)
    return fake.received


def sessions(server: PgEndpoint) -> list[FakeSession]:
    fake = server.front
    assert isinstance(fake, FakeFront)
    return fake.sessions


def received(server: PgEndpoint, name: str) -> list[pa.RecordBatch]:
    return received_all(server)[name]


class TestAsyncpg:
    def test_everything_is_binary(self, endpoint: PgEndpoint) -> None:
        async def main() -> None:
            connection = await connect_asyncpg(endpoint)
            assert [tuple(row) for row in await connection.fetch("table few")] == ROWS
            for name, value in VALUES:
                assert await connection.fetchval(f"select $1::{name}", value) == value
            statement = await connection.prepare("select $1::int8, $2::text")
            assert [kind.name for kind in statement.get_parameters()] == ["int8", "text"]
            assert tuple(await statement.fetchrow(1, "x")) == (1, "x")
            with pytest.raises(asyncpg.DivisionByZeroError):
                await connection.execute("fail")
            await connection.close()

        asyncio.run(main())

    def test_cursor_reads_an_endless_result(self, endpoint: PgEndpoint) -> None:
        async def main() -> None:
            connection = await connect_asyncpg(endpoint)
            async with connection.transaction():
                seen = []
                async for row in connection.cursor("endless", prefetch=7):
                    seen.append(row[0])
                    if len(seen) == 100:
                        break
                assert seen == list(range(100))
            await connection.close()

        asyncio.run(main())

    def test_copy(self, endpoint: PgEndpoint, tmp_path: Path) -> None:
        async def main() -> None:
            connection = await connect_asyncpg(endpoint)
            assert await connection.copy_records_to_table("few", records=ROWS) == "COPY 3"
            target = tmp_path / "few.csv"
            await connection.copy_from_table("few", output=target, format="csv")
            assert target.read_bytes() == b'1,a\n2,\n,"c\td\n\\"\n'
            await connection.close()

        asyncio.run(main())
        assert received(endpoint, "few")[0].num_rows == 3

    def test_timeout_cancels(self, endpoint: PgEndpoint) -> None:
        async def main() -> None:
            connection = await connect_asyncpg(endpoint)
            with pytest.raises(TimeoutError):
                await connection.execute("sleep", timeout=0.3)
            assert await connection.fetchval("select 2") == 2
            await connection.close()

        asyncio.run(main())


def test_pg8000(endpoint: PgEndpoint) -> None:
    connection = pg8000.native.Connection(USER, host="127.0.0.1", port=endpoint.port)
    assert [tuple(row) for row in connection.run("table few")] == ROWS
    assert connection.run("select :a::int8", a=5) == [[5]]
    with pytest.raises(pg8000.native.DatabaseError):
        connection.run("fail")
    connection.close()


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
class TestPsql:
    def test_tables_and_errors(self, endpoint: PgEndpoint) -> None:
        done = run_psql(
            endpoint, "select 7", "select 1; table few", "fail", "\\copy few to stdout csv"
        )
        assert " ?column? \n----------\n        7\n(1 row)" in done.stdout
        assert "(3 rows)" in done.stdout
        assert "ERROR:  division by zero" in done.stderr
        assert '1,a\n2,\n,"c\td\n\\"\n' in done.stdout

    @pytest.mark.parametrize("binding", ["require", "disable"])
    def test_tls_and_password(
        self, secure: PgEndpoint, identity: tuple[TlsIdentity, Path], binding: str
    ) -> None:
        done = run_psql(
            secure,
            "\\conninfo",
            "select 7",
            sslmode="verify-ca",
            sslrootcert=str(identity[1]),
            channel_binding=binding,
        )
        assert "SSL connection" in done.stdout, done.stderr
        assert "(1 row)" in done.stdout


class TestSecurity:
    @pytest.mark.parametrize(
        "options",
        [
            {"sslmode": "require", "channel_binding": "require"},
            {"sslmode": "require", "channel_binding": "disable"},
            {"sslmode": "disable"},
        ],
    )
    def test_scram(self, secure: PgEndpoint, options: dict[str, str]) -> None:
        with connect(secure, password=PASSWORD, **options) as connection:
            assert connection.execute("select 7").fetchone() == (7,)
            assert connection.pgconn.ssl_in_use == (options["sslmode"] == "require")

    def test_large_results_and_copies_through_tls(self, secure: PgEndpoint) -> None:
        with connect(secure, password=PASSWORD, sslmode="require") as connection:
            assert len(connection.execute("table many").fetchall()) == 20_000
            with connection.cursor() as cursor, cursor.copy("copy many from stdin") as copy:
                copy.write(b"1\n" * 300_000)
        assert sum(batch.num_rows for batch in received(secure, "many")) == 300_000

    def test_wrong_password_and_unknown_role_look_alike(self, secure: PgEndpoint) -> None:
        for options in ({"password": "wrong"}, {"user": "nobody", "password": PASSWORD}):
            with pytest.raises(psycopg.OperationalError) as caught:
                connect(secure, **options)
            name = options.get("user", USER)
            assert f'FATAL:  password authentication failed for user "{name}"' in str(caught.value)

    def test_asyncpg_tls_asked_for_and_direct(self, secure: PgEndpoint) -> None:
        async def main() -> None:
            for direct in (False, True):
                connection = await connect_asyncpg(
                    secure, password=PASSWORD, ssl="require", direct_tls=direct
                )
                assert await connection.fetchval("select 4") == 4
                await connection.close()

        asyncio.run(main())

    def test_direct_tls_needs_its_protocol_named(self, secure: PgEndpoint) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", secure.port), SECONDS) as plain,
            context.wrap_socket(plain) as wrapped,
        ):
            assert b"without ALPN" in wrapped.recv(1_000)

    def test_no_plaintext_is_used_after_the_request_for_tls(self, secure: PgEndpoint) -> None:
        with socket.create_connection(("127.0.0.1", secure.port), SECONDS) as plain:
            startup = struct.pack(">ii", 8 + 15, 3 << 16) + b"user\0intruder\0\0"
            plain.sendall(struct.pack(">ii", 8, 80877103) + startup)
            answer = read_all(plain)
            assert b"received unencrypted data after SSL request" in answer


def startup_packet() -> bytes:
    body = struct.pack(">i", 3 << 16) + b"user\0waterclock\0\0"
    return struct.pack(">i", len(body) + 4) + body


def query_message(text: str) -> bytes:
    return b"Q" + struct.pack(">i", len(text) + 5) + text.encode() + b"\0"


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(SECONDS)
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


class TestServer:
    def test_unknown_role_and_database(self, endpoint: PgEndpoint) -> None:
        with pytest.raises(psycopg.OperationalError, match='FATAL:  role "nobody" does not exist'):
            connect(endpoint, user="nobody")
        with pytest.raises(
            psycopg.OperationalError, match='FATAL:  database "nowhere" does not exist'
        ):
            connect(endpoint, dbname="nowhere")

    def test_connection_limit(self) -> None:
        with PgEndpoint(front(), FakeAuthenticator(), limits=Limits(connections=2)) as server:
            first, second = connect(server), connect(server)
            with pytest.raises(psycopg.OperationalError, match="FATAL:  sorry, too many clients"):
                connect(server)
            first.close()
            eventually(lambda: server.server.open_sessions == 1)
            connect(server).close()
            second.close()

    def test_a_client_that_goes_ends_what_it_started(self, endpoint: PgEndpoint) -> None:
        for statement in ("sleep", "endless", "copy endless to stdout"):
            connection = connect(endpoint)
            connection.pgconn.send_query(statement.encode())
            connection.pgconn.flush()
            eventually(lambda: endpoint.server.open_sessions == 1)
            connection.close()
            eventually(lambda: endpoint.server.open_sessions == 0)
        assert all(session.terminated for session in sessions(endpoint))

    def test_a_client_that_does_not_read_is_not_fed(self, endpoint: PgEndpoint) -> None:
        """The server pulls no more from an endless result than fits on the way."""
        with socket.socket() as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
            plain.connect(("127.0.0.1", endpoint.port))
            plain.sendall(startup_packet() + query_message("endless"))
            eventually(lambda: len(sessions(endpoint)) == 1)
            history = [-1]

            def stands_still() -> bool:
                time.sleep(0.5)
                history.append(sessions(endpoint)[0].pulled)
                return history[-1] == history[-2] > 0

            eventually(stands_still)
            with connect(endpoint) as other:
                assert other.execute("select 1").fetchone() == (1,)
        eventually(lambda: endpoint.server.open_sessions == 0)

    def test_silence_before_authentication_ends(self) -> None:
        limits = Limits(authentication_s=0.3)
        with (
            PgEndpoint(front(), FakeAuthenticator(), limits=limits) as server,
            socket.create_connection(("127.0.0.1", server.port), SECONDS) as plain,
        ):
            assert b"canceling authentication due to timeout" in read_all(plain)

    def test_silence_of_a_session_ends(self) -> None:
        for limits, statement, code in (
            (Limits(idle_s=0.3), "select 1", "57P05"),
            (Limits(idle_in_transaction_s=0.2), "begin", "25P03"),
        ):
            with PgEndpoint(front(), FakeAuthenticator(), limits=limits) as server:
                connection = connect(server)
                with pytest.raises(psycopg.Error) as caught:
                    fall_silent(connection, statement, server)
                assert caught.value.sqlstate == code or connection.closed
                connection.close()

    def test_stopping_tells_everybody(self) -> None:
        with PgEndpoint(front(), FakeAuthenticator()) as server:
            idle, busy = connect(server), connect(server)
            busy.pgconn.send_query(b"sleep")
            busy.pgconn.flush()
            eventually(lambda: sessions(server)[1].slept > 0)
            server.call(server.server.close())
            with pytest.raises(psycopg.Error, match="administrator command"):
                read_error(busy)
            with pytest.raises(psycopg.Error, match="administrator command"):
                idle.execute("select 1")
            idle.close()
            busy.close()

    def test_cancel_with_a_wrong_secret_does_nothing(self, endpoint: PgEndpoint) -> None:
        with connect(endpoint) as connection:
            connection.pgconn.send_query(b"sleep")
            connection.pgconn.flush()
            packet = struct.pack(">iii", 16, 80877102, connection.info.backend_pid) + b"nope"
            with socket.create_connection(("127.0.0.1", endpoint.port), SECONDS) as plain:
                plain.sendall(packet)
                assert read_all(plain) == b""
            time.sleep(0.2)
            assert endpoint.server.open_sessions == 1
            connection.cancel_safe(timeout=SECONDS)
            with pytest.raises(psycopg.errors.QueryCanceled):
                read_error(connection)

    def test_newer_protocols_are_negotiated(self, endpoint: PgEndpoint) -> None:
        body = struct.pack(">i", 3 << 16 | 2) + b"user\0waterclock\0_pq_.x\0" + b"1\0\0"
        with socket.create_connection(("127.0.0.1", endpoint.port), SECONDS) as plain:
            plain.sendall(struct.pack(">i", len(body) + 4) + body + b"X\0\0\0\4")
            answer = read_all(plain)
        assert answer.startswith(b"v" + struct.pack(">iii", 19, 3 << 16, 1) + b"_pq_.x\0")
        assert answer.endswith(b"Z\0\0\0\5I")


def read_error(connection: psycopg.Connection[Any]) -> None:
    """Wait for the result of what was sent by hand, and raise its error."""
    # Not `get_result`: it waits for the server without letting go of Python's lock.
    (result,) = connection.wait(psycopg.generators.fetch_many(connection.pgconn))
    if result.error_message:
        raise psycopg.errors.lookup((result.error_field(67) or b"").decode())(
            result.error_message.decode()
        )


def fall_silent(connection: psycopg.Connection[Any], statement: str, server: PgEndpoint) -> None:
    """Say something once more when the session has been ended for saying nothing.

    A slow machine may have been silent for long enough before the statement.
    """
    connection.execute(statement.encode())
    eventually(lambda: server.server.open_sessions == 0)
    connection.execute("select 1")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def calls_counted() -> Iterator[Callable[[], int]]:
    """How often something was called in threads that begin in here."""
    calls = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    threading.setprofile(profile)
    try:
        yield lambda: calls
    finally:
        threading.setprofile(None)


def test_no_loop_over_rows_is_in_the_way_to_a_client() -> None:
    """Whatever is done for each row calls something for each row."""
    rows = 50_000
    batch = pa.record_batch(
        [
            pa.array(range(rows), pa.int64()),
            pa.array([f"name {i}" for i in range(rows)]),
            pa.array([i / 7 for i in range(rows)]),
            pa.array(range(rows), pa.int64()).view(pa.timestamp("us", tz="UTC")),
            pa.array([i % 100 for i in range(rows)], pa.int32()),
        ],
        names=list("abcde"),
    )
    types = (INT8, TEXT, FLOAT8, TIMESTAMPTZ, INT4)
    columns = tuple(ColumnDescription(n, t) for n, t in zip("abcde", types, strict=True))
    fake = FakeFront({"wide": FakeTable(columns, (batch,) * 8)})
    with (
        calls_counted() as count,
        PgEndpoint(fake, FakeAuthenticator()) as server,
        socket.create_connection(("127.0.0.1", server.port), SECONDS) as plain,
    ):
        plain.sendall(startup_packet() + query_message("table wide") + b"X\0\0\0\4")
        size = 0
        while part := plain.recv(1 << 20):
            size += len(part)
    assert size > 8 * rows * 40
    assert 0 < count() < 8 * rows / 4, "the server calls less often than there are rows"
