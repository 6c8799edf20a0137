"""One source at work: the state machine around a connector and a ledger.

A step looks upstream, binds what is new, reads it, and appends it; or notes that nothing is new.
Of a system that gives each message once (`api.Receiver`), it takes what has arrived and appends it
together with the binding.

What goes wrong ends the step, not the loop that drives it: a transient fault lets the source stall
and be tried again, later and later; a definite one lets it fail for good, with the error for all to
see. A step that was broken off anywhere is made up for by the next one, here or after a restart,
because everything it needs is in the ledger.

Faults of our own data (it was taken over, or the store is gone) are raised: there is nothing more
to be done for any source.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.errors import Fenced, Unavailable
from waterclock.persist.rows import DIFF
from waterclock.runtime import SYSTEM, Runtime
from waterclock.storage.errors import CapabilityInvalid
from waterclock.storage.reclock.progress import FINISHED, Partition, Range, SourceFrontier
from waterclock.storage.reclock.remap import Offsets
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Connector,
    Ending,
    Envelope,
    Fallible,
    FollowsLog,
    Grouping,
    Kind,
    Messages,
    Probe,
    Recalls,
    Received,
    Receiver,
    Remembers,
    SourceDescription,
    Standing,
    Stateful,
    Surroundings,
    TellsHead,
)
from waterclock.storage.sources.decode_errors import UNHELD_AFTER
from waterclock.storage.sources.errors import SourceFault, TransientFault
from waterclock.storage.sources.ledger import Ledger, Pending
from waterclock.storage.sources.recency import Demand, NotLinearizable, Reached
from waterclock.storage.sources.status import Health, SourceReport, Statistics, Status

_FIRST_PAUSE_MS = 250
_LONGEST_PAUSE_MS = 30_000
_LOOKS = 10
"""How often the partitions of a source are looked at again for a recent read."""
_log = logging.getLogger(__name__)


class Stopped(Exception):
    """The source is not to go on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step came to.

    `changed_at` is the time at which the contents changed, if they did. `again_ms` is when to do
    the next one if not as usual, and None at the end.
    """

    changed_at: int | None = None
    again_ms: int | None = None
    is_over: bool = False
    updates: int = 0
    """How many updates were written."""
    reached: Reached | None = None
    """Where the source stands after a step that has not failed."""


class Ingestion:
    """One source. Steps are done one at a time; everything else may be asked by any thread."""

    def __init__(
        self,
        description: SourceDescription,
        kind: Kind,
        surroundings: Surroundings,
        open_ledger: Callable[[], Ledger],
        runtime: Runtime = SYSTEM,
    ) -> None:
        self.description = description
        self._kind = kind
        self._surroundings = surroundings
        self._open_ledger = open_ledger
        self._ledger: Ledger | None = None
        self._connector: Connector | Receiver | None = None
        self._envelopes: dict[str, Envelope] = {}
        self._grouping: Grouping | None = None
        self._failed_outputs: dict[GlobalId, Status] = {}
        self._stopping = runtime.event()
        self._pause_ms = 0
        self._head: SourceFrontier | None = None
        """What the present step has learned of the head."""
        self._behind_ms = 0
        """How much older the last bound message is than the newest one upstream, if it is known."""
        self.limit: SourceFrontier | None = None
        """Nothing beyond it is bound, if it is set."""
        self.refusal: NotLinearizable | None = None
        """Why recent reads are refused, once that is known."""
        self.status = Status(Health.STARTING, surroundings.clock())
        self.statistics = Statistics()

    # What others ask

    def report(self) -> SourceReport:
        """How the source is."""
        ledger = self._ledger
        end = None if ledger is None else ledger.complete_to
        lag = None
        if end is not None:
            lag = max(0, self._surroundings.clock() - (end - 1)) + self._behind_ms
        skipped = 0 if ledger is None else ledger.skipped
        done = replace(self.statistics, lag_ms=lag, skipped=skipped)
        return SourceReport(self.description.id, self.status, done, dict(self._failed_outputs))

    def follow_on(self, before: Ingestion) -> None:
        """Go on with what is told of the source as it was described before."""
        self.statistics = before.statistics
        if before.status.health is Health.RUNNING:
            self.status = before.status

    def stop(self) -> None:
        """Do no further step, and break off the present one where it reads."""
        self._stopping.set()

    def close(self) -> None:
        """Let go of the system upstream, and of state on disk; not during a step."""
        self._drop_connector()
        for envelope in self._stateful.values():
            envelope.close()

    def tidy(self) -> None:
        """Some upkeep of what envelopes keep on disk, between two steps."""
        if self._connector is None:  # the last step has failed
            return
        try:
            for envelope in self._stateful.values():
                envelope.settle()
        except (TransientFault, OSError, Unavailable) as error:
            _log.warning("source %s: %s", self.description.name, error)
            self._drop_connector()  # so that the state is opened again
        except Exception:
            _log.exception("source %s could not tidy its state", self.description.name)
            self._drop_connector()

    def remove_state(self, outputs: Iterable[GlobalId] | None = None) -> None:
        """Remove from the disk what the envelopes of some outputs, or of all, have kept there: it
        is not needed any more.
        """
        folder = self._surroundings.state_folder
        for output in self.description.outputs.values() if outputs is None else outputs:
            if folder is not None:
                shutil.rmtree(folder / str(output), ignore_errors=True)

    @property
    def _stateful(self) -> dict[str, Stateful]:
        """The envelopes that keep state on disk."""
        return {name: e for name, e in self._envelopes.items() if isinstance(e, Stateful)}

    # What several sources do together

    @property
    def order(self) -> Hashable:
        """The log upstream that the source follows; None if no other source follows it."""
        try:
            return self._kind.order(self.description.definition, self._surroundings)
        except (WaterclockError, OSError):  # the connection is not there any more: a step tells
            return None

    @property
    def can_follow(self) -> bool:
        """Whether the next step may be bound at a place in the log; not during a step. Otherwise it
        has something else to do first.
        """
        ledger = self._ledger
        if ledger is None or ledger.is_finished or ledger.pending is not None:
            return False
        return ledger.bound is not None and isinstance(self._connector, FollowsLog)

    def place(self) -> SourceFrontier | None:
        """A place in the log upstream behind everything that is acknowledged there; not during a
        step, and only if the source `can_follow`. None if a step has something to tell first.
        """
        assert isinstance(self._connector, FollowsLog)
        try:
            probe = self._connector.probe()
        except Exception as error:  # a step finds the same, and knows what to do
            _log.info("source %s has not told its place: %s", self.description.name, error)
            return None
        return probe.frontier if probe.frontier.covers(probe.known) else None

    # A step

    def step(self, demand: Demand | None = None) -> Outcome:
        """Do what there is to do now, and what is demanded; a demand may take several steps.

        Raises `Fenced` and `Unavailable` only.
        """
        before = self.statistics.updates
        self._head = None
        try:
            outcome = self._step(demand)
        except (Fenced, Unavailable):
            self._ledger = None  # what has become durable is unknown: look again
            self._drop_connector()
            raise
        except Stopped:
            return Outcome(is_over=True)
        except (TransientFault, OSError) as error:
            return self._stalled(error)
        except CapabilityInvalid as error:
            if self._stopping.is_set():  # it was dropped under us
                return Outcome(is_over=True)
            return self._failed(error)
        except WaterclockError as error:
            return self._failed(error)
        except Exception as error:
            _log.exception("source %s stopped", self.description.name)
            return self._failed(SourceFault(f"internal error: {error}"))
        self._pause_ms = 0
        updates = self.statistics.updates - before
        return replace(outcome, updates=updates, reached=self.reached())

    def reached(self) -> Reached | None:
        """Where the source stands; not during a step. None if it has not begun."""
        ledger = self._ledger
        if ledger is None:
            return None
        bound = FINISHED if ledger.is_finished else ledger.bound
        if bound is None:
            return None
        return Reached(bound, ledger.bound_at, ledger.complete_to, self._head)

    def standing(self) -> Reached | None:
        """Where the source stands, between two steps, if everything that it has bound is there.
        None while that is not so, and when it has finished.
        """
        ledger = self._ledger
        if ledger is None or ledger.is_finished or ledger.pending is not None:
            return None
        return self.reached()

    def advance(self, time: int) -> None:
        """Be complete at the time, at which nothing has happened; between two steps.

        The source has a `standing`. Raises `Fenced` and `Unavailable`.
        """
        assert self._ledger is not None, "the source has begun"
        self._ledger.advance(time)

    def _step(self, demand: Demand | None) -> Outcome:
        self._require_wanted()
        ledger = self._opened_ledger()
        if ledger.is_finished:
            self._head = FINISHED
            return self._finished(None)
        now = self._now(demand)
        connector = self._opened_connector(ledger)
        if ledger.bound is None:
            self._begin(ledger, connector)
        if isinstance(connector, Receiver):
            return self._received(ledger, connector, demand)
        changed_at = None
        if ledger.pending is not None:
            changed_at = self._applied(ledger, connector, ledger.pending)
            now = self._now(demand)
        if demand is not None and not demand.wants_news:
            ledger.advance(now)
            return Outcome(changed_at)
        asks = demand is not None and demand.wants_head and self.refusal is None
        if demand is not None and demand.up_to is not None:
            assert isinstance(connector, FollowsLog), "only such sources are bound together"
            self._head = demand.up_to
            return self._moved(ledger, connector, connector.probe_to(demand.up_to), now, changed_at)
        if asks and isinstance(connector, TellsHead):
            self._head = connector.head()
        probe = connector.probe() if self._head is None else self._at_one_moment(connector)
        if asks and self._head is None:
            self._head = probe.known
        return self._moved(ledger, connector, probe, now, changed_at)

    def _at_one_moment(self, connector: Connector) -> Probe:
        """How far all partitions were at one moment. They are not asked at just the same time; but
        if two looks agree, of which the head was the first, nothing was written in between. After
        several that do not, the last one counts.
        """
        before, probe = self._head, connector.probe()
        if before is not None and before.listed_at:  # one listing is not compared with another
            return probe
        for _ in range(_LOOKS):
            if len(probe.known.uppers) < 2 or probe.known == before:
                break
            before, probe = probe.known, connector.probe()
        return probe

    def _now(self, demand: Demand | None) -> int:
        """The time of what is bound now, unless something was bound at it already."""
        now = self._surroundings.clock()
        if demand is None:
            return now
        return demand.time if demand.is_first else max(now, demand.time)

    def _begin(self, ledger: Ledger, connector: Connector | Receiver) -> None:
        start = connector.start()
        if isinstance(connector, Receiver) or not self._kind.begins_with_contents:
            ledger.begin(start)
            connector.resume(start)
            return
        connector.resume(start)
        probe = connector.probe()
        ledger.begin_with_contents(probe.frontier)
        self.statistics = replace(self.statistics, first_rows_known=probe.rows)

    def _moved(
        self, ledger: Ledger, connector: Connector, probe: Probe, now: int, changed_at: int | None
    ) -> Outcome:
        """Follow what the probe has found."""
        assert ledger.bound is not None
        if self.limit is not None:
            probe = replace(probe, frontier=probe.frontier.limited(self.limit))
        self.statistics = replace(self.statistics, offsets_known=self._count(probe.known))
        self._behind_ms = probe.behind_ms
        probe.frontier.require_after(ledger.bound)
        if not probe.frontier.is_at(ledger.bound):
            pending = ledger.bind(probe.frontier, now)
            changed_at = self._applied(ledger, connector, pending)
        elif probe.is_final:
            return self._finished(ledger.finish(now))
        else:
            self._record_states(ledger)
            ledger.confirm(probe.frontier)
            ledger.advance(now)
        is_behind = probe.behind_ms > 0 and probe.hindrance is None
        is_at_end = probe.frontier == probe.known and not probe.is_partial
        has_more = probe.is_final or not is_at_end or is_behind
        return self._went_on(ledger, now, changed_at, has_more=has_more, hindrance=probe.hindrance)

    def _went_on(
        self,
        ledger: Ledger,
        now: int,
        changed_at: int | None,
        *,
        has_more: bool,
        hindrance: TransientFault | None = None,
        warning: WaterclockError | None = None,
    ) -> Outcome:
        """The outcome of a step that has followed what is upstream."""
        if self._has_ended:
            ledger.finish(now)
            return self._finished(changed_at)
        had_stalled = self.status.health is Health.STALLED
        if hindrance is not None:
            self._become_stalled(hindrance)
        elif self._become(Health.RUNNING, warning=warning):
            if had_stalled:
                _log.info("source %s goes on", self.description.name)
            if warning is not None:
                _log.warning("source %s: %s", self.description.name, warning)
        self._look_at_outputs()
        return Outcome(changed_at, again_ms=0 if has_more else None)

    # Messages that come once

    def _received(self, ledger: Ledger, receiver: Receiver, demand: Demand | None) -> Outcome:
        """Append what has arrived together with its binding."""
        if demand is not None and not demand.wants_news:
            ledger.advance(self._now(demand))
            return Outcome()
        received, now = receiver.receive(), self._now(demand)
        assert ledger.bound is not None
        assert ledger.pending is None, "what was received is durable with its binding"
        changed_at = None
        if received.messages or received.notes or received.frontier != ledger.bound:
            time = self._append_received(ledger, receiver, received, now)
            changed_at = time if received.messages else None
        else:
            self._record_states(ledger)
            ledger.advance(now)
        return self._went_on(
            ledger, now, changed_at, has_more=received.has_more, warning=received.warning
        )

    def _append_received(
        self, ledger: Ledger, receiver: Receiver, received: Received, now: int
    ) -> int:
        assert ledger.bound is not None
        ranges = {each.partition: each for each in received.frontier.ranges_since(ledger.bound)}
        taken: dict[str, list[Messages]] = {name: [] for name in self.description.outputs}
        for messages in received.messages:
            _require_inside(messages, ranges)
            if messages.output in taken:
                taken[messages.output].append(messages)
        changes = {name: e.changes(taken[name]) for name, e in self._envelopes.items()}
        self._require_wanted()
        self._record_states(ledger)
        time, updates = ledger.bind_received(received.frontier, changes, received.notes, now)
        done = self.statistics
        self.statistics = replace(
            done,
            messages=done.messages + sum(each.batch.num_rows for each in received.messages),
            bytes=done.bytes + sum(each.batch.nbytes for each in received.messages),
            updates=done.updates + updates,
            undecodable=done.undecodable + sum(map(_count_wrong, received.messages)),
            offsets_known=self._count(received.frontier),
            offsets_committed=self._count(received.frontier),
        )
        receiver.commit(received.frontier)
        return time

    @property
    def _has_ended(self) -> bool:
        """Whether the messages have said, for every output, that nothing more comes."""
        known = self._envelopes.values()
        return bool(known) and all(isinstance(each, Ending) and each.has_ended for each in known)

    def _applied(self, ledger: Ledger, connector: Connector, pending: Pending) -> int:
        """Read what a binding binds and append it."""
        taken: dict[str, list[Messages]] = {name: [] for name in self.description.outputs}
        size = count = wrong = 0
        for messages in self._read(connector, pending):
            if messages.output in taken or self._grouping is not None:
                taken.setdefault(messages.output, []).append(messages)
                count += messages.batch.num_rows
                size += messages.batch.nbytes
                wrong += _count_wrong(messages)
                if pending.is_first and self._kind.begins_with_contents:
                    self.statistics = replace(self.statistics, first_rows_read=count)
        own_notes = dict(self._hold_back(taken) or {})
        if isinstance(connector, Remembers):
            own_notes |= connector.remembered()
        changes = {name: e.changes(taken[name]) for name, e in self._envelopes.items()}
        self._require_wanted()
        self._record_states(ledger)
        updates = ledger.apply(changes, own_notes)
        done = self.statistics
        self.statistics = replace(
            done,
            messages=done.messages + count,
            bytes=done.bytes + size,
            updates=done.updates + updates,
            undecodable=done.undecodable + wrong,
            offsets_committed=self._count(pending.bound),
        )
        connector.commit(pending.bound)
        return pending.time

    def _record_states(self, ledger: Ledger) -> None:
        ledger.record_states({name: e.state_record() for name, e in self._stateful.items()})

    def _hold_back(self, taken: dict[str, list[Messages]]) -> Mapping[str, bytes | None] | None:
        """Take out what is not to be seen yet, and put in what was held back until now."""
        if self._grouping is None:
            return None
        given = [each for found in taken.values() for each in found]
        released, notes = self._grouping.released(given)
        for found in taken.values():
            found.clear()
        for each in released:
            taken.setdefault(each.output, []).append(each)
        return notes

    def _read(self, connector: Connector, pending: Pending) -> Iterator[Messages]:
        """The messages of a binding. What is not in its ranges is the connector's mistake."""
        ranges = {each.partition: each for each in pending.ranges}
        if not ranges:
            return
        for messages in connector.read(pending.ranges):
            self._require_wanted()
            offsets = _require_inside(messages, ranges)
            assert (pending.remap.times_of(messages.partition, offsets) == pending.time).all()
            yield messages

    def _opened_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self._open_ledger()
        return self._ledger

    def _opened_connector(self, ledger: Ledger) -> Connector | Receiver:
        """The connector, told where the source stands. After a fault it is opened anew."""
        if self._connector is None:
            definition = self.description.definition
            connector = self._kind.open(definition, self._surroundings)
            for name in self.description.outputs:
                envelope = self._envelopes.get(name)
                if not isinstance(envelope, Stateful):  # what is open on disk is not opened again
                    envelope = self._kind.envelope(definition, name)
                envelope.resume(self._while_wanted(ledger.standing(name)))
                self._envelopes[name] = envelope
            self._grouping = self._kind.grouping(definition)
            if self._grouping is not None:
                self._grouping.resume(ledger.own_notes)
            if isinstance(connector, Receiver):
                assert self._grouping is None, "a receiver has the notes of the source as a whole"
            if isinstance(connector, Recalls):
                end = ledger.complete_to
                connector.recall(ledger.own_notes, None if end is None else end - 1)
            if ledger.bound is not None:
                connector.resume(ledger.bound)
            self._connector = connector
            self.refusal = None if connector.is_linearizable else self._not_linearizable()
            if ledger.bound is not None and ledger.pending is None:
                committed = self._count(ledger.bound)
                self.statistics = replace(self.statistics, offsets_committed=committed)
        return self._connector

    def _count(self, frontier: SourceFrontier) -> int | None:
        """How many offsets are before the frontier, if that says something."""
        return frontier.total if self._kind.progress.counts_offsets else None

    def _not_linearizable(self) -> NotLinearizable:
        reason = self._kind.not_linearizable or "The system upstream does not tell how far it is."
        return NotLinearizable(
            f'recent reads of source "{self.description.name}" are not possible',
            detail=reason,
            hint="SET real_time_recency = off to read what has been received.",
        )

    def _while_wanted(self, standing: Standing) -> Standing:
        """The same, whose contents are not read any further when the source is stopped."""

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in standing.rows():
                self._require_wanted()
                yield batch

        return replace(standing, rows=rows)

    # What becomes of it

    def _require_wanted(self) -> None:
        if self._stopping.is_set():
            raise Stopped

    def _finished(self, changed_at: int | None) -> Outcome:
        self._become(Health.FINISHED)
        self.close()
        self.remove_state()
        return Outcome(changed_at, is_over=True)

    def _stalled(self, error: Exception) -> Outcome:
        told = error if isinstance(error, WaterclockError) else TransientFault(str(error))
        self._become_stalled(told)
        self._drop_connector()
        self._pause_ms = min(2 * self._pause_ms or _FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        return Outcome(again_ms=self._pause_ms)

    def _become_stalled(self, error: WaterclockError) -> None:
        if self._become(Health.STALLED, error):  # it may be tried for days
            _log.warning("source %s has stalled: %s", self.description.name, error)

    def _failed(self, error: WaterclockError) -> Outcome:
        _log.error("source %s has failed: %s", self.description.name, error)
        self._become(Health.FAILED, error)
        self._drop_connector()
        return Outcome(is_over=True)

    def _become(
        self,
        health: Health,
        error: WaterclockError | None = None,
        warning: WaterclockError | None = None,
    ) -> bool:
        """Whether that is news."""
        new = Status(health, self._surroundings.clock(), error, warning)
        if new.is_same(self.status):
            self.status = replace(self.status, warning=warning)  # its detail may be news
            return False
        self.status = new
        return True

    def _look_at_outputs(self) -> None:
        """Note which outputs have failed, while the source goes on."""
        for name, envelope in self._envelopes.items():
            failure = envelope.failure if isinstance(envelope, Fallible) else None
            output = self.description.outputs[name]
            if failure is not None and output not in self._failed_outputs:
                _, _, text = failure.partition(" ")
                now = self._surroundings.clock()
                self._failed_outputs[output] = Status(Health.FAILED, now, SourceFault(text))

    def _drop_connector(self) -> None:
        connector, self._connector = self._connector, None
        if connector is None:
            return
        try:
            connector.close()
        except (WaterclockError, OSError) as error:
            _log.warning("source %s could not be closed: %s", self.description.name, error)


def _numbers(offsets: pa.Array) -> Offsets:
    """Offsets as numbers, which are exact, however long they are."""
    if pa.types.is_integer(offsets.type):
        return np.asarray(offsets)
    return np.array([int(digits) for digits in offsets.to_pylist()], np.object_)


def _require_inside(messages: Messages, ranges: Mapping[Partition, Range]) -> Offsets:
    """The offsets of messages, which are in a range that is bound."""
    offsets = _numbers(messages.batch.column(OFFSET))
    added = offsets
    if DIFF in messages.batch.schema.names:  # what is taken back may be older
        added = offsets[np.asarray(messages.batch.column(DIFF)) > 0]
    asked = ranges[messages.partition]
    inside = not len(offsets) or (
        asked.start <= added.min(initial=asked.end) and offsets.max() < asked.end
    )
    assert inside, f"offsets outside {asked} were read"
    return offsets


def _count_wrong(messages: Messages) -> int:
    """How many of the messages can not be read."""
    batch = messages.batch
    if ERROR not in batch.schema.names:
        return 0
    wrong = batch.column(ERROR).is_valid()
    if UNHELD_AFTER in batch.schema.names:
        wrong = pc.or_(wrong, batch.column(UNHELD_AFTER).is_valid())
    if DIFF in batch.schema.names:
        wrong = pc.and_(wrong, pc.greater(batch.column(DIFF), 0))
    return int(wrong.true_count)
