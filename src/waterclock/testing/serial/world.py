"""What a recorded history is about: a topic, two databases of one server, and tables here.

The keys of the history are `kafka:..`, `pg.one:..` and `pg.two:..` for the sources, and `table:..`.
Names before the point are those of one order upstream. Lists in Kafka are in the order of offsets,
and everybody appends to them. All others belong to one client each, whose values grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.serial.history import Found, Listed, Step
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

Connection = psycopg.Connection[Any]
OWNERS = 2
"""How many clients write each of the databases, and the tables."""
DATABASES = ("one", "two")
UPSTREAM = """
CREATE TABLE lists (list text, value int);
ALTER TABLE lists REPLICA IDENTITY FULL;
CREATE TABLE registers (name text PRIMARY KEY, value int);
ALTER TABLE registers REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR TABLE lists, registers
"""


def list_of(owner: int) -> str:
    return f"list{owner}"


def register_of(owner: int) -> str:
    return f"register{owner}"


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that can be read here, and the keys that it has."""

    query: str
    """Gives the name of a list or register, a place in the list, and the value."""
    prefix: str
    lists: tuple[str, ...] = ()
    registers: tuple[str, ...] = ()
    source: str | None = None
    """None for a table."""


_LISTS = tuple(list_of(owner) for owner in range(OWNERS))
_REGISTERS = tuple(register_of(owner) for owner in range(OWNERS))
KAFKA_LISTS = ("x", "y")
TOPIC = "events"
EVENTS = Relation("SELECT list, place, text FROM events", "kafka", KAFKA_LISTS, source="kafka")
LISTS = Relation("SELECT list, value, value FROM lists", "table", lists=_LISTS)
REGISTERS = Relation("SELECT name, value, value FROM registers", "table", registers=_REGISTERS)
TABLES = (LISTS, REGISTERS)


def lists_in(database: str) -> Relation:
    query = f"SELECT list, value, value FROM {database}_lists"
    return Relation(query, f"pg.{database}", lists=_LISTS, source=database)


def registers_in(database: str) -> Relation:
    query = f"SELECT name, value, value FROM {database}_registers"
    return Relation(query, f"pg.{database}", registers=_REGISTERS, source=database)


PG = {name: (lists_in(name), registers_in(name)) for name in DATABASES}
RELATIONS = (EVENTS, *TABLES, *(each for found in PG.values() for each in found))


def view_over(relations: Sequence[Relation]) -> str:
    """Several relations as one, whose names are keys of the history."""
    parts = []
    for each in relations:
        name, place, value = each.query.removeprefix("SELECT ").partition(" FROM ")[0].split(", ")
        table = each.query.rpartition(" ")[2]
        columns = f"{each.prefix + ':'!r} || {name} AS key, {place}::bigint AS place"
        parts.append(f"SELECT {columns}, {value}::int AS value FROM {table}")
    return " UNION ALL ".join(parts)


VIEWS: Mapping[str, tuple[Relation, ...]] = {
    "of_kafka": (EVENTS, *TABLES),
    "of_postgres": (*PG["one"], *PG["two"], *TABLES),
    "of_all": RELATIONS,
}
"""Views with an index each."""


class World:
    """The systems of one history, set up."""

    def __init__(
        self, server: ServerProcess, kafka: KafkaBroker, postgres: PostgresServer, name: str
    ) -> None:
        """`name` is that of what is made upstream. The server runs."""
        self.server = server
        self.kafka = kafka
        self.postgres = postgres
        self.topic = f"{TOPIC}_{name}"
        kafka.create_topic(self.topic)
        self.conninfo = {each: postgres.create_database(f"{each}_{name}") for each in DATABASES}
        for conninfo in self.conninfo.values():
            with psycopg.connect(conninfo, autocommit=True) as upstream:
                for statement in UPSTREAM.split(";"):
                    upstream.execute(statement.encode())
                for register in _REGISTERS:
                    upstream.execute("INSERT INTO registers VALUES (%s, 0)", [register])
        with server.connect() as connection:
            for statement in self._statements():
                connection.execute(statement.encode())

    def _statements(self) -> Iterable[str]:
        yield f"CREATE CONNECTION k TO KAFKA (BROKER '{self.kafka.address}')"
        yield (
            f"CREATE SOURCE events FROM KAFKA CONNECTION k (TOPIC '{self.topic}')"
            " KEY FORMAT TEXT VALUE FORMAT TEXT INCLUDE KEY AS list, OFFSET AS place"
        )
        for name, conninfo in self.conninfo.items():
            given = conninfo_to_dict(conninfo)
            yield (
                f"CREATE CONNECTION {name}_pg TO POSTGRES (HOST '{given['host']}',"
                f" PORT {given['port']}, DATABASE '{given['dbname']}', USER '{given['user']}')"
            )
            yield (
                f"CREATE SOURCE {name} FROM POSTGRES CONNECTION {name}_pg (PUBLICATION 'p')"
                f" FOR TABLES (lists AS {name}_lists, registers AS {name}_registers)"
            )
        yield "CREATE TABLE lists (list text, value int)"
        yield "CREATE TABLE registers (name text, value int)"
        for register in _REGISTERS:
            yield f"INSERT INTO registers VALUES ('{register}', 0)"
        for name, relations in VIEWS.items():
            yield f"CREATE VIEW {name} AS {view_over(relations)}"
            yield f"CREATE DEFAULT INDEX ON {name}"

    def close(self) -> None:
        """Drop what the sources have left upstream. The server has ended."""
        for conninfo in self.conninfo.values():
            with suppress(psycopg.Error), psycopg.connect(conninfo, autocommit=True) as upstream:
                upstream.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                    " WHERE database = current_database() AND NOT active"
                )


def steps_of(
    relations: Sequence[Relation], rows: Iterable[tuple[str, int | None, int | str]]
) -> list[Step]:
    """What rows of keys, places and values tell of all keys of the relations."""
    found: dict[str, list[tuple[int, int]]] = {}
    for key, place, value in rows:
        found.setdefault(key, []).append((int(place or 0), int(value)))
    steps: list[Step] = []
    for relation in relations:
        for name in relation.lists:
            key = f"{relation.prefix}:{name}"
            steps.append(Listed(key, tuple(value for _, value in sorted(found.pop(key, [])))))
        for name in relation.registers:
            key = f"{relation.prefix}:{name}"
            values = [value for _, value in found.pop(key, [])]
            assert len(values) == 1, f"the register {key} has the values {values}"
            steps.append(Found(key, values[0] or None))
    assert not found, f"unknown keys: {sorted(found)}"
    return steps


def read_together(connection: Connection, relations: Sequence[Relation]) -> list[Step]:
    """Read the relations one after the other, in the transaction that there is."""
    steps: list[Step] = []
    for each in relations:
        rows = connection.execute(each.query.encode()).fetchall()
        steps += steps_of([each], [(f"{each.prefix}:{name}", *rest) for name, *rest in rows])
    return steps
