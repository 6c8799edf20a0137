"""What sources leave upstream when they are dropped, and that it is removed although we may crash.

A source may have made something in the system it reads, such as a replication slot. That can not be
removed in the commit that drops the source: so the commit notes what is to be removed, and the note
goes when that has happened. Notes that are found at a start are carried out then.

What can not be removed because nobody knows any more how to reach the system is given up, and the
log says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from waterclock.errors import WaterclockError
from waterclock.persist.notes import Notes
from waterclock.persist.records import AnyEvent
from waterclock.persist.store import Store
from waterclock.runtime import Event
from waterclock.storage.sources.api import Kinds, SourceDescription, Surroundings
from waterclock.storage.sources.errors import TransientFault

PREFIX = "farewell/"
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_log = logging.getLogger(__name__)


class _Left(msgspec.Struct, frozen=True):
    """A source that is gone: enough to know what it has left."""

    name: str
    kind: str
    definition: bytes


class Farewells:
    """What is to be removed upstream. Thread-safe."""

    def __init__(self, store: Store, kinds: Kinds, surroundings: Surroundings) -> None:
        self._notes = Notes(store, PREFIX)
        self._kinds = kinds
        self._surroundings = surroundings

    def events(self, sources: Iterable[SourceDescription]) -> list[AnyEvent]:
        """What notes that these sources, which are being dropped, leave something."""
        puts = {
            str(each.id): msgspec.msgpack.encode(_Left(each.name, each.kind, each.definition))
            for each in sources
            if self._kinds[each.kind].farewell is not None
        }
        return self._notes.events(puts)

    def of(self, source: SourceDescription) -> Callable[[], None] | None:
        """What removes it, when the source has been dropped; None if there is nothing to remove.

        It is made while the source and its connection exist, and may raise `TransientFault`; then
        it is tried again at the next start.
        """
        left = _Left(source.name, source.kind, source.definition)
        remove = self._removal(left)
        if remove is None:
            return None

        def carried_out() -> None:
            remove()
            self._notes.drop(str(source.id))

        return carried_out

    def _removal(self, left: _Left) -> Callable[[], None] | None:
        kind = self._kinds.get(left.kind)
        prepare = None if kind is None else kind.farewell
        return None if prepare is None else prepare(left.definition, self._surroundings)

    def carry_out(self, closing: Event) -> None:
        """Remove what was left when the server last ended, however long it takes, until closing."""
        waiting = self._notes.all()
        pause_s = _FIRST_PAUSE_S
        while waiting:
            waiting = {key: note for key, note in waiting.items() if not self._is_done(key, note)}
            if not waiting or closing.wait(pause_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _is_done(self, key: str, note: bytes) -> bool:
        """Whether nothing more is to be tried."""
        left = msgspec.msgpack.decode(note, type=_Left)
        try:
            remove = self._removal(left)
            if remove is not None:
                remove()
        except (TransientFault, OSError) as error:
            _log.warning("what source %s left upstream stays for now: %s", left.name, error)
            return False
        except WaterclockError as error:
            _log.warning("what source %s left upstream is not removed: %s", left.name, error)
        self._notes.drop(key)
        return True
