"""The catalog as it is kept, and the one way in which it changes.

Each record of the catalog is a note in the same log as all data. A commit is one entry of that log:
the records that changed, the head with the version and the next numbers, and whatever the statement
does in storage, which rides along. So a crash finds the whole statement or nothing of it, and there
is nothing to repair. The other way, first the collection and then the name, would need as many
commits and a clean-up after each crash; it remains for installations that take several steps by
nature (a view that compute has to accept first): what they leave behind when a crash comes between
is a collection that no object refers to, and `release_unreferenced` finds it at the next start.

Whoever looks after collections because the catalog refers to them follows it (`follow`): what is
there when a change becomes visible is looked after already, whatever statement made it.

A change is made for one version of the catalog. If another came first, it is refused with
`CatalogChanged` and has to be made anew: a name that was free may not be any more.

The capabilities by which the catalog keeps its collections alive and writable are notes too, but no
part of the `Catalog` value, for whoever has a token has the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from waterclock.catalog import codec
from waterclock.catalog.builtins import add_builtins
from waterclock.catalog.catalog import Catalog, catalog_of
from waterclock.catalog.codec import Head, Held
from waterclock.catalog.draft import Draft, Key, Numbers
from waterclock.catalog.errors import CatalogChanged
from waterclock.catalog.objects import AnyObject, Comments, Membership, Oid, Settings
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store
from waterclock.storage import riders
from waterclock.storage.api import Description, ReadCapability, Token, WriteCapability

PREFIX = "catalog/"
_HEAD = "head"
_HELD = "capability/"


@dataclass(frozen=True, slots=True)
class Creation:
    """A collection to be made together with the object that refers to it.

    The capabilities never expire. The catalog keeps the reader's and, if `keeps_writer`, the
    writer's, and lets them go when the object is dropped; otherwise the writer's belongs to whom it
    is given.
    """

    id: GlobalId
    description: Description
    start: Frontier[int] | None = None
    keeps_writer: bool = True


Capabilities = tuple[ReadCapability, WriteCapability]
Follow = Callable[[Catalog, Set[GlobalId], Set[GlobalId]], None]
"""Takes the catalog as it will be seen, the collections that are new in it, and those that have
gone. What is looked after because the catalog refers to it has no other way to be told."""


class DurableCatalog:
    """The catalog of one server. Thread-safe."""

    def __init__(self, store: Store) -> None:
        """Recover the catalog; at the first start, make it with what is built in."""
        self._store = store
        self._notes = Notes(store, PREFIX)
        self._writing = store.runtime.lock()
        self.follow: Follow = lambda _catalog, _made, _gone: None
        """Told of every change, in the thread that commits it: of what is made before anybody sees
        it, and of what is gone when nobody does any more."""
        kept = self._notes.all()
        first = _HEAD not in kept
        head = Head(0, *Numbers().peek()) if first else codec.decode_head(kept[_HEAD])
        next_id = max(head.next_id, riders.highest_user_id(store) + 1)
        self._numbers = Numbers(head.next_oid, next_id)
        self._current = _decoded(head.version, kept)
        if first:
            draft = self.draft()
            add_builtins(draft)
            self.commit(draft)

    @property
    def current(self) -> Catalog:
        """The catalog with every change that was committed before the call."""
        return self._current

    def draft(self) -> Draft:
        """A change to the present catalog, to be committed or forgotten."""
        return Draft(self._current, self._numbers)

    def commit(
        self,
        draft: Draft,
        creations: Sequence[Creation] = (),
        *,
        adopted: Mapping[GlobalId, tuple[ReadCapability, WriteCapability | None]] | None = None,
        alongside: Callable[[Mapping[GlobalId, Capabilities]], Iterable[Plan[Any]]] | None = None,
    ) -> dict[GlobalId, Capabilities]:
        """Make the draft the present catalog, durably, and storage agree with it, in one step.

        The collections of `creations` come into being; those whose object is gone lose the
        capabilities that the catalog holds. `adopted` are capabilities of collections that were
        made before, for the catalog to keep. `alongside` tells what else has to happen at that
        moment, given the capabilities of the new collections. Returns these.

        Raises `CatalogChanged` if another change came first, and what the plans raise; then nothing
        has changed.
        """
        changes = draft.changes()
        puts = {_text(key): codec.encode(record) for key, record in changes.puts.items()}
        drops = [_text(key) for key in changes.drops]
        named = {each.id for each in creations} | (adopted or {}).keys()
        assert named <= draft.catalog.collections(), "something must refer to a collection"
        made = together(riders.create(c.id, c.description, c.start) for c in creations)
        taken = {
            _HELD + str(c): codec.encode(_tokens(*pair)) for c, pair in (adopted or {}).items()
        }

        def plan(state: State) -> tuple[list[AnyEvent], dict[GlobalId, Capabilities]]:
            self._require_version(state, draft.base.version)
            released, tokens = self._released(state, changes.dropped_collections)
            events: list[AnyEvent] = []
            created, given = made(state)
            answer = {c.id: pair for c, pair in zip(creations, given, strict=True)}
            rest = together(alongside(answer) if alongside else ())
            for part in (created, riders.release(tokens)(state)[0], rest(state)[0]):
                events += part
            held = {_HELD + str(c.id): codec.encode(_held(c, answer[c.id])) for c in creations}
            held |= taken
            next_oid, next_id = self._numbers.peek()
            head = {_HEAD: codec.encode(Head(draft.catalog.version, next_oid, next_id))}
            events += self._notes.events(puts | held | head, [*drops, *released])
            return events, answer

        with self._writing:
            try:
                answer = self._store.commit(plan)
            except CatalogChanged:
                self._reread()
                raise
            draft.seal()
            self._publish(draft.catalog)
        return answer

    def _publish(self, catalog: Catalog) -> None:
        """Let everybody see the catalog."""
        before, after = self._current.collections(), catalog.collections()
        try:
            self.follow(catalog, after - before, frozenset())
        finally:
            self._current = catalog
        self.follow(catalog, frozenset(), before - after)

    def _reread(self) -> None:
        """Follow what is durable, should a caller have been interrupted before it could."""
        kept = self._notes.all()
        version = codec.decode_head(kept[_HEAD]).version
        if version != self._current.version:
            self._publish(_decoded(version, kept))

    def _require_version(self, state: State, version: int) -> None:
        note = self._notes.noted(state, _HEAD)
        found = 0 if note is None else codec.decode_head(note).version
        if found != version:
            raise CatalogChanged(
                "the catalog was changed by another statement",
                hint="Try the statement again.",
            )

    def _released(self, state: State, dropped: Iterable[GlobalId]) -> tuple[list[str], list[Token]]:
        """The notes about capabilities that go with these collections, and the tokens in them."""
        notes, tokens = [], []
        for collection in sorted(dropped):
            key = _HELD + str(collection)
            note = self._notes.noted(state, key)
            if note is not None:
                held = codec.decode_held(note)
                notes.append(key)
                tokens += [Token(token) for token in (held.reader, held.writer) if token]
        return notes, tokens

    def capabilities(
        self, collection: GlobalId
    ) -> tuple[ReadCapability | None, WriteCapability | None]:
        """What the catalog holds for the collection, at the frontiers that it has now."""
        key = _HELD + str(collection)
        note = self._store.read(lambda state: self._notes.noted(state, key))
        held = Held(None, None) if note is None else codec.decode_held(note)
        reader = riders.held(self._store, Token(held.reader)) if held.reader else None
        writer = riders.held(self._store, Token(held.writer)) if held.writer else None
        assert reader is None or isinstance(reader, ReadCapability)
        assert writer is None or isinstance(writer, WriteCapability)
        return reader, writer

    def release_unreferenced(self) -> tuple[GlobalId, ...]:
        """At a start: let go of all users' collections that no object refers to; tells which.

        Whoever maintains something of his own has to have been told before what is not wanted any
        more, since his capabilities go too.
        """
        return self._store.commit(riders.release_all_but(self._current.collections()))


def _held(creation: Creation, given: Capabilities) -> Held:
    reader, writer = given
    return _tokens(reader, writer if creation.keeps_writer else None)


def _tokens(reader: ReadCapability, writer: WriteCapability | None) -> Held:
    """What to remember; a writer's capability at the empty frontier is a useless one."""
    if writer is None or writer.frontier.is_empty:
        return Held(reader.token, None)
    return Held(reader.token, writer.token)


def _text(key: Key) -> str:
    return "/".join(str(part) for part in key)


def _decoded(version: int, kept: Mapping[str, bytes]) -> Catalog:
    objects: list[AnyObject] = []
    memberships: dict[tuple[Oid, Oid], Membership] = {}
    comments: dict[Oid, Comments] = {}
    settings: dict[tuple[Oid, Oid], Settings] = {}
    for text, note in kept.items():
        kind, *numbers = text.split("/")
        match kind, numbers:
            case "object", [_]:
                objects.append(codec.decode_object(note))
            case "member", [role, member]:
                memberships[Oid(int(role)), Oid(int(member))] = codec.decode_membership(note)
            case "comment", [oid]:
                comments[Oid(int(oid))] = codec.decode_comments(note)
            case "setting", [role, database]:
                settings[Oid(int(role)), Oid(int(database))] = codec.decode_settings(note)
            case _:
                assert kind in (_HEAD, "capability"), f"the catalog has no {kind}"
    return catalog_of(version, objects, memberships, comments, settings)
