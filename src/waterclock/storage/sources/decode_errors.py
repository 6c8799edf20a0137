"""What becomes of messages that can not be read: ON DECODE ERROR of CREATE SOURCE.

FAIL makes each an error of its output, which has no value while there is one. SKIP keeps them in a
relation beside the source (`skipped`), with their bytes. INLINE makes each a row whose last column
tells what is wrong; columns that can not be read are null.

Only what can not be decoded is meant. What would make all other rows wrong, such as changes that do
not fit together, is an error of the output whatever was asked for.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pyarrow as pa

ERROR_KEY, ERROR_VALUE = "mz_error_key", "mz_error_value"
"""The bytes of a message that can not be read; both are null in all others."""
UNHELD_BEFORE, UNHELD_AFTER = "mz_unheld_before", "mz_unheld_after"
"""Which row of a change can not be held, and why (`envelopes.unheld_rows`)."""
RAW_FIELDS = (pa.field(ERROR_KEY, pa.binary()), pa.field(ERROR_VALUE, pa.binary()))


class DecodeErrors(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an output has what can not be read; as an error of its own if nothing is said.

    `column` is the column of INLINE. With `keeps_bytes`, messages that can not be read carry their
    bytes (`RAW_FIELDS`), for SKIP.
    """

    column: str | None = None
    keeps_bytes: bool = False


FAIL = DecodeErrors()
_LONG = 500


def raw_columns(errors: pa.Array, key: pa.Array, value: pa.Array) -> list[pa.Array]:
    """The columns of `RAW_FIELDS`, given what is wrong with each message."""
    if errors.null_count == len(errors):
        return [pa.nulls(len(errors), pa.binary())] * 2
    return [_where(errors, key), _where(errors, value)]


def _where(errors: pa.Array, data: pa.Array) -> pa.Array:
    wrong = errors.is_valid().to_pylist()
    kept: list[Any] = [d.as_py() if w else None for w, d in zip(wrong, data, strict=True)]
    return pa.array(kept, pa.binary())


def subject_of(text: str) -> str:
    """Which row is meant, by all of it as text, the same each time that it is seen."""
    if len(text) <= _LONG:
        return text
    return f"{text[:_LONG]}... (sha256 {hashlib.sha256(text.encode()).hexdigest()})"


def reason_of(message: str) -> str:
    """What is wrong, without the SQLSTATE that stands before it."""
    return message.partition(" ")[2]


def reasons(errors: pa.Array) -> pa.Array:
    """The same for a column of messages, some of which are null."""
    if errors.null_count == len(errors):
        return errors
    told = (None if e is None else reason_of(e) for e in errors.to_pylist())
    return pa.array(list(told), pa.string())
