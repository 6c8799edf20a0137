"""Small durable facts of the layers above, in the same log as everything else.

A layer keeps its facts under keys with a prefix of its own. They are few and small: what must be
known again after a restart, such as which views are maintained. Data goes into shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from waterclock.persist.records import AnyEvent, Noted
from waterclock.persist.state import State
from waterclock.persist.store import Store


class Notes:
    """The notes under one prefix."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def put(self, key: str, note: bytes) -> None:
        """Keep the note, in the place of an older one; durable on return."""
        self.change({key: note})

    def drop(self, key: str) -> None:
        """Keep no note under the key any longer; durable on return."""
        self.change({}, [key])

    def change(self, puts: Mapping[str, bytes], drops: Iterable[str] = ()) -> None:
        """Keep these notes and those others no longer, all of it or nothing; durable on return."""
        events = self.events(puts, drops)

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            del state
            return events, None

        self._store.commit(plan)

    def events(self, puts: Mapping[str, bytes], drops: Iterable[str] = ()) -> list[AnyEvent]:
        """What a plan that also does other things adds in order to change these notes."""
        kept: list[AnyEvent] = [Noted(self._prefix + key, note) for key, note in puts.items()]
        return kept + [Noted(self._prefix + key, None) for key in drops]

    def noted(self, state: State, key: str) -> bytes | None:
        """The note under the key, for a plan that looks before it changes."""
        return state.notes.get(self._prefix + key)

    def all(self) -> dict[str, bytes]:
        """Every note, by key without the prefix."""

        def look(state: State) -> dict[str, bytes]:
            return {k: v for k, v in state.notes.items() if k.startswith(self._prefix)}

        return {k.removeprefix(self._prefix): v for k, v in self._store.read(look).items()}
