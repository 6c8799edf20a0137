"""Is the history strictly serializable, and is all of it there?

What is durable says when each change happened, for no two transactions make the same change. That
gives each transaction that wrote a place in an order, which is then *checked*, not trusted:

- all changes of a transaction are there, at one time, exactly once; none of one that was refused;
  all or none of one whose outcome nobody knows; and there is no change that nobody made;
- a transaction is after all that had ended when it began (so the order is that of real time too);
- what a transaction read that also wrote is what was there just before its own time;
- what one read that only read was there at some single time not before all that had ended when it
  began. The least such time is as good as any: it forbids the least of those that come later.

With that, the order by time, writes before reads at the same time, explains everything that anybody
was told. The checker shares no code with what it checks: it folds the changes itself, and has its
own definitions of the views.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from waterclock.testing.control.history import (
    Change,
    Definition,
    Followed,
    History,
    Outcome,
    Read,
    Row,
    Rows,
    Tables,
    Transaction,
)

Durable = Mapping[str, Sequence[tuple[Row, int, int]]]
"""For each table its updates: row, time, diff."""


class Violation(AssertionError):
    """Something was told that can not be, or something is missing."""


def check(history: History, durable: Durable, views: Mapping[str, Definition]) -> None:
    """Raise `Violation` if the history is not one of a strictly serializable database."""
    times = _times(history.transactions, durable)
    states = _States(durable, views)
    floor = 0
    assigned: dict[int, int] = {}
    for moment, transaction in _in_order(history.transactions):
        if moment == transaction.begun:
            time = _time(transaction, times.get(transaction.number), floor, states)
            assigned[transaction.number] = time
        elif transaction.outcome is not Outcome.UNKNOWN:
            floor = max(floor, assigned[transaction.number])
    for followed in history.followed:
        _check_followed(followed, states)


def _in_order(transactions: Sequence[Transaction]) -> Iterator[tuple[int, Transaction]]:
    """Each transaction twice: when it began, and when it ended."""
    moments = [(each.begun, each) for each in transactions]
    moments += [(each.ended, each) for each in transactions if each.ended is not None]
    yield from sorted(moments, key=lambda moment: moment[0])


def _times(transactions: Sequence[Transaction], durable: Durable) -> dict[int, int]:
    """When each transaction that has written happened, if it did."""
    maker: dict[Change, Transaction] = {}
    for transaction in transactions:
        for change in transaction.changes:
            assert change not in maker, f"{change} is made twice by the clients"
            maker[change] = transaction
    found: dict[int, dict[Change, int]] = defaultdict(dict)
    for table, updates in durable.items():
        for row, time, diff in updates:
            change = (table, row, diff)
            if change not in maker:
                raise Violation(f"nobody made the change {change} at {time}")
            own = found[maker[change].number]
            if change in own:
                raise Violation(f"{change} happened twice, at {own[change]} and {time}")
            own[change] = time
    times: dict[int, int] = {}
    for transaction in transactions:
        own = found.get(transaction.number, {})
        if not own:
            if transaction.outcome is Outcome.COMMITTED and transaction.changes:
                raise Violation(f"what was acknowledged is lost: {transaction}")
            continue
        if transaction.outcome is Outcome.ABORTED:
            raise Violation(f"what was refused has happened: {transaction}")
        missing = [change for change in transaction.changes if change not in own]
        if missing or len(set(own.values())) > 1:
            raise Violation(f"only a part of it has happened: {transaction}: {own}")
        [times[transaction.number]] = set(own.values())
    return times


def _time(transaction: Transaction, written: int | None, floor: int, states: _States) -> int:
    """A time at which the transaction may have happened, after all that had ended."""
    if written is None:
        if not transaction.reads:
            return floor
        time = states.first_match(transaction.reads, floor)
        if time is None:
            told = "\n".join(states.told(read, floor) for read in transaction.reads)
            raise Violation(f"it can not have read that from {floor} on: {transaction}\n{told}")
        return time
    if written <= floor:
        raise Violation(
            f"it happened at {written}, but something at {floor} had ended before: {transaction}"
        )
    for read in transaction.reads:
        if not states.matches(read, written - 1):
            told = states.told(read, written - 1)
            raise Violation(f"it wrote on top of something else: {transaction}\n{told}")
    return written


def _check_followed(followed: Followed, states: _States) -> None:
    if followed.start is None or followed.complete_to is None:
        return
    if followed.complete_to <= followed.start:
        return  # the first contents may still be on their way
    total: Rows = Counter()
    for row, time, diff in followed.updates:
        if time < followed.complete_to:
            total[row] += diff
    expected = states.contents(followed.relation, followed.complete_to - 1)
    if {row: n for row, n in total.items() if n} != {row: n for row, n in expected.items() if n}:
        raise Violation(
            f"a subscription to {followed.relation} is wrong at {followed.complete_to}:"
            f" {_difference(total, expected)}"
        )


class _States:
    """The contents of all relations at all times."""

    def __init__(self, durable: Durable, views: Mapping[str, Definition]) -> None:
        self._views = views
        changes: dict[int, list[Change]] = defaultdict(list)
        for table, updates in durable.items():
            for row, time, diff in updates:
                changes[time].append((table, row, diff))
        self._times = sorted(changes)
        state: dict[str, Rows] = {table: Counter() for table in durable}
        self._states: list[Tables] = [{table: Counter(rows) for table, rows in state.items()}]
        for time in self._times:
            for table, row, diff in changes[time]:
                state[table][row] += diff
                if state[table][row] not in (0, 1):
                    raise Violation(f"{table} has {row} {state[table][row]} times at {time}")
            self._states.append({table: +rows for table, rows in state.items()})
        self._known: dict[tuple[str, int], Rows] = {}

    def contents(self, relation: str, time: int) -> Rows:
        """What the relation holds at the time."""
        return self._contents(relation, bisect_right(self._times, time))

    def _contents(self, relation: str, place: int) -> Rows:
        tables = self._states[place]
        if relation in tables:
            return tables[relation]
        if (relation, place) not in self._known:
            self._known[relation, place] = self._views[relation](tables)
        return self._known[relation, place]

    def _matches(self, read: Read, place: int) -> bool:
        found = self._contents(read.relation, place)
        if read.only is not None:
            found = Counter({row: n for row, n in found.items() if row[-1] == read.only})
        return found == read.rows

    def matches(self, read: Read, time: int) -> bool:
        """Whether this can be read at the time."""
        return self._matches(read, bisect_right(self._times, time))

    def first_match(self, reads: Sequence[Read], floor: int) -> int | None:
        """The first time from `floor` on at which all of them can be read."""
        first = bisect_right(self._times, floor)
        for place in range(first, len(self._states)):
            if all(self._matches(read, place) for read in reads):
                return max(floor, self._times[place - 1]) if place else floor
        return None

    def told(self, read: Read, time: int) -> str:
        """What is different, for an error."""
        expected = self.contents(read.relation, time)
        return f"  {read.relation} at {time}: {_difference(read.rows, expected)}"


def _difference(found: Rows, expected: Rows) -> str:
    rows = sorted(found.keys() | expected.keys())
    return ", ".join(
        f"{row} {found[row]} times instead of {expected[row]}"
        for row in rows
        if found[row] != expected[row]
    )
