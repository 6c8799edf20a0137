"""Timestamp selection: the one time at which a query reads all of its inputs.

Pure: from what is known of the inputs to the time, and to everything that explains it. The caller
holds the inputs (a read capability for each) from before it looks at their frontiers until the read
is done, so that a time chosen here stays readable.

A time has to be at or after everything that bounds it from below: the sinces of the inputs, the
oracle's read time (strict serializable only), AS OF AT LEAST, and what a recent read asks for. Of
those that qualify

- strict serializable takes the oldest: later ones would only wait longer;
- serializable takes the freshest that is complete, or the oldest if none is complete yet;
- bounded staleness takes the freshest that is complete, and refuses one that is too old;
- AS OF takes the one that it names, and asks nobody.

The oracle is for the timeline of the tables. On any other one nobody can write, and the times come
from outside; there every read is at the freshest complete time, whatever the isolation.

A query without inputs is the same at all times and never waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from waterclock.model.errors import NotATime
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.oracle.errors import InputGone, InvalidAsOf, TimelinesDiffer, TooStale
from waterclock.oracle.oracle import Timestamp

_LAST = 2**62 - 1
"""Nothing happens after this time: to compute, a later upper is that of what is finished."""


class Isolation(StrEnum):
    """What reads promise. The value is the one of the session variable."""

    STRICT_SERIALIZABLE = "strict serializable"
    SERIALIZABLE = "serializable"
    BOUNDED_STALENESS = "bounded staleness"


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old an answer may be: at most `bound_ms` before `now`."""

    now: int
    bound_ms: int


@dataclass(frozen=True, slots=True)
class Input:
    """A collection that the query reads, with the frontiers it had while it was held."""

    id: GlobalId
    since: Frontier[int]
    upper: Frontier[int]


@dataclass(frozen=True, slots=True)
class AsOf:
    """Exactly this time, or with `at_least` this one or a later one."""

    time: int
    at_least: bool = False


class Reason(StrEnum):
    """What made the time the one it is."""

    AS_OF = "AS OF"
    AT_LEAST = "AS OF AT LEAST"
    ORACLE = "oracle"
    RECENCY = "real-time recency"
    SINCE = "since"
    UPPER = "upper"
    CONSTANT = "constant query"


@dataclass(frozen=True, slots=True)
class Selection:
    """The time, and what EXPLAIN TIMESTAMP shows about it."""

    time: Timestamp
    timeline: str | None
    """None for a query without inputs."""
    isolation: Isolation
    reason: Reason
    since: Frontier[int]
    """The join of the inputs' sinces: the first time at which all of them can be read."""
    upper: Frontier[int]
    """The meet of the inputs' uppers: the first time at which not all of them are complete."""
    inputs: tuple[Input, ...]
    oracle_read: Timestamp | None
    as_of: AsOf | None
    recency: int | None

    @property
    def waits(self) -> bool:
        """Whether the time is not complete yet, so that the answer has to wait."""
        return bool(self.inputs) and not _is_complete(self.upper, self.time)

    @property
    def freshest(self) -> int | None:
        """The last complete time; None if there is none yet."""
        return _freshest(self.upper)


def select(
    inputs: Sequence[Input],
    isolation: Isolation = Isolation.STRICT_SERIALIZABLE,
    *,
    oracle_read: Timestamp | None = None,
    as_of: AsOf | None = None,
    recency: int | None = None,
    together: int | None = None,
    staleness: Staleness | None = None,
) -> Selection:
    """Choose the time for a query over these inputs.

    `oracle_read` is the oracle's read time, asked for after the query arrived; strict serializable
    needs it unless AS OF names the time, or the inputs are on a timeline of their own. If a strict
    read's time is later than it, the oracle has to be told when that time is complete and before
    the answer is given, so that no later read is before it (`Oracle.apply_write`); not earlier, for
    the time may be far ahead. `recency` is the earliest time that reflects what is upstream. From
    `together` on, everything can be read that later queries of the transaction may want at the same
    time. `staleness` goes with bounded staleness. A recent read waits, and so is never too stale.

    Raises `TimelinesDiffer`, `InputGone`, `InvalidAsOf`, `TooStale`.
    """
    timeline = _common_timeline(inputs)
    since, upper = _readable_from(timeline, inputs), _complete_to(timeline, inputs)
    exact = as_of is not None and not as_of.at_least
    if as_of is not None:
        _check_time(as_of)
    strict = isolation is Isolation.STRICT_SERIALIZABLE and timeline == EPOCH_MILLIS
    assert exact or not strict or oracle_read is not None, "a strict read asks the oracle"
    if exact:
        assert as_of is not None
        _require_readable(as_of, since, upper, inputs)
        time, reason = as_of.time, Reason.AS_OF
    else:
        oracle = oracle_read if strict else None
        time, reason = _latest_bound(
            since, oracle, as_of, recency, together, has_inputs=bool(inputs)
        )
        freshest = _freshest(upper) if inputs and not strict else None
        if freshest is not None and freshest > time:
            time, reason = freshest, Reason.UPPER
        if staleness is not None and recency is None:
            _require_fresh(inputs, time, staleness)
    return Selection(
        time=Timestamp(time),
        timeline=timeline.id if inputs else None,
        isolation=isolation,
        reason=reason,
        since=since,
        upper=upper,
        inputs=tuple(inputs),
        oracle_read=None if exact or timeline != EPOCH_MILLIS else oracle_read,
        as_of=as_of,
        recency=None if exact else recency,
    )


def _require_fresh(inputs: Sequence[Input], time: int, staleness: Staleness) -> None:
    """Raise `TooStale` unless all inputs are complete at the time, and it is not too old."""
    least = max(time, staleness.now - staleness.bound_ms)
    complete = {each.id: _freshest(each.upper) for each in inputs}
    late = {c: -1 if last is None else last for c, last in complete.items()}
    late = {c: last for c, last in late.items() if last < least}
    if late:
        behind = staleness.now - min(late.values())
        bound = f"can not be read with a staleness of at most {staleness.bound_ms} ms"
        raise TooStale(list(late), bound, behind)


def _latest_bound(
    since: Frontier[int],
    oracle: int | None,
    as_of: AsOf | None,
    recency: int | None,
    together: int | None,
    *,
    has_inputs: bool,
) -> tuple[int, Reason]:
    """The least time that is at or after all of these, and which of them it is."""
    first = since.only()
    assert first is not None
    bounds = [(first, Reason.SINCE if has_inputs else Reason.CONSTANT)]
    if together is not None:
        bounds.append((together, Reason.SINCE))
    if recency is not None:
        bounds.append((recency, Reason.RECENCY))
    if oracle is not None:
        bounds.append((oracle, Reason.ORACLE))
    if as_of is not None:
        bounds.append((as_of.time, Reason.AT_LEAST))
    return max(bounds, key=lambda bound: bound[0])


def _common_timeline(inputs: Sequence[Input]) -> Timeline[int]:
    timelines = {each.since.timeline.id: each.since.timeline for each in inputs}
    if len(timelines) > 1:
        raise TimelinesDiffer.of({str(i.id): i.since.timeline.id for i in inputs})
    return next(iter(timelines.values()), EPOCH_MILLIS)


def _readable_from(timeline: Timeline[int], inputs: Sequence[Input]) -> Frontier[int]:
    since = timeline.start()
    for each in inputs:
        if each.since.is_empty:
            raise InputGone(
                f"collection {each.id} can not be read any more",
                detail="It was dropped, and nobody has held it since.",
            )
        since = since.join(each.since)
    return since


def _complete_to(timeline: Timeline[int], inputs: Sequence[Input]) -> Frontier[int]:
    upper = timeline.empty()
    for each in inputs:
        upper = upper.meet(each.upper)
    return upper


def _check_time(as_of: AsOf) -> None:
    try:
        EPOCH_MILLIS.time(as_of.time)
    except NotATime as error:
        raise InvalidAsOf(f"AS OF {as_of.time} is not a time", detail=str(error)) from error


def _require_readable(
    as_of: AsOf, since: Frontier[int], upper: Frontier[int], inputs: Sequence[Input]
) -> None:
    if since.less_equal(since.timeline.time(as_of.time)):
        return
    shown = "\n".join(f"{each.id}: since {each.since}, upper {each.upper}" for each in inputs)
    freshest = _freshest(upper)
    raise InvalidAsOf(
        f"AS OF {as_of.time} is before the first time that can be read, {since.only()}",
        detail=f"The inputs are readable as follows.\n{shown}",
        hint=f"Valid times begin at {since.only()}"
        + (f"; the last complete one is {freshest}." if freshest is not None else "."),
    )


def _is_complete(upper: Frontier[int], time: int) -> bool:
    return not upper.less_equal(upper.timeline.time(time))


def _freshest(upper: Frontier[int]) -> int | None:
    """The last complete time: of a finished collection that is the last there is."""
    bound = upper.only()
    if bound is None:
        return _LAST
    return bound - 1 if bound > 0 else None
