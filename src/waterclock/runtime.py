"""Clock and threads: what the control plane takes from the process it runs in.

Nothing in storage, the oracle, the adapter or the scheduling of views asks the operating system for
the time, a thread, or a lock that may be held while waiting. It asks its `Runtime`, which the store
carries and everything above takes from there. `SYSTEM` is the real one and hands
out what the standard library has, so it costs a method call where something is made and nothing
where it is used. The simulator (`waterclock.testing.control`) has one in which threads take turns
as a seed decides and time passes only when all of them wait.

Coroutines need nothing of this: their clock, their timeouts and `asyncio.to_thread` belong to the
event loop, and the simulator brings a loop of its own.

Random names (tokens of capabilities, keys of blobs) come from `secrets` and `uuid`. They decide
nothing but what something is called; the simulator draws them from its seed.

A `threading.Lock` that is never held while its holder waits for anything (another lock, an event, a
commit) may stay one: whoever takes turns always finds it free.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from types import TracebackType
from typing import Any, Protocol


class Lock(Protocol):
    """What a `threading.Lock` does."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Condition(Lock, Protocol):
    """What a `threading.Condition` does."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool: ...
    def notify(self, n: int = 1) -> None: ...
    def notify_all(self) -> None: ...


class Event(Protocol):
    """What a `threading.Event` does."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Thread(Protocol):
    """What can be asked of a running thread."""

    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Runtime:
    """The operating system's. A simulator overrides all of it."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970. It may be wrong, and it may go back."""
        return time.time_ns() // 1_000_000

    def wall_s(self) -> float:
        """Seconds since 1970, likewise."""
        return time.time()

    def now(self) -> datetime.datetime:
        """The wall clock's time, in UTC."""
        return datetime.datetime.now(datetime.UTC)

    def monotonic_s(self) -> float:
        """Seconds since some moment. Never goes back."""
        return time.monotonic()

    def precise_s(self) -> float:
        """Like `monotonic_s`, from the finest clock there is, to measure short times."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Let the calling thread wait."""
        time.sleep(seconds)

    def lock(self) -> Lock:
        """A lock that may be held while its holder waits."""
        return threading.Lock()

    def condition(self) -> Condition:
        """A condition with a lock of its own. That lock may be taken again by its holder."""
        return threading.Condition()

    def event(self) -> Event:
        """An event that is not set."""
        return threading.Event()

    def start_thread(self, work: Callable[[], None], name: str) -> Thread:
        """A daemon thread that does the work, started."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def pool(self, threads: int, name: str) -> Executor:
        """Threads that take work in the order in which it is submitted."""
        return ThreadPoolExecutor(threads, thread_name_prefix=name)

    def wait(self, futures: Iterable[Future[Any]], timeout_s: float | None = None) -> None:
        """Wait until all futures are done, or for so long."""
        wait_for_futures(futures, timeout_s)


SYSTEM = Runtime()
"""The process's own."""
