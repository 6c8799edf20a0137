"""Recent reads through SQL, over files: what was written before the statement is in its answer.

Sources look at their files by themselves once in ten minutes here, so that what is seen was asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.errors import WaterclockError
from waterclock.storage.sources.api import Connector, Surroundings
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.files import connector as files
from waterclock.storage.sources.files.connector import LineFiles
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world

SLOW = Pace(tick_ms=600_000, retain_ms=180_000)


class Shore:
    """A world with files, each of them a source."""

    def __init__(self, world: AdapterWorld, folder: Path, client: Client) -> None:
        self.world = world
        self.folder = folder
        self.client = client

    async def add(self, name: str) -> None:
        """A source of one file, which is empty."""
        (self.folder / name).touch()
        await self.client.run(
            f"CREATE SOURCE {name} FROM FILE '{self.folder / name}' FORMAT TEXT"
            " WITH (TIMESTAMP INTERVAL = '10min')"
        )

    def write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")


def on_shore(test: Callable[[Shore], Awaitable[None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            folder = tmp_path / "in"
            folder.mkdir()
            async with adapter_world(tmp_path / "data", pace=SLOW) as world:
                shore = Shore(world, folder, await world.connect())
                await shore.add("lines")
                await test(shore)

        asyncio.run(inside())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@pytest.mark.semantics(123, 124, 125)
@on_shore
async def test_a_recent_read_sees_what_was_written_before_it(shore: Shore) -> None:
    client = shore.client
    await client.run("SET real_time_recency = on")
    for number in range(30):
        shore.write("lines", f"line {number}")
        assert len(await client.rows("SELECT * FROM lines")) == number + 1


@pytest.mark.semantics(126, 128)
@on_shore
async def test_recency_is_asked_for_and_others_need_not_wait(shore: Shore) -> None:
    client, other = shore.client, await shore.world.connect()
    assert await client.rows("SHOW real_time_recency") == [("off",)]
    assert await client.rows("SELECT * FROM lines AS OF UPSTREAM") == []
    shore.write("lines", "new")
    assert await client.rows("SELECT * FROM lines") == []
    assert await client.rows("SELECT * FROM lines AS OF UPSTREAM") == [("new",)]
    # What it has seen others see from then on, whether they ask or not.
    assert await other.rows("SELECT * FROM lines") == [("new",)]


@on_shore
async def test_for_one_transaction(shore: Shore) -> None:
    client = shore.client
    shore.write("lines", "a")
    await client.run("BEGIN; SET LOCAL real_time_recency = on")
    assert await client.rows("SELECT * FROM lines") == [("a",)]
    shore.write("lines", "b")
    assert await client.rows("SELECT * FROM lines") == [("a",)]  # all reads are at one time
    await client.run("COMMIT")
    assert await client.rows("SHOW real_time_recency") == [("off",)]


@pytest.mark.semantics(123, 127)
@on_shore
async def test_whatever_reads_a_source_is_recent(shore: Shore) -> None:
    """Through views over views, in statements that write, and in cursors."""
    client = shore.client
    await client.run("CREATE VIEW v AS SELECT * FROM lines; CREATE VIEW w AS SELECT * FROM v")
    await client.run("CREATE TABLE t (line text); SET real_time_recency = on")
    shore.write("lines", "a")
    shown = await client.rows("EXPLAIN TIMESTAMP FOR SELECT * FROM w")
    assert any("lines head: " in row[0] and row[0].endswith(":2") for row in shown)
    shore.write("lines", "b")
    await client.run("INSERT INTO t SELECT * FROM lines")
    assert len(await client.rows("SELECT * FROM t")) == 2
    shore.write("lines", "c")
    await client.run("BEGIN; DECLARE c CURSOR FOR SELECT * FROM lines")
    assert len(await client.rows("FETCH ALL FROM c")) == 3
    await client.run("COMMIT")


@on_shore
async def test_a_source_that_comes_later_in_a_transaction_is_recent_or_refused(
    shore: Shore,
) -> None:
    client = shore.client
    await shore.add("more")
    await client.run("SET real_time_recency = on; SELECT * FROM lines; SELECT * FROM more")
    await client.run("BEGIN")
    assert await client.rows("SELECT * FROM lines") == []
    assert await client.rows("SELECT * FROM more") == []  # nothing has come since
    await client.run("COMMIT; BEGIN")
    assert await client.rows("SELECT * FROM lines") == []
    # The source has gone on meanwhile, so what is written now is bound after the transaction.
    await (await shore.world.connect()).run("SELECT * FROM more AS OF UPSTREAM")
    shore.write("more", "late")
    error = await client.fails("SELECT * FROM more")
    assert error.sqlstate == "40001"
    await client.run("ROLLBACK")
    assert await client.rows("SELECT * FROM more") == [("late",)]


@pytest.mark.semantics(134)
@on_shore
async def test_tables_are_complete_at_the_time_of_a_recent_read(shore: Shore) -> None:
    client = shore.client
    await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    await client.run("SET real_time_recency = on")
    for number in range(5):
        shore.write("lines", f"line {number}")
        await client.run("BEGIN")
        lines = await client.rows("SELECT * FROM lines")
        rows = await client.rows("SELECT a FROM t")
        await client.run("COMMIT")
        assert (len(lines), len(rows)) == (number + 1, number + 1)
        await client.run(f"INSERT INTO t VALUES ({number})")


async def seen_together(client: Client) -> tuple[int, int]:
    """How many lines and rows one transaction sees."""
    await client.run("BEGIN; SET LOCAL real_time_recency = on")
    lines, rows = await client.rows("SELECT * FROM lines"), await client.rows("SELECT a FROM t")
    await client.run("COMMIT")
    return len(lines), len(rows)


@pytest.mark.semantics(135)
@pytest.mark.parametrize("keeps_on", [False, True])
def test_tables_and_sources_are_seen_as_of_one_moment(tmp_path: Path, *, keeps_on: bool) -> None:
    """A row is committed and then a line written, after the read has begun and before its question
    comes upstream: who sees the line has to see the row. The other way round a row that was
    committed after a line is not seen without it. If both go on all the time, writes are put off.
    """

    @on_shore
    async def test(shore: Shore) -> None:
        client, writer = shore.client, await shore.world.connect()
        await client.run("CREATE TABLE t (a int); SELECT * FROM lines AS OF UPSTREAM")
        loop, probe, asked = asyncio.get_running_loop(), LineFiles.probe, 0

        def written_before(self: LineFiles) -> object:
            nonlocal asked
            asked += 1
            if asked == 1 or keeps_on:
                insert = writer.run(f"INSERT INTO t VALUES ({asked})")
                done = asyncio.run_coroutine_threadsafe(insert, loop)
                with suppress(TimeoutError):  # the third has to wait, for writes are put off
                    done.result(60 if asked < 3 else 0.1)
                    shore.write("lines", f"line {asked}")
            return probe(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LineFiles, "probe", written_before)
            lines, rows = await seen_together(client)
        assert lines == rows >= 1
        assert asked == (3 if keeps_on else 2)

    test(tmp_path)


@pytest.mark.semantics(129, 131)
@on_shore
async def test_explain_timestamp_shows_heads_and_bindings(shore: Shore) -> None:
    client = shore.client
    shore.write("lines", "abc")
    rows = await client.rows("EXPLAIN TIMESTAMP FOR SELECT * FROM lines AS OF UPSTREAM")
    facts = dict(row[0].strip().split(": ", 1) for row in rows)
    name = "waterclock.public.lines"
    file = shore.folder / "lines"
    assert facts[f"{name} head"] == f"{file}:4"
    bound, at = facts[f"{name} bound"].split(" at ")
    assert bound == f"{file}:4"
    time_, recency = int(facts["query timestamp"]), int(facts["real-time recency"])
    assert int(at) <= recency <= time_ < int(facts[f"{name} complete to"])
    assert facts[f"{name} waited for"].endswith(" ms")
    without = await client.rows("EXPLAIN TIMESTAMP FOR SELECT * FROM lines")
    assert not any(f"{name} head" in row[0] for row in without)


@on_shore
async def test_as_of_names_the_time_and_asks_no_source(shore: Shore) -> None:
    client = shore.client
    await client.run("SET real_time_recency = on; SELECT * FROM lines")
    shore.write("lines", "new")
    shown = await client.rows("EXPLAIN TIMESTAMP FOR SELECT * FROM lines AS OF AT LEAST 0")
    facts = dict(row[0].strip().split(": ", 1) for row in shown)
    assert facts["real-time recency"] != "none"  # AT LEAST only bounds it
    shore.write("lines", "newer")
    now = int(facts["query timestamp"])
    assert await client.rows(f"SELECT * FROM lines AS OF {now}") == [("new",)]


@on_shore
async def test_the_progress_of_a_source_is_recent_too(shore: Shore) -> None:
    client = shore.client
    shore.write("lines", "abc")
    shown = await client.rows('SELECT "offset" FROM lines_progress AS OF UPSTREAM')
    assert shown == [(4,)]


@pytest.mark.semantics(140)
@on_shore
async def test_reads_of_tables_do_not_wait_because_of_recent_reads(shore: Shore) -> None:
    client, core = shore.client, shore.world.core
    await client.run("CREATE TABLE t (a int)")
    [table] = [each.id for each in core.current.items() if each.name == "t"]
    for is_new in (False, True):
        if is_new:
            shore.write("lines", "new")
        await client.run("SELECT * FROM lines AS OF UPSTREAM")
        [(_, upper)] = core.holds.frontiers([table]).values()
        complete_to = upper.only()
        assert complete_to is not None
        assert complete_to > core.oracle.read_ts()


@pytest.mark.semantics(140)
@on_shore
async def test_many_readers_share_the_questions(shore: Shore) -> None:
    clients = [await shore.world.connect() for _ in range(100)]
    looked = 0
    probe = LineFiles.probe

    def counted(self: LineFiles) -> object:
        nonlocal looked
        looked += 1
        return probe(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LineFiles, "probe", counted)
        shore.write("lines", "new")
        reads = [each.rows("SELECT * FROM lines AS OF UPSTREAM") for each in clients]
        assert await asyncio.gather(*reads) == [[("new",)]] * 100
    assert 1 <= looked <= 10


class Deaf(LineFiles):
    """Files that can not be reached while `is_deaf`, and that may not tell where they end."""

    is_deaf = False
    tells = True

    def probe(self) -> object:  # type: ignore[override]
        if Deaf.is_deaf:
            raise TransientFault("the tide is out")
        return super().probe()

    @property
    def is_linearizable(self) -> bool:
        return Deaf.tells


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> type[Deaf]:
    def opened(definition: object, surroundings: Surroundings) -> Connector:
        return Deaf(definition, surroundings)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(files, "connector_of", opened)
    monkeypatch.setattr(Deaf, "is_deaf", False)
    monkeypatch.setattr(Deaf, "tells", True)
    return Deaf


@pytest.mark.semantics(140, 141)
def test_a_source_that_does_not_answer_is_named_and_holds_up_nobody(
    tmp_path: Path, deaf: type[Deaf]
) -> None:
    @on_shore
    async def test(shore: Shore) -> None:
        client, other = shore.client, await shore.world.connect()
        await client.run("SELECT * FROM lines AS OF UPSTREAM; SET real_time_recency = on")
        await client.run("SET real_time_recency_timeout = '300ms'; CREATE TABLE t (a int)")
        deaf.is_deaf = True
        began = time.monotonic()
        error, rows = await asyncio.gather(
            client.fails("SELECT * FROM lines"), other.rows("SELECT * FROM lines")
        )
        assert rows == []
        assert time.monotonic() - began < 60
        assert error.sqlstate == "57014"
        assert "no answer from source lines within 300ms" in error.message
        assert error.detail is not None
        assert "stalled: the tide is out" in error.detail
        assert error.hint is not None
        assert await client.rows("SELECT a FROM t") == []  # what has no source has nobody to ask
        deaf.is_deaf = False
        await client.run("SET real_time_recency_timeout = 0")
        shore.write("lines", "new")
        assert await client.rows("SELECT * FROM lines") == [("new",)]

    test(tmp_path)


@pytest.mark.semantics(139)
def test_a_source_that_does_not_qualify_is_refused_by_name(
    tmp_path: Path, deaf: type[Deaf]
) -> None:
    deaf.tells = False

    @on_shore
    async def test(shore: Shore) -> None:
        client = shore.client
        await client.run("CREATE VIEW v AS SELECT * FROM lines")
        for query in ("SELECT * FROM lines AS OF UPSTREAM", "SELECT * FROM v AS OF UPSTREAM"):
            error = await client.fails(query)
            assert error.sqlstate == "0A000"
            assert '"lines"' in error.message
            assert error.detail is not None
        assert await client.rows("SELECT * FROM lines") == []

    test(tmp_path)


@on_shore
async def test_a_source_that_is_dropped_meanwhile(shore: Shore) -> None:
    client, other = shore.client, await shore.world.connect()
    await client.run("SELECT * FROM lines AS OF UPSTREAM")

    async def read() -> object:
        try:
            return await client.rows("SELECT * FROM lines AS OF UPSTREAM")
        except WaterclockError as error:
            return error.sqlstate

    found, _ = await asyncio.gather(read(), other.run("DROP SOURCE lines"))
    assert found in ([], "42P01")


# Bounded staleness


@pytest.mark.parametrize("name", ["transaction_isolation", "default_transaction_isolation"])
def test_the_bound_is_shown_in_its_usual_form(tmp_path: Path, name: str) -> None:
    @on_shore
    async def test(shore: Shore) -> None:
        client = shore.client
        await client.run(f"SET {name} = 'Bounded  Staleness 10000 ms'")
        shown = [("bounded staleness 10s",)]
        assert await client.rows(f"SHOW {name}") == shown
        assert await client.rows("SHOW transaction_isolation") == shown
        for wrong in ("bounded staleness", "bounded staleness 0", "bounded staleness soon"):
            assert (await client.fails(f"SET {name} = '{wrong}'")).sqlstate == "22023"

    test(tmp_path)


@pytest.mark.semantics(141)
@on_shore
async def test_bounded_staleness_answers_at_once_or_names_what_is_late(shore: Shore) -> None:
    client = shore.client
    await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    await client.run("SELECT * FROM lines AS OF UPSTREAM")
    await client.run("SET transaction_isolation = 'bounded staleness 1h'")
    assert await client.rows("SELECT a FROM t") == [(1,)]
    assert await client.rows("SELECT * FROM lines") == []
    await client.run("SET transaction_isolation = 'bounded staleness 100ms'")
    await asyncio.sleep(0.2)
    error = await client.fails("SELECT * FROM lines")  # which looks once in ten minutes
    assert error.sqlstate == "55000"
    assert error.message.startswith("source lines can not be read with a staleness of")
    shore.write("lines", "new")
    assert await client.rows("SELECT * FROM lines AS OF UPSTREAM") == [("new",)]


@on_shore
async def test_a_block_with_bounded_staleness_does_not_wait_either(shore: Shore) -> None:
    client, writer = shore.client, await shore.world.connect()
    await client.run("CREATE TABLE t (a int); SELECT * FROM lines AS OF UPSTREAM")
    await asyncio.sleep(0.05)
    await writer.run("INSERT INTO t VALUES (1)")
    await client.run("SET transaction_isolation = 'bounded staleness 1h'; BEGIN")
    assert await client.rows("SELECT a FROM t") == [(1,)]
    error = await client.fails("SELECT * FROM lines")
    assert error.message == "source lines is not complete yet at the time of the transaction"
