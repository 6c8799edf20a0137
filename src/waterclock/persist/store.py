"""All shards of one server: what is committed, and the one thread through which everything is.

A change is a *plan*: a pure function from the state to the events it wants and the answer it gives,
or to an error. The committer takes all plans that wait, runs them one after the other on the state
as it will be (`ahead`), and makes one log entry of their events: however many callers, one sync to
disk. Only when the entry is durable do the events reach the `committed` state that readers see, and
only then do callers get their answers. A plan that raises is refused alone and leaves no trace.

If an entry can neither be written nor ruled out, or another server took over, the store has failed:
it answers nothing more, because it no longer knows what is true. Opening the data again finds out.

It knows nothing of what the events mean to users, of leases, or of clocks.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from waterclock.persist.blob.api import Blob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.errors import Unavailable
from waterclock.persist.log import Log, open_log
from waterclock.persist.records import AnyEvent
from waterclock.persist.retry import Retry
from waterclock.persist.state import State

R = TypeVar("R")
Plan = Callable[[State], tuple[list[AnyEvent], R]]

_LARGEST_GROUP = 4096


class Bell(Protocol):
    """What a watcher is told by, such as a `threading.Event`."""

    def set(self) -> None: ...


class _Waiting(Generic[R]):
    """A plan on its way through the committer, and whoever waits for it."""

    __slots__ = ("answer", "done", "error", "future", "plan")

    def __init__(self, plan: Plan[R], future: asyncio.Future[R] | None) -> None:
        self.plan = plan
        self.future = future
        self.answer: Any = None
        self.error: BaseException | None = None
        if future is None:
            self.done = threading.Lock()
            self.done.acquire()

    def settle(self) -> None:
        """Tell the asyncio waiter, in its own event loop."""
        future = self.future
        assert future is not None
        if future.cancelled():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.answer)


class Store:
    """The shards of one data set, owned by this process. Thread-safe."""

    def __init__(
        self, blob: Blob, consensus: Consensus, log: Log, state: State, retry: Retry
    ) -> None:
        self.blob = blob
        self.retry = retry
        self.epoch = state.epoch
        self._consensus = consensus
        self._log = log
        self._committed = state
        self._ahead = State.from_checkpoint(state.to_checkpoint())
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._unpinned: deque[list[str]] = deque()
        """Pins that were let go of and still count. A reader may be let go of by the garbage
        collector, which may run in a thread that has the lock: so this needs none."""
        self._writing: set[str] = set()
        self._abandoned: deque[str] = deque()
        self._touched: set[str] = set(state.shards)
        self._watchers: defaultdict[str, WeakSet[Bell]] = defaultdict(WeakSet)
        self._queue: deque[_Waiting[Any]] = deque()
        self._wake = threading.Event()
        self._waking: set[asyncio.AbstractEventLoop] = set()
        self._closing = False
        self._failure: BaseException | None = None
        self.logged_bytes = state.tail_bytes
        """Bytes of the log since the checkpoint that was found on opening."""
        self._committer = threading.Thread(target=self._run, name="committer", daemon=True)
        self._committer.start()

    @classmethod
    def open(
        cls, blob: Blob, consensus: Consensus, owner: str, retry: Retry | None = None
    ) -> Store:
        """Recover what is durable and become its owner; `owner` is a name never used before."""
        retry = retry or Retry()
        log, state = open_log(blob, consensus, owner, retry)
        return cls(blob, consensus, log, state, retry)

    # Changing

    def commit(self, plan: Plan[R]) -> R:
        """The plan's answer, once its events are durable; or its error. Never from a `Bell`."""
        waiting: _Waiting[R] = _Waiting(plan, None)
        self._submit(waiting)
        waiting.done.acquire()
        if waiting.error is not None:
            raise waiting.error
        answer: R = waiting.answer
        return answer

    async def commit_async(self, plan: Plan[R]) -> R:
        """`commit` for a coroutine. Cancelling it gives up the answer, not the change."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        if self._failure is not None:
            raise self._failure
        self._queue.append(_Waiting(plan, future))
        if loop not in self._waking:
            self._waking.add(loop)
            loop.call_soon(self._wake_from, loop)
        return await future

    def _wake_from(self, loop: asyncio.AbstractEventLoop) -> None:
        """At the end of a turn of the loop, so that all who wrote in it make one group."""
        self._waking.discard(loop)
        self._wake_committer()

    def _submit(self, waiting: _Waiting[Any]) -> None:
        if self._failure is not None:
            raise self._failure
        self._queue.append(waiting)
        self._wake_committer()

    def _wake_committer(self) -> None:
        if not self._wake.is_set():
            self._wake.set()
        if self._failure is not None:  # the committer may have ended just before we queued
            self._refuse_queued()

    def _refuse_queued(self) -> None:
        while self._queue:
            try:
                waiting = self._queue.popleft()
            except IndexError:
                return
            waiting.error = self._failure
            _release([waiting])

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._queue:
                size = min(len(self._queue), _LARGEST_GROUP)
                group = [self._queue.popleft() for _ in range(size)]
                try:
                    self._commit_group(group)
                except BaseException:  # a bug of ours: loud, but nobody may wait for it for ever
                    self._give_up(group)
                    raise
            if self._closing:
                return

    def _give_up(self, group: list[_Waiting[Any]]) -> None:
        """Answer everybody when the committer is about to end."""
        self._failure = self._failure or Unavailable(
            "the store has stopped after an internal error",
            hint="Restart the server; what was acknowledged is durable.",
        )
        for waiting in group:
            waiting.error = waiting.error or self._failure
        _release(group)
        self._refuse_queued()
        self._notify([])

    def _commit_group(self, group: list[_Waiting[Any]]) -> None:
        events: list[AnyEvent] = []
        for waiting in group:
            self._plan(waiting, events)
        if events and self._failure is None:
            try:
                self.logged_bytes += self._log.append(events)
                self._ahead.position += 1
                with self._lock:
                    self._committed.apply_entry(events)
            except BaseException as error:  # nobody may be left waiting, whatever it is
                self._failure = error
        if self._failure is not None:
            for waiting in group:
                waiting.error = waiting.error or self._failure
        self._notify(events)
        _release(group)

    def _plan(self, waiting: _Waiting[Any], events: list[AnyEvent]) -> None:
        if self._failure is not None:
            waiting.error = self._failure
            return
        try:
            wanted, waiting.answer = waiting.plan(self._ahead)
        except BaseException as error:  # the caller's to handle, in the caller's thread
            waiting.error = error
            return
        for event in wanted:
            self._ahead.apply(event)
        events += wanted

    # Reading

    def read(self, look: Callable[[State], R]) -> R:
        """What `look` finds in the committed state. It must be quick and keep only values."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return look(self._committed)

    @contextmanager
    def pinned(self, keys: Callable[[State], tuple[R, Iterable[str]]]) -> Iterator[R]:
        """Look at the committed state, and keep the blobs that the look names meanwhile."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            found, named = keys(self._committed)
            pinned = list(named)
            self._live_pins().update(pinned)
        try:
            yield found
        finally:
            self._unpinned.append(pinned)
            if self._lock.acquire(blocking=False):
                try:
                    self._live_pins()
                finally:
                    self._lock.release()

    def _live_pins(self) -> Counter[str]:
        """How often each blob is pinned. For whoever has the lock."""
        while self._unpinned:
            unpinned = self._unpinned.popleft()
            self._pins.subtract(unpinned)
            for key in unpinned:
                if not self._pins[key]:
                    del self._pins[key]
        return self._pins

    def deletable(self, limit: int) -> list[str]:
        """Some garbage that no reader has pinned: the first of it, in the order of keys."""
        with self._lock:
            pins = self._live_pins()
            return heapq.nsmallest(limit, (k for k in self._committed.garbage if k not in pins))

    def watch(self, shard: str, bell: Bell) -> None:
        """Have the bell set, by the committer, after each commit that touches the shard.

        A failure of the store sets it too. It ends when nobody else holds the bell any more. What
        the bell does must be quick and must not call the store.
        """
        with self._lock:
            self._watchers[shard].add(bell)

    def _notify(self, events: list[AnyEvent]) -> None:
        touched = {shard for event in events if (shard := getattr(event, "shard", None))}
        with self._lock:
            self._touched |= touched
            watched = self._watchers.keys() if self._failure is not None else touched
            bells = [bell for shard in watched for bell in self._watchers.get(shard, ())]
        for bell in bells:
            bell.set()

    # Blobs that are being written and not yet referred to

    @contextmanager
    def writing(self, key: str) -> Iterator[None]:
        """Keep a blob from being swept until it is committed; an error inside gives it up."""
        with self._lock:
            self._writing.add(key)
        try:
            yield
        except BaseException:  # without the lock, as for pins
            self._writing.discard(key)
            self._abandoned.append(key)
            raise
        self._writing.discard(key)

    def take_abandoned(self) -> list[str]:
        """Blobs that were given up since the last call."""
        return [self._abandoned.popleft() for _ in range(len(self._abandoned))]

    def orphans(self, listed: Iterable[str]) -> list[str]:
        """Those of the listed keys that nothing refers to and nobody is writing.

        The listing must be older than this call, so that a key committed since is seen as referred
        to. Blobs of later epochs belong to a server that has taken over, whose references we do not
        know: they are left alone, and so is what no server has written.

        This goes through the committer. Somebody whose wait was interrupted has given his blob up
        while his plan may still be on its way; it is ahead of us there.
        """

        def unneeded(state: State) -> tuple[list[AnyEvent], list[str]]:
            with self._lock:
                kept = state.referenced() | self._writing | set(self._live_pins())
            return [], [key for key in listed if key not in kept and self._is_ours(key)]

        return self.commit(unneeded)

    def _is_ours(self, key: str) -> bool:
        epoch = epoch_of(key)
        return epoch is not None and epoch <= self.epoch

    def take_touched(self) -> set[str]:
        """The shards that commits have changed since the last call; at first, all of them."""
        with self._lock:
            taken, self._touched = self._touched, set()
        return taken

    def truncate_log(self, through: int) -> None:
        """Forget entries that a committed checkpoint covers."""
        self._log.truncate(through)

    # Ending

    @property
    def has_failed(self) -> bool:
        """Whether nothing can be asked of this store any more."""
        return self._failure is not None

    def close(self) -> None:
        """Finish what was submitted, then stop. Later calls fail."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        self._committer.join()
        if self._failure is None:
            self._failure = Unavailable("the store is closed")
        self._refuse_queued()
        self._notify([])
        self._consensus.close()
        self.blob.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def new_key(folder: str, epoch: int, suffix: str = "") -> str:
    """A blob key that nobody else uses, and that tells which owner of the data wrote it."""
    return f"{folder}/{epoch}-{uuid.uuid4().hex}{suffix}"


def epoch_of(key: str) -> int | None:
    """The epoch of the owner that wrote the blob; None if the key is none of `new_key`."""
    epoch, dash, _ = key.rpartition("/")[2].partition("-")
    return int(epoch) if dash and epoch.isdecimal() else None


def _release(group: list[_Waiting[Any]]) -> None:
    """Wake everybody, with one call into each event loop however many wait in it."""
    loops: dict[asyncio.AbstractEventLoop, list[_Waiting[Any]]] = {}
    for waiting in group:
        if waiting.future is None:
            waiting.done.release()
        else:
            loops.setdefault(waiting.future.get_loop(), []).append(waiting)
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it any more
            loop.call_soon_threadsafe(_settle, waiters)


def _settle(waiters: list[_Waiting[Any]]) -> None:
    for waiting in waiters:
        waiting.settle()
