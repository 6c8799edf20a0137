"""Durable changes under way: each runs to its real end, whatever becomes of who asked for it.

A change of the catalog, of capabilities or of data takes several steps in several threads. A client
that cancels, runs out of time or hangs up in the middle must not stop it there, for then the
catalog, the log and what is known in memory would disagree. So every change runs in a task of its
own (`Changes.begin`), and the session only waits for it (`Watch.outcome_of`). A stop request takes
the change back if it has not passed its point of no return; after that it comes too late, as it
does for PostgreSQL's COMMIT, and the outcome of the change is that of the statement.

Changes of the catalog take turns: `drafting` gives a draft of the newest catalog, which nobody else
can change until the turn is over. Names are resolved and rights are checked in the turn, so that
they hold for the very version that the commit replaces. What takes long (planning for the engine,
evaluating a query, asking another system) is done before the turn and only compared in it. A queue
was preferred to optimistic retries: a turn lasts as long as one commit, and nobody starves.

What must follow a commit belongs to the change and is not cancelled either. What the catalog's
collections need in memory is not left to statements at all: see `Coordinator.follow`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from waterclock.adapter.errors import StatementCancelled
from waterclock.catalog.draft import Draft
from waterclock.catalog.durable import Capabilities, Creation, DurableCatalog
from waterclock.model.ids import GlobalId
from waterclock.persist.store import Plan
from waterclock.storage.api import ReadCapability, WriteCapability

T = TypeVar("T")
P = ParamSpec("P")

Adopted = Mapping[GlobalId, tuple[ReadCapability, WriteCapability | None]]
"""Rights to collections that were made before, for the catalog to keep."""
Alongside = Callable[[Mapping[GlobalId, Capabilities]], Iterable[Plan[Any]]]
"""What else has to happen in a commit, given the capabilities of the new collections."""
Step = Callable[[], object]
"""Something that blocks, to be done in a thread."""
_LOG = logging.getLogger(__name__)


class Underway(Protocol[T]):
    """A durable change on its way. Used in one event loop."""

    @property
    def outcome(self) -> asyncio.Future[T]:
        """Done when the change is durable, or when it has failed and left nothing."""
        ...

    @property
    def finished(self) -> asyncio.Future[Any]:
        """Done when everything that follows from the change has been done too."""
        ...

    def try_revoke(self) -> bool:
        """Take the change back; False if it may be durable already, or soon."""
        ...


class Change(Generic[T]):
    """A change that runs in a task of its own. Implements `Underway`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[T] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        self._is_revoked = False
        self._is_decided = False
        self._stop: Step | None = None

    def try_revoke(self) -> bool:
        if not self._is_decided:
            self._is_revoked = True
            if self._stop is not None:
                self._stop()
        return self._is_revoked

    def stop_with(self, stop: Step) -> None:
        """What ends a long preparation soon when nobody wants the change any more. It may be called
        several times, and does not block.
        """
        self._stop = stop
        if self._is_revoked:
            stop()

    def pass_point_of_no_return(self) -> None:
        """The next step makes it durable. Raises `StatementCancelled` if nobody wants it any more.

        Whoever raises that undoes what was prepared.
        """
        if self._is_revoked:
            raise StatementCancelled("canceling statement due to user request")
        self._is_decided = True

    def succeed(self, answer: T) -> None:
        """The change is durable; what follows is yet to be done."""
        if not self.outcome.done():
            self.outcome.set_result(answer)


class Changes:
    """All changes of one server that are under way. Used in one event loop."""

    def __init__(self, catalog: DurableCatalog, committing: Executor, others: Executor) -> None:
        """`committing` is for commits alone, so that they never wait for a thread; `others` is for
        all other steps, which may block for long.
        """
        self._catalog = catalog
        self._committing = committing
        self._others = others
        self._turn = asyncio.Lock()
        self._draft: Draft | None = None
        """That of the turn, as long as it was not handed on to a change."""
        self._running: set[asyncio.Task[None]] = set()

    # Running

    def begin(self, work: Callable[[Change[T]], Awaitable[T]]) -> Change[T]:
        """Run the work to its end. It tells when it passes the point of no return.

        It succeeds when it says so, or else when it returns. If it raises before, the change has
        failed; the work has undone what it did.
        """
        change: Change[T] = Change()
        task = asyncio.get_running_loop().create_task(self._run(change, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return change

    @staticmethod
    async def _run(change: Change[T], work: Callable[[Change[T]], Awaitable[T]]) -> None:
        try:
            change.succeed(await work(change))
        except BaseException as error:
            if change.outcome.done():
                _LOG.exception("what follows a durable change has failed")
            else:
                change.outcome.set_exception(error)
                change.outcome.exception()  # it is no error if nobody waits for it any more
            if not isinstance(error, Exception):
                raise
        finally:
            change.finished.set_result(None)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that blocks, as a step of a change."""
        loop = asyncio.get_running_loop()
        return await _to_its_end(loop.run_in_executor(self._others, partial(work, *args, **kwargs)))

    async def settle(self) -> None:
        """Return when no change is under way any more."""
        while self._running:
            await asyncio.wait(list(self._running))

    async def rested(self) -> None:
        """Return when the turns of all who have waited before are over: their changes are seen."""
        async with self._turn:
            pass

    @property
    def is_idle(self) -> bool:
        """Whether no change is under way, and nobody has the turn."""
        return not self._running and not self._turn.locked()

    # Changes of the catalog

    @asynccontextmanager
    async def drafting(self) -> AsyncIterator[Draft]:
        """A draft of the newest catalog, which nobody else changes meanwhile.

        Nothing has happened if the block is left without `commit`.
        """
        await self._turn.acquire()
        draft = self._draft = self._catalog.draft()
        try:
            yield draft
        finally:
            if self._draft is draft:  # it was not handed on
                self._draft = None
                self._turn.release()

    def commit(
        self,
        draft: Draft,
        creations: Sequence[Creation] = (),
        *,
        alongside: Alongside | None = None,
        adopted: Adopted | None = None,
        follow_ups: Sequence[Step] = (),
        undo: Step | None = None,
    ) -> Change[None]:
        """Make the draft of the turn the catalog. From here on the turn is the change's.

        `follow_ups` come after the commit, in order, each of them even if one before has failed.
        `undo` takes back what was prepared, if there is no commit; it must not block.
        """
        self.hand_on(draft)

        async def work(change: Change[None]) -> None:
            await self.carry_out(
                change, draft, creations, alongside=alongside, adopted=adopted, undo=undo
            )
            change.succeed(None)
            await self.follow_up(follow_ups)

        return self.begin(work)

    def hand_on(self, draft: Draft) -> None:
        """Whoever has the turn gives it to a change, which ends it by `carry_out`."""
        assert self._draft is draft, "a draft is committed in its own turn"
        self._draft = None

    async def carry_out(
        self,
        change: Change[Any],
        draft: Draft,
        creations: Sequence[Creation] = (),
        *,
        alongside: Alongside | None = None,
        adopted: Adopted | None = None,
        undo: Step | None = None,
    ) -> None:
        """Commit the draft, as part of a change that has the turn; then the turn is over.

        That the change has succeeded is for the caller to say.
        """
        commit = partial(
            self._catalog.commit, draft, creations, adopted=adopted, alongside=alongside
        )
        try:
            change.pass_point_of_no_return()
            loop = asyncio.get_running_loop()
            await _to_its_end(loop.run_in_executor(self._committing, commit))
        except BaseException:
            if undo is not None:
                undo()
            raise
        finally:
            self._turn.release()

    async def follow_up(self, steps: Iterable[Step]) -> None:
        """Do what follows from a commit: all of it, whatever fails."""
        for step in steps:
            try:
                await self.in_thread(step)
            except Exception:
                _LOG.exception("what follows a change of the catalog has failed")


async def _to_its_end(step: asyncio.Future[T]) -> T:
    """Wait for a step of a change even while the event loop is being ended."""
    while True:
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            if step.cancelled():
                raise
