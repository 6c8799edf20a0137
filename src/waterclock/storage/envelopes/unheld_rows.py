"""Changes of Debezium that can be read, but for a row that can not be held.

A message that says which row goes and which comes is a change, also if a value of one of these does
not fit its column. Such a row is wrong for as long as it is upstream: it comes with a change and
goes with a later one, which has it as the row before. Both tell it by the same text, so the error
goes as it came.

A message in JSON that can not be decoded as a whole is read once more, with rows of any form; then
each row is decoded by itself. What can not be read even so is no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.storage.formats.api import Decoded, Format
from waterclock.storage.sources.decode_errors import subject_of

UNHELD = pa.struct([("subject", pa.string()), ("message", pa.string())])
"""Which row can not be held, and why: a SQLSTATE, a blank, and what is wrong."""
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of some messages: a struct that is null where there is none, or one that is not held,
    which is told in `unheld`.
    """

    held: pa.Array
    unheld: pa.Array


def read_row(texts: pa.Array, form: Format, kind: pa.DataType, origin: str) -> Row:
    """The rows that are told by these texts in JSON."""
    decoded = form.decode(texts.cast(pa.binary()))
    wrong = decoded.errors.is_valid()
    missing = np.asarray(texts.is_null()) | np.asarray(wrong)
    held = pa.StructArray.from_arrays(
        [column.cast(field.type) for column, field in zip(decoded.columns, kind, strict=True)],
        fields=list(kind),
        mask=pa.array(missing),
    )
    told = [
        None
        if reason is None
        else {
            "subject": subject_of(text),
            "message": f"{form.sqlstate} can not hold a row of {origin}: {reason}",
        }
        for reason, text in zip(decoded.errors.to_pylist(), texts.to_pylist(), strict=True)
    ]
    return Row(held, pa.array(told, UNHELD))


def replaced(array: pa.Array, places: Places, values: pa.Array) -> pa.Array:
    """The array with other values at some places."""
    order = np.arange(len(array))
    order[places] = len(array) + np.arange(len(places))
    return pa.concat_arrays([array, values.cast(array.type)]).take(pa.array(order))


def unreadable(decoded: Decoded) -> Places:
    """The places of messages that can not be decoded."""
    valid = decoded.errors.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(valid)


def with_reasons(held: pa.Array, unheld: pa.Array, errors: pa.Array, kind: pa.DataType) -> pa.Array:
    """Rows with a last column that tells what is wrong with them; for INLINE.

    A row that can not be held, or a message that is no change at all (`errors`), is one of nulls.
    """
    reasons = [
        _reason(None if told is None else told["message"]) or _reason(error)
        for told, error in zip(unheld.to_pylist(), errors.to_pylist(), strict=True)
    ]
    told = pa.array(reasons, pa.string())
    missing = np.asarray(held.is_null()) & np.asarray(told.is_null())
    return pa.StructArray.from_arrays(
        [*held.flatten(), told], fields=list(kind), mask=pa.array(missing)
    )


def _reason(message: str | None) -> str | None:
    return None if message is None else message.partition(" ")[2]


def subjects(unheld: pa.Array) -> Mapping[int, tuple[str, str]]:
    """The rows that can not be held, by their place: subject and message."""
    if unheld.null_count == len(unheld):
        return {}
    return {
        place: (told["subject"], told["message"])
        for place, told in enumerate(unheld.to_pylist())
        if told is not None
    }
