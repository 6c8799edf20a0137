"""Threads that take turns: one runs, all others wait, and a seed decides who is next.

The threads of the program are real threads, so no code has to be rewritten; but each has a baton of
its own and runs only while it was handed it. It hands the turn on at *switch points*: whatever it
asks of its `Runtime` (a lock, an event, a future, a sleep). A thread that waits says what for, as a
predicate, and perhaps until when. Whoever hands on looks for all who could run, and draws one of
them. If nobody could, time passes until the first deadline; if there is none, that is a deadlock,
and an error that says where everybody stands.

Between two switch points a thread runs alone: a plain `threading.Lock` that is never held over one
is always free. What is explored are therefore all orders of the pieces between switch points, not
those of single instructions.

Time is a number. It passes a few microseconds with each switch, so that deadlines also come while
somebody works, and in leaps when everybody waits.
"""

from __future__ import annotations

import datetime
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from random import Random
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from waterclock.runtime import Condition, Event, Lock, Runtime, Thread

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_S = 1_700_000_000.0
"""What the wall clock shows at first."""
_STEP_S = 40e-6
_MOST_SWITCHES = 500_000


class Deadlock(AssertionError):
    """Everybody waits, and nobody for a time."""


class Livelock(AssertionError):
    """It goes on and on, and never comes to an end."""


class Killed(BaseException):
    """Ends a thread of a simulation that is over."""


class _Turn:
    """One thread of the program, and what it waits for."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.baton = threading.Lock()
        self.baton.acquire()
        self.is_ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.is_over = False
        self.ident: int | None = None

    def may_run(self, now: float) -> bool:
        if self.is_ready is not None and self.is_ready():
            return True
        if self.deadline is not None:
            return self.deadline <= now
        return self.is_ready is None


class Scheduler:
    """All threads of one simulation. Whoever makes it is the first of them."""

    def __init__(self, random: Random, switch_rate: float) -> None:
        """`switch_rate` is how often a switch point that need not wait hands the turn on."""
        self._random = random
        self._rate = switch_rate
        self.now = 0.0
        self.switches = 0
        self._count = 0
        self._is_over = False
        self._failure: BaseException | None = None
        self._first = self._current = _Turn(0, "main")
        self._first.ident = threading.get_ident()
        self._turns = [self._first]
        self._carriers: deque[_Carrier] = deque()

    # What the running thread asks for

    def point(self) -> None:
        """Perhaps let somebody else go on."""
        if self._is_over:
            self._die()
        if self._random.random() < self._rate:
            self._hand_on()

    def wait(self, is_ready: Callable[[], bool] | None, seconds: float | None) -> bool:
        """Wait until it is ready, or so long; tells whether it is."""
        me = self._current
        me.is_ready = is_ready
        me.deadline = None if seconds is None else self.now + max(0.0, seconds)
        try:
            self._hand_on()
        finally:
            me.is_ready = me.deadline = None
        return is_ready is None or is_ready()

    def start(self, work: Callable[[], None], name: str) -> _Turn:
        """Let a new thread do the work, when it is its turn."""
        self._count += 1
        turn = _Turn(self._count, name)
        self._turns.append(turn)
        carrier = self._carriers.popleft() if self._carriers else _Carrier(self)
        carrier.carry(turn, work)
        return turn

    @property
    def names(self) -> list[str]:
        """The threads that have not ended."""
        return [turn.name for turn in self._turns[1:]]

    def shut_down(self) -> None:
        """End all threads but the first, wherever they are. For the first, at the end."""
        self._is_over = True
        for _ in range(100):
            others = [turn for turn in self._turns if turn is not self._first]
            if not others:
                break
            for turn in others:
                self._current = turn
                turn.baton.release()
                self._first.baton.acquire()
        for carrier in self._carriers:
            carrier.end()

    # Handing on

    def _hand_on(self) -> None:
        me = self._current
        if self._is_over:
            self._die()
        chosen = self._next()
        if chosen is not me:
            self._current = chosen
            chosen.baton.release()
            me.baton.acquire()
            if self._is_over:
                self._die()
        if me is self._first and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _next(self) -> _Turn:
        """Who is next; the first thread if nobody can go on, to end the simulation."""
        try:
            return self._chosen()
        except (Deadlock, Livelock) as error:
            self._failure = error
            return self._first

    def _die(self) -> None:
        if self._current is not self._first:
            raise Killed

    def _chosen(self) -> _Turn:
        self.switches += 1
        if self.switches > _MOST_SWITCHES:
            raise Livelock(f"no end after {self.switches} switches\n{self._where()}")
        self.now += _STEP_S * self._random.random()
        able = [turn for turn in self._turns if turn.may_run(self.now)]
        if not able:
            due = [turn.deadline for turn in self._turns if turn.deadline is not None]
            if not due:
                raise Deadlock(f"everybody waits\n{self._where()}")
            self.now = max(self.now, min(due))
            able = [turn for turn in self._turns if turn.may_run(self.now)]
        return able[0] if len(able) == 1 else self._random.choice(able)

    def ended(self, turn: _Turn, carrier: _Carrier) -> None:
        """The running thread is done: it hands on for the last time, without waiting."""
        turn.is_over = True
        self._turns.remove(turn)
        self._carriers.append(carrier)
        if self._is_over:
            self._current = self._first
        else:
            self._current = self._next()
        self._current.baton.release()

    def _where(self) -> str:
        """The stack of each thread."""
        frames = sys._current_frames()
        told = []
        for turn in self._turns:
            frame = frames.get(turn.ident or 0)
            stack = traceback.format_stack(frame)[-9:] if frame is not None else []
            told.append(f"--- {turn.name}\n{''.join(stack)}")
        return "\n".join(told)


class _Carrier:
    """A real thread, which carries one thread of the program after another."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._has_work = threading.Lock()
        self._has_work.acquire()
        self._load: tuple[_Turn, Callable[[], None]] | None = None
        self._thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        self._thread.start()

    def carry(self, turn: _Turn, work: Callable[[], None]) -> None:
        self._load = turn, work
        self._has_work.release()

    def end(self) -> None:
        self._load = None
        self._has_work.release()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._has_work.acquire()
            if self._load is None:
                return
            turn, work = self._load
            turn.ident = threading.get_ident()
            turn.baton.acquire()
            try:
                work()
            except Killed:
                pass
            except BaseException:
                traceback.print_exc()
            del work
            self._load = None
            self._scheduler.ended(turn, self)


class SimulatedRuntime(Runtime):
    """What the control plane gets instead of the system's."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.wall_offset_s = EPOCH_S
        """What the wall clock shows beyond the true time; it may jump."""

    def wall_ms(self) -> int:
        return int(self.wall_s() * 1000)

    def wall_s(self) -> float:
        return self.wall_offset_s + self.scheduler.now

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.wall_s(), datetime.UTC)

    def monotonic_s(self) -> float:
        return self.scheduler.now

    def precise_s(self) -> float:
        return self.scheduler.now

    def sleep(self, seconds: float) -> None:
        self.scheduler.wait(None, seconds)

    def lock(self) -> Lock:
        return _Lock(self.scheduler)

    def condition(self) -> Condition:
        return _Condition(self.scheduler)

    def event(self) -> Event:
        return _Event(self.scheduler)

    def start_thread(self, work: Callable[[], None], name: str) -> Thread:
        return _Thread(self.scheduler, self.scheduler.start(work, name))

    def pool(self, threads: int, name: str) -> Executor:
        return Pool(self.scheduler, threads, name)

    def wait(self, futures: Iterable[Future[Any]], timeout_s: float | None = None) -> None:
        waited = list(futures)
        self.scheduler.wait(lambda: all(each.done() for each in waited), timeout_s)


class _Thread:
    def __init__(self, scheduler: Scheduler, turn: _Turn) -> None:
        self._scheduler = scheduler
        self._turn = turn

    def join(self, timeout: float | None = None) -> None:
        self._scheduler.wait(lambda: self._turn.is_over, timeout)

    def is_alive(self) -> bool:
        return not self._turn.is_over


class _Lock:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._scheduler.point()
        if self._is_held:
            if not blocking:
                return False
            seconds = None if timeout < 0 else timeout
            if not self._scheduler.wait(lambda: not self._is_held, seconds):
                return False
        self._is_held = True
        return True

    def release(self) -> None:
        assert self._is_held, "a lock is given back by whoever has it"
        self._is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> None:
        self.release()


class _Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._scheduler.wait(self.is_set, timeout)


class _Condition:
    """With a lock that its holder may take again."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: object | None = None
        self._depth = 0
        self._waiting: list[list[bool]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        del timeout
        self._scheduler.point()
        me = self._scheduler._current
        if self._holder is not me:
            if self._holder is not None and not blocking:
                return False
            while self._holder is not None:
                self._scheduler.wait(lambda: self._holder is None, None)
            self._holder = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> None:
        self.release()

    def wait(self, timeout: float | None = None) -> bool:
        me, depth, told = self._holder, self._depth, [False]
        self._waiting.append(told)
        self._holder, self._depth = None, 0
        try:
            self._scheduler.wait(lambda: told[0], timeout)
        finally:
            self._waiting = [each for each in self._waiting if each is not told]
        while self._holder is not None:
            self._scheduler.wait(lambda: self._holder is None, None)
        self._holder, self._depth = me, depth
        return told[0]

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        end = None if timeout is None else self._scheduler.now + timeout
        while not predicate():
            left = None if end is None else end - self._scheduler.now
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        for told in self._waiting[:n]:
            told[0] = True
        self._waiting = self._waiting[n:]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Pool(Executor):
    """Runs work in threads of the simulation; a thread ends when there is nothing more to do."""

    def __init__(self, scheduler: Scheduler, threads: int, name: str) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._name = name
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        self._queue.append((future, lambda: fn(*args, **kwargs)))
        if self._running < self._threads:
            self._running += 1
            self._scheduler.start(self._work, self._name)
        return future

    def _work(self) -> None:
        try:
            while self._queue:
                future, work = self._queue.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    answer = work()
                except Killed:
                    raise
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(answer)
                del future, work
                answer = None
        finally:
            self._running -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        del cancel_futures
        self._is_shut = True
        if wait:
            self._scheduler.wait(lambda: not self._running and not self._queue, None)
