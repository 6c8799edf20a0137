"""The laws of time over real storage: any run of writes, reads, compactions, crashes and clocks.

A small adapter writes to some tables in groups, at times of the oracle, and reads at times that
selection chooses. The reference is a list of what was acknowledged, in order. A strict read sees
all of it, whatever was compacted meanwhile; a serializable one sees all of it up to its time; and
the times obey the laws.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from waterclock.model.errors import TimeForgotten
from waterclock.model.ids import GlobalId
from waterclock.oracle.errors import InvalidAsOf
from waterclock.oracle.oracle import PREFIX, Oracle
from waterclock.oracle.selection import AsOf, Input, Isolation, Selection, select
from waterclock.persist.notes import Notes
from waterclock.storage.api import ReadCapability, Write, WriteCapability
from waterclock.testing.examples import examples
from waterclock.testing.storage_world import TABLE, MemoryWorld, at, contents, user, write

TABLES = (user(1), user(2))
some_tables = st.sets(st.sampled_from(TABLES), min_size=1)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = MemoryWorld()
        self.now = 1000
        self.oracle = self.open_oracle()
        self.readers: dict[GlobalId, ReadCapability] = {}
        self.writers: dict[GlobalId, WriteCapability] = {}
        for table in TABLES:
            self.readers[table], self.writers[table] = self.world.storage.create(table, TABLE)
        self.written: list[tuple[GlobalId, int, int]] = []
        """Table, value and time of each acknowledged row."""
        self.last_read = self.last_write = 0

    def open_oracle(self) -> Oracle:
        notes = Notes(self.world.storage._store, PREFIX)
        return Oracle(notes, lambda: self.now, lead_ms=50)

    @rule(by=st.integers(-200, 300))
    def clock(self, by: int) -> None:
        self.now = max(0, self.now + by)

    @rule(tables=st.sets(st.sampled_from(TABLES)))
    def commit_group(self, tables: set[GlobalId]) -> None:
        """Write a row into each of the tables, and let all tables be complete up to that time."""
        highest = max(w.frontier.only() or 0 for w in self.writers.values())
        time = self.oracle.write_ts(at_least=highest)
        assert time > self.last_read, "law 2"
        assert time > self.last_write, "law 1"
        assert all(w.frontier <= at(time) for w in self.writers.values()), "law 4"
        rows = {table: len(self.written) + n for n, table in enumerate(sorted(tables))}
        writes: list[Write] = []
        for table, capability in self.writers.items():
            triples = [((rows[table], "x"), int(time), 1)] if table in rows else []
            writes.append(write(capability, time + 1, *triples))
        for moved in self.world.storage.append(*writes):
            self.writers[moved.id] = moved
        self.oracle.apply_write(time)
        self.written += [(table, value, time) for table, value in rows.items()]
        self.last_write = time

    @rule(table=st.sampled_from(TABLES), ahead=st.integers(0, 60))
    def allow_compaction(self, table: GlobalId, ahead: int) -> None:
        """Let go of the past, even of times that no write has reached yet."""
        held = self.readers[table].frontier.only()
        assert held is not None
        to = at(held + ahead)
        self.readers[table] = self.world.storage.downgrade_capability(self.readers[table], to)

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.oracle = self.open_oracle()

    @rule()
    def maintain(self) -> None:
        while self.world.storage.maintain():
            pass

    @rule(tables=some_tables)
    def read_strictly(self, tables: set[GlobalId]) -> None:
        ended = max(self.last_read, self.last_write)
        selection = select(self.inputs(tables), oracle_read=self.oracle.read_ts())
        assert selection.time >= ended, "law 1"
        self.complete(selection)
        self.oracle.apply_write(selection.time)
        self.last_read = selection.time
        self.check(selection, tables, self.written)

    @rule(tables=some_tables)
    def read_serializably(self, tables: set[GlobalId]) -> None:
        selection = select(self.inputs(tables), Isolation.SERIALIZABLE)
        if not selection.waits:
            self.check(selection, tables, [w for w in self.written if w[2] <= selection.time])

    @rule(tables=some_tables, data=st.data())
    def read_as_of(self, tables: set[GlobalId], data: st.DataObject) -> None:
        highest = max(w.frontier.only() or 0 for w in self.writers.values())
        time = data.draw(st.integers(0, highest + 5))
        inputs = self.inputs(tables)
        try:
            selection = select(inputs, as_of=AsOf(time))
        except InvalidAsOf:
            assert any(not each.since <= at(time) for each in inputs)
            forgetful = max(inputs, key=lambda each: each.since.only() or 0)
            with pytest.raises(TimeForgotten):
                self.world.storage.subscribe_at(self.readers[forgetful.id], as_of=at(time))
            return
        if not selection.waits:
            self.check(selection, tables, [w for w in self.written if w[2] <= time])

    def inputs(self, tables: set[GlobalId]) -> list[Input]:
        """The frontiers, as the capabilities that are held tell them."""
        return [
            Input(table, self.readers[table].frontier, self.writers[table].frontier)
            for table in sorted(tables)
        ]

    def complete(self, selection: Selection) -> None:
        """What the clock does in the end: writes of nothing, until the time is complete."""
        while any(not w.frontier > at(selection.time) for w in self.writers.values()):
            self.now = max(self.now, selection.time)
            self.commit_group(set())

    def check(
        self, selection: Selection, tables: set[GlobalId], visible: list[tuple[GlobalId, int, int]]
    ) -> None:
        for table in tables:
            reader = self.readers[table]
            assert reader.frontier <= at(selection.time), "law 3"
            expected = Counter((value, "x") for where, value, _ in visible if where == table)
            assert contents(self.world.storage, reader, selection.time) == expected

    def teardown(self) -> None:
        self.world.storage.close()


OracleOverStorage = pytest.mark.semantics(82, 83, 84, 85, 86, 88, 102)(Machine.TestCase)
OracleOverStorage.settings = settings(examples(60), stateful_step_count=30)
