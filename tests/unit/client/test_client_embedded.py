"""The database inside a program, over the fake adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.api import ColumnDescription, CopyIn, Response, Rows
from waterclock.client.api import Connection, NoSpark
from waterclock.client.connecting import connect
from waterclock.client.embedded import EmbeddedConnection, NeedsAppend, WrongParameters
from waterclock.client.remote import ServerError
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import BOOL, INT4, INT8, MZ_TIMESTAMP, TEXT
from waterclock.server.loop import LoopThread
from waterclock.testing.fake_adapter import FakeFront, FakeSession, FakeTable

COLUMNS = (ColumnDescription("a", INT4), ColumnDescription("b", TEXT))
FEW = pa.record_batch([pa.array([1, 2], pa.int32()), pa.array(["x", None])], names=["c0", "c1"])


@pytest.fixture
def front() -> FakeFront:
    return FakeFront({"few": FakeTable(COLUMNS, (FEW, FEW)), "none": FakeTable(COLUMNS, ())})


@pytest.fixture
def connection(front: FakeFront) -> Iterator[EmbeddedConnection]:
    with EmbeddedConnection(front, LoopThread(), None, lambda: None) as connection:
        yield connection


def test_it_is_a_connection(connection: Connection) -> None:
    assert connection.sql("select 1").rows == [(1,)]


def test_rows_have_the_names_and_types_of_the_result(connection: EmbeddedConnection) -> None:
    result = connection.sql("table few")
    assert result.arrow().schema == pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert result.rows == [(1, "x"), (2, None)] * 2
    assert result.tag == "SELECT 4"
    assert connection.sql("table none").arrow().schema.names == ["a", "b"]


def test_the_last_of_several_statements_counts(connection: EmbeddedConnection) -> None:
    assert connection.sql("begin; select 1; commit").tag == "COMMIT"
    assert connection.sql("").tag == ""


@pytest.mark.parametrize(
    ("kind", "value"), [("int4", 7), ("text", "é"), ("numeric", Decimal("1.5")), ("text", None)]
)
def test_parameters(connection: EmbeddedConnection, kind: str, value: Any) -> None:
    assert connection.sql(f"select $1::{kind}", value).rows == [(value,)]


@pytest.mark.parametrize("parameters", [("x",), (1, 2)])
def test_parameters_that_do_not_fit(
    connection: EmbeddedConnection, parameters: tuple[Any, ...]
) -> None:
    with pytest.raises(WrongParameters):
        connection.sql("select $1::int4", *parameters)
    assert connection.sql("select 1").rows == [(1,)]


def test_errors_are_raised_and_the_session_goes_on(connection: EmbeddedConnection) -> None:
    with pytest.raises(WaterclockError, match="division by zero"):
        connection.sql("fail")
    with pytest.raises(NeedsAppend):
        connection.sql("copy few to stdout")
    with pytest.raises(NeedsAppend):
        connection.sql("copy few from stdin")
    assert connection.sql("select 1").rows == [(1,)]


def test_without_spark_there_is_no_dataframe(connection: EmbeddedConnection) -> None:
    with pytest.raises(NoSpark):
        connection.sql("select 1").df()


def test_append(
    connection: EmbeddedConnection, front: FakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake's COPY has no list of columns; what it is asked is told to it without."""
    run_simple = FakeSession.run_simple
    asked = []

    async def simplified(self: FakeSession, text: str) -> AsyncIterator[Response]:
        asked.append(text)
        async for response in run_simple(self, "copy few from stdin"):
            assert isinstance(response, CopyIn)
            yield response

    monkeypatch.setattr(FakeSession, "run_simple", simplified)
    rows = pa.table({"b": ["y", "z"], "a": pa.array([3, 4], pa.int64())})
    assert connection.append("few", rows) == 2
    assert asked == ["COPY few (b, a) FROM STDIN"]
    [batch] = front.received["few"]
    assert batch.to_pylist() == [{"a": 3, "b": "y"}, {"a": 4, "b": "z"}]
    front.received.clear()
    with pytest.raises(WrongParameters, match="do not fit"):
        connection.append("few", pa.table({"a": ["x"], "b": ["y"]}))
    assert not front.received


def test_subscribe(
    connection: EmbeddedConnection, front: FakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = tuple(
        ColumnDescription(name, kind)
        for name, kind in (
            ("mz_timestamp", MZ_TIMESTAMP),
            ("mz_progressed", BOOL),
            ("mz_diff", INT8),
            ("n", INT4),
        )
    )

    async def told(self: FakeSession, text: str) -> AsyncIterator[Response]:  # noqa: ARG001
        assert text == "SUBSCRIBE TO v WITH (PROGRESS)"

        async def batches() -> AsyncIterator[pa.RecordBatch]:
            for rows in ([(5, False, 1, 9)], [(6, True, None, None), (8, True, None, None)]):
                arrays = [
                    pa.array([row[place] for row in rows], kind)
                    for place, kind in enumerate((pa.int64(), pa.bool_(), pa.int64(), pa.int32()))
                ]
                yield pa.record_batch(arrays, names=[f"c{place}" for place in range(4)])

        yield Rows(columns, batches(), "SUBSCRIBE", counted=False)

    monkeypatch.setattr(FakeSession, "run_simple", told)
    with connection.subscribe("v") as subscription:
        found = [(c.upper, c.updates.to_pylist()) for c in subscription]
    assert found == [(6, [{"mz_timestamp": 5, "mz_diff": 1, "n": 9}]), (8, [])]
    assert front.sessions[-1].terminated
    assert not front.sessions[0].terminated


def test_closing_is_idempotent_and_ends_subscriptions(front: FakeFront) -> None:
    closed: list[None] = []
    connection = EmbeddedConnection(front, LoopThread(), None, lambda: closed.append(None))
    connection.close()
    connection.close()
    assert len(closed) == 1
    assert all(session.terminated for session in front.sessions)


def test_a_dsn_is_told_from_a_path() -> None:
    for dsn in ("host=127.0.0.1 port=1", "postgresql://127.0.0.1:1/waterclock"):
        with pytest.raises(ServerError):
            connect(dsn)
