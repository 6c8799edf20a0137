"""That the state of the views is there, and is that of this data.

A view goes on from its state, and to an arrangement a missing run means that nothing happened. So a
folder that was removed, or taken from elsewhere, would not be an error to anybody: views would just
be wrong. Therefore folder and log share a random name, and a server does not start if they differ.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store

PREFIX = "state/"
_VIEWS = "views"
_FILE = "IDENTITY"


class StateMissing(WaterclockError):
    """The folder with the state of the views is gone, or is another one's."""

    sqlstate: ClassVar[str] = "XX001"


def require_state(store: Store, folder: Path) -> None:
    """Raise `StateMissing` unless the folder is the one that the log knows; at first, name it."""
    notes = Notes(store, PREFIX)
    known = notes.all().get(_VIEWS)
    found = _read(folder / _FILE)
    if known is None:
        notes.put(_VIEWS, found or _named(folder))
    elif found != known:
        raise StateMissing(
            f'the state of views in "{folder}" is missing or does not belong to this data',
            detail="Views go on from their state; without it they would be wrong.",
            hint="Put the folder back, or restore the whole data directory from a backup.",
        )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _named(folder: Path) -> bytes:
    """Give the folder a name, durably: the log must not know one that a crash can take away."""
    name = uuid.uuid4().hex.encode()
    folder.mkdir(exist_ok=True)
    with (folder / _FILE).open("wb") as file:
        file.write(name)
        file.flush()
        os.fsync(file.fileno())
    for each in (folder, folder.parent):
        handle = os.open(each, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return name
