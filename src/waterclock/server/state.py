"""Checks that the state of views and sources belongs to this log.

What is durable of a view or a source says which files its state is made of, so one that is missing
is noticed. But files of a copy of this data that went its own way, put in their place, have the
same names. Therefore folder and log share a random name, which is a new one after every start: a
folder that was started with another log has another name. Its state is thrown away, and made again:
every view computes its own from its inputs, and a source makes its own of its contents.

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
_FILE = "IDENTITY"
_STATE = "state"

_LOG = logging.getLogger(__name__)


def claim_state(store: Store, folder: Path) -> None:
    """Make the folder that of this log; if it was not, there is no state in it afterwards.

    The log knows it by the last part of its path.
    """
    notes = Notes(store, PREFIX)
    known = notes.all().get(folder.name)
    if known is not None and known not in _names(folder / _FILE):
        _LOG.warning(
            'the state in "%s" is missing or does not belong to this data; it is made again',
            folder,
        )
        shutil.rmtree(folder / _STATE, ignore_errors=True)
    fresh = uuid.uuid4().hex.encode()
    _write(folder, [fresh] if known is None else [known, fresh])
    notes.put(folder.name, fresh)


def _names(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split()
    except FileNotFoundError:
        return []


def _write(folder: Path, names: list[bytes]) -> None:
    """Give the folder these names, durably: the log must not know one that a crash can undo."""
    make_folders(folder)
    replace_file(folder / _FILE, b"\n".join(names))
