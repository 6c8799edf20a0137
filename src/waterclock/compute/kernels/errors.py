"""Errors as data: what is wrong with a group, from when on, and when it heals.

A kernel never raises because of what is in the data. It gives a second small collection of updates
beside its output: the key of the group as text, what is wrong, the time, and +1 when that begins to
hold or -1 when it ceases to. Whoever reads the output at a time at which some error holds reports
the error in place of an answer; the output itself leaves out what could not be computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes
from waterclock.compute.kernels.groups import Slots
from waterclock.persist.rows import DIFF, TIME

ERROR_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field(TIME, pa.int64(), nullable=False),
        pa.field(DIFF, pa.int64(), nullable=False),
    ]
)

NEGATIVE = "collection holds some row a negative number of times"

NO_ERRORS = ERROR_SCHEMA.empty_table()
_ENDLESS = (2**63 - 1, -(2**63), 2**31 - 1, -(2**31))
"""What stands for the infinite moments and days."""


def error_updates(
    keys: Sequence[pa.Array], slots: Slots, status: Codes, messages: Sequence[str]
) -> pa.Table:
    """The errors' changes, given for each slot the number of the message that holds, or 0.

    `keys` has the key of each group. Message 1 is the first of `messages`.
    """
    if not status.any():
        return NO_ERRORS
    later = slots.later
    later = later[status[later] != status[later - 1]]
    ceased, begun = later[status[later - 1] != 0], later[status[later] != 0]
    number = np.concatenate((status[ceased - 1], status[begun]))
    slot = np.concatenate((ceased, begun))
    texts = pa.array(messages, pa.string())
    return pa.Table.from_arrays(
        [
            _rendered(keys, slots.group[slot]),
            texts.take(pa.array(number - 1)),
            pa.array(slots.time[slot]),
            pa.array(np.repeat((-1, 1), (len(ceased), len(begun))), pa.int64()),
        ],
        schema=ERROR_SCHEMA,
    )


def _rendered(keys: Sequence[pa.Array], group: Codes) -> pa.Array:
    """The keys of some groups as text. A loop over rows, but only over those in error."""
    texts = [list(map(value_text, column.take(pa.array(group)))) for column in keys]
    rows = zip(*texts, strict=True) if texts else [()] * len(group)
    return pa.array([f"({', '.join(row)})" for row in rows], pa.string())


def value_text(value: pa.Scalar) -> str:
    """A value as a person reads it, also where Python has none for it, such as infinity."""
    if not value.is_valid:
        return "null"
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        pass
    if pa.types.is_nested(value.type):
        return "..."
    if value.value in _ENDLESS:
        return "infinity" if value.value > 0 else "-infinity"
    text: str = value.cast(pa.string()).as_py()
    return text
