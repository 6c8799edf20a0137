"""The timestamp oracle: its laws, over concurrent histories, crashes, and clocks that are wrong."""

from __future__ import annotations

import threading
from random import Random

import pytest

from waterclock.model.lattice import MAX_EPOCH_MILLIS
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.oracle.errors import OutOfTime
from waterclock.oracle.oracle import PREFIX, Oracle
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import Unavailable
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.testing.histories import History, Kind, Operation, together, violations
from waterclock.testing.persist_world import open_store
from waterclock.testing.storage_world import HandClock


class CountedConsensus(MemoryConsensus):
    """Counts the entries that are written, and can stop taking them."""

    def __init__(self) -> None:
        super().__init__()
        self.appended = 0
        self.broken = False

    def append(self, position: int, entry: bytes) -> None:
        if self.broken:
            raise Unavailable("no")
        super().append(position, entry)
        self.appended += 1


class OracleWorld:
    """An oracle that can crash, with a clock in the hand of the test."""

    def __init__(self, lead_ms: int = 1000) -> None:
        self.blob, self.consensus, self.clock = MemoryBlob(), CountedConsensus(), HandClock()
        self.clock.now = 1_000_000
        self.lead_ms = lead_ms
        self.store: Store
        self.oracle = self.crash()

    def crash(self) -> Oracle:
        """Go on from what is durable; what was in memory is lost."""
        self.store = open_store(self.blob, self.consensus)
        notes = Notes(self.store, PREFIX)
        self.oracle = Oracle(notes, self.clock, lead_ms=self.lead_ms)
        return self.oracle

    def write(self) -> int:
        time = self.oracle.write_ts()
        self.oracle.apply_write(time)
        return time


@pytest.fixture
def world() -> OracleWorld:
    return OracleWorld()


def test_times_follow_the_clock_and_never_stand_still(world: OracleWorld) -> None:
    assert world.oracle.write_ts() == 1_000_000
    assert world.oracle.write_ts() == 1_000_001, "the clock has not moved"
    world.clock.now = 2_000_000
    assert world.oracle.write_ts() == 2_000_000


@pytest.mark.semantics(83, 86)
def test_a_write_is_seen_once_applied_and_never_joined_later(world: OracleWorld) -> None:
    before = world.oracle.read_ts()
    pending = world.oracle.write_ts()
    assert pending > before
    assert world.oracle.read_ts() == before, "a write that is not durable does not count"
    world.oracle.apply_write(pending)
    read = world.oracle.read_ts()
    assert read == pending, "the read is at the write's time and sees it"
    assert world.oracle.write_ts() > read


def test_an_older_write_applied_late_moves_nothing_back(world: OracleWorld) -> None:
    first, second = world.oracle.write_ts(), world.oracle.write_ts()
    world.oracle.apply_write(second)
    world.oracle.apply_write(first)
    assert world.oracle.read_ts() == second


@pytest.mark.semantics(84, 102)
def test_a_since_ahead_pushes_reads_and_everything_after_them(world: OracleWorld) -> None:
    world.write()
    since = 1_000_500
    assert world.oracle.read_ts(at_least=since) == since
    assert world.oracle.read_ts() == since
    assert world.oracle.write_ts() > since


@pytest.mark.semantics(85)
def test_a_write_respects_the_upper_of_its_target(world: OracleWorld) -> None:
    assert world.oracle.write_ts(at_least=1_000_700) == 1_000_700
    assert world.oracle.write_ts(at_least=5) == 1_000_701


@pytest.mark.semantics(82)
def test_a_clock_that_jumps_back_takes_nothing_with_it(world: OracleWorld) -> None:
    first = world.write()
    world.clock.now = 5
    second = world.write()
    assert (second, world.oracle.read_ts()) == (first + 1, first + 1)
    world.crash()
    assert world.oracle.read_ts() >= second
    assert world.oracle.write_ts() > second


@pytest.mark.semantics(9, 82, 83)
@pytest.mark.parametrize("lead_ms", [0, 1, 1000])
def test_a_crash_never_brings_a_time_back(lead_ms: int) -> None:
    """Times given out before a crash, applied or not, are before those given out after it."""
    world = OracleWorld(lead_ms)
    random = Random(lead_ms)
    highest_read = highest = 0
    for _ in range(300):
        world.clock.now += random.randint(-2000, 2500)
        match random.randrange(5):
            case 0:
                world.crash()
            case 1:
                time = world.oracle.write_ts(random.choice([0, highest + 7]))
                assert time > max(highest, highest_read)
                highest = time
            case 2:
                highest = highest_read = world.write()
            case 3:
                world.oracle.renew()
            case _:
                read = world.oracle.read_ts()
                assert read >= highest_read
                highest_read = read


def test_a_time_costs_no_sync_within_the_lead(world: OracleWorld) -> None:
    world.write()
    synced = world.consensus.appended
    for now in range(1_000_000, 1_000_900, 10):
        world.clock.now = now
        world.write()
        world.oracle.read_ts()
    assert world.consensus.appended == synced
    world.clock.now = 1_000_950
    world.oracle.renew()
    assert world.consensus.appended == synced + 1
    world.clock.now = 1_001_900
    world.write()
    assert world.consensus.appended == synced + 1, "renewed ahead of time"


def test_a_clean_end_goes_on_right_after(world: OracleWorld) -> None:
    last = world.write()
    world.oracle.close()
    world.clock.now = 0
    assert world.crash().read_ts() == last
    assert world.oracle.write_ts() == last + 1


def test_a_time_whose_bound_is_not_durable_is_not_given_out(world: OracleWorld) -> None:
    read = world.oracle.read_ts()
    world.consensus.broken = True
    with pytest.raises(Unavailable):
        world.oracle.write_ts()
    with pytest.raises(Unavailable):
        world.oracle.apply_write(read + 10_000_000)
    assert world.oracle.read_ts() == read


def test_timelines_have_oracles_of_their_own(world: OracleWorld) -> None:
    other = Timeline("other", EPOCH_MILLIS.lattice)
    clock = HandClock()
    theirs = Oracle(Notes(world.store, PREFIX), clock, other)
    world.write()
    assert theirs.write_ts() == 1
    world.crash()
    clock.now = 7
    again = Oracle(Notes(world.store, PREFIX), clock, other)
    assert 1 < again.write_ts() < 10_000


def test_time_ends(world: OracleWorld) -> None:
    with pytest.raises(OutOfTime):
        world.oracle.write_ts(at_least=MAX_EPOCH_MILLIS)


# Concurrent histories


class JumpingClock:
    """A clock that goes forward, stands, and goes back, from many threads."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._now = 10_000

    def __call__(self) -> int:
        with self._lock:
            self._now += self._random.choice([0, 0, 1, 2, 50, -60])
            return max(self._now, 0)


def recorded(oracle: Oracle, seed: int, threads: int = 6, each: int = 120) -> list[Operation]:
    """What some threads that read and write at once saw."""
    history = History()

    def write() -> int:
        time = oracle.write_ts()
        oracle.apply_write(time)
        return time

    def worker(seed: int) -> None:
        random = Random(seed)
        for _ in range(each):
            if random.random() < 0.4:
                history.run(Kind.WRITE, write)
            elif random.random() < 0.1:
                floor = oracle.read_ts() + random.randint(0, 30)
                history.run(Kind.READ, lambda: oracle.read_ts(floor))  # noqa: B023 (runs at once)
            else:
                history.run(Kind.READ, oracle.read_ts)

    together([lambda n=n: worker(seed + n) for n in range(threads)])  # type: ignore[misc]
    assert len(history.operations) == threads * each
    return history.operations


@pytest.mark.semantics(81, 82, 83, 86)
@pytest.mark.parametrize("seed", range(8))
def test_concurrent_histories_are_linearizable(seed: int) -> None:
    oracle = Oracle(Notes(open_store(), PREFIX), JumpingClock(seed), lead_ms=40)
    assert violations(recorded(oracle, seed * 100)) == []


class CachingOracle(Oracle):
    """Wrong: remembers the read time for a while."""

    _cached = 0
    _asked = 0

    def read_ts(self, at_least: int = 0) -> int:  # type: ignore[override]
        self._asked += 1
        if self._asked % 5 == 1:
            self._cached = super().read_ts(at_least)
        return self._cached


class ClockOracle(Oracle):
    """Wrong: believes the clock."""

    def write_ts(self, at_least: int = 0) -> int:  # type: ignore[override]
        return max(self._clock(), at_least)


class ReusingOracle(Oracle):
    """Wrong: lets a write join the time that reads have used."""

    def write_ts(self, at_least: int = 0) -> int:  # type: ignore[override]
        return self.read_ts(at_least)


@pytest.mark.parametrize("wrong", [CachingOracle, ClockOracle, ReusingOracle])
def test_the_checker_finds_oracles_that_are_wrong(wrong: type[Oracle]) -> None:
    oracle = wrong(Notes(open_store(), PREFIX), JumpingClock(1), lead_ms=40)
    assert violations(recorded(oracle, 7, threads=2))


def test_the_checker_accepts_what_overlaps_and_refuses_what_does_not() -> None:
    read = Operation(Kind.READ, 0, 5, 7)
    assert violations([read, Operation(Kind.WRITE, 4, 9, 7)]) == [], "concurrent"
    assert violations([read, Operation(Kind.WRITE, 6, 9, 7)]), "a write at the time of an old read"
    assert violations([read, Operation(Kind.WRITE, 6, 9, 8)]) == []
    assert violations([read, Operation(Kind.READ, 6, 9, 6)]), "a read before an old read"
    assert violations([Operation(Kind.WRITE, 0, 1, 7), Operation(Kind.READ, 2, 3, 7)]) == []
    assert violations([Operation(Kind.WRITE, 0, 1, 7), Operation(Kind.WRITE, 2, 3, 7)]) == []
