"""The catalog at one moment: an immutable value with every way of looking things up.

`objects`, `memberships`, `comments` and `settings` are what is durable. `places`, `oids` and
`users` follow from them and are kept beside them, so that a look-up costs the same however much
there is.

A catalog that is shared never changes; `draft.Draft` makes the next one. This module does not know
what a statement may do, only what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, assert_never

from waterclock.catalog.errors import (
    UnknownDatabase,
    UnknownObject,
    UnknownRelation,
    UnknownSchema,
    WrongKind,
)
from waterclock.catalog.names import Name, Scope
from waterclock.catalog.objects import (
    AnyItem,
    AnyObject,
    AnyRelation,
    Cluster,
    Comments,
    Database,
    Item,
    Membership,
    Namespace,
    Oid,
    Relation,
    Role,
    Settings,
)
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId

T = TypeVar("T")

NOWHERE = Oid(0)
"""What stands for the place of objects that are in no other, and for "all" in settings."""


class Place(NamedTuple):
    """Where a name is unique: among things of one sort inside one object.

    A tuple, because it is what every look-up hashes.
    """

    sort: str
    inside: Oid
    name: str


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that exists after the `version`-th change."""

    version: int = 0
    objects: Mapping[Oid, AnyObject] = field(default_factory=dict)
    memberships: Mapping[tuple[Oid, Oid], Membership] = field(default_factory=dict)
    """By role and member."""
    comments: Mapping[Oid, Comments] = field(default_factory=dict)
    settings: Mapping[tuple[Oid, Oid], Settings] = field(default_factory=dict)
    """By role and database, either of which may be `NOWHERE`: then they are for all."""
    places: Mapping[Place, Oid] = field(default_factory=dict)
    oids: Mapping[GlobalId, Oid] = field(default_factory=dict)
    users: Mapping[GlobalId, frozenset[GlobalId]] = field(default_factory=dict)
    """What directly uses each item."""

    # By number

    def get(self, oid: Oid, kind: type[T]) -> T:
        """The object of that OID, which is known to exist and to be of that kind."""
        found = self.objects[oid]
        assert isinstance(found, kind), f"object {oid} is a {found.kind}"
        return found

    def item(self, collection: GlobalId) -> AnyItem:
        """The item of that id, which is known to exist."""
        found = self.try_item(collection)
        assert found is not None, f"item {collection} does not exist"
        return found

    def try_item(self, collection: GlobalId) -> AnyItem | None:
        """The item of that id; None once it is dropped."""
        oid = self.oids.get(collection)
        found = None if oid is None else self.objects[oid]
        assert found is None or isinstance(found, Item)
        return found

    # By name

    def try_database(self, name: str) -> Database | None:
        return self._at(Place("database", NOWHERE, name), Database)

    def database(self, name: str) -> Database:
        found = self.try_database(name)
        if found is None:
            raise UnknownDatabase(f'database "{name}" does not exist')
        return found

    def try_role(self, name: str) -> Role | None:
        return self._at(Place("role", NOWHERE, name), Role)

    def role(self, name: str) -> Role:
        found = self.try_role(name)
        if found is None:
            raise UnknownObject(f'role "{name}" does not exist')
        return found

    def try_cluster(self, name: str) -> Cluster | None:
        return self._at(Place("cluster", NOWHERE, name), Cluster)

    def cluster(self, name: str) -> Cluster:
        found = self.try_cluster(name)
        if found is None:
            raise UnknownObject(f'cluster "{name}" does not exist')
        return found

    def try_namespace(self, database: str, name: str) -> Namespace | None:
        """The schema as seen from the database: its own, or one that all of them see."""
        shared = self._at(Place("schema", NOWHERE, name), Namespace)
        if shared is not None:
            return shared
        return self._at(Place("schema", self.database(database).oid, name), Namespace)

    def namespace(self, database: str, name: str) -> Namespace:
        found = self.try_namespace(database, name)
        if found is None:
            raise UnknownSchema(f'schema "{name}" does not exist')
        return found

    def searched(self, scope: Scope) -> tuple[Namespace, ...]:
        """The schemas that exist among those where an unqualified name is looked for, in order."""
        names = dict.fromkeys(scope.searched_schemas)
        found = (self.try_namespace(scope.database, name) for name in names)
        return tuple(namespace for namespace in found if namespace is not None)

    def target(self, name: Name, scope: Scope) -> Namespace:
        """The schema in which something of that name would be created."""
        if name.schema is not None:
            return self.namespace(name.database or scope.database, name.schema)
        for namespace in self.written(scope):
            return namespace
        raise UnknownSchema("no schema has been selected to create in")

    def written(self, scope: Scope) -> tuple[Namespace, ...]:
        """The schemas of the search path that exist, in order."""
        found = (self.try_namespace(scope.database, name) for name in scope.written_schemas)
        return tuple(namespace for namespace in found if namespace is not None)

    def find(self, name: Name, scope: Scope) -> AnyItem | None:
        """What the name means here and now; None if nothing. `UnknownSchema`, `UnknownDatabase`."""
        if name.schema is not None:
            searched = [self.namespace(name.database or scope.database, name.schema)]
        else:
            searched = list(self.searched(scope))
        for namespace in searched:
            oid = self.places.get(Place("item", namespace.oid, name.item))
            if oid is not None:
                found = self.objects[oid]
                assert isinstance(found, Item)
                return found
        return None

    def relation(self, name: Name, scope: Scope) -> AnyRelation:
        """What can be read under the name. Raises `UnknownRelation`, `WrongKind`."""
        found = self.find(name, scope)
        if found is None:
            raise UnknownRelation(f'relation "{name}" does not exist')
        if not isinstance(found, Relation):
            raise WrongKind(f'"{found.name}" is {article(found.kind)}, which can not be read')
        return found

    def named(self, kind: type[T], name: Name, scope: Scope) -> T:
        """The item of that kind, as a statement about such items names it.

        Raises `WrongKind`, or the error of a missing item of the kind.
        """
        wanted = _kind_of(kind)
        found = self.find(name, scope)
        if found is None:
            raise missing(wanted, str(name))
        if not isinstance(found, kind):
            raise WrongKind(
                f'"{found.name}" is not {article(wanted)}', detail=f"It is {article(found.kind)}."
            )
        return found

    def _at(self, place: Place, kind: type[T]) -> T | None:
        oid = self.places.get(place)
        return None if oid is None else self.get(oid, kind)

    # By relation to others

    def items(self, namespace: Oid | None = None) -> Iterator[AnyItem]:
        """All items, or those of one schema, in the order in which they were made."""
        for found in self.objects.values():
            if isinstance(found, Item) and namespace in (None, found.namespace):
                yield found

    def namespaces(self, database: Oid) -> Iterator[Namespace]:
        """The database's own schemas."""
        for found in self.objects.values():
            if isinstance(found, Namespace) and found.database == database:
                yield found

    def collections(self) -> Set[GlobalId]:
        """Every id that a collection in storage may have because something here refers to it."""
        kept = set(self.oids)
        for item in self.items():
            kept.update(item.collections)
        return kept

    def described(self, found: AnyObject) -> str:
        """The object as messages name it, with its schema unless that is `public`."""
        if isinstance(found, Item):
            schema = self.get(found.namespace, Namespace)
            if schema.name != "public":
                return f"{found.kind} {schema.name}.{found.name}"
        return f"{found.kind} {found.name}"

    def settings_for(self, role: Oid, database: Oid) -> dict[str, str]:
        """What a session of the role in the database begins with; the more specific counts."""
        found: dict[str, str] = {}
        for key in ((NOWHERE, NOWHERE), (NOWHERE, database), (role, NOWHERE), (role, database)):
            if key in self.settings:
                found |= self.settings[key].values
        return found


def catalog_of(
    version: int,
    objects: Iterable[AnyObject],
    memberships: Mapping[tuple[Oid, Oid], Membership],
    comments: Mapping[Oid, Comments],
    settings: Mapping[tuple[Oid, Oid], Settings],
) -> Catalog:
    """The catalog with these contents, and with what follows from them."""
    ordered = {found.oid: found for found in sorted(objects, key=lambda found: found.oid)}
    users: dict[GlobalId, frozenset[GlobalId]] = {}
    for item in [found for found in ordered.values() if isinstance(found, Item)]:
        for used in item.uses:
            users[used] = users.get(used, frozenset()) | {item.id}
    return Catalog(
        version,
        ordered,
        memberships,
        comments,
        settings,
        {place_of(found): found.oid for found in ordered.values()},
        {found.id: found.oid for found in ordered.values() if isinstance(found, Item)},
        users,
    )


def place_of(found: AnyObject) -> Place:
    """Where the object's name has to be unique."""
    match found:
        case Database() | Role() | Cluster():
            return Place(found.kind, NOWHERE, found.name)
        case Namespace():
            return Place("schema", found.database or NOWHERE, found.name)
        case Item():
            return Place("item", found.namespace, found.name)
        case _:
            assert_never(found)


def missing(kind: str, name: str) -> WaterclockError:
    """The error for a name that nothing of the kind has."""
    text = f'{kind} "{name}" does not exist'
    if kind in ("table", "view", "materialized view", "source"):
        return UnknownRelation(text)
    return UnknownObject(text)


def article(kind: str) -> str:
    """The kind with its article."""
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _kind_of(kind: type[Any]) -> str:
    assert issubclass(kind, Item)
    return kind.kind
