"""Recent reads: the sources behind a query are asked how far the systems upstream are.

The order is that of the promise. All sources are asked for their heads after the statement has
begun, so a head is after everything that was acknowledged upstream before the statement. All of
them are asked at once, and to be complete at one time: at or after their uppers, and the oracle's
time. When the heads are durably bound and the data is here, the read may be at that time or later;
sources that are behind the time that was chosen in the end are asked to move on to it.

With tables, the answer has to be as of one moment of the world: if it shows a write upstream, then
also what was committed to the tables before that was begun, and the other way round. So the time of
the read is reserved at the oracle before anything is asked upstream: it shows what was committed
before that moment. It is the right one if none of the tables was written until the answer came, or
if nothing was written upstream since the last answer. Else all is asked again, and if that goes on,
the writes to tables wait for one answer.

Sources that follow one log upstream, as those of one PostgreSQL server do, are bound at one place
of it and at one time, and the read is at just that time: so writes to any of them are in one order,
as if they were one source.

What is asked of a source costs other readers nothing: they go on at times that are complete. One
source that does not answer fails the read after `real_time_recency_timeout`, and no other source
waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from waterclock.adapter.errors import CollectionGone, SourceFailed
from waterclock.catalog.objects import Source
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.oracle.oracle import Timestamp
from waterclock.sql.options import shown_duration
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.sources.recency import Finding, NotLinearizable, SourceDropped
from waterclock.storage.sources.together import Group

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator


_TRIES = 3
"""Each time after so many, the writes to tables wait for the answer."""
_HOLD_S = 0.25
"""For so long at most."""


class RecencyTimeout(WaterclockError):
    """A source has not got to what was upstream in the time that the session allows."""

    sqlstate: ClassVar[str] = "57014"


@dataclass(frozen=True, slots=True)
class Answered:
    """What a source has found, and how long after it was asked."""

    finding: Finding
    after_ms: int


@dataclass(frozen=True, slots=True)
class Recent:
    """What the sources of a recent read have found.

    At `time` and later, everything is there that was upstream of them when they were asked.
    """

    time: int
    read_ts: Timestamp
    """The oracle's, from before they were asked."""
    sources: tuple[Answered, ...]
    is_joint: bool = False
    """Whether some of the sources are at one place of their log at `time`, and no other time will
    do."""

    @property
    def heads(self) -> dict[GlobalId, SourceFrontier | None]:
        """How far the systems upstream were."""
        return {each.finding.source: each.finding.head for each in self.sources}

    @property
    def bounds(self) -> dict[GlobalId, SourceFrontier]:
        """How far the sources are bound."""
        return {each.finding.source: each.finding.bound for each in self.sources}

    def lines(self, name_of: Callable[[GlobalId], str]) -> list[tuple[str, str]]:
        """What EXPLAIN TIMESTAMP shows: four lines for each source."""
        lines = []
        for each in self.sources:
            found, name = each.finding, name_of(each.finding.source)
            end = "none" if found.complete_to is None else str(found.complete_to)
            lines += [
                (f"{name} head", _shown(found.head)),
                (f"{name} bound", f"{_shown(found.bound)} at {found.bound_at}"),
                (f"{name} complete to", end),
                (f"{name} waited for", f"{each.after_ms} ms"),
            ]
        return lines


def _shown(frontier: SourceFrontier | None) -> str:
    if frontier is None:
        return "none"
    if frontier.is_finished:
        return "the end"
    parts = sorted((str(partition), upper) for partition, upper in frontier.uppers.items())
    if [partition for partition, _ in parts] == [str(None)]:
        return str(parts[0][1])
    return ", ".join(f"{partition}:{upper}" for partition, upper in parts) or "nothing"


class Asking:
    """Asks the sources of one read, for as long in all as the session allows."""

    def __init__(self, core: Coordinator, timeout_ms: int) -> None:
        """`timeout_ms` of 0 is for ever."""
        self._core = core
        self._timeout_ms = timeout_ms
        self._began_s = core.runtime.monotonic_s()

    async def heads(self, sources: Collection[GlobalId], at_least: int = 0) -> Recent:
        """Wait until everything is bound that is upstream of the sources now.

        They are complete then at `at_least` and the oracle's time. Raises `NotLinearizable`,
        `RecencyTimeout`, `SourceFailed`, `CollectionGone`.
        """
        oracle, clock = self._core.oracle, self._core.runtime.wall_ms
        read_ts = oracle.read_ts()
        return await self._found(sources, read_ts, max(at_least, clock(), read_ts))

    async def heads_with(
        self, sources: Collection[GlobalId], tables: Collection[GlobalId], at_least: int = 0
    ) -> Recent:
        """The same for sources that are read together with tables, as of one moment."""
        before: Recent | None = None
        for attempt in itertools.count(1):
            if attempt % _TRIES == 0:
                found, is_right = await self._while_writes_wait(sources, at_least)
            else:
                found, time = await self._reserved(sources, at_least)
                changed_at = await asyncio.to_thread(self._complete_tables, found.time, tables)
                is_still = before is not None and found.time == time and found.heads == before.heads
                is_right = changed_at <= time or is_still
            if is_right:
                return found
            before = found
        raise AssertionError("there is no last attempt")

    async def _reserved(self, sources: Collection[GlobalId], at_least: int) -> tuple[Recent, int]:
        """What is found at a time that was reserved before, and that time."""
        read_ts = self._core.oracle.read_ts()
        time = self._core.oracle.write_ts(max(at_least, self._upper(sources)))
        return await self._found(sources, read_ts, time), time

    def _complete_tables(self, time: int, tables: Collection[GlobalId]) -> int:
        """Let all tables be complete at the time; when one of these was changed last."""
        self._core.tables.advance(time)
        return self._core.tables.changed_at(tables)

    async def _while_writes_wait(
        self, sources: Collection[GlobalId], at_least: int
    ) -> tuple[Recent, bool]:
        """The same while no table is written; False if that took too long."""
        runtime, tables = self._core.runtime, self._core.tables
        begun, ended = asyncio.Event(), runtime.event()
        loop = asyncio.get_running_loop()
        holding = asyncio.create_task(
            asyncio.to_thread(
                tables.hold, lambda: loop.call_soon_threadsafe(begun.set), ended, _HOLD_S
            )
        )
        try:
            await begun.wait()
            found, time = await self._reserved(sources, at_least)
        finally:
            ended.set()
            held = await asyncio.shield(holding)
        await asyncio.to_thread(tables.advance, found.time)
        return found, held and found.time == time

    async def _found(self, sources: Collection[GlobalId], read_ts: Timestamp, time: int) -> Recent:
        groups = self._core.sources.groups(sources)
        while True:
            time = max(time, self._upper(sources))
            alone = sorted(set(sources).difference(*groups))
            found = await self._ask(alone, time, wants_head=True)
            for group in groups:
                found += await self._ask_together(group, time)
            ends = [f.finding.complete_to for f in found if f.finding.complete_to is not None]
            bound = [f.finding.bound_at for f in found]
            last = max([time, *bound, *(end - 1 for end in ends)])
            if not groups or all(_is_at(each.finding, groups, last) for each in found):
                return Recent(last, read_ts, tuple(found), is_joint=bool(groups))

    async def _ask_together(self, group: Group, time: int) -> list[Answered]:
        """Ask the sources of one log upstream for its head, at which all of them are bound."""
        while True:
            answer = self._core.sources.ask_together(group, time)
            try:
                async with asyncio.timeout(self._left_s()):
                    found = await asyncio.wrap_future(answer)
            except TimeoutError:
                raise self._timeout(sorted(group)) from None
            finally:
                answer.cancel()
            if found is not None:
                return [Answered(each, self._spent_ms()) for each in found]
            await self._ask(sorted(group), self._core.runtime.wall_ms(), wants_head=True)

    def _upper(self, sources: Collection[GlobalId]) -> int:
        """The first time at which not all of the sources are complete."""
        core = self._core
        remaps = [core.current.item(each).collections[0] for each in sources]
        uppers = core.holds.frontiers(remaps).values()
        return max((upper.only() or 0 for _, upper in uppers), default=0)

    async def reach(self, recent: Recent, time: int) -> Recent:
        """Wait until the sources are complete at a time that is not before what they found."""
        behind = [
            each.finding.source
            for each in recent.sources
            if each.finding.complete_to is not None and each.finding.complete_to <= time
        ]
        moved = {
            each.finding.source: each for each in await self._ask(behind, time, wants_head=False)
        }
        return replace(
            recent,
            sources=tuple(_moved(each, moved.get(each.finding.source)) for each in recent.sources),
        )

    async def _ask(
        self, sources: Sequence[GlobalId], time: int, *, wants_head: bool
    ) -> list[Answered]:
        ask = self._core.sources.ask
        answers = {each: ask(each, time, wants_head=wants_head) for each in sources}
        after: dict[GlobalId, int] = {}
        for source, answer in answers.items():

            def note(_: Future[Finding], source: GlobalId = source) -> None:
                after[source] = self._spent_ms()

            answer.add_done_callback(note)
        try:
            async with asyncio.timeout(self._left_s()):
                found = [await asyncio.wrap_future(each) for each in answers.values()]
        except TimeoutError:
            late = [source for source, answer in answers.items() if not answer.done()]
            raise self._timeout(late or list(answers)) from None
        except SourceDropped as error:
            raise CollectionGone from error
        except NotLinearizable:
            raise
        except WaterclockError as error:
            raise self._failed(sources) or error from None
        finally:
            for each in answers.values():
                each.cancel()
        return [Answered(each, after[each.source]) for each in found]

    def _spent_ms(self) -> int:
        return round((self._core.runtime.monotonic_s() - self._began_s) * 1000)

    def _left_s(self) -> float | None:
        if not self._timeout_ms:
            return None
        spent_s = self._core.runtime.monotonic_s() - self._began_s
        return max(0.0, self._timeout_ms / 1000 - spent_s)

    def _failed(self, sources: Sequence[GlobalId]) -> SourceFailed | None:
        items = [self._core.current.try_item(each) for each in sources]
        remaps = [each.collections[0] for each in items if isinstance(each, Source)]
        report = self._core.sources.failed(remaps)
        return None if report is None else SourceFailed.of(report)

    def _timeout(self, late: Sequence[GlobalId]) -> RecencyTimeout:
        """The error that names the sources that have not answered, and what is known of each."""
        catalog = self._core.current
        reports = {each.id: each for each in self._core.sources.reports()}
        names, details = [], []
        for source in late:
            item = catalog.try_item(source)
            name = str(source) if item is None else catalog.described(item)
            names.append(name)
            report = reports.get(source)
            if report is None:
                continue
            status = report.status
            reason = "" if status.error is None else f": {status.error.message.rstrip('.')}"
            done = report.statistics
            behind = f" It is {done.lag_offsets} offsets behind." if done.lag_offsets else ""
            details.append(f"{name} is {status.health.value}{reason}.{behind}")
        return RecencyTimeout(
            "canceling statement due to real-time recency timeout: no answer from "
            + ", ".join(names)
            + f" within {shown_duration(self._timeout_ms)}",
            detail="\n".join(details) or None,
            hint="SET real_time_recency = off to read what has been received, or raise"
            " real_time_recency_timeout.",
        )


def _is_at(finding: Finding, groups: Sequence[Group], time: int) -> bool:
    """Whether the contents at the time are those that were found, if that matters."""
    if not any(finding.source in group for group in groups):
        return True
    is_complete = finding.complete_to is None or finding.complete_to > time
    return is_complete and finding.bound_at <= time


def _moved(before: Answered, after: Answered | None) -> Answered:
    """The source with its head, and where it stands now."""
    if after is None:
        return before
    return Answered(replace(after.finding, head=before.finding.head), after.after_ms)
