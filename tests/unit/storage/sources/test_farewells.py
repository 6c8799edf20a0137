"""What a dropped source leaves upstream is removed, also if the server dies before it has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from waterclock.persist.notes import Notes
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources import farewells as module
from waterclock.storage.sources.api import Kind, SourceDescription, Surroundings
from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.storage.sources.farewells import PREFIX, Farewells
from waterclock.storage.sources.loop import Ingestions
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, SourceWorld, Upstream


@dataclass
class Slots:
    """A system upstream in which sources leave something, called as their definition says."""

    left: set[bytes] = field(default_factory=set)
    faults: list[Exception] = field(default_factory=list)
    """What goes wrong, in this order, before it works."""

    def kind(self) -> Kind:
        def farewell(definition: bytes, around: Surroundings) -> Callable[[], None]:
            del around

            def remove() -> None:
                if self.faults:
                    raise self.faults.pop(0)
                self.left.discard(definition)

            return remove

        return replace(Upstream({0: ["a"]}).kind(), farewell=farewell)


class Server:
    """Servers on one world, one after the other."""

    def __init__(self, slots: Slots) -> None:
        self.world = SourceWorld()
        self.kinds = {KIND: slots.kind()}
        self.start()

    def start(self) -> None:
        self.loop = Ingestions(
            self.world.storage,
            self.world.store,
            self.kinds,
            Surroundings(lambda: time.time_ns() // 1_000_000),
            self.world.holds.take,
            interval_ms=20,
        )

    def create(self, slots: Slots, name: bytes = b"slot") -> SourceDescription:
        slots.left.add(name)
        made = self.world.create(KIND, name, KAFKA.schema, {OUTPUT: ROWS})
        self.loop.add(made)
        return made

    def die(self) -> None:
        """And let the next one start."""
        self.loop.close()
        self.world.open()
        self.start()

    @property
    def noted(self) -> dict[str, bytes]:
        return Notes(self.world.store, PREFIX).all()


def settled(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)


def test_it_is_removed_and_forgotten() -> None:
    slots = Slots()
    server = Server(slots)
    made = server.create(slots)
    farewell = server.loop.farewell(made.id)
    server.world.store.commit(server.loop.removal([made.id]))
    server.loop.remove(made.id)
    assert list(server.noted) == [str(made.id)]
    assert farewell is not None
    farewell()
    assert not slots.left
    assert not server.noted
    server.loop.close()


def test_a_crash_after_the_drop_leaves_nothing() -> None:
    slots = Slots(faults=[TransientFault("away"), OSError("away")])
    server = Server(slots)
    made = server.create(slots)
    kept = server.create(slots, b"of another source")
    server.world.store.commit(server.loop.removal([made.id]))
    server.loop.remove(made.id)
    server.die()
    settled(lambda: not server.noted)
    assert slots.left == {kept.definition}
    server.loop.close()


def test_a_farewell_that_fails_is_tried_at_the_next_start() -> None:
    slots = Slots(faults=[TransientFault("away")])
    server = Server(slots)
    made = server.create(slots)
    farewell = server.loop.farewell(made.id)
    server.world.store.commit(server.loop.removal([made.id]))
    server.loop.remove(made.id)
    assert farewell is not None
    with pytest.raises(TransientFault):
        farewell()
    assert slots.left
    server.die()
    settled(lambda: not server.noted)
    assert not slots.left
    server.loop.close()


def test_what_can_not_be_reached_any_more_is_given_up() -> None:
    slots = Slots(faults=[InvalidSource("the connection is gone")])
    server = Server(slots)
    made = server.create(slots)
    server.world.store.commit(server.loop.removal([made.id]))
    server.loop.remove(made.id)
    server.die()
    settled(lambda: not server.noted)
    assert slots.left, "and the log says so"
    server.loop.close()


def test_closing_does_not_wait_for_a_system_that_is_away() -> None:
    slots = Slots(faults=[TransientFault("away")] * 10_000)
    server = Server(slots)
    made = server.create(slots)
    server.world.store.commit(server.loop.removal([made.id]))
    closing = threading.Event()
    left = Farewells(server.world.store, server.kinds, Surroundings(lambda: 0))
    thread = threading.Thread(target=left.carry_out, args=(closing,))
    thread.start()
    closing.set()
    thread.join(120)
    assert not thread.is_alive()
    assert server.noted, "the next start tries again"
    server.loop.close()
