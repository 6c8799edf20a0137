"""Clients for `server.py`, in a process of their own: what they cost is theirs, and is told.

    python bench/load.py DSN KIND CONNECTIONS SECONDS   ->  one line of JSON

On a machine with few cores the clients compete with the server, so a rate is told together with
the share of a core that its clients took. Requests go out as fast as answers come, one at a time on
each connection; latencies are those that a client sees.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import asyncpg
import uvloop
from psycopg.conninfo import conninfo_to_dict

ROWS = 100_000
"""How many rows the table `items` has; ids count from 0."""
_WARM_UP = 50
_WAIT_S = 120


@dataclass(frozen=True)
class Load:
    """What the clients saw."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    client_cores: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


LISTING = """
    select n.nspname, c.relname, c.relkind, pg_catalog.pg_get_userbyid(c.relowner)
    from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'v', 'm') and n.nspname <> 'pg_catalog'
      and pg_catalog.pg_table_is_visible(c.oid) order by 1, 2"""
COLUMNS = """
    select a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull
    from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
    where c.relname = 'items' and a.attnum > 0 and not a.attisdropped order by a.attnum"""

Ask = Callable[[asyncpg.Connection], Awaitable[object]]


async def point(connection: asyncpg.Connection) -> object:
    key = random.randrange(ROWS)
    row = await connection.fetchrow("SELECT * FROM items WHERE id = $1", key)
    assert row is not None, f"row {key} is there"
    assert row["id"] == key, "and is the one asked for"
    return row


async def insert(connection: asyncpg.Connection) -> object:
    text = "INSERT INTO events (id, what) VALUES ($1, $2)"
    return await connection.execute(text, random.randrange(1 << 30), "something happened")


async def fresh(connection: asyncpg.Connection) -> object:
    """Only the read is timed, by `answer_in_s`."""
    await connection.execute("INSERT INTO sales (shop, amount) VALUES ($1, 1)", 3)
    began = time.perf_counter()
    row = await connection.fetchrow("SELECT n FROM totals WHERE shop = 3")
    took = time.perf_counter() - began
    written = _WRITTEN.get(connection, row["n"] - 1) + 1
    assert row["n"] == written, f"{row['n']} rows of {written} were seen"
    _WRITTEN[connection] = written
    return took


_WRITTEN: dict[asyncpg.Connection, int] = {}

ASKS: dict[str, Ask] = {
    "select 1": lambda connection: connection.fetchval("SELECT 1"),
    "point": point,
    "insert": insert,
    "fresh": fresh,
    "listing": lambda connection: connection.fetch(LISTING),
    "columns": lambda connection: connection.fetch(COLUMNS),
    "slow": lambda connection: connection.fetch(SLOW),
}
SLOW = "SELECT shop % 7 AS g, count(*), sum(amount) FROM small GROUP BY shop % 7"


async def one(connection: asyncpg.Connection, ask: Ask, until: float, took: list[float]) -> None:
    while (began := time.perf_counter()) < until:
        answer = await ask(connection)
        took.append(answer if isinstance(answer, float) else time.perf_counter() - began)


async def drive(dsn: str, ask: Ask, connections: int, seconds: float) -> Load:
    told = conninfo_to_dict(dsn)
    opened = [
        await asyncpg.connect(
            host=told["host"], port=int(told["port"]), user=told["user"], database=told["dbname"]
        )
        for _ in range(connections)
    ]
    for connection in opened:
        for _ in range(max(2, _WARM_UP // connections)):
            await ask(connection)
    took: list[float] = []
    cpu, began = _cpu(), time.perf_counter()
    await asyncio.gather(*(one(each, ask, began + seconds, took) for each in opened))
    spent = time.perf_counter() - began
    cores = (_cpu() - cpu) / spent
    for connection in opened:
        await connection.close()
    took.sort()
    return Load(
        len(took), spent, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3, cores
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def stream(dsn: str, query: str) -> Load:
    """Read a whole result in text, and throw it away: a client that costs next to nothing."""
    told = conninfo_to_dict(dsn)
    with socket.create_connection((told["host"], int(told["port"])), _WAIT_S) as wire:
        pairs = f"user\0{told['user']}\0database\0{told['dbname']}\0\0".encode()
        wire.sendall(struct.pack(">ii", len(pairs) + 8, 3 << 16) + pairs)
        _until_ready(wire)
        body = query.encode() + b"\0"
        cpu, began = _cpu(), time.perf_counter()
        wire.sendall(b"Q" + struct.pack(">i", len(body) + 4) + body)
        end = _until_ready(wire)
        spent = time.perf_counter() - began
        cores = (_cpu() - cpu) / spent
    rows = int(end.removesuffix(_READY).rpartition(b"SELECT ")[2].rstrip(b"\0"))
    return Load(rows, spent, spent * 1e3, spent * 1e3, cores)


_READY = b"Z\0\0\0\5I"


def _until_ready(wire: socket.socket) -> bytes:
    """Read until the server is ready; the last bytes."""
    tail = b""
    buffer = bytearray(1 << 20)
    while not tail.endswith(_READY):
        count = wire.recv_into(buffer)
        assert count, f"the server closed the connection: {tail!r}"
        tail = (tail + buffer[max(0, count - 100) : count])[-200:]
    return tail


class Subscriber:
    """Follows the table `news` by COPY, and sees how far it has come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._tail = b""

    @staticmethod
    async def of(told: Mapping[str, Any]) -> Subscriber:
        reader, writer = await asyncio.open_connection(told["host"], int(told["port"]))
        pairs = f"user\0{told['user']}\0database\0{told['dbname']}\0\0".encode()
        query = b"COPY (SUBSCRIBE TO news) TO STDOUT\0"
        writer.write(struct.pack(">ii", len(pairs) + 8, 3 << 16) + pairs)
        writer.write(b"Q" + struct.pack(">i", len(query) + 4) + query)
        return Subscriber(reader, writer)

    async def until(self, mark: bytes) -> None:
        seen = self._tail
        while mark not in seen:
            received = await self._reader.read(1 << 16)
            assert received, f"the server closed the connection: {seen!r}"
            seen = seen[-100:] + received
        self._tail = seen[-100:]

    def close(self) -> None:
        self._writer.close()


async def fan_out(dsn: str, connections: int, seconds: float) -> Load:
    """Rows that are inserted one by one, each timed until the last subscriber has it."""
    told = conninfo_to_dict(dsn)
    inserting = await asyncpg.connect(
        host=told["host"], port=int(told["port"]), user=told["user"], database=told["dbname"]
    )
    subscribers = [await Subscriber.of(told) for _ in range(connections)]
    took: list[float] = []
    cpu = began = 0.0
    while not began or time.perf_counter() < began + seconds:
        mark = f"news {random.getrandbits(60)}"
        await inserting.execute("INSERT INTO news VALUES ($1)", mark)
        written = time.perf_counter()
        await asyncio.gather(*(each.until(mark.encode()) for each in subscribers))
        if began:
            took.append(time.perf_counter() - written)
        else:  # all of them are there now
            cpu, began = _cpu(), time.perf_counter()
    spent = time.perf_counter() - began
    cores = (_cpu() - cpu) / spent
    for each in subscribers:
        each.close()
    await inserting.close()
    took.sort()
    middle, late = took[len(took) // 2], took[int(len(took) * 0.99)]
    return Load(len(took), spent, middle * 1e3, late * 1e3, cores)


def main() -> None:
    dsn, kind, connections, seconds = sys.argv[1:]
    if kind.startswith("stream "):
        load = stream(dsn, kind.removeprefix("stream "))
    elif kind == "subscribe":
        load = uvloop.run(fan_out(dsn, int(connections), float(seconds)))
    else:
        load = uvloop.run(drive(dsn, ASKS[kind], int(connections), float(seconds)))
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
