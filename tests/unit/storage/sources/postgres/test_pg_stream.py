"""The stream is cut into transactions, and nothing is said to be complete too soon."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from pgoutput_bytes import begin, commit, framed, insert, relation

from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.postgres.stream import TransactionStream


def alive(lsn: int, *, wants_reply: bool = False) -> bytes:
    return struct.pack(">cQqB", b"k", lsn, 0, wants_reply)


class FakeReplication:
    """A connection whose messages a test puts there."""

    def __init__(self) -> None:
        self.coming: list[bytes] = []
        self.told: list[tuple[int, bool]] = []
        self.answers: Callable[[], list[bytes]] = list

    def receive(self, take: Callable[[bytes], bool]) -> bool:
        found = bool(self.coming)
        while self.coming:
            if not take(self.coming.pop(0)):
                return True
        return found

    def wait(self, seconds: float) -> None:
        if seconds:
            self.coming += self.answers()

    def tell(self, durable: int, *, ask: bool) -> None:
        self.told.append((durable, ask))

    def close(self) -> None:
        pass


def whole(end: int, size: int = 1) -> list[bytes]:
    rows = [insert(str(i), "x", None) for i in range(size)]
    return [framed(each) for each in (begin(end), relation(), *rows, commit(end))]


@pytest.fixture
def connection() -> FakeReplication:
    return FakeReplication()


@pytest.fixture
def stream(connection: FakeReplication) -> TransactionStream:
    return TransactionStream(connection, 50)  # type: ignore[arg-type]


def pull(stream: TransactionStream, target: int, limit: int | None = None) -> None:
    stream.pull(target, at_most_bytes=limit, seconds=0.05)


def test_a_transaction_is_complete_with_its_end(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    connection.coming = [*whole(100), *whole(200)[:-1]]
    pull(stream, 300)
    assert stream.complete_to == 100
    assert [each.end for each in stream.take(100)] == [100]
    connection.coming = whole(200)[-1:]
    pull(stream, 200)
    [taken] = stream.take(200)
    assert (taken.end, taken.offset, len(taken.messages)) == (200, 199, 2)
    assert stream.size == 0


def test_the_server_says_where_it_is_when_asked(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    connection.answers = lambda: [alive(300)]
    pull(stream, 300)
    assert stream.complete_to == 300
    assert connection.told == [(50, True)]
    assert stream.take(300) == []


def test_within_a_transaction_the_place_is_before_its_end(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    first, *rest = whole(200)
    connection.coming = [first, alive(150), *rest]
    pull(stream, 150)
    assert stream.complete_to == 200  # what is here is read, also beyond the target
    assert stream.take(150) == []
    assert [each.end for each in stream.take(200)] == [200]


def test_it_is_limited_but_not_within_a_transaction(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    connection.coming = [*whole(100, size=50), *whole(200), *whole(300)]
    pull(stream, 300, limit=1)
    assert stream.complete_to == 100
    assert len(stream.take(100)[0].messages) == 51
    pull(stream, 300, limit=10_000)
    assert stream.complete_to == 300
    assert [each.end for each in stream.take(250)] == [200]


def test_the_server_hears_only_of_what_is_durable(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    connection.coming = [*whole(100), alive(120, wants_reply=True)]
    pull(stream, 100)
    assert connection.told == [(50, False)]
    stream.confirm(100)
    stream.confirm(80)
    assert connection.told[1:] == [(100, False), (100, False)]


@pytest.mark.parametrize("message", [insert("1", "x", None), commit(100)])
def test_what_is_in_no_transaction_is_refused(
    connection: FakeReplication, stream: TransactionStream, message: bytes
) -> None:
    connection.coming = [framed(message)]
    with pytest.raises(SourceFault):
        pull(stream, 100)


def test_more_is_received_while_something_else_is_done(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    connection.coming = [*whole(100), *whole(200), *whole(300)]
    pull(stream, 300, limit=1)
    taken = stream.take(100)
    stream.pull_ahead(300, at_most_bytes=1, seconds=5.0)
    assert [each.end for each in taken] == [100]
    stream.confirm(100)  # waits for what is under way
    assert (stream.complete_to, stream.taken) == (200, 100)
    assert connection.told == [(100, False)]
    stream.pull_ahead(200, at_most_bytes=1, seconds=5.0)  # there is nothing to do
    assert [each.end for each in stream.take(200)] == [200]


def test_what_goes_wrong_meanwhile_is_told_to_who_comes_next(
    connection: FakeReplication, stream: TransactionStream
) -> None:
    connection.coming = [framed(commit(100))]
    stream.pull_ahead(100, at_most_bytes=1, seconds=5.0)
    with pytest.raises(SourceFault):
        pull(stream, 100)
    stream.pull_ahead(100, at_most_bytes=1, seconds=600.0)
    stream.close()  # does not wait for what does not come
