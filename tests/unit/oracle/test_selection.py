"""Timestamp selection: which time a query reads at, why, and when there is none."""

from __future__ import annotations

import pytest

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.lattice import MAX_EPOCH_MILLIS
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.oracle.errors import InputGone, InvalidAsOf, TimelinesDiffer, TooStale
from waterclock.oracle.explain import explained
from waterclock.oracle.oracle import Timestamp
from waterclock.oracle.selection import (
    AsOf,
    Input,
    Isolation,
    Reason,
    Selection,
    Staleness,
    select,
)
from waterclock.testing.storage_world import END, at

SERIALIZABLE = Isolation.SERIALIZABLE


def input_(number: int, since: int, upper: int | Frontier[int]) -> Input:
    return Input(
        GlobalId.user(number), at(since), upper if isinstance(upper, Frontier) else at(upper)
    )


T = input_(1, 10, 21)
V = input_(2, 15, 31)


def chosen(selection: Selection) -> tuple[int, Reason, bool]:
    return selection.time, selection.reason, selection.waits


@pytest.mark.parametrize(
    ("oracle", "expected"),
    [
        (12, (15, Reason.SINCE, False)),
        (18, (18, Reason.ORACLE, False)),
        (20, (20, Reason.ORACLE, False)),
        (21, (21, Reason.ORACLE, True)),
    ],
)
@pytest.mark.semantics(84)
def test_strict_takes_the_oldest_valid_time(
    oracle: int, expected: tuple[int, Reason, bool]
) -> None:
    assert chosen(select([T, V], oracle_read=Timestamp(oracle))) == expected


def test_serializable_takes_the_freshest_complete_time_and_needs_no_oracle() -> None:
    assert chosen(select([T, V], SERIALIZABLE)) == (20, Reason.UPPER, False)
    assert chosen(select([V], SERIALIZABLE)) == (30, Reason.UPPER, False)
    assert chosen(select([T, V], SERIALIZABLE, oracle_read=Timestamp(99))).count(20) == 1


def test_serializable_waits_at_since_if_nothing_is_complete() -> None:
    assert chosen(select([input_(1, 10, 10)], SERIALIZABLE)) == (10, Reason.SINCE, True)
    assert chosen(select([input_(1, 0, 0)], SERIALIZABLE)) == (0, Reason.SINCE, True)


def test_a_finished_collection_is_read_in_its_last_form() -> None:
    done = input_(3, 5, END)
    assert chosen(select([done], SERIALIZABLE)) == (2**62 - 1, Reason.UPPER, False)
    assert chosen(select([done, T], SERIALIZABLE)) == (20, Reason.UPPER, False)
    assert chosen(select([done], oracle_read=Timestamp(50))) == (50, Reason.ORACLE, False)


def test_a_constant_query_never_waits() -> None:
    assert chosen(select([], oracle_read=Timestamp(50))) == (50, Reason.ORACLE, False)
    assert chosen(select([], SERIALIZABLE)) == (0, Reason.CONSTANT, False)
    assert chosen(select([], as_of=AsOf(7))) == (7, Reason.AS_OF, False)
    assert select([], SERIALIZABLE).timeline is None


@pytest.mark.semantics(88)
@pytest.mark.parametrize("isolation", Isolation)
def test_as_of_is_that_time_and_asks_nobody(isolation: Isolation) -> None:
    for time, waits in ((15, False), (20, False), (21, True), (10**6, True)):
        selection = select([T, V], isolation, as_of=AsOf(time), recency=10**9)
        assert chosen(selection) == (time, Reason.AS_OF, waits)
        assert selection.oracle_read is None, "no oracle was needed, even for a strict read"


@pytest.mark.semantics(88)
def test_as_of_before_since_is_an_error_that_tells_what_is_valid() -> None:
    with pytest.raises(InvalidAsOf) as raised:
        select([T, V], as_of=AsOf(14))
    error = raised.value
    assert error.sqlstate == "22023"
    assert str(error) == "AS OF 14 is before the first time that can be read, 15"
    assert error.detail is not None
    assert "u1: since {10}, upper {21}" in error.detail
    assert error.hint == "Valid times begin at 15; the last complete one is 20."


@pytest.mark.semantics(88)
@pytest.mark.parametrize("time", [-1, MAX_EPOCH_MILLIS + 1])
@pytest.mark.parametrize("at_least", [False, True])
def test_as_of_something_that_is_no_time(time: int, at_least: bool) -> None:
    with pytest.raises(InvalidAsOf):
        select([T], oracle_read=Timestamp(0), as_of=AsOf(time, at_least))


def test_as_of_at_least_is_one_more_lower_bound() -> None:
    at_least = AsOf(17, at_least=True)
    low, high = Timestamp(12), Timestamp(19)
    assert chosen(select([T, V], oracle_read=low, as_of=at_least)) == (17, Reason.AT_LEAST, False)
    assert chosen(select([T, V], oracle_read=high, as_of=at_least)) == (19, Reason.ORACLE, False)
    assert chosen(select([T, V], SERIALIZABLE, as_of=at_least)) == (20, Reason.UPPER, False)
    ahead = AsOf(99, at_least=True)
    assert chosen(select([T, V], SERIALIZABLE, as_of=ahead)) == (99, Reason.AT_LEAST, True)


def test_a_recent_read_is_at_or_after_what_was_upstream() -> None:
    read = select([T, V], oracle_read=Timestamp(12), recency=19)
    assert chosen(read) == (19, Reason.RECENCY, False)
    assert chosen(select([T, V], SERIALIZABLE, recency=25)) == (25, Reason.RECENCY, True)


def test_bounded_staleness_is_complete_and_fresh_or_refused() -> None:
    """The inputs are complete to 20 and 30."""
    bounded = Isolation.BOUNDED_STALENESS
    fresh = select([T, V], bounded, staleness=Staleness(25, 5))
    assert chosen(fresh) == (20, Reason.UPPER, False)
    with pytest.raises(TooStale) as raised:
        select([T, V], bounded, staleness=Staleness(26, 5))
    assert raised.value.late == (T.id,)
    with pytest.raises(TooStale) as raised:
        select([T, V], bounded, staleness=Staleness(100, 5))
    assert raised.value.late == (T.id, V.id)
    with pytest.raises(TooStale):  # fresh enough, but it would have to wait
        select([T, V], bounded, as_of=AsOf(21, at_least=True), staleness=Staleness(22, 5))
    waits = select([T, V], bounded, recency=99, staleness=Staleness(100, 5))
    assert chosen(waits) == (99, Reason.RECENCY, True)


def test_a_collection_that_everybody_let_go_of_can_not_be_read() -> None:
    gone = Input(GlobalId.user(3), END, at(9))
    for as_of in (None, AsOf(3)):
        with pytest.raises(InputGone, match="u3"):
            select([T, gone], oracle_read=Timestamp(1), as_of=as_of)


@pytest.mark.semantics(2)
def test_inputs_of_two_timelines_have_no_common_time() -> None:
    other = Timeline("debezium", EPOCH_MILLIS.lattice)
    foreign = Input(GlobalId.user(4), other.frontier(3), other.frontier(9))
    with pytest.raises(TimelinesDiffer) as raised:
        select([T, foreign], oracle_read=Timestamp(1))
    assert raised.value.detail is not None
    assert 'u4 is on "debezium"' in raised.value.detail
    assert select([foreign], SERIALIZABLE).timeline == "debezium"


def test_what_explain_shows() -> None:
    selection = select([T, V], oracle_read=Timestamp(21))
    lines = explained(selection, lambda collection: f"public.{collection}")
    assert lines == [
        ("query timestamp", "21"),
        ("determined by", "oracle"),
        ("isolation", "strict serializable"),
        ("timeline", "epoch_ms"),
        ("oracle read timestamp", "21"),
        ("real-time recency", "none"),
        ("since", "{15}"),
        ("upper", "{21}"),
        ("last complete timestamp", "20"),
        ("can respond immediately", "false"),
        ("public.u1", "u1"),
        ("public.u1 since", "{10}"),
        ("public.u1 upper", "{21}"),
        ("public.u2", "u2"),
        ("public.u2 since", "{15}"),
        ("public.u2 upper", "{31}"),
    ]
