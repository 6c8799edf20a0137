"""A view that is maintained for one subscriber and belongs to no object of the catalog.

Its collections have numbers that nothing else ever gets, and nothing refers to them. So if the
server stops before the subscription does, the next start finds collections without an owner, lets
go of them (`DurableCatalog.release_unreferenced`), and compute forgets what wrote them: there is
nothing else to be cleaned up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from waterclock.adapter.changes import Change, Changes
from waterclock.adapter.engine_wait import until_up
from waterclock.adapter.errors import StatementCancelled
from waterclock.adapter.planning import Plan
from waterclock.adapter.timelines import beginning, common_timeline
from waterclock.compute.api import ERROR_ROWS, Result
from waterclock.compute.api import View as Maintained
from waterclock.model.pg_types import column_type
from waterclock.model.schema import Column, Schema
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.storage import riders
from waterclock.storage.api import Description, ReadCapability, Writers

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator


class Transient:
    """One such view. `begin` has to have returned before it is read, and `end` ends it."""

    def __init__(self, core: Coordinator, changes: Changes, plan: Plan) -> None:
        numbers = core.catalog.draft().numbers
        self._core = core
        self._changes = changes
        self._plan = plan
        self.output = numbers.id()
        self._errors = numbers.id()
        self.schema = Schema(
            tuple(
                Column(name, column_type(column.type), column.nullable)
                for name, column in zip(self.names(plan), plan.bound.columns, strict=True)
            )
        )

    @staticmethod
    def names(plan: Plan) -> tuple[str, ...]:
        """The columns' names in its collection: by place, since a query's need not be unique."""
        return tuple(f"c{place}" for place in range(len(plan.bound.columns)))

    def begin(self, wanted: int | None = None) -> Change[None]:
        """Have it maintained; raises `NotMaintainable` with what can not be.

        It begins at the time that is wanted if its inputs can be read then, else now. If nobody
        waits for it any more when it has begun, it is ended.
        """

        async def work(change: Change[None]) -> None:
            await until_up(self._core.engine, self._core.pace.engine_wait_s)
            await self._changes.in_thread(self._begin, wanted)
            try:
                change.pass_point_of_no_return()
            except StatementCancelled:
                await self._changes.in_thread(self._end)
                raise
            self._core.wake()

        return self._changes.begin(work)

    def _begin(self, wanted: int | None) -> None:
        core = self._core
        view = Maintained(self._plan.inputs, (Result(self._plan.bound.sql, self.schema),))
        common_timeline(core, view.inputs)
        core.compute.check_view(view)
        with core.holds.take(self._plan.inputs) as hold:
            start = beginning(core, self._plan.inputs, hold)
            as_of = start.only()
            assert as_of is not None, "a view begins at some time"
            if wanted is not None and max(hold.times.values(), default=0) <= wanted < as_of:
                as_of, start = wanted, start.timeline.frontier(wanted)
            made = together(
                riders.create(
                    collection, Description(schema, Writers.CREATOR, start.timeline), start
                )
                for collection, schema in ((self.output, self.schema), (self._errors, ERROR_ROWS))
            )

            def plan(state: State) -> tuple[list[AnyEvent], list[ReadCapability]]:
                events, [(reader, writer), (failed, failing)] = made(state)
                installed = core.compute.installation(view, as_of, [writer], failing)
                return events + installed(state)[0], [reader, failed]

            for reader in core.store.commit(plan):
                core.holds.adopt(reader)
        try:
            core.compute.begin(self.output)
        except BaseException:
            self._end()
            raise

    async def end(self) -> None:
        """Maintain it no longer, and let its collections go, whether or not that is waited for."""
        ending = self._changes.begin(lambda _ending: self._changes.in_thread(self._end))
        await asyncio.shield(ending.finished)

    def _end(self) -> None:
        core = self._core
        kept: list[ReadCapability] = []
        for collection in (self.output, self._errors):
            kept.append(core.holds.capability(collection))
            core.holds.forget(collection)
        core.store.commit(core.compute.removal(self.output))
        core.compute.end(self.output)
        core.store.commit(riders.release([each.token for each in kept]))
