"""The HTTP API over the fake adapter: paths, results, errors, and who is let in."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest

from waterclock.adapter.api import ColumnDescription, Rows
from waterclock.adapter.credentials import make_verifier
from waterclock.http.app import Api
from waterclock.http.metrics import Metrics, ServerFacts, ViewFacts
from waterclock.model.pg_types import (
    BOOL,
    FLOAT8,
    INT4,
    INT8,
    JSONB,
    TEXT,
    TIMESTAMPTZ,
    array_of,
    numeric,
)
from waterclock.server.metering import MeteredFront
from waterclock.server.texts import PgTexts
from waterclock.testing.fake_adapter import FakeAuthenticator, FakeFront, FakeSession, FakeTable

COLUMNS = {
    "b": (BOOL, pa.array([True, None])),
    "i": (INT4, pa.array([1, None], pa.int32())),
    "l": (INT8, pa.array([2**60, None], pa.int64())),
    "f": (FLOAT8, pa.array([1.5, float("nan")])),
    "n": (numeric(10, 2), pa.array([None, 3], pa.decimal128(10, 2))),
    "j": (JSONB, pa.array(['{"a": [1, 0.10]}', None])),
    "a": (array_of(TEXT), pa.array([["x", None], None], pa.list_(pa.string()))),
    "at": (TIMESTAMPTZ, pa.array([0, None], pa.timestamp("us", "UTC"))),
}
VALUES = FakeTable(
    tuple(ColumnDescription(name, declared) for name, (declared, _) in COLUMNS.items()),
    (pa.record_batch([column for _, column in COLUMNS.values()], names=list(COLUMNS)),),
)


class Served:
    """The API over a fake adapter, called in this process."""

    def __init__(self, *, password: str | None = None) -> None:
        self.front = FakeFront({"values": VALUES})
        self.missing: str | None = None
        verifiers = {} if password is None else {"waterclock": make_verifier(password, b"salt" * 4)}
        view = ViewFacts("public.v", "running", 12, 34)
        self.metrics = Metrics(lambda: ServerFacts(True, 3, (view,), 5, 6, 7))
        front = MeteredFront(self.front, self.metrics)
        api = Api(
            lambda: front,
            FakeAuthenticator(verifiers),
            lambda: self.missing,
            self.metrics,
            PgTexts(),
        )
        self.app = api.app()

    def call(self, work: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:6876"
            ) as client:
                return await work(client)

        return asyncio.run(main())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call(lambda client: client.get(path, **options))

    def sql(self, query: str, *parameters: Any, **options: Any) -> httpx.Response:
        body: dict[str, Any] = {"query": query}
        if parameters:
            body["parameters"] = list(parameters)
        return self.call(lambda client: client.post("/api/sql", json=body, **options))


@pytest.fixture
def served() -> Served:
    return Served()


def test_health_and_readiness(served: Served) -> None:
    assert served.get("/ready").status_code == 200
    served.missing = "Spark is starting"
    assert served.get("/health").status_code == 200
    told = served.get("/ready")
    assert (told.status_code, told.json()["reason"]) == (503, "Spark is starting")
    refused = served.sql("select 1")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "57P03")
    assert "waterclock_ready" in served.get("/metrics").text


def test_rows_with_names_and_types(served: Served) -> None:
    answer = served.sql("table values")
    assert answer.status_code == 200
    [result] = json.loads(answer.text, parse_float=str)["results"]
    assert result["tag"] == "SELECT 2"
    assert [column["name"] for column in result["columns"]] == list(COLUMNS)
    assert [column["type"] for column in result["columns"]] == [
        "boolean",
        "integer",
        "bigint",
        "double precision",
        "numeric(10,2)",
        "jsonb",
        "text[]",
        "timestamp with time zone",
    ]
    first, second = result["rows"]
    assert first == [
        *(True, 1, 2**60, "1.5", None),
        *({"a": [1, "0.10"]}, ["x", None], "1970-01-01 00:00:00+00"),
    ]
    assert second == [None, None, None, "NaN", "3.00", None, None, None]


def test_several_statements_have_several_results(served: Served) -> None:
    results = served.sql("select 7; begin; commit").json()["results"]
    assert [result["tag"] for result in results] == ["SELECT 1", "BEGIN", "COMMIT"]
    assert results[0]["rows"] == [[7]]
    assert "rows" not in results[1]
    assert served.sql("").json()["results"] == [{"tag": ""}]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int4", 41, 41),
        ("int4", "41", 41),
        ("numeric", 0.1, "0.1"),
        ("text", None, None),
        ("bool", True, True),
        ("text[]", ['a"b', None, "c\\"], ['a"b', None, "c\\"]),
        ("jsonb", {"a": [1.5, None]}, {"a": [1.5, None]}),
        ("jsonb", [], []),
        ("jsonb", 1.5, 1.5),
        ("numeric[]", [0.1, "2"], ["0.1", "2"]),
    ],
)
def test_parameters(served: Served, kind: str, value: Any, expected: Any) -> None:
    [result] = served.sql(f"select $1::{kind}", value).json()["results"]
    assert result["rows"] == [[expected]]


def test_a_number_keeps_all_its_digits(served: Served) -> None:
    body = b'{"query": "select $1::numeric", "parameters": [12345678901234567.123456789012345678]}'
    headers = {"content-type": "application/json"}
    answer = served.call(lambda c: c.post("/api/sql", content=body, headers=headers))
    assert answer.json()["results"][0]["rows"] == [["12345678901234567.123456789012345678"]]


@pytest.mark.parametrize(
    ("query", "parameters", "status", "code"),
    [
        ("fail", (), 400, "22012"),
        ("nonsense", (), 400, "42601"),
        ("select $1::int4", (1, 2), 400, "22023"),
        ("select $1::int4", ("x",), 400, "22P02"),
        ("select $1::int4", ({"a": 1},), 400, "22023"),
        ("copy values to stdout", (), 400, "0A000"),
        ("copy values from stdin", (), 400, "0A000"),
    ],
)
def test_errors(
    served: Served, query: str, parameters: tuple[Any, ...], status: int, code: str
) -> None:
    answer = served.sql(query, *parameters)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert all(session.terminated for session in served.front.sessions)


def test_what_came_before_an_error_is_told_too(served: Served) -> None:
    answer = served.sql("select 1; fail; select 2").json()
    assert [result["tag"] for result in answer["results"]] == ["SELECT 1"]
    assert answer["error"]["message"] == "division by zero"


def test_notices(served: Served) -> None:
    [notice] = served.sql("notice mind the gap").json()["notices"]
    assert (notice["severity"], notice["message"]) == ("NOTICE", "mind the gap")


def test_an_endless_result_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.http.statements.MAX_RESULT_BYTES", 1 << 20)
    answer = served.sql("endless")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "54000")


def test_a_subscription_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    run_simple = FakeSession.run_simple

    async def renamed(self: FakeSession, text: str) -> Any:
        async for response in run_simple(self, text):
            assert isinstance(response, Rows)
            yield Rows(response.columns, response.batches, "SUBSCRIBE", counted=False)

    monkeypatch.setattr(FakeSession, "run_simple", renamed)
    assert served.sql("endless").json()["error"]["message"] == "SUBSCRIBE is not possible over HTTP"


def test_a_client_that_leaves_cancels_its_statement(served: Served) -> None:
    async def leave(client: httpx.AsyncClient) -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/sql",
            "headers": [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")],
            "query_string": b"",
            "client": ("127.0.0.1", 1),
        }
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": b'{"query": "sleep"}'}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(f"nobody is there to get {message}")

        served_app = asyncio.ensure_future(served.app(scope, receive, send))
        while not served.front.sessions:
            await asyncio.sleep(0.001)
        gone.set()
        await asyncio.wait({served_app}, timeout=120)
        del client

    served.call(leave)
    [session] = served.front.sessions
    assert session.terminated


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"select 1", "text/plain", 415),
        (b"{}", "application/json", 400),
        (b'{"query": 1}', "application/json", 400),
        (b'{"query": "select 1", "nonsense": 1}', "application/json", 400),
        (b"{", "application/json; charset=utf-8", 400),
        (b"\xff\xfe", "application/json", 400),
        (b" " * (17 << 20), "application/json", 413),
    ],
)
def test_other_bodies_are_refused(
    served: Served, body: bytes, content_type: str, status: int
) -> None:
    headers = {"content-type": content_type}
    answer = served.call(lambda c: c.post("/api/sql", content=body, headers=headers))
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert not served.front.sessions


def test_a_page_under_another_name_is_refused(served: Served) -> None:
    """A page that has its own name point at this machine must not get at the data."""
    answer = served.sql("select 1", headers={"host": "evil.example:6876"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "28000")
    assert served.get("/metrics", headers={"host": "evil.example"}).status_code == 403
    assert served.sql("select 1", headers={"host": "localhost:6876"}).status_code == 200
    assert served.sql("select 1", headers={"host": "[::1]:6876"}).status_code == 200


def test_the_role_and_the_database(served: Served) -> None:
    assert served.sql("select 1").status_code == 200
    assert served.front.sessions[-1].startup.user == "waterclock"
    answer = served.sql("select 1", auth=("nobody", "x"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "28000")
    body = {"query": "select 1", "database": "none"}
    answer = served.call(lambda c: c.post("/api/sql", json=body))
    assert answer.json()["error"]["code"] == "3D000"


def test_a_password_where_one_is_required() -> None:
    served = Served(password="geheim ½")
    for auth in (None, ("waterclock", "wrong"), ("nobody", "geheim ½")):
        answer = served.sql("select 1", auth=auth)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "28P01")
        assert "Basic" in answer.headers["www-authenticate"]
    assert served.get("/metrics").status_code == 401
    assert served.get("/health").status_code == served.get("/ready").status_code == 200
    token = base64.b64encode("waterclock:geheim ½".encode()).decode()
    assert served.sql("select 1", headers={"authorization": f"Basic {token}"}).status_code == 200
    assert served.sql("select 1", headers={"authorization": "Basic %%%"}).status_code == 401
    assert not [s for s in served.front.sessions if s.startup.user != "waterclock"]


def test_metrics(served: Served) -> None:
    served.sql("select 1; fail")
    served.sql("nonsense")
    served.metrics.tick(0.2)
    text = served.get("/metrics").text
    for line in (
        "waterclock_connections 3.0",
        'waterclock_view_lag_milliseconds{view="public.v"} 12.0',
        'waterclock_view_state_rows{view="public.v"} 34.0',
        'waterclock_view_health{health="running",view="public.v"} 1.0',
        "waterclock_table_commits_total 5.0",
        "waterclock_oracle_read_timestamp_milliseconds 6.0",
        'waterclock_statements_total{kind="select",outcome="ok"} 1.0',
        'waterclock_statements_total{kind="select",outcome="error"} 1.0',
        'waterclock_statements_total{kind="other",outcome="error"} 1.0',
        'waterclock_statement_duration_seconds_count{kind="select"} 2.0',
        "waterclock_tick_duration_seconds_count 1.0",
    ):
        assert line in text.splitlines(), line


def test_somebody_lost_is_told_what_there_is(served: Served) -> None:
    assert "POST /api/sql" in served.get("/").json()["paths"]
    for path, status in (("/nowhere", 404), ("/api/sql", 405)):
        answer = served.get(path)
        assert answer.status_code == status
        assert answer.json()["error"]["message"] == f"there is no GET {path}"
        assert "POST /api/sql" in answer.json()["error"]["hint"]
