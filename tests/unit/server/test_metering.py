"""Counting and timing statements in front of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.api import AtHand, Rows, Startup
from waterclock.errors import WaterclockError
from waterclock.server.metering import MeteredFront, MeteredSession, kind_of
from waterclock.testing.fake_adapter import FakeFront


class Noted:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, bool]] = []

    def statement(self, kind: str, outcome: str, seconds: float | None) -> None:
        self.told.append((kind, outcome, seconds is not None))


async def session_of(noted: Noted) -> MeteredSession:
    startup = Startup("waterclock", "waterclock", {}, None, 1)
    session = await MeteredFront(FakeFront(), noted).connect(startup, lambda _: None)
    assert isinstance(session, MeteredSession)
    return session


async def run(session: MeteredSession, text: str) -> None:
    async for response in session.run_simple(text):
        if isinstance(response, Rows):
            async for _ in response.batches:
                pass


def test_simple_statements() -> None:
    async def main() -> list[Any]:
        noted = Noted()
        session = await session_of(noted)
        await run(session, "select 1; begin; commit")
        with pytest.raises(WaterclockError):
            await run(session, "fail")
        return noted.told

    assert asyncio.run(main()) == [
        ("select", "ok", True),
        ("begin", "ok", True),
        ("commit", "ok", True),
        ("other", "error", True),
    ]


def test_extended_statements() -> None:
    async def main() -> list[Any]:
        noted = Noted()
        session = await session_of(noted)
        await session.parse("s", "select 5", ())
        await session.bind("", "s", (), ())
        response = await session.execute("", 0)
        assert isinstance(response, Rows)
        assert not noted.told, "it has not ended yet"
        assert [batch.num_rows async for batch in response.batches] == [1]
        with pytest.raises(WaterclockError):
            await session.parse("t", "select nonsense", ())
        await session.terminate()
        return noted.told

    assert asyncio.run(main()) == [("select", "ok", True), ("select", "error", True)]


def test_a_cancelled_statement() -> None:
    async def main() -> list[Any]:
        noted = Noted()
        session = await session_of(noted)
        asyncio.get_running_loop().call_later(0.05, session.cancel)
        with pytest.raises(WaterclockError):
            await run(session, "endless")
        return noted.told

    assert asyncio.run(main()) == [("select", "cancelled", True)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INSERT 0 3", "insert"),
        ("  select 1", "select"),
        ("CREATE TABLE", "create"),
        ("secret word", "other"),
        ("", "other"),
        ("'select'", "other"),
    ],
)
def test_kinds_are_words_that_statements_begin_with(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_rows_that_are_at_hand_are_all_there_is() -> None:
    async def main() -> list[Any]:
        noted = Noted()
        session = await session_of(noted)
        batch = pa.RecordBatch.from_pydict({"n": [1, 2]})
        rows = Rows((), AtHand([batch]))
        assert session._metered(rows, 0.0) is rows, "whoever sends them sees that they are there"
        return noted.told

    assert asyncio.run(main()) == [("select", "ok", True)]
