"""What is wrong with keys of an upsert, by the text of the key.

There are few of them, for a source has no value while there is one; so they are held in memory. But
the keys of a binding are many, and the texts of all of them would take long to write. So texts are
written only for keys that have the hash of one that is in error. After a restart there is just the
text of such a key: its values are read back from it, and if that does not give the same text again,
no hash is known, and every key may be meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.hashing import Hashes, hash_rows

Mask = npt.NDArray[np.bool_]
_PREFIX = "key "


class KeyErrors:
    """The message for each key that is in error."""

    def __init__(self, keys: pa.Schema, held: Iterable[tuple[str, str]] = ()) -> None:
        """`keys` has the key's columns."""
        self._messages = dict(held)
        written = [text for text in self._messages if text.startswith(_PREFIX)]
        found = _hashes_of(written, keys)
        self._hashes: set[int] | None = None if found is None else set(found.tolist())
        """Those of the keys in error, and maybe of others; None if they are not known."""

    def __len__(self) -> int:
        return len(self._messages)

    def candidates(self, hashes: Hashes) -> Mask:
        """Which of the keys with these hashes may be in error, of those that have a hash."""
        if not self._messages:
            self._hashes = set()
        if self._hashes is None:
            return np.ones(len(hashes), np.bool_)
        known = np.fromiter(self._hashes, np.uint64, len(self._hashes))
        found: Mask = np.isin(hashes, known)
        return found

    def put(self, text: str, message: str, hash_: int) -> None:
        """The key is in error from now on; it was not."""
        self._messages[text] = message
        if self._hashes is not None:
            self._hashes.add(hash_)

    def pop(self, text: str) -> str | None:
        """The key is in error no longer; what was wrong with it, if anything was."""
        return self._messages.pop(text, None)


def key_text(key: Sequence[Any]) -> str:
    """The values of a key as text, different for different ones."""
    texts = [each.hex() if isinstance(each, bytes) else each for each in key]
    return f"{_PREFIX}{json.dumps(texts, default=str, ensure_ascii=False)}"


def _hashes_of(texts: Sequence[str], keys: pa.Schema) -> Hashes | None:
    """The hashes of the keys with these texts; None if one can not be read back."""
    try:
        rows = [json.loads(text.removeprefix(_PREFIX)) for text in texts]
        columns = [
            _array([row[place] for row in rows], field.type) for place, field in enumerate(keys)
        ]
    except (ValueError, TypeError, IndexError, pa.ArrowException):
        return None
    values = zip(*(column.to_pylist() for column in columns), strict=True)
    if [key_text(row) for row in values] != list(texts):
        return None
    return hash_rows(columns, len(texts))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as `json` has read them, of the type that they were written from."""
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], kind)
    if all(v is None or isinstance(v, str) for v in values):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)
