"""Who holds what back: every reader that keeps the past of a collection, as the catalog shows it.

Durable holds are the read capabilities of storage: those of users (read holds), those of views and
indexes on their inputs, and the one by which the system keeps the usual span of history. The holds
of sessions and sources live in memory, over the last of these. The since of a collection is the
least of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waterclock.adapter.holds import Holder
from waterclock.adapter.read_holds import KIND, Shown
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import Role
from waterclock.catalog.system.session import ShownHold
from waterclock.storage import riders
from waterclock.storage.api import Token

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator


def holders(core: Coordinator) -> list[ShownHold]:
    """All holds on relations that are in the catalog, and on what belongs to them."""
    catalog = core.current
    objects = _objects(catalog)
    rows = [*_durable(core, catalog), *_of_sessions(core)]
    return [row for row in rows if row.object_id in objects]


def _objects(catalog: Catalog) -> set[str]:
    return {str(c) for item in catalog.items() for c in (item.id, *item.collections)}


def _durable(core: Coordinator, catalog: Catalog) -> Iterator[ShownHold]:
    """The capabilities that storage keeps. Nobody is told of their tokens."""
    views = core.compute.input_tokens().items()
    names: dict[Token, Holder | Shown] = {token: Holder("view", str(view)) for token, view in views}
    names |= dict.fromkeys(core.holds.tokens, Holder("retention"))
    names |= {token: each for each in core.read_holds.shown() for token in each.tokens}
    for reader in riders.readers(core.storage, names):
        since, collection = reader.since, str(reader.collection)
        match reader.name:
            case Shown() as user:
                yield _of_user(core, catalog, user, collection, since)
            case Holder(kind, name):
                yield ShownHold(name, kind, None, collection, since)
            case None:
                left = reader.left_ms
                expires = None if left is None else core.runtime.wall_ms() + left
                lease_ms = reader.lease_ms
                yield ShownHold(None, "capability", None, collection, since, lease_ms, expires)


def _of_user(
    core: Coordinator, catalog: Catalog, hold: Shown, collection: str, since: int
) -> ShownHold:
    owner = catalog.objects.get(hold.owner)
    name = owner.name if isinstance(owner, Role) else None
    expires = core.runtime.wall_ms() + hold.left_ms
    return ShownHold(hold.name, KIND, name, collection, since, hold.lease_ms, expires)


def _of_sessions(core: Coordinator) -> Iterator[ShownHold]:
    """Holds in memory; those of users are durable as well, and shown as such."""
    runtime = core.runtime
    for hold in core.holds.opened():
        kind, name = hold.holder.kind, hold.holder.name
        if kind == KIND:
            continue
        left_s = None if hold.expires_s is None else hold.expires_s - runtime.monotonic_s()
        ends = None if left_s is None else runtime.wall_ms() + round(left_s * 1000)
        for collection, since in hold.times.items():
            yield ShownHold(name, kind, None, str(collection), since, hold.lease_ms, ends)
