"""What every `Consensus` must do, as tests.

A class of tests inherits from `ConsensusConformance` and overrides the fixture `open_log`: a
function that opens one more handle on one log, new and empty for each test. The suite closes the
handles it opens. Where an implementation reads by pages, let it use small ones here, of about a
hundred bytes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from waterclock.persist.consensus.api import Consensus
from waterclock.persist.errors import PositionTaken, Unavailable

OpenLog = Callable[[], Consensus]


def fill(log: Consensus, count: int) -> list[tuple[int, bytes]]:
    """Append `count` entries of different lengths to an empty log; what it then holds."""
    entries = [(position, b"%d" % position * (position % 9)) for position in range(1, count + 1)]
    for position, entry in entries:
        log.append(position, entry)
    return entries


class ConsensusConformance:
    """Inherit and override `open_log`."""

    threads = 6
    rounds = 15

    @pytest.fixture
    def open_log(self) -> OpenLog:
        raise NotImplementedError

    @pytest.fixture
    def log(self, open_log: OpenLog) -> Iterator[Consensus]:
        log = open_log()
        yield log
        log.close()

    def test_an_empty_log(self, log: Consensus) -> None:
        assert log.end() == 1
        assert list(log.read(1)) == []
        assert list(log.read(0)) == []
        assert list(log.read(7)) == []

    def test_reads_what_was_appended(self, log: Consensus) -> None:
        entries = fill(log, 30)
        assert log.end() == 31
        for start in (0, 1, 2, 15, 30, 31, 40):
            assert list(log.read(start)) == entries[max(0, start - 1) :], start

    def test_entries_are_any_bytes(self, log: Consensus) -> None:
        entries = [b"", b"\0", bytes(range(256)), b"'; --", "\u00e4".encode()]
        for position, entry in enumerate(entries, 1):
            log.append(position, entry)
        assert list(log.read(1)) == list(enumerate(entries, 1))
        assert all(type(entry) is bytes for _, entry in log.read(1))

    def test_a_big_entry(self, log: Consensus) -> None:
        big = bytes(range(251)) * 20_000
        log.append(1, big)
        log.append(2, b"small")
        assert list(log.read(1)) == [(1, big), (2, b"small")]

    def test_a_taken_position(self, log: Consensus) -> None:
        entries = fill(log, 3)
        for position in (1, 2, 3):
            with pytest.raises(PositionTaken, match=str(position)):
                log.append(position, b"other")
        assert list(log.read(1)) == entries
        assert log.end() == 4

    def test_the_same_entry_again_is_refused_too(self, log: Consensus) -> None:
        log.append(1, b"a")
        with pytest.raises(PositionTaken):
            log.append(1, b"a")

    def test_a_position_beyond_the_end(self, log: Consensus) -> None:
        with pytest.raises(AssertionError):
            log.append(2, b"x")
        entries = fill(log, 2)
        for position in (4, 5, 1_000_000):
            with pytest.raises(AssertionError):
                log.append(position, b"x")
        assert list(log.read(1)) == entries

    def test_positions_start_at_one(self, log: Consensus) -> None:
        for position in (0, -1):
            with pytest.raises(AssertionError):
                log.append(position, b"x")
        assert log.end() == 1

    def test_truncate_forgets_the_entries_below(self, log: Consensus) -> None:
        entries = fill(log, 10)
        log.truncate(4)
        assert list(log.read(1)) == entries[3:]
        assert list(log.read(4)) == entries[3:]
        assert list(log.read(6)) == entries[5:]
        assert log.end() == 11

    def test_truncate_may_be_repeated(self, log: Consensus) -> None:
        entries = fill(log, 10)
        for before in (4, 4, 2, 0, -1, 6, 5):
            log.truncate(before)
        assert list(log.read(1)) == entries[5:]

    def test_the_newest_entry_stays(self, log: Consensus) -> None:
        entries = fill(log, 5)
        log.truncate(5)
        assert list(log.read(1)) == entries[4:]
        for before in (6, 7, 100):
            with pytest.raises(AssertionError):
                log.truncate(before)
        assert list(log.read(1)) == entries[4:]
        assert log.end() == 6

    def test_an_empty_log_has_nothing_to_truncate(self, log: Consensus) -> None:
        log.truncate(0)
        with pytest.raises(AssertionError):
            log.truncate(1)
        assert log.end() == 1

    def test_a_truncated_position_stays_taken(self, open_log: OpenLog, log: Consensus) -> None:
        fill(log, 5)
        log.truncate(5)
        with contextlib.closing(open_log()) as other:
            for handle in (log, other):
                for position in range(1, 6):
                    with pytest.raises(PositionTaken):
                        handle.append(position, b"other")
        log.append(6, b"six")
        assert [position for position, _ in log.read(1)] == [5, 6]

    def test_handles_see_each_other(self, open_log: OpenLog) -> None:
        one, two = open_log(), open_log()
        one.append(1, b"a")
        assert two.end() == 2
        with pytest.raises(PositionTaken):
            two.append(1, b"b")
        two.append(2, b"b")
        assert list(one.read(1)) == [(1, b"a"), (2, b"b")]
        one.truncate(2)
        assert list(two.read(1)) == [(2, b"b")]
        one.close()
        two.close()

    def test_a_new_handle_sees_everything(self, open_log: OpenLog) -> None:
        log = open_log()
        entries = fill(log, 5)
        log.truncate(3)
        log.close()
        log = open_log()
        assert log.end() == 6
        assert list(log.read(1)) == entries[2:]
        with pytest.raises(PositionTaken):
            log.append(2, b"x")
        log.append(6, b"six")
        log.close()

    def test_close_may_be_repeated(self, open_log: OpenLog) -> None:
        log = open_log()
        log.append(1, b"a")
        log.close()
        log.close()

    def test_a_read_may_be_left(self, log: Consensus) -> None:
        entries = fill(log, 40)
        for _ in range(3):
            reader = log.read(1)
            assert next(reader) == entries[0]
        log.append(41, b"x")
        log.truncate(41)

    def test_two_reads_at_a_time(self, log: Consensus) -> None:
        entries = fill(log, 60)
        pairs = list(zip(log.read(1), log.read(1), strict=True))
        assert pairs == [(entry, entry) for entry in entries]

    def test_a_read_has_no_gaps_when_the_log_changes(self, log: Consensus) -> None:
        entries = fill(log, 60)
        reader = log.read(1)
        found = [next(reader)]
        log.append(61, b"more")
        log.truncate(50)
        with contextlib.suppress(Unavailable):
            found += reader
            assert len(found) >= len(entries)
        assert found == [*entries, (61, b"more")][: len(found)]

    def test_one_of_the_racers_wins_each_position(self, open_log: OpenLog) -> None:
        """All threads try each position at once; the log is what they were told."""
        barrier = threading.Barrier(self.threads)

        def race(racer: int) -> list[tuple[int, bytes]]:
            won = []
            with contextlib.closing(open_log()) as log:
                for position in range(1, self.rounds + 1):
                    barrier.wait(120)
                    entry = b"%d of racer %d" % (position, racer)
                    with contextlib.suppress(PositionTaken):
                        log.append(position, entry)
                        won.append((position, entry))
            return won

        self._check_winners(open_log, race, self.rounds)

    def test_racers_that_follow_the_end_fill_the_log(self, open_log: OpenLog) -> None:
        """Each thread appends at the end until it has appended its share."""

        def race(racer: int) -> list[tuple[int, bytes]]:
            won: list[tuple[int, bytes]] = []
            with contextlib.closing(open_log()) as log:
                while len(won) < self.rounds:
                    position = log.end()
                    entry = b"%d of racer %d" % (len(won), racer)
                    with contextlib.suppress(PositionTaken):
                        log.append(position, entry)
                        won.append((position, entry))
            return won

        self._check_winners(open_log, race, self.rounds * self.threads)

    def test_truncation_under_a_race(self, open_log: OpenLog) -> None:
        """Truncating all the time neither frees a position nor loses the newest entry."""

        def race(racer: int) -> list[int]:
            won: list[int] = []
            with contextlib.closing(open_log()) as log:
                while len(won) < self.rounds:
                    position = log.end()
                    with contextlib.suppress(PositionTaken):
                        log.append(position, b"racer %d" % racer)
                        won.append(position)
                        log.truncate(position)
            return won

        with ThreadPoolExecutor(self.threads) as pool:
            won = [position for part in pool.map(race, range(self.threads)) for position in part]
        count = self.rounds * self.threads
        assert sorted(won) == list(range(1, count + 1))
        with contextlib.closing(open_log()) as log:
            assert log.end() == count + 1
            assert [position for position, _ in log.read(1)] == [count]

    def test_threads_share_one_handle(self, log: Consensus) -> None:
        def race(racer: int) -> list[tuple[int, bytes]]:
            won: list[tuple[int, bytes]] = []
            while len(won) < self.rounds:
                position = log.end()
                entry = b"%d of racer %d" % (len(won), racer)
                with contextlib.suppress(PositionTaken):
                    log.append(position, entry)
                    won.append((position, entry))
                seen = [position for position, _ in log.read(1)]
                assert seen == list(range(1, len(seen) + 1))
                assert len(seen) >= (won[-1][0] if won else 0)
            return won

        with ThreadPoolExecutor(self.threads) as pool:
            won = [pair for part in pool.map(race, range(self.threads)) for pair in part]
        assert list(log.read(1)) == sorted(won)

    def _check_winners(
        self, open_log: OpenLog, race: Callable[[int], list[tuple[int, bytes]]], count: int
    ) -> None:
        with ThreadPoolExecutor(self.threads) as pool:
            won = [pair for part in pool.map(race, range(self.threads)) for pair in part]
        with contextlib.closing(open_log()) as log:
            assert list(log.read(1)) == sorted(won)
            assert log.end() == count + 1
        assert [position for position, _ in sorted(won)] == list(range(1, count + 1))
