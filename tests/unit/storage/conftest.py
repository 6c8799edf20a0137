"""Worlds to test Storage in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from waterclock.storage.api import ReadCapability, WriteCapability
from waterclock.testing.storage_world import TABLE, DirectoryWorld, MemoryWorld, World, user


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    """Storage over memory, with a clock moved by hand."""
    world = MemoryWorld()
    yield world
    world.storage.close()


@pytest.fixture(params=["memory", "directory"])
def any_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Storage over memory, and over a directory."""
    world = MemoryWorld() if request.param == "memory" else DirectoryWorld(tmp_path / "data")
    yield world
    world.storage.close()


@pytest.fixture
def table(world: MemoryWorld) -> tuple[ReadCapability, WriteCapability]:
    """The capabilities of a new table, `u1`."""
    return world.storage.create(user(1), TABLE)
