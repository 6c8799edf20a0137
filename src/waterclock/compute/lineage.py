"""Which view makes a collection, from which others, and what must be empty for it to have a value.

A view that has finished is not maintained any more, but what is wrong with its data stays wrong, so
it is known here for as long as it exists. A view goes by the id of its first output.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from waterclock.model.ids import GlobalId


@dataclass(frozen=True, slots=True)
class Descent:
    """What one view reads and writes, and the collection of its errors."""

    inputs: tuple[GlobalId, ...]
    outputs: tuple[GlobalId, ...]
    errors: GlobalId


class Lineage:
    """The descent of all views of one server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descents: Mapping[GlobalId, Descent] = {}
        self._made_by: Mapping[GlobalId, GlobalId] = {}
        """Output -> its view. Both are replaced, never changed, so readers need no lock."""

    def add(
        self,
        view: GlobalId,
        inputs: Sequence[GlobalId],
        outputs: Sequence[GlobalId],
        errors: GlobalId,
    ) -> None:
        """The view exists; if it was known already, this is how it is now."""
        with self._lock:
            self._descents = {
                **self._descents,
                view: Descent(tuple(inputs), tuple(outputs), errors),
            }
            self._made_by = {**self._made_by, **dict.fromkeys(outputs, view)}

    def remove(self, view: GlobalId) -> None:
        """The view does not exist any more; nothing happens if it is not known."""
        with self._lock:
            self._descents = {k: v for k, v in self._descents.items() if k != view}
            self._made_by = {k: v for k, v in self._made_by.items() if v != view}

    def __contains__(self, view: GlobalId) -> bool:
        return view in self._descents

    def view_of(self, output: GlobalId) -> GlobalId:
        """The view that makes the collection; `KeyError` if none does."""
        return self._made_by[output]

    def behind(self, view: GlobalId) -> frozenset[GlobalId]:
        """All collections that the view is made from, on however long a way."""
        found: set[GlobalId] = set()
        rest = [view]
        while rest:
            descent = self._descents.get(rest.pop())
            for each in () if descent is None else descent.inputs:
                if each not in found:
                    found.add(each)
                    rest += [self._made_by[each]] if each in self._made_by else []
        return frozenset(found)

    def errors_of(self, collection: GlobalId) -> tuple[GlobalId, ...]:
        """The collections that must be empty at a time for this one to have a value then."""
        return tuple(self._errors_behind(collection, set()))

    def _errors_behind(self, collection: GlobalId, seen: set[GlobalId]) -> Iterator[GlobalId]:
        """Those of the view itself come first. There may be many ways to one view, one is gone."""
        view = self._made_by.get(collection)
        descent = None if view is None or view in seen else self._descents.get(view)
        if view is not None and descent is not None:
            seen.add(view)
            yield descent.errors
            for each in descent.inputs:
                yield from self._errors_behind(each, seen)
