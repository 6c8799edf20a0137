"""The checker of histories: it lets through what can be explained, and sees what can not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from waterclock.testing.serial.checker import check
from waterclock.testing.serial.history import (
    Append,
    Found,
    Kind,
    Listed,
    Operation,
    Outcome,
    Step,
    Write,
    load,
    save,
)
from waterclock.testing.serial.keys import orders_of, sources_of
from waterclock.testing.serial.order import Violation

K, T, R = "kafka:a", "table:t", "table:r"


class Story:
    """Operations that come one after the other, unless told otherwise."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._moment = 0

    def _next(self) -> int:
        self._moment += 1
        return self._moment

    def add(
        self,
        kind: Kind,
        *steps: Step,
        begun: int | None = None,
        outcome: Outcome = Outcome.OK,
    ) -> int:
        """An operation that begins now or did so before, and ends now; when it began."""
        start = self._next() if begun is None else begun
        ended = None if outcome is Outcome.UNKNOWN else self._next()
        number = len(self.operations) + 1
        made = Operation(number, f"c{number}", kind, steps, start, ended, outcome)
        self.operations.append(made)
        return start

    def now(self) -> int:
        return self._next()

    def is_refused(self, what: str) -> None:
        with pytest.raises(Violation, match=what):
            check(self.operations)


def test_a_history_in_order_is_let_through() -> None:
    story = Story()
    story.add(Kind.UPSTREAM, Append(K, 1))
    story.add(Kind.RECENT, Listed(K, (1,)), Listed(T, ()))
    story.add(Kind.WRITE, Listed(T, ()), Append(T, 10))
    story.add(Kind.WRITE, Write(R, 5))
    story.add(Kind.RECENT, Listed(K, (1,)), Listed(T, (10,)), Found(R, 5))
    strict, loose = check(story.operations)
    assert strict.edges["wr"] == 4
    assert loose.operations["write"] == 2


def test_a_recent_read_that_misses_a_write_upstream() -> None:
    story = Story()
    story.add(Kind.UPSTREAM, Append(K, 1))
    story.add(Kind.RECENT, Listed(K, ()))
    story.is_refused("G-single in real time")


def test_another_read_may_miss_it_and_a_later_one_may_not_go_back() -> None:
    story = Story()
    story.add(Kind.UPSTREAM, Append(K, 1))
    story.add(Kind.READ, Listed(K, ()))
    check(story.operations)
    story.add(Kind.RECENT, Listed(K, (1,)))
    check(story.operations)
    story.add(Kind.READ, Listed(K, ()))
    story.is_refused("in real time")


def test_a_recent_read_of_tables_says_nothing_of_what_is_upstream() -> None:
    story = Story()
    story.add(Kind.UPSTREAM, Append(K, 1))
    story.add(Kind.RECENT, Listed(T, ()))
    story.add(Kind.READ, Listed(K, ()), Listed(T, ()))
    check(story.operations)


def test_a_write_that_is_lost() -> None:
    story = Story()
    story.add(Kind.WRITE, Append(T, 1))
    story.add(Kind.WRITE, Append(T, 2))
    story.add(Kind.READ, Listed(T, (2,)))
    story.is_refused("before each other")


def test_two_orders_of_one_list() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.WRITE, Append(T, 1), begun=begun)
    story.add(Kind.WRITE, Append(T, 2), begun=begun)
    story.add(Kind.READ, Listed(T, (1, 2)), begun=begun)
    story.add(Kind.READ, Listed(T, (2,)), begun=begun)
    story.is_refused("two orders")


def test_what_was_refused_or_never_written_is_not_read() -> None:
    story = Story()
    story.add(Kind.WRITE, Append(T, 1), outcome=Outcome.FAILED)
    check(story.operations)
    story.add(Kind.READ, Listed(T, (1,)))
    story.is_refused("was refused")
    story = Story()
    story.add(Kind.READ, Found(R, 7))
    story.is_refused("nobody wrote")
    story = Story()
    story.add(Kind.WRITE, Append(T, 1))
    story.add(Kind.READ, Listed(T, (1, 1)))
    story.is_refused("more than once")


def test_an_unknown_outcome_may_be_either_but_not_both() -> None:
    story = Story()
    story.add(Kind.WRITE, Append(T, 1), outcome=Outcome.UNKNOWN)
    story.add(Kind.READ, Listed(T, ()))
    check(story.operations)
    story.add(Kind.READ, Listed(T, (1,)))
    check(story.operations)
    story.add(Kind.READ, Listed(T, ()))
    story.is_refused("in real time")


def test_half_of_a_transaction() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.UPSTREAM, Append(K, 1), Append("kafka:b", 2), begun=begun)
    story.add(Kind.RECENT, Listed(K, (1,)), Listed("kafka:b", ()), begun=begun)
    story.is_refused("G-single")


def test_write_skew() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.WRITE, Listed(T, ()), Append("table:u", 1), begun=begun)
    story.add(Kind.WRITE, Listed("table:u", ()), Append(T, 2), begun=begun)
    story.add(Kind.READ, Listed(T, (2,)), Listed("table:u", (1,)))
    story.is_refused("G2")


def test_writes_of_two_transactions_in_two_orders() -> None:
    story = Story()
    begun = story.now()
    for number in (1, 2):
        steps = Append(T, number), Append("table:u", 10 + number)
        story.add(Kind.WRITE, *steps, begun=begun)
    story.add(Kind.READ, Listed(T, (1, 2)), Listed("table:u", (12, 11)), begun=begun)
    story.is_refused("G0")


def test_two_transactions_that_have_read_each_other() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.WRITE, Append(T, 1), Listed("table:u", (2,)), begun=begun)
    story.add(Kind.WRITE, Append("table:u", 2), Listed(T, (1,)), begun=begun)
    story.is_refused("G1c")


def test_a_lost_update() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.WRITE, Listed(T, ()), Append(T, 1), begun=begun)
    story.add(Kind.WRITE, Listed(T, ()), Append(T, 2), begun=begun)
    story.add(Kind.READ, Listed(T, (1, 2)), begun=begun)
    story.is_refused("before each other")


def test_two_reads_that_disagree_about_which_write_was_first() -> None:
    """Of two writes to different lists that overlap, each of two readers sees another one alone."""
    story = Story()
    begun = story.now()
    story.add(Kind.WRITE, Append(T, 1), begun=begun)
    story.add(Kind.WRITE, Append("table:u", 2), begun=begun)
    story.add(Kind.READ, Listed(T, (1,)), Listed("table:u", ()), begun=begun)
    story.add(Kind.READ, Listed(T, ()), Listed("table:u", (2,)), begun=begun)
    story.is_refused("G2")


@pytest.mark.parametrize("sees_table", [False, True])
def test_a_table_and_a_source_are_in_one_order(*, sees_table: bool) -> None:
    """Of a write upstream and a later one here, or the other way round, the later alone is seen."""
    story = Story()
    begun = story.now()
    kinds = [(Kind.UPSTREAM, Append(K, 1)), (Kind.WRITE, Append(T, 2))]
    for kind, step in kinds if sees_table else kinds[::-1]:
        story.add(kind, step)
    seen = (Listed(K, ()), Listed(T, (2,))) if sees_table else (Listed(K, (1,)), Listed(T, ()))
    story.add(Kind.RECENT, *seen, begun=begun)
    story.is_refused("in real time")
    story.operations[-1] = Operation(
        3, "c3", Kind.READ, seen, story.operations[-1].begun, story.operations[-1].ended
    )
    check(story.operations)


def test_what_is_read_before_a_write_must_not_have_changed_at_it() -> None:
    """T saw nothing of the source and wrote; a reader saw the source's change without T's write."""
    story = Story()
    begun = story.now()
    story.add(Kind.UPSTREAM, Append(K, 1), begun=begun)
    story.add(Kind.WRITE, Listed(K, ()), Append(T, 2), begun=begun)
    story.add(Kind.READ, Listed(K, (1,)), Listed(T, ()), begun=begun)
    story.is_refused("G2|G-single")


def test_several_sources_are_judged_one_by_one() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.UPSTREAM, Append(K, 1))
    story.add(Kind.UPSTREAM, Append("pg:a", 2))
    story.add(Kind.RECENT, Listed(K, ()), Listed("pg:a", (2,)), begun=begun)
    story.is_refused("in real time")
    groups = sources_of(story.operations)
    assert len(check(story.operations, groups)) == 4


def test_sources_of_one_order_are_judged_together_for_recent_reads() -> None:
    story = Story()
    begun = story.now()
    story.add(Kind.UPSTREAM, Append("pg.one:a", 1))
    story.add(Kind.UPSTREAM, Append("pg.two:a", 2))
    steps = (Listed("pg.one:a", ()), Listed("pg.two:a", (2,)))
    story.add(Kind.READ, *steps, begun=begun)
    groups = orders_of(story.operations), sources_of(story.operations)
    assert [len(found) for found in groups] == [1, 2]
    check(story.operations, *groups)
    story.add(Kind.RECENT, *steps, begun=begun)
    with pytest.raises(Violation, match="in real time"):
        check(story.operations, *groups)


def test_a_history_is_kept_in_a_file(tmp_path: Path) -> None:
    story = Story()
    story.add(Kind.UPSTREAM, Append(K, 1), outcome=Outcome.UNKNOWN)
    story.add(Kind.RECENT, Listed(K, (1,)), Found(R, None), Write(R, 4))
    story.add(Kind.RECENT, Listed(K, ()), Listed(T, (2, 3)))
    story.add(Kind.READ, Listed(T, (3,)))
    save(story.operations, tmp_path / "history.jsonl")
    assert load(tmp_path / "history.jsonl") == story.operations


def run_of(seed: int, operations: int) -> list[Operation]:
    """A random history of a database that does one thing at a time, at a moment of its own between
    the operation's begin and end.
    """
    rng = random.Random(seed)
    spans = []
    for number in range(operations):
        begun = rng.randrange(operations * 4) * 3
        spans.append((begun, begun + 3 * rng.randrange(1, 30), number))
    lists: dict[str, list[int]] = {key: [] for key in ("kafka:a", "kafka:b", T)}
    made: list[Operation] = []
    happens = sorted((rng.randrange(begun, ended), begun, ended, n) for begun, ended, n in spans)
    for _, begun, ended, number in happens:
        kind = rng.choice(list(Kind))
        steps: list[Step] = []
        sources, tables = ["kafka:a", "kafka:b"], [T]
        if kind in (Kind.UPSTREAM, Kind.WRITE):
            for key in sources if kind is Kind.UPSTREAM else tables:
                steps.append(Append(key, 100 * number + len(steps)))
                lists[key].append(100 * number + len(steps) - 1)
        else:
            steps += [Listed(key, tuple(values)) for key, values in lists.items()]
        made.append(Operation(number, "c", kind, tuple(steps), begun, ended))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_what_happened_in_one_order_is_let_through_and_a_lie_is_seen(seed: int) -> None:
    history = run_of(seed, 120)
    check(history)
    rng = random.Random(seed)
    readers = [i for i, o in enumerate(history) if o.kind is Kind.RECENT]
    found = 0
    for place in rng.sample(readers, min(8, len(readers))):
        told = history[place]
        older = [o for o in history[:place] if o.ended is not None and o.ended < told.begun]
        stale = [o for o in older if o.kind is Kind.RECENT and o.steps != told.steps]
        if not stale:
            continue
        lie = Operation(told.number, "c", told.kind, stale[0].steps, told.begun, told.ended)
        between = [
            o
            for o in history
            if o.kind in (Kind.UPSTREAM, Kind.WRITE)
            and o.ended is not None
            and o.ended < told.begun
            and o.begun > stale[0].begun
            and not any(s.value in r.values for s in o.steps for r in stale[0].steps)  # type: ignore[union-attr]
        ]
        if between:
            found += 1
            with pytest.raises(Violation):
                check([*history[:place], lie, *history[place + 1 :]])
    assert found, "at least one lie was told"
