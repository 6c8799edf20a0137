"""Values of secrets, as they are kept: encrypted with a key that lies beside the data, not in it.

Who has the log or a copy of the blobs has no secret; who has the key file has all of them, so only
its owner may read it. Each value is bound to the id of its secret: put in the place of another one
it does not open. What was sealed is opened for whoever connects to another system, and never shown
to a client.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId

KEY_BYTES = 32
_NONCE_BYTES = 12
_FORM = b"\x01"
"""The first byte of what is sealed; another form would begin with another one."""


class KeyUnusable(WaterclockError):
    """The file with the key of the secrets can not be used."""

    sqlstate: ClassVar[str] = "F0000"


class SecretUnreadable(WaterclockError):
    """The key is not the one that the secret was sealed with."""

    sqlstate: ClassVar[str] = "F0000"


class SecretBox:
    """Seals and opens values with one key. Thread-safe."""

    def __init__(self, key: bytes, random: Callable[[int], bytes] = os.urandom) -> None:
        assert len(key) == KEY_BYTES, "the key has the wrong length"
        self._cipher = AESGCM(key)
        self._random = random

    @classmethod
    def open(cls, path: Path) -> SecretBox:
        """The box of the key in the file, which is made if it is missing.

        Raises `KeyUnusable` if it can not be read or made, holds no key, or others may read it.
        """
        try:
            return cls(_key_in(path))
        except OSError as error:
            raise KeyUnusable(f'could not open key file "{path}": {error.strerror}') from error

    def seal(self, secret: GlobalId, value: bytes) -> bytes:
        """The value in the form that is kept."""
        nonce = self._random(_NONCE_BYTES)
        return _FORM + nonce + self._cipher.encrypt(nonce, value, str(secret).encode())

    def unseal(self, secret: GlobalId, sealed: bytes) -> bytes:
        """The value again; `SecretUnreadable`."""
        nonce, rest = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            if sealed[:1] != _FORM:
                raise InvalidTag
            return self._cipher.decrypt(nonce, rest, str(secret).encode())
        except InvalidTag:
            raise SecretUnreadable(
                f"secret {secret} could not be decrypted",
                detail="It was sealed with another key than the one in the key file.",
                hint="Restore the key file that belongs to the data, or set the secret anew.",
            ) from None

    def __repr__(self) -> str:
        return "SecretBox()"


def _key_in(path: Path) -> bytes:
    with contextlib.suppress(FileExistsError):
        _make(path)
    with open(path, "rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise KeyUnusable(
                f'key file "{path}" can be read by others',
                hint=f"Take their rights away: chmod 600 {path}",
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise KeyUnusable(f'key file "{path}" does not hold a key of {KEY_BYTES} bytes')
    return key


def _make(path: Path) -> None:
    """Write a new key, durably and whole, unless there is a file."""
    if path.exists():
        raise FileExistsError
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(handle, os.urandom(KEY_BYTES))
            os.fsync(handle)
        finally:
            os.close(handle)
        os.link(fresh, path)  # fails if somebody else was first
    finally:
        fresh.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
