"""The data of a server: its directory, locked and recovered, and the thread that looks after it."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

from waterclock.catalog.durable import DurableCatalog
from waterclock.catalog.objects import Role
from waterclock.persist.directory import DataDirectory
from waterclock.persist.lock import DirectoryLock
from waterclock.persist.places import HERE, Places
from waterclock.persist.store import Store
from waterclock.storage.background import Background
from waterclock.storage.controller import Storage


class Data:
    """A data directory, locked, recovered and looked after."""

    def __init__(
        self, path: Path, places: Places = HERE, lock: DirectoryLock | None = None
    ) -> None:
        """Raises `DataInUse` if another server has it, and whatever recovery finds wrong.

        A lock that the caller has is taken over.
        """
        self.path = path
        self._directory = DataDirectory(path, places, lock)
        try:
            owner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"
            blob, consensus = self._directory.blob, self._directory.consensus
            self.store = Store.open(blob, consensus, owner, scratch=self._directory.scratch)
        except BaseException:
            self._directory.consensus.close()
            self._directory.release()
            raise
        self.storage = Storage(self.store)
        self._background = Background(
            self.storage.maintain, lambda: self.store.has_failed, self.store.runtime
        )
        self._is_open = True

    def has_password(self) -> bool:
        """Whether somebody could prove who he is: a role that may log in has a password."""
        objects = DurableCatalog(self.store).current.objects.values()
        return any(isinstance(o, Role) and o.login and o.verifier is not None for o in objects)

    def close(self) -> None:
        """Finish what was asked and let others in. Idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        self._background.stop()
        self.storage.close()
        self._directory.release()
