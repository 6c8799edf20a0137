"""All shards of one server: what is committed, and the one way in which anything is.

A change is a *plan*: a pure function from the state to the events it wants and the answer it gives,
or to an error. The committer takes all plans that wait, runs them one after the other on the state
as it will be (`ahead`, which does without batches), and makes one log entry of their events:
however many callers, one sync to disk. Only when the entry is durable do the events reach the
`committed` state that readers see, and only then do callers get their answers. A plan that raises
is refused alone and leaves no trace.

If the world refuses an entry for certain, as a full disk does, the group that wanted it is refused
and nothing else happens: what is ahead begins anew at what is committed, reads go on, and the next
group may find the world well again. If an entry can neither be written nor ruled out, or another
server took over, the store has failed: it answers nothing more, because it no longer knows what is
true. Opening the data again finds out; `on_failure` tells the process that it is time to.

It knows nothing of what the events mean to users, of leases, or of clocks.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from waterclock.errors import WaterclockError
from waterclock.persist.blob.api import Blob
from waterclock.persist.committer import Committer, Group, Waiting
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.errors import NotWritten, Unavailable
from waterclock.persist.log import Log, open_log
from waterclock.persist.records import AnyEvent
from waterclock.persist.retry import Retry
from waterclock.persist.state import Outlook, State
from waterclock.runtime import SYSTEM, Runtime

R = TypeVar("R")
Plan = Callable[[State], tuple[list[AnyEvent], R]]

_QUICK_SYNC_S = 0.001
_FORGETTING = 1.1
"""By how much the shortest sync counts as longer with each one after it."""
_log = logging.getLogger(__name__)


class Bell(Protocol):
    """What a watcher is told by, such as a `threading.Event`."""

    def set(self) -> None: ...


class Store:
    """The shards of one data set, owned by this process. Thread-safe."""

    def __init__(
        self,
        blob: Blob,
        consensus: Consensus,
        log: Log,
        state: State,
        retry: Retry,
        scratch: Path | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self.blob = blob
        self.retry = retry
        self.runtime = runtime
        """The clock and the threads of everything that works on this store."""
        self.scratch = scratch
        """Where temporary files go; None for the system's own place."""
        self.epoch = state.epoch
        self._consensus = consensus
        self._log = log
        self._committed = state
        self._ahead = Outlook.on(state)
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._unpinned: deque[list[str]] = deque()
        """Pins that were let go of and still count. A reader may be let go of by the garbage
        collector, which may run in a thread that has the lock: so this needs none."""
        self._writing: set[str] = set()
        self._abandoned: deque[str] = deque()
        self._touched: set[str] = set(state.shards)
        self._watchers: defaultdict[str, WeakKeyDictionary[Bell, None]] = defaultdict(
            WeakKeyDictionary
        )
        self._closing = False
        self._sync_s = 0.0
        """How long it took of late to make an entry durable, when nothing else delayed it."""
        self._planned_events: list[AnyEvent] | None = None
        self._failure: BaseException | None = None
        self.refusal: NotWritten | None = None
        """Why the last entry could not be written, if nothing was written since."""
        self.on_failure: Callable[[BaseException], None] | None = None
        """Called once, by the committer, if the store fails while it is open."""
        self.logged_bytes = state.tail_bytes
        """Bytes of the log since the checkpoint that was found on opening."""
        self._committer = Committer(self._commit_group, runtime)

    @classmethod
    def open(
        cls,
        blob: Blob,
        consensus: Consensus,
        owner: str,
        retry: Retry | None = None,
        *,
        scratch: Path | None = None,
        runtime: Runtime = SYSTEM,
    ) -> Store:
        """Recover what is durable and become its owner; `owner` is a name never used before."""
        retry = retry or Retry()
        log, state = open_log(blob, consensus, owner, retry)
        return cls(blob, consensus, log, state, retry, scratch, runtime)

    # Changing

    def commit(self, plan: Plan[R]) -> R:
        """The plan's answer, once its events are durable; or its error. Never from a `Bell`."""
        if self._failure is not None:
            raise self._failure
        waiting: Waiting[R] = Waiting(plan, runtime=self.runtime)
        self._committer.submit(waiting)
        self._refuse_if_failed()
        return waiting.wait()

    def commit_soon(self, plan: Plan[R]) -> asyncio.Future[R]:
        """`commit` for a coroutine. Cancelling the future gives up the answer, not the change."""
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._committer.submit_from(loop, Waiting(plan, future), self._is_quick)
        self._refuse_if_failed()
        return future

    def _refuse_if_failed(self) -> None:
        """Who queued just when the store failed or closed must not wait for ever."""
        if self._failure is not None:
            self._committer.refuse(self._failure)

    def _is_quick(self) -> bool:
        """Whether a sync has taken less than what handing it to another thread would take."""
        return self._sync_s < _QUICK_SYNC_S

    def _commit_group(self, group: Group, patient: bool) -> bool:
        """What the committer does with a group. Nobody may be left waiting, whatever happens."""
        events: list[AnyEvent] = []
        try:
            if self._failure is None:
                events = self._planned(group)
            if events and not self._logged(events, patient):
                return False
        except NotWritten as error:
            self._take_back(group, error)
            return True
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, WaterclockError):
                _log.exception("the store has stopped after an internal error")
        self._planned_events = None
        if self._failure is not None:
            for waiting in group:
                waiting.error = waiting.error or self._failure
        self._notify(events if self._failure is None else [])
        return True

    def _take_back(self, group: Group, error: NotWritten) -> None:
        """Refuse a group whose events are certain not to have become durable."""
        self.refusal = error
        self._planned_events = None
        self._ahead = Outlook.on(self._committed)
        for waiting in group:
            waiting.error = waiting.error or error

    def _fail(self, error: BaseException) -> None:
        """Nothing can be asked of this store any more, for that reason."""
        if self._failure is None:
            self._failure = error
            if self.on_failure is not None:
                self.on_failure(error)

    def _planned(self, group: Group) -> list[AnyEvent]:
        """The events that the group's plans want; the same ones if asked again."""
        if self._planned_events is None:
            events: list[AnyEvent] = []
            ahead = self._ahead
            for waiting in group:
                try:
                    wanted, waiting.answer = waiting.work(ahead)
                except BaseException as error:  # the caller's to handle, in the caller's thread
                    waiting.error = error
                else:
                    for event in wanted:
                        ahead.apply(event)
                    events += wanted
            self._planned_events = events
        return self._planned_events

    def _logged(self, events: list[AnyEvent], patient: bool) -> bool:
        """Make the events durable, then visible. False if that would take patience."""
        began = self.runtime.precise_s()
        try:
            size = self._log.append(events, patient=patient)
        except Unavailable as error:
            if patient or (isinstance(error, NotWritten) and error.is_lasting):
                raise
            return False
        finally:
            self._note_sync(self.runtime.precise_s() - began)
        self.refusal = None
        self.logged_bytes += size
        self._ahead.position += 1
        with self._lock:
            self._committed.follow(self._ahead, events)
        return True

    def _note_sync(self, took_s: float) -> None:
        """The shortest counts, for a while: after a sync a thread may have to wait for its turn,
        which says nothing about the disk.
        """
        slack = self._sync_s * _FORGETTING
        self._sync_s = min(took_s, slack) if slack else took_s

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
            self._watchers[shard][bell] = None

    def _notify(self, events: list[AnyEvent]) -> None:
        touched = dict.fromkeys(s for event in events if (s := getattr(event, "shard", None)))
        with self._lock:
            self._touched.update(touched)
            failed = self._failure is not None
            watchers = self._watchers
            watched = list(watchers) if failed else [s for s in touched if s in watchers]
            bells = [bell for shard in watched for bell in self._watchers[shard]]
        for bell in bells:
            try:
                bell.set()
            except Exception:  # a bug of ours, but no reason to stop for everybody else
                _log.exception("a watcher of the store failed")

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

        Somebody whose wait was interrupted has given his blob up while his plan may still be on its
        way. Who does so from now on is known to be writing; all others are ahead of us in the
        committer, and what they refer to is committed once we are through it.
        """
        with self._lock:
            writing = set(self._writing)
        self.commit(lambda _: ([], None))
        with self._lock:
            kept = self._committed.referenced() | writing | self._writing | set(self._live_pins())
        return [key for key in listed if key not in kept and self._is_ours(key)]

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
        self._committer.close()
        if self._failure is None:
            self._failure = Unavailable("the store is closed")
        self._committer.refuse(self._failure)
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
