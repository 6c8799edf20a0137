"""Receiving what is posted to webhook sources.

A request is answered when its rows are durable and visible to every later read, as an INSERT is:
the rows go through the writer of tables. It is taken whole or not at all. A sender that gets no
answer can not know which, and usually sends again, so rows that must not be there twice need an id
of the sender's that a view can tell them apart by.

Nobody gets in without proof. A source with a check takes whoever passes it, and asks for no role; a
source without one takes requests of roles that may insert into it.

Strangers may connect, so what they can make the server hold is bounded: the size of a body, the
number of requests at the same time, and for strangers' addresses a quarter of that each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, ClassVar

from waterclock.adapter.connections import open_secret
from waterclock.adapter.webhooks import checks
from waterclock.adapter.webhooks.definition import Check, WebhookDefinition
from waterclock.adapter.webhooks.rows import RowReader
from waterclock.catalog import privileges
from waterclock.catalog.errors import UnknownDatabase, UnknownSchema
from waterclock.catalog.names import Name, Scope
from waterclock.catalog.objects import Privilege, Source
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.sources.status import Health, SourceReport, Statistics, Status

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.adapter.coordinator import Coordinator

_DECODED_AT_ONCE_BYTES = 32 * 1024
"""A body of more bytes is decoded in a thread, so that others do not wait for it."""


class UnknownWebhook(WaterclockError):
    """There is no webhook source of that name."""

    sqlstate: ClassVar[str] = "42P01"


class CheckFailed(WaterclockError):
    """The request does not pass the check of the source."""

    sqlstate: ClassVar[str] = "28000"


class TooManyRequests(WaterclockError):
    """As many requests as may be are being received already."""

    sqlstate: ClassVar[str] = "53300"


@dataclass(frozen=True, slots=True)
class Address:
    """The name of a webhook source, as its URL has it."""

    database: str
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it has come. Names of headers are in lower case.

    `body` and `role` are awaited only when they are needed: the body, and the role that the request
    proves to be from.
    """

    headers: Mapping[str, str]
    client: str | None
    body: Callable[[], Awaitable[bytes]]
    role: Callable[[], Awaitable[str]]


class Webhooks:
    """The webhook sources of one server. Belongs to one event loop."""

    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._pool = core.runtime.pool(2, "waterclock-webhooks")
        self._readers: dict[GlobalId, RowReader] = {}
        self._underway: Counter[str | None] = Counter()
        self._statistics: dict[GlobalId, Statistics] = {}
        self._started_ms = core.runtime.wall_ms()

    def close(self) -> None:
        """Receive nothing more."""
        self._pool.shutdown()

    @property
    def largest_body(self) -> int:
        """How many bytes a body may have."""
        return self._core.budgets.webhook_body_bytes

    async def receive(self, address: Address, request: Request) -> int:
        """Insert the rows of a request durably, and return how many there were.

        Raises what the sender is to be told. If it is cancelled, the rows may be there or not.
        """
        with self._admitted(request.client):
            source = self._find(address)
            definition = WebhookDefinition.decoded(source.definition)
            check = definition.check
            if check is None:
                await self._require_insert(source, request)
            body = await request.body()
            if check is not None:
                self._require_proof(source, check, request.headers, body)
            rows = await self._rows(source, definition, request.headers, body)
            if rows.num_rows:
                await self._write(source, rows)
            count: int = rows.num_rows
            self._count(source.id, count, len(body))
            return count

    def reports(self) -> list[SourceReport]:
        """How each webhook source is. It is always ready, as a table is. From any thread."""
        status = Status(Health.RUNNING, self._started_ms)
        return [
            SourceReport(item.id, status, self._statistics.get(item.id, Statistics()))
            for item in self._core.current.items()
            if isinstance(item, Source) and item.is_webhook
        ]

    # Who may come in

    @contextmanager
    def _admitted(self, client: str | None) -> Iterator[None]:
        """A place among the requests at the same time."""
        limit = self._core.budgets.webhook_requests
        of_address = limit if _is_here(client) else max(1, limit // 4)
        if self._underway.total() >= limit or self._underway[client] >= of_address:
            raise TooManyRequests(
                "too many requests to webhook sources at the same time",
                hint="Send again later. The server's setting is max_webhook_requests.",
            )
        self._underway[client] += 1
        try:
            yield
        finally:
            self._underway[client] -= 1
            if not self._underway[client]:
                del self._underway[client]

    def _find(self, address: Address) -> Source:
        name = Name(address.name, address.schema, address.database)
        try:
            found = self._core.current.find(name, Scope(address.database, ""))
        except (UnknownSchema, UnknownDatabase):
            found = None
        if not isinstance(found, Source) or not found.is_webhook:
            raise UnknownWebhook(
                f'there is no webhook source "{address}"',
                hint="The path is /api/webhook/database/schema/source."
                " Webhook sources are made with CREATE SOURCE ... FROM WEBHOOK.",
            )
        return found

    async def _require_insert(self, source: Source, request: Request) -> None:
        name = await request.role()
        catalog = self._core.current
        role = catalog.role(name)
        privileges.check(catalog, role.oid, source, Privilege.INSERT)

    def _require_proof(
        self, source: Source, check: Check, headers: Mapping[str, str], body: bytes
    ) -> None:
        secret = open_secret(self._core.current, GlobalId.parse(check.secret), self._core.secrets)
        now_ms = self._core.runtime.wall_ms()
        reason = checks.refusal(check, headers, body, secret.encode(), now_ms)
        if reason is not None:
            raise CheckFailed(
                f'the request does not pass the check of source "{source.name}"', detail=reason
            )

    # What becomes of it

    async def _rows(
        self, source: Source, definition: WebhookDefinition, headers: Mapping[str, str], body: bytes
    ) -> pa.Table:
        if len(body) > _DECODED_AT_ONCE_BYTES:
            reader = RowReader(definition)  # one of its own, for that thread
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, reader.rows, headers, body)
        known = self._readers.get(source.id)
        if known is None:
            current = self._core.current
            self._readers = {i: r for i, r in self._readers.items() if current.try_item(i)}
            known = self._readers[source.id] = RowReader(definition)
        return known.rows(headers, body)

    async def _write(self, source: Source, rows: pa.Table) -> None:
        delay_s = self._core.backpressure.delay_s((source.id,), rows.num_rows)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        await self._core.tables.write({source.id: rows})

    def _count(self, source: GlobalId, rows: int, size: int) -> None:
        done = self._statistics.get(source, Statistics())
        self._statistics[source] = replace(
            done,
            messages=done.messages + rows,
            bytes=done.bytes + size,
            updates=done.updates + rows,
        )


def _is_here(client: str | None) -> bool:
    """Whether the client is this machine, and so a proxy for many perhaps."""
    return client is None or ip_address(client).is_loopback
