"""Clients: sessions that run random transactions, some of which are struck at an await point.

A client writes down what it does before it does it, and what it was told after. A *victim* is
cancelled, times out, or is killed with its connection in some of its statements, at an await point
that the seed chooses; for the others nothing of that may be noticeable.

Values are fresh numbers, so that no two transactions make the same change; and a row is deleted or
replaced by one transaction only.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Generator
from random import Random
from typing import Any, Generic, TypeVar

import pyarrow as pa

from waterclock.adapter.api import Rows as RowsResponse
from waterclock.adapter.api import TransactionStatus
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import Client, rows_of, taken
from waterclock.testing.control.history import Followed, Outcome, Read, Transaction
from waterclock.testing.control.world import COLUMNS, TABLES, VIEWS, World

T = TypeVar("T")
CANCELLED = "57014"
MAYBE = "40003"
CONFLICT = "40001"
UNAVAILABLE = "58030"
ENGINE = "58000"
STRIKES = (1, 1, 1, 2, 2, 3, 4, 6, 9, 14)
"""Most statements wait a few times only."""
DDL_RACES = ("42P01", "42P07", "2BP01", "40001", "42809")


class Struck(Generic[T]):
    """Awaits something, and calls `strike` when it waits for the so-manyth time."""

    def __init__(self, work: Awaitable[T], at: int, strike: Callable[[], None]) -> None:
        self._work = work
        self._left = at
        self._strike = strike

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        try:
            waited_for = next(steps)
            while True:
                self._left -= 1
                if self._left == 0:
                    self._strike()
                try:
                    sent = yield waited_for
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as error:
                    waited_for = steps.throw(error)
                else:
                    waited_for = steps.send(sent)
        except StopIteration as end:
            answer: T = end.value
            return answer


class Own:
    """A table that only one client uses, and what it knows of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exists: bool | None = False
        """None if a statement is under way, or if nobody knows how it ended."""
        self.rows: Counter[tuple[int, int]] = Counter()
        self.doubtful: Counter[tuple[int, int]] = Counter()
        """Rows that may be there too."""


class ClientLife:
    """One client, over as many connections as it takes."""

    def __init__(self, world: World, name: str, transactions: int, *, is_victim: bool) -> None:
        self._world = world
        self._random: Random = world.random
        self.name = name
        self._left = transactions
        self._is_victim = is_victim
        taste = Random(world.random.random())
        self._taste: defaultdict[str, float] = defaultdict(lambda: taste.choice([0.1, 1, 1, 5]))
        """What is done more often than usual, or less: every client has other habits."""
        self._rows: list[tuple[str, int, int]] = []
        """Rows that this client has written and may delete or replace."""
        self._own = Own(f"own_{name}")

    async def run(self) -> None:
        """Do all transactions."""
        while self._left > 0:
            await self._world.is_ready.wait()
            task = asyncio.create_task(self._connected())
            self._world.connections[task] = None
            try:
                await asyncio.wait([task])
            finally:
                del self._world.connections[task]
            error = None if task.cancelled() else task.exception()
            if error is not None and not (isinstance(error, WaterclockError) and self._is_dead):
                raise error

    async def use_everything(self) -> None:
        """Read all relations together, write to all tables, and read again."""
        client = await self._world.connect()
        for action in (self._read_all, self._insert_both, self._read_all):
            transaction = self._world.history.begin(self.name)
            await action(_Work(self._world, client, transaction))
            self._world.history.end(transaction, Outcome.COMMITTED)
        await client.session.terminate()

    async def _read_all(self, work: _Work) -> None:
        await work.begin()
        for relation in (*TABLES, *VIEWS):
            await work.read(relation)
        await work.commit()

    async def _connected(self) -> None:
        client = await self._world.connect()
        try:
            if self._is_victim and self._random.random() < 0.3:
                millis = self._random.choice([1, 5, 40])
                await client.one(f"SET statement_timeout = {millis}")
            for _ in range(self._random.randint(1, 8)):
                if self._left <= 0:
                    return
                self._left -= 1
                if self._random.random() < 0.5:
                    await asyncio.sleep(self._random.random() * self._random.choice([0.01, 0.3]))
                await self._transact(client)
        finally:
            await client.session.terminate()

    async def _transact(self, client: Client) -> None:
        """One transaction, which may be struck."""
        actions = {
            self._insert: 5,
            self._insert_both: 3,
            self._read: 6,
            self._read_together: 3,
            self._read_and_write: 3,
            self._delete: 2,
            self._replace: 2,
            self._prepared: 2,
            self._prepared_read: 2,
            self._copy: 1,
            self._follow: 1,
            self._define: 4,
            self._use_own: 5,
        }
        weights = [n * self._taste[action.__name__] for action, n in actions.items()]
        [action] = self._random.choices(list(actions), weights)
        transaction = self._world.history.begin(self.name)
        work = _Work(self._world, client, transaction)
        try:
            if self._is_victim and self._random.random() < 0.4:
                at = self._random.choice(STRIKES)
                await Struck(action(work), at, self._strike(client))
            else:
                await action(work)
        except WaterclockError as error:
            self._judge(work, error)
            if client.session.status is not TransactionStatus.IDLE:
                await client.one("ROLLBACK")
        else:
            self._world.history.end(transaction, Outcome.COMMITTED)
        self._world.tell(f"{transaction} {transaction.outcome.value}")

    def _strike(self, client: Client) -> Callable[[], None]:
        task = asyncio.current_task()
        assert task is not None
        if self._random.random() < 0.7:
            self._world.history.counts["cancelled"] += 1
            return client.session.cancel
        self._world.history.counts["killed"] += 1

        def kill() -> None:
            task.cancel()

        return kill

    @property
    def _is_dead(self) -> bool:
        """Whether there is no server that could answer."""
        server = self._world.server
        return server is None or server.life.is_over or server.store.has_failed

    def _judge(self, work: _Work, error: WaterclockError) -> None:
        """What an error says of the transaction; a complaint if it should not have been."""
        world = self._world
        code = error.sqlstate
        world.history.counts[code] += 1
        world.tell(f"{self.name}: {code} {error}")
        is_dead = world.server is None or world.server.life.is_over
        is_known = code in (CONFLICT, *DDL_RACES, ENGINE) or not work.may_have_ended
        if not is_dead:
            world.history.end(work.transaction, Outcome.ABORTED if is_known else Outcome.UNKNOWN)
        allowed = {work.expected, CONFLICT} if work.may_conflict else {work.expected}
        allowed |= set(DDL_RACES) if work.defines else set()
        allowed |= {CANCELLED, MAYBE} if self._is_victim else set()
        allowed |= {ENGINE} if work.evaluates else set()
        allowed |= {UNAVAILABLE} if world.server is None or world.server.store.has_failed else set()
        if not is_dead and code not in allowed:
            world.complain(f"{work.transaction} failed with {code}: {error} ({error.detail})")

    # What transactions do

    def _row(self) -> tuple[str, int, int]:
        return self._random.choice(TABLES), self._random.randrange(4), self._world.fresh()

    async def _insert(self, work: _Work) -> None:
        table, k, v = self._row()
        more = (self._random.randrange(4), self._world.fresh())
        work.changes((table, (k, v), 1), (table, more, 1))
        await work.run(f"INSERT INTO {table} VALUES ({k}, {v}), ({more[0]}, {more[1]})")
        self._rows += [(table, k, v)]

    async def _insert_both(self, work: _Work) -> None:
        rows = [(table, self._random.randrange(4), self._world.fresh()) for table in TABLES]
        await work.begin()
        for table, k, v in rows:
            work.changes((table, (k, v), 1))
            await work.run(f"INSERT INTO {table} VALUES ({k}, {v})")
        await work.commit()
        self._rows += rows

    async def _read(self, work: _Work) -> None:
        await work.read(self._random.choice([*TABLES, *VIEWS]))

    async def _read_together(self, work: _Work) -> None:
        await work.begin()
        for relation in self._random.sample([*TABLES, *VIEWS], 3):
            await work.read(relation)
        await work.commit()

    async def _read_and_write(self, work: _Work) -> None:
        work.may_conflict = True
        await work.begin()
        await work.read(self._random.choice([*TABLES, *VIEWS]))
        table, k, v = self._row()
        work.changes((table, (k, v), 1))
        await work.run(f"INSERT INTO {table} VALUES ({k}, {v})")
        await work.commit()

    def _taken(self) -> tuple[str, int, int] | None:
        return self._rows.pop(self._random.randrange(len(self._rows))) if self._rows else None

    async def _delete(self, work: _Work) -> None:
        taken = self._taken()
        if taken is None:
            return
        work.may_conflict = work.evaluates = True
        table, k, v = taken
        work.changes((table, (k, v), -1))
        tag = await work.run(f"DELETE FROM {table} WHERE v = {v}")
        work.saw(Read(table, Counter([(k, v)]) if tag == "DELETE 1" else Counter(), only=v))
        if tag != "DELETE 1":
            work.transaction.changes.clear()

    async def _replace(self, work: _Work) -> None:
        taken = self._taken()
        if taken is None:
            return
        work.may_conflict = work.evaluates = True
        (table, k, v), new = taken, self._world.fresh()
        work.changes((table, (k, v), -1), (table, (k, new), 1))
        tag = await work.run(f"UPDATE {table} SET v = {new} WHERE v = {v}")
        work.saw(Read(table, Counter([(k, v)]) if tag == "UPDATE 1" else Counter(), only=v))
        if tag != "UPDATE 1":
            work.transaction.changes.clear()

    async def _prepared(self, work: _Work) -> None:
        table, k, v = self._row()
        work.changes((table, (k, v), 1))
        session = work.client.session
        text = f"INSERT INTO {table} VALUES ($1, $2)"
        work.transaction.texts.append(text)
        try:
            await session.parse("", text, (23, 23))
            await session.bind("", "", (pa.scalar(k, pa.int32()), pa.scalar(v, pa.int32())), ())
            work.may_have_ended = True
            await session.execute("", 0)
            await session.sync()
        except WaterclockError:
            await session.fail()
            raise
        self._rows += [(table, k, v)]

    async def _prepared_read(self, work: _Work) -> None:
        relation, session = self._random.choice([*TABLES, *VIEWS]), work.client.session
        text = f"SELECT {COLUMNS.get(relation, 'k, v')} FROM {relation}"
        work.transaction.texts.append(text)
        try:
            await session.parse("", text, ())
            await session.bind("", "", (), ())
            work.saw(Read(relation, Counter((await taken(await session.execute("", 0))).rows)))
            await session.sync()
        except WaterclockError:
            await session.fail()
            raise

    async def _copy(self, work: _Work) -> None:
        table, rows = self._random.choice(TABLES), [(0, self._world.fresh()) for _ in range(3)]
        work.changes(*((table, row, 1) for row in rows))
        columns = [pa.array(column, pa.int32()) for column in zip(*rows, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, names=["k", "v"])
        work.may_have_ended = True
        work.transaction.texts.append(f"COPY {table} FROM STDIN")
        await work.client.one(f"COPY {table} FROM STDIN", [batch.slice(0, 1), batch.slice(1)])

    async def _follow(self, work: _Work) -> None:
        """A subscription for a while. It is no transaction of its own."""
        relation = self._random.choice([*TABLES, *VIEWS])
        followed = Followed(relation, work.transaction.begun)
        text = f"SUBSCRIBE {relation} WITH (PROGRESS)"
        work.transaction.texts.append(text)
        ends = self._world.runtime.monotonic_s() + self._random.random()
        async for response in work.client.session.run_simple(text):
            assert isinstance(response, RowsResponse)
            try:
                async for batch in response.batches:
                    for time, progressed, diff, *row in rows_of(batch):
                        if progressed:
                            followed.complete_to = int(time)
                            if followed.start is None:
                                followed.start = int(time)
                        else:
                            followed.updates.append((tuple(row), int(time), diff))
                    if self._world.runtime.monotonic_s() > ends:
                        break
            finally:
                await response.batches.aclose()  # type: ignore[attr-defined]
            break
        self._world.history.followed.append(followed)
        await work.client.session.fail()

    async def _use_own(self, work: _Work) -> None:
        """Something with a table that nobody else knows, so that its contents are certain."""
        own = self._own
        choice = self._random.random()
        was, own.exists = own.exists, None
        if was is None:
            work.expected = "42P01"
            await self._world.settled()  # a change goes on although nobody waits for it any more
            try:
                await self._read_own(work)
            except WaterclockError as error:
                # A server whose log has failed still names what it knew, for the moment it lives.
                if error.sqlstate == "42P01" and not self._is_dead:
                    own.exists = False
                raise
        elif not was:
            own.rows, own.doubtful = Counter(), Counter()
            await work.run(f"CREATE TABLE {own.name} (k int, v int)")
        elif choice < 0.4:
            row = (1, self._world.fresh())
            own.doubtful[row] += 1
            await work.run(f"INSERT INTO {own.name} VALUES {row}")
            own.rows[row] += own.doubtful.pop(row)
        elif choice < 0.6:
            await self._read_own(work)
        else:
            await work.run(f"DROP TABLE {own.name}")
            own.exists = False
            return
        own.exists = True

    async def _read_own(self, work: _Work) -> None:
        """Read the table; what was in doubt is certain after that."""
        own = self._own
        work.transaction.texts.append(f"SELECT k, v FROM {own.name}")
        found = Counter(await work.client.rows(f"SELECT k, v FROM {own.name}"))
        if own.rows - found or found - own.rows - own.doubtful:
            self._world.complain(
                f"{own.name} has {found} instead of {own.rows} and perhaps {own.doubtful}"
            )
        own.rows, own.doubtful = found, Counter()

    async def _define(self, work: _Work) -> None:
        """Something is made, used, renamed or dropped that others make, use and drop too."""
        work.defines = True
        name, other = (f"s{self._random.randrange(3)}" for _ in range(2))
        text = self._random.choice(
            [
                f"CREATE TABLE {name} (k int, v int)",
                f"CREATE TABLE {name} (k int, v int)",
                f"CREATE MATERIALIZED VIEW {name} AS SELECT k, v FROM t0 WHERE k < 3",
                f"CREATE MATERIALIZED VIEW {name} AS SELECT k, v FROM {other}",
                f"CREATE TABLE {name} AS SELECT k, v FROM t1",
                f"INSERT INTO {name} VALUES (1, 2)",
                f"SELECT k, v FROM {name}",
                f"ALTER TABLE {name} RENAME TO {other}",
                f"DROP TABLE {name}",
                f"DROP TABLE {name} CASCADE",
                f"DROP MATERIALIZED VIEW {name} CASCADE",
            ]
        )
        await work.run(text)


class _Work:
    """A transaction under way."""

    def __init__(self, world: World, client: Client, transaction: Transaction) -> None:
        self._world = world
        self.client = client
        self.transaction = transaction
        self.may_conflict = False
        self.defines = False
        self.evaluates = False
        self.expected = ""
        """An error that may come, by its SQLSTATE."""
        self.may_have_ended = False
        """Whether the commit is on its way."""
        self._in_block = False

    def changes(self, *changes: tuple[str, tuple[Any, ...], int]) -> None:
        """What will be changed, if it happens."""
        self.transaction.changes += changes

    def saw(self, read: Read) -> None:
        self.transaction.reads.append(read)

    async def run(self, text: str) -> str:
        self.transaction.texts.append(text)
        self.may_have_ended |= not self._in_block
        return (await self.client.one(text)).tag

    async def read(self, relation: str) -> None:
        text = f"SELECT {COLUMNS.get(relation, 'k, v')} FROM {relation}"
        self.transaction.texts.append(text)
        self.saw(Read(relation, Counter(await self.client.rows(text))))

    async def begin(self) -> None:
        self._in_block = True
        self.transaction.texts.append("BEGIN")
        await self.client.one("BEGIN")

    async def commit(self) -> None:
        self.may_have_ended = True
        self.transaction.texts.append("COMMIT")
        await self.client.one("COMMIT")
        self._in_block = False
