"""Choosing among functions of one name, as PostgreSQL does.

First an exact match. Else those that the arguments can be converted to by themselves; of these the
ones with the most exact matches, then those that want preferred types, then those whose categories
fit the arguments that have no type yet, and at last those that take all such arguments in the type
that the others have. What is left must be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.model.pg_types import NUMERIC, PgType, array_of
from waterclock.sql.binding.casting import is_implicit
from waterclock.sql.dialect.types import (
    ANY,
    ANYARRAY,
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    ANYELEMENT,
    ANYNONARRAY,
    POLYMORPHIC,
    UNKNOWN,
    category,
    element_type,
    is_array,
    is_preferred,
)
from waterclock.sql.functions.registry import Function


class Ambiguous(Exception):
    """Several entries fit equally well."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry, with as many argument types as there are arguments."""

    function: Function
    arguments: tuple[PgType, ...]


def choose(entries: Sequence[Function], given: Sequence[PgType]) -> Candidate | None:
    """The entry that a call with arguments of these types means; None if none does."""
    candidates = [found for entry in entries if (found := _expanded(entry, len(given))) is not None]
    for candidate in candidates:
        if all(_is_exact(w, g) for w, g in zip(candidate.arguments, given, strict=True)):
            return candidate
    fitting = [each for each in candidates if _accepts(each, given)]
    if len(fitting) <= 1:
        return fitting[0] if fitting else None
    return _best(fitting, given)


def _expanded(entry: Function, count: int) -> Candidate | None:
    wanted = entry.arguments
    if entry.is_variadic and count >= len(wanted):
        wanted = (*wanted, *(wanted[-1],) * (count - len(wanted)))
    return Candidate(entry, wanted) if len(wanted) == count else None


def _is_exact(wanted: PgType, given: PgType) -> bool:
    return wanted.oid == given.oid


def _accepts(candidate: Candidate, given: Sequence[PgType]) -> bool:
    pairs = list(zip(candidate.arguments, given, strict=True))
    return all(_can_become(g, w) for w, g in pairs) and _are_consistent(pairs)


def _can_become(given: PgType, wanted: PgType) -> bool:
    if given.oid == UNKNOWN.oid or wanted.oid in (ANY.oid, ANYELEMENT.oid, ANYCOMPATIBLE.oid):
        return True
    if wanted.oid in (ANYARRAY.oid, ANYCOMPATIBLEARRAY.oid):
        return is_array(given)
    if wanted.oid == ANYNONARRAY.oid:
        return not is_array(given)
    return is_implicit(given, wanted)


def _are_consistent(pairs: Sequence[tuple[PgType, PgType]]) -> bool:
    """Whether all that must have one type can have it."""
    strict: set[int] = set()
    loose: list[PgType] = []
    for wanted, given in pairs:
        if given.oid == UNKNOWN.oid:
            continue
        match wanted.oid:
            case ANYELEMENT.oid | ANYNONARRAY.oid:
                strict.add(given.oid)
            case ANYARRAY.oid:
                strict.add(element_type(given).oid)
            case ANYCOMPATIBLE.oid:
                loose.append(given)
            case ANYCOMPATIBLEARRAY.oid:
                loose.append(element_type(given))
    compatible = not loose or any(
        all(is_implicit(each, target) for each in loose) for target in loose
    )
    return len(strict) <= 1 and compatible


def _best(candidates: list[Candidate], given: Sequence[PgType]) -> Candidate:
    candidates = _most(candidates, lambda c: _exact_matches(c, given))
    candidates = _most(candidates, lambda c: _preferred_matches(c, given))
    if len(candidates) == 1:
        return candidates[0]
    if not any(each.oid == UNKNOWN.oid for each in given):
        raise Ambiguous
    candidates = _by_category(candidates, given)
    if len(candidates) == 1:
        return candidates[0]
    known = {each.oid for each in given if each.oid != UNKNOWN.oid}
    if len(known) == 1:
        [only] = known
        alike = [PgType(only) if each.oid == UNKNOWN.oid else each for each in given]
        left = [c for c in candidates if _accepts(c, alike)]
        exact = [c for c in left if _exact_matches(c, alike) == len(alike)]
        for chosen in (exact, left):
            if len(chosen) == 1:
                return chosen[0]
    raise Ambiguous


def _most(candidates: list[Candidate], count: object) -> list[Candidate]:
    assert callable(count)
    counts = [count(each) for each in candidates]
    most = max(counts)
    return [each for each, n in zip(candidates, counts, strict=True) if n == most]


def _exact_matches(candidate: Candidate, given: Sequence[PgType]) -> int:
    pairs = zip(candidate.arguments, given, strict=True)
    return sum(1 for wanted, have in pairs if have.oid != UNKNOWN.oid and wanted.oid == have.oid)


def _preferred_matches(candidate: Candidate, given: Sequence[PgType]) -> int:
    pairs = zip(candidate.arguments, given, strict=True)
    return sum(
        1
        for wanted, have in pairs
        if have.oid != UNKNOWN.oid
        and (wanted.oid == have.oid or (wanted.oid not in POLYMORPHIC and is_preferred(wanted)))
    )


def _by_category(candidates: list[Candidate], given: Sequence[PgType]) -> list[Candidate]:
    """Those whose types fit where nothing is known; strings are preferred."""
    for place, have in enumerate(given):
        if have.oid != UNKNOWN.oid:
            continue
        categories = {category(each.arguments[place]) for each in candidates}
        if "S" in categories:
            chosen = "S"
        elif len(categories) == 1:
            [chosen] = categories
        else:
            return candidates
        kept = [each for each in candidates if category(each.arguments[place]) == chosen]
        preferred = [
            each
            for each in kept
            if each.arguments[place].oid not in POLYMORPHIC and is_preferred(each.arguments[place])
        ]
        candidates = preferred or kept or candidates
    return candidates


def _merged(one: PgType | None, other: PgType) -> PgType:
    """What arguments of one type have in common: numerics of different digits keep their own."""
    if one is not None and one.oid == other.oid == NUMERIC.oid and one != other:
        return NUMERIC
    return other


def polymorphic_types(
    candidate: Candidate, given: Sequence[PgType], common: PgType | None
) -> dict[int, PgType]:
    """What each polymorphic type means in this call. `common` is that of the compatible ones."""
    found: dict[int, PgType] = {}
    element: PgType | None = None
    for wanted, have in zip(candidate.arguments, given, strict=True):
        if have.oid == UNKNOWN.oid:
            continue
        if wanted.oid in (ANYELEMENT.oid, ANYNONARRAY.oid):
            element = _merged(element, have)
        elif wanted.oid == ANYARRAY.oid:
            element = _merged(element, element_type(have))
    if element is not None:
        found[ANYELEMENT.oid] = found[ANYNONARRAY.oid] = element
        if not is_array(element):
            found[ANYARRAY.oid] = array_of(element)
    if common is not None:
        found[ANYCOMPATIBLE.oid] = common
        if not is_array(common):
            found[ANYCOMPATIBLEARRAY.oid] = array_of(common)
    return found
