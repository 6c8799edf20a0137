"""A catalog that a test owns whole, over storage that can crash at any step.

`BreakingConsensus` fails at one chosen entry of the log and at all after it: before the entry is
durable, or after it, when only the answer is lost. Opening the same data again then shows what a
crash at that step leaves behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from waterclock.catalog import items
from waterclock.catalog.builtins import (
    DEFAULT_CLUSTER,
    PUBLIC_SCHEMA,
    SYSTEM_ROLE,
    add_builtins,
)
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft, Numbers
from waterclock.catalog.durable import Capabilities, Creation, DurableCatalog
from waterclock.catalog.items import Site
from waterclock.catalog.names import Name, Scope
from waterclock.catalog.objects import (
    AnyItem,
    Binding,
    Column,
    MaterializedView,
    Oid,
    Query,
    Table,
    View,
)
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import INT4, TEXT
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import Unavailable
from waterclock.persist.notes import Notes
from waterclock.persist.retry import Retry
from waterclock.persist.store import Plan, Store
from waterclock.storage import riders
from waterclock.storage.api import Description, Token
from waterclock.storage.controller import Storage
from waterclock.testing.persist_world import open_store

SCOPE = Scope("waterclock", "waterclock")
COLUMNS = (Column("a", INT4, nullable=False), Column("b", TEXT))


class BreakingConsensus(MemoryConsensus):
    """A log that ends its service at an entry: `break_at` more are taken, and then no others.

    With `lost_answer` the entry at which it breaks is durable all the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.break_at: int | None = None
        self.lost_answer = False
        self.appended = 0

    def append(self, position: int, entry: bytes) -> None:
        if self.break_at is not None and self.appended >= self.break_at:
            if self.lost_answer and self.appended == self.break_at:
                super().append(position, entry)
            self.appended += 1
            raise Unavailable("the log is out of service")
        super().append(position, entry)
        self.appended += 1

    def mend(self) -> None:
        self.break_at, self.appended = None, 0


class CatalogWorld:
    """The durable catalog with its storage, over data that outlives them."""

    def __init__(self) -> None:
        self.blob, self.consensus = MemoryBlob(), BreakingConsensus()
        self.store: Store
        self.storage: Storage = None  # type: ignore[assignment]
        self.durable: DurableCatalog
        self.open()

    def open(self) -> DurableCatalog:
        """Start on what is durable, as after a crash."""
        self.close()
        self.consensus.mend()
        self.store = open_store(self.blob, self.consensus, Retry(attempts=1))
        self.storage = Storage(self.store)
        self.views = Notes(self.store, "view/")
        """What somebody maintains: the writer's token of each collection, as compute has it."""
        self.durable = DurableCatalog(self.store)
        return self.durable

    def close(self) -> None:
        if self.storage is not None:
            self.storage.close()

    @property
    def catalog(self) -> Catalog:
        return self.durable.current

    def find(self, name: str) -> AnyItem | None:
        schema, _, item = name.rpartition(".")
        return self.catalog.find(Name(item, schema or None), SCOPE)

    def item(self, name: str) -> AnyItem:
        found = self.find(name)
        assert found is not None, name
        return found

    def create_table(self, name: str, columns: Sequence[Column] = COLUMNS) -> Table:
        """CREATE TABLE: the object and its collection, in one commit."""
        draft = self.durable.draft()
        table = items.create_table(draft, here(name), columns)
        self.durable.commit(draft, [Creation(table.id, Description(table.schema))])
        return table

    def create_view(self, name: str, *used: AnyItem) -> View:
        draft = self.durable.draft()
        view = items.create_view(draft, here(name), COLUMNS, query(*used))
        self.durable.commit(draft)
        return view

    def create_materialized_view(self, name: str, *used: AnyItem) -> MaterializedView:
        draft = self.durable.draft()
        view = items.create_materialized_view(
            draft, here(name), COLUMNS, query(*used), DEFAULT_CLUSTER
        )
        creation = Creation(view.id, Description(view.schema), keeps_writer=False)
        self.durable.commit(draft, [creation], alongside=self.maintained)
        return view

    def maintained(self, given: Mapping[GlobalId, Capabilities]) -> list[Plan[Any]]:
        """Note the writers of new views, for whoever maintains them."""
        tokens = {str(c): writer.token.encode() for c, (_, writer) in given.items()}
        return [lambda _: (self.views.events(tokens), None)]

    def drop(self, draft: Draft) -> None:
        """Commit a draft in which something was dropped: nobody maintains it any more."""
        gone = {str(collection) for collection in draft.changes().dropped_collections}
        tokens = {name: note for name, note in self.views.all().items() if name in gone}
        self.durable.commit(
            draft,
            alongside=lambda _: [
                riders.release(Token(token.decode()) for token in tokens.values()),
                lambda _: (self.views.events({}, tokens), None),
            ],
        )

    def live_collections(self) -> set[str]:
        """The collections in storage that somebody holds something of."""
        return self.store.read(
            lambda state: {name for name, shard in state.shards.items() if shard.capabilities}
        )

    def notes(self) -> dict[str, bytes]:
        """Everything that is noted, by whomever."""
        return Notes(self.store, "").all()


def here(name: str, owner: Oid = SYSTEM_ROLE, namespace: Oid = PUBLIC_SCHEMA) -> Site:
    return Site(namespace, name, owner)


def query(*used: AnyItem) -> Query:
    """A query over these, under the names they have now."""
    sql = "SELECT 1" + "".join(f", (SELECT count(*) FROM {item.name})" for item in used)
    return Query(sql, tuple(Binding(item.name, item.id) for item in used))


def fresh_draft() -> Draft:
    """A draft of a catalog with nothing but what is built in, not durable anywhere."""
    draft = Draft(Catalog(), Numbers())
    add_builtins(draft)
    return draft
