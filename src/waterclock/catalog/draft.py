"""A catalog being changed, and the numbers it gives to what is new.

A draft begins as a copy and stays private until it is committed (`durable.DurableCatalog.commit`);
giving it up leaves no trace. It remembers what differs from its beginning, by the keys under which
the differences become durable. Here are the primitive changes only; whether a statement may make
them is decided in `items`, `dropping`, `roles` and `grants`.

Numbers are handed out in order and never twice, not even those of drafts that were given up: a
collection may have been made in storage under one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from waterclock.catalog.catalog import NOWHERE, Catalog, place_of
from waterclock.catalog.errors import (
    DuplicateDatabase,
    DuplicateObject,
    DuplicateRelation,
    DuplicateSchema,
    OutOfNumbers,
)
from waterclock.catalog.names import check_name
from waterclock.catalog.objects import (
    AnyItem,
    AnyObject,
    Comments,
    Database,
    Index,
    Item,
    Membership,
    Namespace,
    Oid,
    Relation,
    Settings,
    SourceProgress,
    Subsource,
)
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId

FIRST_OID = 20_000
"""Of users' objects. Clients take numbers from 16384 on for those; the first of them are types of
ours."""
_LAST_OID = 2**32 - 1

Key = tuple[str, int] | tuple[str, int, int]
Kept = AnyObject | Membership | Comments | Settings


class Numbers:
    """Gives out OIDs and ids of users' items. Thread-safe."""

    def __init__(self, next_oid: int = FIRST_OID, next_id: int = 1) -> None:
        self._next_oid = next_oid
        self._next_id = next_id
        self._lock = threading.Lock()

    def oid(self) -> Oid:
        with self._lock:
            if self._next_oid > _LAST_OID:
                raise OutOfNumbers("all object numbers have been used")
            self._next_oid += 1
            return Oid(self._next_oid - 1)

    def id(self) -> GlobalId:
        with self._lock:
            self._next_id += 1
            return GlobalId.user(self._next_id - 1)

    def peek(self) -> tuple[int, int]:
        """The next OID and the next number of an id; all before them are taken."""
        with self._lock:
            return self._next_oid, self._next_id


@dataclass(frozen=True, slots=True)
class Changes:
    """How a draft differs from its beginning."""

    puts: Mapping[Key, Kept]
    drops: frozenset[Key]
    dropped_collections: frozenset[GlobalId]
    """Ids of items, and of their further collections, that are no longer there."""


class Draft:
    """The next catalog. Not thread-safe: one statement writes it."""

    def __init__(self, base: Catalog, numbers: Numbers) -> None:
        self.base = base
        self.numbers = numbers
        self._is_open = True
        self._objects = dict(base.objects)
        self._memberships = dict(base.memberships)
        self._comments = dict(base.comments)
        self._settings = dict(base.settings)
        self._places = dict(base.places)
        self._oids = dict(base.oids)
        self._users = dict(base.users)
        self.catalog = replace(
            base,
            version=base.version + 1,
            objects=self._objects,
            memberships=self._memberships,
            comments=self._comments,
            settings=self._settings,
            places=self._places,
            oids=self._oids,
            users=self._users,
        )
        """The catalog as it is so far. It is a value only once the draft is finished."""

    # Objects

    def add(self, new: AnyObject) -> None:
        """Put a new object in its place. Raises if its name is taken or reserved."""
        assert new.oid not in self._objects, f"object {new.oid} exists"
        check_name(new.kind, new.name)
        self.adopt(new)

    def adopt(self, new: AnyObject) -> None:
        """`add` without a look at whether the name is reserved: for what is built in."""
        assert self._is_open, "a committed draft is a value"
        place = place_of(new)
        if place in self._places:
            raise self._duplicate(new)
        self._places[place] = new.oid
        self._objects[new.oid] = new
        if isinstance(new, Item):
            self._link(new)

    def change(self, old: AnyObject, new: AnyObject) -> None:
        """Put another version in the place of an object.

        Its OID stays. An item that nothing uses may get another id: then it is another thing.
        """
        assert self._is_open, "a committed draft is a value"
        assert self._objects[new.oid] is old, f"{old!r} is not what is there"
        if (place := place_of(new)) != place_of(old):
            check_name(new.kind, new.name)
            if place in self._places:
                raise self._duplicate(new)
            del self._places[place_of(old)]
            self._places[place] = new.oid
        if isinstance(old, Item) and isinstance(new, Item):
            assert old.id == new.id or not self._users.get(old.id), f"{old!r} is in use"
            self._unlink(old)
            self._link(new)
        self._objects[new.oid] = new

    def supersede(self, old: AnyItem, new: AnyItem, former: AnyItem) -> None:
        """Give an item another id; `former`, a part of it, takes over the old one.

        Whatever was made over the item keeps its meaning, so it uses `former` from now on; the
        item's own parts go with it.
        """
        assert self._is_open, "a committed draft is a value"
        assert place_of(new) == place_of(old), "it has its name"
        assert (former.id, former.part_of, new.oid) == (old.id, new.id, old.oid)
        self._unlink(old)
        self._objects[new.oid] = new
        self._link(new)
        for user in sorted(self._users.get(old.id, ())):
            part = self._objects[self._oids[user]]
            if isinstance(part, Subsource | SourceProgress):
                self.change(part, msgspec.structs.replace(part, source=new.id))
        self.add(former)

    def remove(self, old: AnyObject) -> None:
        """Forget the object and what is said about it. Nothing may use it any more."""
        assert self._is_open, "a committed draft is a value"
        assert not isinstance(old, Item) or not self._users.get(old.id), f"{old!r} is in use"
        del self._places[place_of(old)]
        del self._objects[old.oid]
        self._comments.pop(old.oid, None)
        if isinstance(old, Item):
            self._unlink(old)
        for key in [key for key in self._settings if old.oid in key]:
            del self._settings[key]
        for pair in [pair for pair in self._memberships if old.oid in pair]:
            del self._memberships[pair]

    def _link(self, item: AnyItem) -> None:
        self._oids[item.id] = item.oid
        for used in item.uses:
            assert used in self._oids, f"{item!r} uses {used}, which does not exist"
            self._users[used] = self._users.get(used, frozenset()) | {item.id}

    def _unlink(self, item: AnyItem) -> None:
        del self._oids[item.id]
        for used in item.uses:
            rest = self._users.pop(used) - {item.id}
            if rest:
                self._users[used] = rest

    def _duplicate(self, new: AnyObject) -> WaterclockError:
        holder = self._objects[self._places[place_of(new)]]
        match holder:
            case Namespace():
                return DuplicateSchema(f'schema "{new.name}" already exists')
            case Database():
                return DuplicateDatabase(f'database "{new.name}" already exists')
            case Relation() | Index():
                return DuplicateRelation(f'relation "{new.name}" already exists')
            case _:
                return DuplicateObject(f'{holder.kind} "{new.name}" already exists')

    # What is said about objects

    def set_membership(self, membership: Membership) -> None:
        assert self._is_open, "a committed draft is a value"
        self._memberships[membership.role, membership.member] = membership

    def remove_membership(self, membership: Membership) -> None:
        assert self._is_open, "a committed draft is a value"
        del self._memberships[membership.role, membership.member]

    def comment(self, about: Oid, text: str | None, column: int = 0) -> None:
        """Say something about an object or its column, from 1; None says nothing any more."""
        assert self._is_open, "a committed draft is a value"
        assert about in self._objects
        known = self._comments.get(about)
        texts = {} if known is None else {n: t for n, t in known.texts.items() if n != column}
        if text is not None:
            texts[column] = text
        self._comments.pop(about, None)
        if texts:
            self._comments[about] = Comments(texts)

    def set_setting(
        self, name: str, value: str | None, *, role: Oid = NOWHERE, database: Oid = NOWHERE
    ) -> None:
        """Let sessions begin with the value; None takes it back. `NOWHERE` means all."""
        assert self._is_open, "a committed draft is a value"
        known = self._settings.get((role, database))
        values = {} if known is None else {n: v for n, v in known.values.items() if n != name}
        if value is not None:
            values[name] = value
        self._settings.pop((role, database), None)
        if values:
            self._settings[role, database] = Settings(values)

    def reset_settings(self, *, role: Oid = NOWHERE, database: Oid = NOWHERE) -> None:
        """Take back all values of exactly that role and database."""
        assert self._is_open, "a committed draft is a value"
        self._settings.pop((role, database), None)

    # The outcome

    def seal(self) -> None:
        """Allow no further change: the catalog has become a value that others see."""
        self._is_open = False

    def changes(self) -> Changes:
        """What has to become durable so that this catalog takes the place of its beginning."""
        before, after = records(self.base), records(self.catalog)
        return Changes(
            {key: kept for key, kept in after.items() if before.get(key) is not kept},
            frozenset(before.keys() - after.keys()),
            frozenset(self.base.collections() - self.catalog.collections()),
        )


def records(catalog: Catalog) -> dict[Key, Kept]:
    """Everything durable of a catalog, by key."""
    kept: dict[Key, Kept] = {("object", oid): found for oid, found in catalog.objects.items()}
    for (role, member), membership in catalog.memberships.items():
        kept["member", role, member] = membership
    for oid, comments in catalog.comments.items():
        kept["comment", oid] = comments
    for (of_role, database), settings in catalog.settings.items():
        kept["setting", of_role, database] = settings
    return kept
