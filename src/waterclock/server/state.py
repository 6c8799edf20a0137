"""Checks that view state belongs to this log.

What is durable of a view says which files its state is made of, so one that is missing is noticed.
But files of a copy of this data that went its own way, put in their place, have the same names.
Therefore folder and log share a random name, which is a new one after every start: a folder that
was started with another log has another name. Its state is thrown away, and every view computes its
own again from its inputs.

The folder knows the new name before the log does, and the old one until then; so a crash between
the two loses nothing.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from pathlib import Path

from waterclock.persist.blob.files import replace_file
from waterclock.persist.folders import make_folders
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store

PREFIX = "state/"
_VIEWS = "views"
_FILE = "IDENTITY"
_STATE = "state"

_LOG = logging.getLogger(__name__)


def claim_state(store: Store, folder: Path) -> None:
    """Make the folder that of this log; if it was not, there is no state in it afterwards."""
    notes = Notes(store, PREFIX)
    known = notes.all().get(_VIEWS)
    if known is not None and known not in _names(folder / _FILE):
        _LOG.warning(
            'the state of views in "%s" is missing or does not belong to this data;'
            " it is computed again",
            folder,
        )
        shutil.rmtree(folder / _STATE, ignore_errors=True)
    fresh = uuid.uuid4().hex.encode()
    _write(folder, [fresh] if known is None else [known, fresh])
    notes.put(_VIEWS, fresh)


def _names(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split()
    except FileNotFoundError:
        return []


def _write(folder: Path, names: list[bytes]) -> None:
    """Give the folder these names, durably: the log must not know one that a crash can undo."""
    make_folders(folder)
    replace_file(folder / _FILE, b"\n".join(names))
