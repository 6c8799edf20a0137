"""One answerer for the tests of a file; each test starts from the same catalog."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from waterclock.testing.system_world import IMAGE, World


@pytest.fixture(scope="module")
def _shared_world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def world(_shared_world: World) -> World:
    _shared_world.image = replace(IMAGE, version=_shared_world.image.version + 1)
    return _shared_world
