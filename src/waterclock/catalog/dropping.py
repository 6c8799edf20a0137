"""DROP: what goes with an object, what stands in its way, and in which order all of it goes.

Parts go with the whole: indexes with their relation, subsources and progress with their source, and
without being asked. Everything else that uses an object stands in its way, unless CASCADE takes it
along. Users go before what they use, so that at no point something uses what is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from graphlib import TopologicalSorter

from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import DependentsExist
from waterclock.catalog.objects import (
    AnyItem,
    AnyOwned,
    Cluster,
    Database,
    Index,
    Item,
    MaterializedView,
    Namespace,
    Oid,
    Role,
    Source,
)

_Running = MaterializedView | Index | Source
_LISTED = 100
"""Dependents that an error names."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a DROP took, users before what they use."""

    everything: tuple[AnyOwned, ...]
    cascaded: tuple[AnyOwned, ...]
    """Those of it that were neither named nor parts of what was: a notice tells about them."""


def drop(
    draft: Draft,
    targets: Sequence[AnyOwned],
    *,
    cascade: bool = False,
    leaves_whole: bool = False,
) -> Dropped:
    """Drop the targets and what goes with them.

    With `leaves_whole` the targets may be parts of what stays: the caller sees to it that it can
    do without them. Raises `DependentsExist`, naming what depends, if something else would have
    to go and `cascade` is not given; also for the system's own schemas and, otherwise, for parts of
    something that stays.
    """
    catalog = draft.catalog
    for target in targets:
        if not leaves_whole:
            _require_droppable(catalog, target, targets)
    reached = _reached(catalog, targets, only_parts=False)
    free = _reached(catalog, targets, only_parts=True)
    in_the_way = reached.keys() - free.keys()
    if in_the_way and not cascade:
        raise _dependents_exist(catalog, targets, reached, in_the_way)
    order = _users_first(catalog, reached.values())
    for found in order:
        draft.remove(found)
    return Dropped(tuple(order), tuple(found for found in order if found.oid in in_the_way))


def _require_droppable(catalog: Catalog, target: AnyOwned, targets: Sequence[AnyOwned]) -> None:
    described = catalog.described(target)
    if isinstance(target, Namespace) and target.database is None:
        raise DependentsExist(
            f"cannot drop {described} because it is required by the database system"
        )
    whole = target.part_of if isinstance(target, Item) else None
    if whole is not None and not any(isinstance(t, Item) and t.id == whole for t in targets):
        needs_it = catalog.described(catalog.item(whole))
        raise DependentsExist(
            f"cannot drop {described} because {needs_it} requires it",
            hint=f"You can drop {needs_it} instead.",
        )


def _dependents_exist(
    catalog: Catalog,
    targets: Sequence[AnyOwned],
    reached: Mapping[Oid, AnyOwned],
    in_the_way: Set[Oid],
) -> DependentsExist:
    lines = [
        f"{catalog.described(dependent)} depends on {catalog.described(found)}"
        for found in reached.values()
        for dependent in _dependents(catalog, found)
        if dependent.oid in in_the_way
    ]
    more = len(lines) - _LISTED
    if more > 0:
        lines[_LISTED:] = [f"and {more} other dependencies"]
    if len(targets) == 1:
        what = f"{catalog.described(targets[0])} because other objects depend on it"
    else:
        what = "desired object(s) because other objects depend on them"
    return DependentsExist(
        f"cannot drop {what}",
        detail="\n".join(lines),
        hint="Use DROP ... CASCADE to drop the dependent objects too.",
    )


def _reached(
    catalog: Catalog, targets: Iterable[AnyOwned], *, only_parts: bool
) -> dict[Oid, AnyOwned]:
    """The targets and what depends on them, directly or not, the nearest first."""
    reached = {target.oid: target for target in targets}
    rest = list(reached.values())
    for found in rest:
        for dependent in _dependents(catalog, found):
            if dependent.oid not in reached and (not only_parts or _is_part(dependent, found)):
                reached[dependent.oid] = dependent
                rest.append(dependent)
    return reached


def _dependents(catalog: Catalog, found: AnyOwned) -> Iterator[AnyItem | Namespace]:
    match found:
        case Database():
            yield from catalog.namespaces(found.oid)
        case Namespace():
            yield from catalog.items(found.oid)
        case Cluster():
            for item in catalog.items():
                if isinstance(item, _Running) and item.cluster == found.oid:
                    yield item
        case _:
            for user in sorted(catalog.users.get(found.id, ())):
                yield catalog.item(user)


def _is_part(dependent: AnyOwned, found: AnyOwned) -> bool:
    """Whether the one comes with the other that it depends on."""
    if not isinstance(dependent, Item) or not isinstance(found, Item):
        return False
    return isinstance(dependent, Index) or dependent.part_of == found.id


def _users_first(catalog: Catalog, found: Iterable[AnyOwned]) -> list[AnyOwned]:
    """The objects in an order in which each comes after all that depend on it."""
    dependents = {each.oid: [d.oid for d in _dependents(catalog, each)] for each in found}
    ordered = TopologicalSorter(dependents).static_order()
    gone = (catalog.objects[oid] for oid in ordered)
    return [each for each in gone if not isinstance(each, Role)]
