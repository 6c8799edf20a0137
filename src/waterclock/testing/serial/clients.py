"""The clients of a recorded history.

Those that write upstream read here at once what they have written, one way or another: directly,
together with tables in a transaction, in one query, or through a view that has an index. All of
them read with and without asking for recency.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import psycopg
from confluent_kafka import KafkaException, Message, Producer

from waterclock.testing.serial.history import Append, Kind, Outcome, Step, Write
from waterclock.testing.serial.recorder import Client, Here, Recorder
from waterclock.testing.serial.world import (
    EVENTS,
    KAFKA_LISTS,
    PG,
    RELATIONS,
    TABLES,
    VIEWS,
    Connection,
    Relation,
    World,
    list_of,
    read_together,
    register_of,
    steps_of,
    view_over,
)

_TIMEOUT_S = 60.0
_RECENT = 0.75
"""How many of the reads are recent."""


class Reader(Client):
    """A client that reads here, in every way that there is."""

    def __init__(self, recorder: Recorder, name: str, seed: int, world: World) -> None:
        super().__init__(recorder, name, seed)
        self.world = world
        self.here = Here(world.server.connect)

    def act(self) -> None:
        self.read_some(RELATIONS, "of_all")

    def close(self) -> None:
        self.here.close()

    def read_some(
        self, relations: Sequence[Relation], view: str, *, recent: float = _RECENT
    ) -> None:
        """Read some of these relations, or all of them through a view."""
        is_recent = self.random.random() < recent
        kind = Kind.RECENT if is_recent else Kind.READ
        how = self.random.choices(
            (self._alone, self._in_block, self._in_query),
            (6, 3, 0.3 if len(relations) < 4 else 0.1),
        )[0]
        if self.random.random() < 0.2:
            suffix = " AS OF UPSTREAM" if is_recent else ""
            query = f"SELECT key, place, value FROM {view}{suffix}"
            self.read(self.here, kind, lambda c: steps_of(VIEWS[view], c.execute(query.encode())))
        else:
            self.read(self.here, kind, lambda c: how(c, relations, is_recent=is_recent))

    def _alone(
        self, connection: Connection, relations: Sequence[Relation], *, is_recent: bool
    ) -> list[Step]:
        relation = self.random.choice(relations)
        query = f"{relation.query}{' AS OF UPSTREAM' if is_recent else ''}"
        rows = connection.execute(query.encode()).fetchall()
        return steps_of([relation], [(f"{relation.prefix}:{n}", *rest) for n, *rest in rows])

    def _in_block(
        self, connection: Connection, relations: Sequence[Relation], *, is_recent: bool
    ) -> list[Step]:
        """What is of one source, and the tables: all queries of a block ask the first's sources."""
        source = self.random.choice([each.source for each in relations])
        chosen = [each for each in relations if each.source == source and source is not None]
        chosen += TABLES
        with connection.transaction():
            if is_recent:
                connection.execute("SET LOCAL real_time_recency = on")
            return read_together(connection, chosen)

    def _in_query(
        self, connection: Connection, relations: Sequence[Relation], *, is_recent: bool
    ) -> list[Step]:
        query = f"{view_over(relations)}{' AS OF UPSTREAM' if is_recent else ''}"
        return steps_of(relations, connection.execute(query.encode()))


class KafkaWriter(Reader):
    """Writes records, one by one or in transactions, and reads them."""

    def __init__(self, recorder: Recorder, name: str, seed: int, world: World) -> None:
        super().__init__(recorder, name, seed, world)
        self._producers: dict[bool, Producer] = {}

    def act(self) -> None:
        in_transaction = self.random.random() < 0.2
        lists = KAFKA_LISTS if in_transaction else [self.random.choice(KAFKA_LISTS)]
        steps = [Append(f"{EVENTS.prefix}:{name}", self.recorder.value()) for name in lists]
        begun = self.recorder.now()
        is_known = self._write(steps, in_transaction=in_transaction)
        outcome = Outcome.OK if is_known else Outcome.UNKNOWN
        self.recorder.add(self.name, Kind.UPSTREAM, steps, begun, outcome)
        self.read_some((EVENTS, *TABLES), "of_kafka")

    def _write(self, steps: Sequence[Append], *, in_transaction: bool) -> bool:
        """Whether the broker has acknowledged it."""
        errors: list[Any] = []

        def told(error: Any, _: Message) -> None:
            if error is not None:
                errors.append(error)

        try:
            producer = self._producer(in_transaction)
            if in_transaction:
                producer.begin_transaction()
            for step in steps:
                name, value = step.key.partition(":")[2], str(step.value)
                producer.produce(self.world.topic, value, name, partition=0, on_delivery=told)
            left = producer.flush(_TIMEOUT_S)
            if in_transaction:
                producer.commit_transaction(_TIMEOUT_S)
            if not left and not errors:
                return True
        except KafkaException:
            pass
        self._producers.pop(in_transaction, None)  # the next one ends what this one has begun
        return False

    def _producer(self, in_transaction: bool) -> Producer:
        if in_transaction not in self._producers:
            name = f"{self.world.topic}-{self.name}" if in_transaction else None
            more = {"enable_idempotence": True, "linger_ms": 0}
            self._producers[in_transaction] = self.world.kafka.producer(name, **more)
        return self._producers[in_transaction]


class PostgresWriter(Reader):
    """Changes its lists and registers in both databases, and reads them."""

    def __init__(self, recorder: Recorder, name: str, seed: int, world: World, owner: int) -> None:
        super().__init__(recorder, name, seed, world)
        self._owner = owner
        self._there: Mapping[str, Here] = {
            database: Here(partial(psycopg.connect, conninfo, connect_timeout=60))
            for database, conninfo in world.conninfo.items()
        }

    def act(self) -> None:
        database = self.random.choice(list(PG))
        list_, register = list_of(self._owner), register_of(self._owner)
        steps: list[Step] = []
        if self.random.random() < 0.7:
            steps.append(Append(f"pg.{database}:{list_}", self.recorder.value()))
        if not steps or self.random.random() < 0.3:
            steps.append(Write(f"pg.{database}:{register}", self.recorder.value()))

        def change(connection: Connection) -> list[Step]:
            write_rows(connection, steps)
            connection.commit()
            return []

        self.write(self._there[database], Kind.UPSTREAM, steps, change)
        pick: Callable[[], Sequence[Relation]] = self.random.choice(
            (lambda: PG[database], lambda: PG[database], lambda: (*PG["one"], *PG["two"]))
        )
        self.read_some((*pick(), *TABLES), "of_postgres")

    def close(self) -> None:
        for each in (self.here, *self._there.values()):
            each.close()


class TableWriter(Reader):
    """Changes its list and register in the tables here, and reads them with some source."""

    def __init__(self, recorder: Recorder, name: str, seed: int, world: World, owner: int) -> None:
        super().__init__(recorder, name, seed, world)
        self._owner = owner

    def act(self) -> None:
        steps: list[Step] = [Append(f"table:{list_of(self._owner)}", self.recorder.value())]
        if self.random.random() < 0.3:
            steps.append(Write(f"table:{register_of(self._owner)}", self.recorder.value()))
        reads = self.random.random() < 0.3

        def change(connection: Connection) -> list[Step]:
            with connection.transaction():
                read = read_together(connection, TABLES) if reads else []
                write_rows(connection, steps)
            return read

        self.write(self.here, Kind.WRITE, steps, change)
        source: Sequence[Relation] = self.random.choice(((EVENTS,), *PG.values()))
        view = "of_kafka" if source == (EVENTS,) else "of_postgres"
        self.read_some((*source, *TABLES), view)


def write_rows(connection: psycopg.Connection[Any], steps: Sequence[Step]) -> None:
    """Append to lists, and set registers: they have the same form here and upstream."""
    for step in steps:
        name = step.key.partition(":")[2]
        match step:
            case Append(_, value):
                connection.execute("INSERT INTO lists VALUES (%s, %s)", [name, value])
            case Write(_, value):
                connection.execute("UPDATE registers SET value = %s WHERE name = %s", [value, name])
