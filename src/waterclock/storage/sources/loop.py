"""All sources of a server, and the loop that drives them.

One thread decides whose turn it is; the steps themselves run in a pool, for a step may wait for a
system that does not answer, and no other source shall wait with it. A source has one step at a
time.

Sources that look upstream equally often do so at the same moments. Somebody who waits for a source
can ring the bell; then those that rest look at once, but only so many times a second. Those that
rest because views over them are too far behind go on resting.

A source may be paused between two steps, to be given another description (`pause`, `resume`).

A write that depends on what it reads of sources can have them keep quiet for a while: then they say
how far they are complete, and bind nothing new (`quieten`).

A recent read asks one source alone (`ask`). That source takes a step at once, also when it has
stalled and would wait longer; all who have asked before the step begins share it (`recency`).
Several sources that follow one log upstream can be asked to take a step together (`ask_together`).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.errors import Fenced, Unavailable
from waterclock.persist.notes import Notes
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store
from waterclock.storage import riders
from waterclock.storage.controller import Storage
from waterclock.storage.sources.api import (
    Kinds,
    SourceDescription,
    SourceHold,
    Surroundings,
    TakeHold,
)
from waterclock.storage.sources.errors import SourceFault, UnknownKind
from waterclock.storage.sources.farewells import Farewells
from waterclock.storage.sources.ingestion import Ingestion, Outcome
from waterclock.storage.sources.ledger import STATES, Ledger
from waterclock.storage.sources.recency import (
    Finding,
    Request,
    Requests,
    answer,
)
from waterclock.storage.sources.rounds import Rounds
from waterclock.storage.sources.status import Health, SourceReport
from waterclock.storage.sources.together import (
    Aligned,
    Group,
    JointRequest,
    answer_all,
    groups_of,
)
from waterclock.storage.sources.turns import (
    Quiet,
    Turn,
    decided,
    known_answer,
    source_dropped,
    without_news,
)
from waterclock.storage.sources.unchanged import has_update, unchanged

_THREADS = 32
_LEAST_REST_S = 0.05
_LEAST_REST_ASKED_S = 0.01
"""The same for a source that a recent read waits for."""
_RETRY_ASKED_S = 0.5
"""Retry interval of a stalled source while a recent read waits for it."""
_AFTER_FAILURE_MS = 1000
_LOOK_AGAIN_S = 0.01
"""Poll interval of one who waits until a source takes no step."""
_LONGEST_REST_S = 5.0
"""The longest rest of a source because views are behind: who reads it waits for its next step."""
_QUIET_S = 8.0
"""The longest that a source keeps quiet for somebody: recent reads, which wait, have longer."""
_log = logging.getLogger(__name__)


class SourceBusy(WaterclockError):
    """Somebody else is changing the source."""

    sqlstate: ClassVar[str] = "55006"


class Ingestions:
    """Runs sources until it is closed. Thread-safe."""

    def __init__(
        self,
        storage: Storage,
        store: Store,
        kinds: Kinds,
        surroundings: Surroundings,
        take_hold: TakeHold,
        *,
        interval_ms: int = 1000,
        changed: Callable[[int], None] = lambda _time: None,
        delay_s: Callable[[Collection[GlobalId], int], float] = lambda _outputs, _rows: 0.0,
    ) -> None:
        """`changed` is told each time at which the contents of some source have changed, when that
        is durable. `delay_s` says how long a source is to rest that has just written so many rows
        to some collections.
        """
        self._storage = storage
        self._store = store
        self._kinds = kinds
        self._surroundings = surroundings
        self._take_hold = take_hold
        self._interval_ms = interval_ms
        self._changed = changed
        self._delay_s = delay_s
        self._turns: dict[GlobalId, Turn] = {}
        self._errors: dict[GlobalId, GlobalId] = {}
        self._farewells = Farewells(store, kinds, surroundings)
        self._runtime = store.runtime
        self._lock = self._runtime.condition()
        self._rung = False
        self._closing = False
        self._closed = self._runtime.event()
        self._pool = self._runtime.pool(_THREADS, "waterclock-source")
        self._rounds = Rounds(self._turns, self._lock, self._pool, self._look_after)
        self._thread = self._runtime.start_thread(self._run, "waterclock-sources")
        self._pool.submit(self._say_farewells)

    def add(self, description: SourceDescription) -> None:
        """Run a source whose collections exist, from where it stands."""
        hold = self._take_hold(description.collections)
        ingestion = self.opened(description, hold)
        with self._lock:
            self._know_errors(description)
            now, requests = self._runtime.monotonic_s(), Requests(description.id)
            self._turns[description.id] = Turn(ingestion, hold, now, requests)
            self._lock.notify()

    def opened(self, description: SourceDescription, hold: SourceHold) -> Ingestion:
        """A source that nobody steps, from where it stands. The hold stays with the caller."""
        kind = self._kinds.get(description.kind)
        if kind is None:
            raise UnknownKind(f"sources of kind {description.kind} are not supported")

        def open_ledger() -> Ledger:
            folder = self._surroundings.state_folder
            return Ledger(self._storage, self._store, description, kind.progress, hold, folder)

        return Ingestion(description, kind, self._surroundings, open_ledger, self._runtime)

    def _know_errors(self, description: SourceDescription) -> None:
        for name, errors in description.errors.items():
            self._errors[description.outputs[name]] = errors

    def pause(self, source: GlobalId) -> Ingestion:
        """Let a source take no step until `resume`; returns when it takes none.

        Raises `SourceDropped`, and `SourceBusy` if somebody else has paused it.
        """
        with self._lock:
            turn = self._turns.get(source)
            if turn is None:
                raise source_dropped()
            if turn.is_paused:
                raise SourceBusy(
                    "the source is being altered by another statement",
                    hint="Try the statement again when that is done.",
                )
            turn.is_paused = True
        looking = self._runtime.event()
        while True:
            with self._lock:  # waiting for its bell would take that from the loop
                if turn.running is None or turn.running.done():
                    return turn.ingestion
            looking.wait(_LOOK_AGAIN_S)

    def resume(self, source: GlobalId, description: SourceDescription | None = None) -> None:
        """Let a paused source go on, as it is described now, maybe under another id. One that was
        dropped is no error.
        """
        with self._lock:
            turn = self._turns.get(source)
        if turn is None:
            return
        if description is not None:
            self._describe(turn, description)
        with self._lock:
            turn.is_paused = False
            turn.due = min(turn.due, self._runtime.monotonic_s())
            self._lock.notify()

    def _describe(self, turn: Turn, description: SourceDescription) -> None:
        """Give a source that is paused another description."""
        old, old_hold = turn.ingestion, turn.hold
        unmet: list[Request] = []
        known = set(description.outputs.values())
        gone = [each for each in old.description.outputs.values() if each not in known]
        hold = self._take_hold(description.collections)
        with self._lock:
            turn.ingestion, turn.hold = self.opened(description, hold), hold
            turn.ingestion.follow_on(old)
            turn.is_over = False
            for output in gone:
                self._errors.pop(output, None)
            self._know_errors(description)
            if description.id != old.description.id:
                del self._turns[old.description.id]
                self._turns[description.id] = turn
                unmet, turn.requests = turn.requests.fail(), Requests(description.id)
        for request in unmet:
            answer(request, source_dropped())
        old_hold.close()
        old.close()
        old.remove_state(gone)

    def removal(self, sources: Iterable[GlobalId]) -> Plan[None]:
        """What ends sources durably, for the commit that drops them."""
        with self._lock:
            known = [self._turns[s].ingestion.description for s in sources if s in self._turns]
        release = riders.release_own_writers(c for each in known for c in each.collections)
        noted = self._farewells.events(known)
        outputs = [str(output) for each in known for output in each.outputs.values()]
        noted += Notes(self._store, STATES).events({}, outputs)

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            events, _ = release(state)
            return [*events, *noted], None

        return plan

    def farewell(self, source: GlobalId) -> Callable[[], None] | None:
        """What is to be done upstream when the source has been removed, if anything is."""
        with self._lock:
            turn = self._turns.get(source)
        return None if turn is None else self.cleanup_after(turn.ingestion.description)

    def cleanup_notes(self, description: SourceDescription) -> list[AnyEvent]:
        """What notes, in a commit, that something is to be removed upstream at the next start."""
        return self._farewells.events([description])

    def cleanup_after(self, description: SourceDescription) -> Callable[[], None] | None:
        """What removes upstream what a source has left there, and the note of it."""
        return self._farewells.of(description)

    def remove(self, source: GlobalId) -> None:
        """Stop running a source. One that is not known is no error."""
        with self._lock:
            turn = self._turns.pop(source, None)
            if turn is None:
                return
            for output in turn.ingestion.description.outputs.values():
                self._errors.pop(output, None)
            unmet, running = turn.requests.fail(), turn.running
            self._lock.notify()
        for request in unmet:
            answer(request, source_dropped())
        turn.ingestion.stop()
        turn.hold.close()
        if running is not None:
            running.add_done_callback(lambda _done: self._let_go(turn.ingestion))
        else:
            self._let_go(turn.ingestion)

    def _let_go(self, ingestion: Ingestion) -> None:
        """Close a source that was dropped, and remove its state from the disk."""
        ingestion.close()
        ingestion.remove_state()

    def remove_strays(self) -> None:
        """Remove state on disk that is of no source: one was dropped as the server ended."""
        folder = self._surroundings.state_folder
        if folder is None or not folder.is_dir():
            return
        with self._lock:
            known = [turn.ingestion.description for turn in self._turns.values()]
        kept = {str(output) for each in known for output in each.outputs.values()}
        for path in list(folder.iterdir()):
            if path.is_dir() and path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def wake(self) -> None:
        """Somebody waits for a source."""
        with self._lock:
            self._rung = True
            self._lock.notify()

    def ask(self, source: GlobalId, time: int, *, wants_head: bool) -> Future[Finding]:
        """Have a source be complete at the time and, with `wants_head`, at its head as it is from
        now on. Cancelling the answer withdraws that.

        The answer raises `NotLinearizable`, `SourceDropped`, and what a source has failed with.
        """
        request = Request(time, wants_head=wants_head)
        with self._lock:
            turn = None if self._closing else self._turns.get(source)
            outcome = source_dropped() if turn is None else known_answer(turn, request)
            if outcome is None and turn is not None:
                turn.requests.add(request)
                self._lock.notify()
        if outcome is not None:
            answer(request, outcome)
        return request.answer

    def groups(self, sources: Collection[GlobalId]) -> list[Group]:
        """Those of the sources that follow one log upstream; without sources that are alone."""
        if len(sources) < 2:
            return []
        with self._lock:
            found = {s: turn.ingestion for s in sources if (turn := self._turns.get(s)) is not None}
        return groups_of({source: ingestion.order for source, ingestion in found.items()})

    def ask_together(self, group: Group, time: int) -> Future[Aligned]:
        """Have the sources of a group be complete at the time or a later one, all of them at one
        place of their log, behind everything that is acknowledged from now on or before. Cancelling
        the answer withdraws that.
        """
        request = JointRequest(time, Future())
        with self._lock:
            is_known = not self._closing and group <= self._turns.keys()
            if is_known:
                self._rounds.add(group, request)
                self._lock.notify()
        if not is_known:
            answer_all([request], None)
        return request.answer

    def quieten(self, collections: Iterable[GlobalId]) -> Quiet:
        """Let the sources that fill these collections bind nothing new until that is closed. They
        still become complete at later times. A step that has begun may bind something yet.
        """
        quiet = Quiet(self._runtime.monotonic_s() + _QUIET_S, self._end_quiet)
        with self._lock:
            for turn in self._filling(collections):
                turn.quiets.add(quiet)
        return quiet

    def _end_quiet(self, quiet: Quiet) -> None:
        with self._lock:
            for turn in self._turns.values():
                turn.quiets.discard(quiet)

    def _filling(self, collections: Iterable[GlobalId]) -> list[Turn]:
        """The sources that fill these. For whoever has the lock."""
        wanted = set(collections)
        return [
            turn
            for turn in self._turns.values()
            if wanted.intersection(turn.ingestion.description.collections)
        ]

    def has_changed(self, collections: Iterable[GlobalId], after: int) -> bool:
        """Whether one of these, or what is wrong with it, has an update after the time."""
        named = self._with_errors(collections)
        return self._store.read(lambda state: any(has_update(state, each, after) for each in named))

    def unchanged(
        self, reads: Sequence[tuple[Collection[GlobalId], int]], until: int
    ) -> Plan[None]:
        """See there. What is wrong with a collection counts as read with it."""
        wanted = [(self._with_errors(collections), time) for collections, time in reads]
        with self._lock:
            found = self._filling(each for collections, _ in wanted for each in collections)
            sources = [turn.ingestion.description for turn in found]
        return unchanged(self._store, sources, wanted, until)

    def _with_errors(self, collections: Iterable[GlobalId]) -> list[GlobalId]:
        named = list(collections)
        with self._lock:
            return named + [self._errors[each] for each in named if each in self._errors]

    def reports(self) -> tuple[SourceReport, ...]:
        """How all sources are."""
        with self._lock:
            found = [turn.ingestion for turn in self._turns.values()]
        return tuple(each.report() for each in found)

    @property
    def has_failures(self) -> bool:
        """Whether any source has failed."""
        with self._lock:
            return any(t.ingestion.status.health is Health.FAILED for t in self._turns.values())

    def failed(self, collections: Iterable[GlobalId]) -> SourceReport | None:
        """The report of a source that fills one of these collections and has failed."""
        wanted = set(collections)
        with self._lock:
            found = [turn.ingestion for turn in self._turns.values()]
        for each in found:
            has_failed = each.status.health is Health.FAILED
            if has_failed and wanted.intersection(each.description.collections):
                return each.report()
        return None

    def errors_beside(self, collection: GlobalId) -> GlobalId | None:
        """What is wrong with an output of a source; None for one with which nothing can be."""
        return self._errors.get(collection)

    def output_beside(self, errors: GlobalId) -> GlobalId | None:
        """The output of a source whose errors these are."""
        known = list(self._errors.items())
        return next((output for output, beside in known if beside == errors), None)

    def close(self) -> None:
        """Stop all sources, and wait for that. Holds stay: the sources go on at the next start."""
        with self._lock:
            self._closing = True
            turns = list(self._turns.values())
            unmet = [request for turn in turns for request in turn.requests.fail()]
            joint = self._rounds.close()
            self._lock.notify()
        answer_all(joint, None)
        for request in unmet:
            answer(request, SourceFault("the server is stopping"))
        for turn in turns:
            turn.ingestion.stop()
        self._closed.set()
        self._thread.join()
        self._pool.shutdown(wait=True)
        for turn in turns:
            turn.ingestion.close()

    def _say_farewells(self) -> None:
        try:
            self._farewells.carry_out(self._closed)
        except (Fenced, Unavailable) as error:
            _log.warning("what sources have left upstream stays for now: %s", error)

    # The loop

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closing:
                    return
                self._hurry()
                now = self._runtime.monotonic_s()
                awaited = self._rounds.begin(now)
                for source, turn in self._turns.items():
                    if turn.is_idle and turn.next_due <= now and source not in awaited:
                        turn.looked = now
                        turn.running = self._pool.submit(self._look_after, turn)
                self._lock.wait(self._rest(now, awaited))

    def _hurry(self) -> None:
        """Let those that rest be due at once, if the bell was rung."""
        if not self._rung:
            return
        self._rung = False
        for turn in self._turns.values():
            if not turn.is_pausing:
                turn.due = min(turn.due, turn.looked + _LEAST_REST_S)

    def _rest(self, now: float, awaited: Collection[GlobalId]) -> float | None:
        """How long nothing is to be done; None if nobody can say."""
        idle = [(source, turn) for source, turn in self._turns.items() if turn.is_idle]
        waiting = [turn.next_due for source, turn in idle if source not in awaited]
        waiting += self._rounds.dues(now, awaited)
        return max(0.0, min(waiting) - now) if waiting else None

    def _look_after(self, turn: Turn) -> None:
        joint = turn.round
        with self._lock:
            demand, served = (
                turn.requests.begin_step(is_due=turn.due <= turn.looked)
                if joint is None
                else (joint.demand, turn.served)
            )
            turn.needs_step = False
            is_quiet = joint is None and turn.is_quiet(self._runtime.monotonic_s())
            if is_quiet:
                demand, served = without_news(demand), ()
        try:
            outcome = turn.ingestion.step(demand)
        except (Fenced, Unavailable) as error:
            over = isinstance(error, Fenced) or self._store.has_failed
            _log.warning("a source could not write: %s", error)
            outcome = Outcome(is_over=True) if over else Outcome(again_ms=_AFTER_FAILURE_MS)
        with self._lock:
            answers = decided(turn, outcome, served)
            turn.is_over = outcome.is_over
            source = turn.ingestion.description.id
            ends_round = joint is not None and joint.note(source, outcome.reached)
            turn.untold_at = outcome.changed_at or turn.untold_at
        self._tell_changed(turn)
        for request, told in answers:
            answer(request, told)
        if joint is not None and ends_round:
            answer_all(joint.requests, joint.outcome)
        turn.ingestion.tidy()
        outputs = turn.ingestion.description.outputs.values()
        rest_s = self._delay_s(tuple(outputs), outcome.updates) if outcome.updates else 0.0
        rest_s = min(rest_s, _LONGEST_REST_S)
        with self._lock:
            rested = self._runtime.monotonic_s() + rest_s
            if is_quiet or demand is None or demand.wants_news:
                turn.due = max(self._next(turn, outcome), rested)
            retry_s = _RETRY_ASKED_S if outcome.again_ms else _LEAST_REST_ASKED_S
            turn.due_asked = max(turn.looked + retry_s, rested)
            if turn.untold_at is not None:
                turn.due = min(turn.due, self._runtime.monotonic_s() + _AFTER_FAILURE_MS / 1000)
            turn.is_pausing = bool(outcome.again_ms) or rest_s > 0
            if joint is None:
                turn.running = None
                self._lock.notify()
        if joint is not None:
            self._rounds.end_step(turn, needs_step=False)

    def _tell_changed(self, turn: Turn) -> None:
        """Tell when the contents have changed. If that fails, the next step does it."""
        if turn.untold_at is None:
            return
        try:
            self._changed(turn.untold_at)
        except (Fenced, Unavailable) as error:
            _log.warning("what a source has brought can not be read yet: %s", error)
        else:
            turn.untold_at = None

    def _next(self, turn: Turn, outcome: Outcome) -> float:
        now = self._runtime.monotonic_s()
        if outcome.again_ms is not None:
            return now + outcome.again_ms / 1000
        interval_s = (turn.ingestion.description.interval_ms or self._interval_ms) / 1000
        return (now // interval_s + 1) * interval_s
