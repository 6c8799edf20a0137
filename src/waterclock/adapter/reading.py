"""Reads: the time of a read, waiting for it, and the rows at it.

A read takes its holds first, so that whatever time it then chooses stays readable; asks the oracle;
waits until all inputs are complete at the time; makes sure that the view has a value then; and
fetches the contents. Contents come from an index where there is one, else from storage. A query
that is more than picking rows is evaluated over the contents by Spark.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from waterclock.adapter.api import Notice
from waterclock.adapter.coordinator import Coordinator
from waterclock.adapter.data_errors import explained
from waterclock.adapter.engine_wait import until_up
from waterclock.adapter.errors import CollectionGone, Unsupported
from waterclock.adapter.holds import Hold
from waterclock.adapter.sources import origins
from waterclock.adapter.timelines import timeline_of
from waterclock.adapter.waiting import Waiting
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import AnyItem, Index
from waterclock.compute.api import ERROR_ROWS
from waterclock.compute.snapshot import contents_at
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.errors import InputGone, InvalidAsOf, TooStale
from waterclock.oracle.oracle import Timestamp
from waterclock.oracle.selection import (
    AsOf,
    Input,
    Isolation,
    Reason,
    Selection,
    Staleness,
    select,
)
from waterclock.persist.rows import TIME, row_schema
from waterclock.storage.errors import CapabilityMisstated, CapabilityUnknown, SubscriptionCancelled

_QUERY_THREADS = 32
"""Queries that the engine evaluates at the same time."""
FEW_KEYS = 64
"""Lookups of at most this many keys are done on the event loop."""

LOOK_AGAIN_S = 1.0
"""Poll interval of a waiting read: the failure of a source sends no wake-up."""
_NOW = "MZ_NOW()"
_QUOTED_OR_NOW = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|MZ_NOW\(\)", re.DOTALL)
"""Matches a quoted string or a call of MZ_NOW()."""


class Cancellation:
    """Whether somebody wants a statement to stop. It may be asked from any thread."""

    def __init__(self, notify: Callable[[Notice], None] = lambda _: None) -> None:
        """`notify` tells the client something."""
        self._calls: list[Callable[[], object]] = []
        self.is_set = False
        self.notify = notify
        self.waiting: Waiting | None = None
        """What the statement waits for, if it reads what is not complete."""

    def set(self) -> None:
        """Stop; to be called in the event loop of the session."""
        if self.is_set:
            return
        self.is_set = True
        for call in self._calls:
            call()

    @contextmanager
    def calling(self, call: Callable[[], object]) -> Iterator[None]:
        """Have something called when it is set during the block, once."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)

    @contextmanager
    def calling_only(self, call: Callable[[], object]) -> Iterator[None]:
        """Have this called when it is set during the block, or was before, and nothing else."""
        others, self._calls = self._calls, [call]
        if self.is_set:
            call()
        try:
            yield
        finally:
            self._calls = others


class Bell:
    """Tells an event loop of news that come from other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._news.set)

    async def wait(self, seconds: float) -> None:
        """Until there are news, or so long."""
        with suppress(TimeoutError):  # `wait_for` would lose a cancellation that comes with news
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()


@dataclass(slots=True)
class Moment:
    """A time at which some collections are read, and the hold that keeps them readable."""

    selection: Selection
    hold: Hold

    @property
    def time(self) -> int:
        return self.selection.time

    def close(self) -> None:
        self.hold.close()


class Reading:
    """Reads collections and evaluates queries over them."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._core = coordinator
        pool = coordinator.runtime.pool
        self._evaluating = pool(_QUERY_THREADS, "waterclock-queries")
        self._cancelling = pool(1, "waterclock-cancels")
        """Threads of their own: queries that take long must not keep all others from theirs."""

    def choose(
        self,
        collections: Sequence[GlobalId],
        isolation: Isolation,
        as_of: AsOf | None = None,
        *,
        among: Sequence[GlobalId] = (),
        recency: int | None = None,
        read_ts: Timestamp | None = None,
        staleness_ms: int | None = None,
    ) -> Moment:
        """The moment for a read of these collections, which are held from before it is chosen.

        `among` are others that may be read at the same moment later. Somebody else may hold what
        is read now at an earlier time than these, so the moment is not before their sinces, unless
        AS OF names another one. `recency` is the time of a recent read, and `read_ts` the oracle's
        from when it began; `staleness_ms` goes with bounded staleness.
        """
        hold = self._core.holds.take(self._with_errors([*collections, *among]))
        try:
            found = self._core.holds.frontiers(self._with_errors(collections))
            # Others may hold a collection at an earlier time than we do; that is not ours to read.
            inputs = [
                Input(c, since.join(since.timeline.frontier(hold.times[c])), upper)
                for c, (since, upper) in found.items()
            ]
            of_tables = timeline_of(self._core, found) == EPOCH_MILLIS
            exact = as_of is not None and not as_of.at_least
            strict = isolation is Isolation.STRICT_SERIALIZABLE and not exact
            if not strict or not of_tables:
                read_ts = None
            elif read_ts is None:
                read_ts = self._core.oracle.read_ts()
            together = max((hold.times[each] for each in among), default=None)
            selection = select(
                inputs,
                isolation,
                oracle_read=read_ts,
                as_of=as_of,
                recency=recency,
                together=together,
                staleness=self._staleness(staleness_ms, of_tables=of_tables, exact=exact),
            )
        except TooStale as fault:
            hold.close()
            raise self._named(fault) from None
        except InvalidAsOf as fault:
            hold.close()
            fault.detail = self._readable(collections, hold) or fault.detail
            raise
        except InputGone as fault:
            hold.close()
            raise CollectionGone from fault
        except BaseException:
            hold.close()
            raise
        hold.move(selection.time)
        return Moment(selection, hold)

    def _staleness(self, bound_ms: int | None, *, of_tables: bool, exact: bool) -> Staleness | None:
        """How old the answer may be, unless AS OF says when it is from."""
        if bound_ms is None or exact:
            return None
        if not of_tables:
            raise Unsupported(
                "bounded staleness of a relation on a timeline of its own is not supported",
                detail="Its times are not those of the clock.",
            )
        return Staleness(self._core.runtime.wall_ms(), bound_ms)

    def _named(self, fault: TooStale) -> TooStale:
        """The error with the names of what is late."""
        catalog = self._core.current
        items = [catalog.try_item(each) or self._owner(each) for each in fault.late]
        known = zip(fault.late, items, strict=True)
        fault.name([str(c) if item is None else catalog.described(item) for c, item in known])
        return fault

    def _owner(self, collection: GlobalId) -> AnyItem | None:
        """The relation that a collection is only a part of."""
        catalog = self._core.current
        owners = (each for each in catalog.items() if collection in each.collections)
        beside = (each for each in catalog.items() if collection in self._core.errors_of(each.id))
        return next(owners, None) or next(beside, None)

    def hold_earliest(self, collections: Iterable[GlobalId]) -> Hold:
        """Hold these as early as each can be read; the last of the times is the first for all."""
        return self._core.holds.take(self._with_errors(list(collections)))

    def extend(self, moment: Moment, collections: Sequence[GlobalId]) -> bool:
        """Let these be read at the moment too; False if one of them began only later."""
        return moment.hold.join(self._with_errors(collections), moment.time)

    def _readable(self, collections: Sequence[GlobalId], hold: Hold) -> str:
        """From when on each of the relations can be read, for an error."""
        catalog = self._core.current
        items = {c: item for c in collections if (item := catalog.try_item(c)) is not None}
        return "\n".join(
            f"{catalog.described(item)} can be read from {hold.times[c]} on."
            for c, item in items.items()
        )

    def time_at_once(self, read: Sequence[GlobalId], upper: int, *, can_fail: bool) -> int | None:
        """The time for a strict read of what the caller has taken already, complete up to `upper`.

        It is the oracle's; None if the read has to wait for that, or can not be at it. `can_fail`
        tells that there may be errors instead of rows.
        """
        time = self._core.oracle.read_ts()
        since = self._core.holds.since(read)
        if since is None or not since <= time < upper or self._core.store.has_failed:
            return None
        if can_fail and self._core.sources.has_failures:
            return None
        errors = self._with_errors(read)[len(read) :] if can_fail else []
        return time if not errors or self._core.holds.had_none(errors, time) else None

    def _with_errors(self, collections: Sequence[GlobalId]) -> list[GlobalId]:
        errors = [e for c in collections for e in self._core.errors_of(c)]
        return list(dict.fromkeys([*collections, *errors]))

    async def complete(
        self,
        moment: Moment,
        wanted: Sequence[GlobalId],
        cancelled: Cancellation | None = None,
    ) -> None:
        """Wait until these are complete at the moment, and tell the oracle. With bounded staleness
        nothing is waited for: raises `TooStale`.

        If that takes long, the client of the statement is told what is waited for.

        Raises `SourceFailed` if what they are made from can not go on, and `NotWritten` while the
        store can not. What was complete before is not an answer then, unless AS OF asks for it.
        """
        collections = self._with_errors(wanted)
        time = moment.time
        if moment.selection.reason is not Reason.AS_OF:
            current = self._core.current
            self._core.require_sources([each for c in wanted for each in origins(current, c)])
        if not self._are_complete(collections, time):
            self._require_at_once(moment, collections)
            bell = Bell()
            statement = cancelled or Cancellation()
            statement.waiting = waiting = Waiting(
                self._core,
                wanted,
                lambda each: not self._are_complete(self._with_errors([each]), time),
                statement.notify,
            )
            for collection in collections:
                self._core.store.watch(str(collection), bell)
            while not self._are_complete(collections, time):
                self._core.require_sources(collections)
                if moment.selection.recency is None:
                    self._core.wake()
                else:
                    self._core.wake_views()  # the sources have been asked
                await bell.wait(LOOK_AGAIN_S)
                if not self._are_complete(collections, time):
                    self._require_writable()
                    waiting.tell()
            statement.waiting = None
        read_ts = moment.selection.oracle_read
        if read_ts is not None and time > read_ts:
            self._core.oracle.apply_write(time)

    def _require_at_once(self, moment: Moment, collections: Sequence[GlobalId]) -> None:
        """Raise `TooStale` if the answer must not wait."""
        selection = moment.selection
        if selection.isolation is not Isolation.BOUNDED_STALENESS or selection.recency is not None:
            return
        late = [each for each in collections if not self._are_complete([each], moment.time)]
        behind_ms = self._core.runtime.wall_ms() - moment.time
        lack = "is not complete yet at the time of the transaction"
        raise self._named(TooStale(late, lack, max(behind_ms, 0)))

    def _require_writable(self) -> None:
        """Raise what keeps the store from writing: until it can, nothing becomes complete."""
        refusal = self._core.store.refusal
        if refusal is not None:
            raise type(refusal)(
                "what is read is not complete, and nothing can be written now",
                detail=str(refusal),
                hint=refusal.hint,
            )

    def _are_complete(self, collections: Sequence[GlobalId], time: int) -> bool:
        found = self._core.holds.frontiers(collections)
        return all(not upper.less_equal(upper.timeline.time(time)) for _, upper in found.values())

    async def check_errors(
        self, moment: Moment, collections: Sequence[GlobalId], cancelled: Cancellation
    ) -> None:
        """Raise `ViewInError` if one of the collections has no value at the moment."""
        for collection in collections:
            for errors in self._core.errors_of(collection):
                rows = await self.contents(moment, errors, ERROR_ROWS, cancelled)
                if rows.num_rows:
                    message, row = rows["message"][0].as_py(), rows["key"][0].as_py()
                    raise explained(self._core, errors, message, row)

    async def contents(
        self,
        moment: Moment,
        collection: GlobalId,
        schema: Schema,
        cancelled: Cancellation,
        wanted: pa.Table | None = None,
    ) -> pa.Table:
        """The rows of a collection at the moment; with `wanted`, only those with such keys.

        Only an index can be asked for keys.
        """
        if TIME in schema.names:
            names = [name for name in schema.names if name != TIME]
            stored = Schema(schema.project(names).columns)
            rows = await self.contents(moment, collection, stored, cancelled)
            times = pa.repeat(pa.scalar(moment.time, pa.int64()), rows.num_rows)
            return rows.append_column(TIME, times).select(list(schema.names))
        if isinstance(self._core.current.try_item(collection), Index):
            return await self._contents_of_index(moment, collection, wanted)
        if wanted is not None:  # it was an index when that was decided
            raise CollectionGone
        while True:
            try:
                return await asyncio.to_thread(
                    contents_at,
                    self._core.storage,
                    moment.hold.capability(collection),
                    moment.time,
                    row_schema(schema),
                    is_cancelled=lambda: cancelled.is_set,
                )
            except CapabilityMisstated:  # it was moved after we looked, but not beyond our hold
                continue
            except (CapabilityUnknown, SubscriptionCancelled) as error:
                if cancelled.is_set:
                    raise
                raise CollectionGone from error

    async def _contents_of_index(
        self, moment: Moment, collection: GlobalId, wanted: pa.Table | None
    ) -> pa.Table:
        compute = self._core.compute
        try:
            index = compute.index(collection)
            is_there = moment.time < index.arrangement.upper
            if wanted is not None and wanted.num_rows <= FEW_KEYS and is_there:
                return index.at(moment.time, wanted)
            return await asyncio.to_thread(index.at, moment.time, wanted)
        except Exception as error:
            if compute.has_index(collection):
                raise
            raise CollectionGone from error

    async def evaluate(
        self,
        moment: Moment,
        sql: str,
        inputs: Mapping[GlobalId, Schema],
        cancelled: Cancellation,
    ) -> pa.Table:
        """The result of a query over the collections at the moment."""
        await self.complete(moment, list(inputs), cancelled)
        await self.check_errors(moment, list(inputs), cancelled)
        contents = {
            collection: await self.contents(moment, collection, schema, cancelled)
            for collection, schema in inputs.items()
        }
        return await self.evaluate_over(sql, inputs, contents, moment.time)

    async def evaluate_over(
        self,
        sql: str,
        inputs: Mapping[GlobalId, Schema],
        contents: Mapping[GlobalId, pa.Table],
        time: int | None,
    ) -> pa.Table:
        """The result of a query over contents that are known already.

        `time` is what `mz_now()` tells; a query that asks for it must have one.
        """
        group = uuid.uuid4().hex
        evaluator = self._core.evaluator
        text = sql if time is None else at_time(sql, time)
        loop = asyncio.get_running_loop()
        work = partial(evaluator.evaluate, text, inputs, contents, group)
        await until_up(self._core.engine, self._core.pace.engine_wait_s)
        try:
            return await loop.run_in_executor(self._evaluating, work)
        except asyncio.CancelledError:  # the thread goes on until its job ends
            loop.run_in_executor(self._cancelling, evaluator.cancel, group)
            raise


def at_time(sql: str, time: int) -> str:
    """The engine's SQL of a query that is read at the time: there, `mz_now()` is just that."""
    if _NOW not in sql:
        return sql
    return _QUOTED_OR_NOW.sub(
        lambda found: f"CAST({time} AS BIGINT)" if found.group() == _NOW else found.group(), sql
    )


def indexes_on(catalog: Catalog, relations: Iterable[GlobalId]) -> list[GlobalId]:
    """All indexes on the relations."""
    users = [user for each in relations for user in catalog.users.get(each, ())]
    return [user for user in users if isinstance(catalog.try_item(user), Index)]


def index_on(catalog: Catalog, relation: GlobalId) -> Index | None:
    """An index on the relation, the oldest if there are several."""
    users = (catalog.item(user) for user in sorted(catalog.users.get(relation, ())))
    return next((user for user in users if isinstance(user, Index)), None)
