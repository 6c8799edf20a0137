"""Many rows of pgoutput taken apart at once, column by column, without looking at one of them.

A row is the number of its columns, then for each of them a letter (`n` for null, `u` for a value
stored elsewhere that has not changed, `t` for text) and, with text, a length and the bytes. So
where a column stands in a row is known when the one before it is; all rows take that step together.

Nothing is trusted: a place outside the buffer or a wrong letter raises `SourceFault`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.storage.sources.postgres.pgoutput import malformed

NULL, UNCHANGED, TEXT = (letter[0] for letter in (b"n", b"u", b"t"))
_PADDING = bytes(8)
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fields:
    """One column of some rows: what kind each value is of, and where its text stands."""

    kinds: Bytes
    starts: Places
    lengths: Places

    def where(self, chosen: npt.NDArray[np.bool_], other: Fields) -> Fields:
        """These fields, and those of the other where chosen."""
        return Fields(
            np.where(chosen, other.kinds, self.kinds),
            np.where(chosen, other.starts, self.starts),
            np.where(chosen, other.lengths, self.lengths),
        )


@dataclass(frozen=True, slots=True)
class Buffer:
    """Messages one after the other; `starts` are where they begin."""

    data: Bytes
    starts: Places

    @classmethod
    def of(cls, messages: Sequence[bytes]) -> Buffer:
        """The padding lets one look at a length that is not there; `walk` then finds that out."""
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        data = np.frombuffer(b"".join([*messages, _PADDING]), np.uint8)
        return cls(data, np.cumsum(sizes) - sizes)

    @property
    def size(self) -> int:
        return len(self.data) - len(_PADDING)

    def bytes_at(self, places: Places) -> Bytes:
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < self.size:
            raise malformed()
        return self.data[places]

    def number_at(self, places: Places, width: int) -> Places:
        """Unsigned numbers, the highest byte first, at places inside the buffer or its padding."""
        found = np.zeros(len(places), np.int64)
        for i in range(width):
            found = found << 8 | self.data[places + i]
        return found

    def walk(self, places: Places, columns: int) -> tuple[list[Fields], Places]:
        """The fields of the rows at these places, all with so many columns, and where they end."""
        self.bytes_at(places)
        if len(places) and not (self.number_at(places, 2) == columns).all():
            raise malformed()
        place = places + 2
        found = []
        for _ in range(columns):
            kinds = self.bytes_at(place)
            is_text = kinds == TEXT
            if not (is_text | (kinds == NULL) | (kinds == UNCHANGED)).all():
                raise malformed()
            lengths = np.where(is_text, self.number_at(place + 1, 4), 0)
            starts = place + 5
            place = np.where(is_text, starts + lengths, place + 1)
            if len(place) and int(place.max()) > self.size:
                raise malformed()
            found.append(Fields(kinds, starts, lengths))
        return found, place

    def texts(self, fields: Fields) -> pa.StringArray:
        """The values as text; null where there is none. All together are shorter than 2 GiB.

        A value that was not sent because it has not changed must have been filled in before.
        """
        if (fields.kinds == UNCHANGED).any():
            raise malformed()
        count = len(fields.starts)
        assert len(self.data) < 2**31, "what is decoded at once is limited"
        _, offsets, data = self._gathered(fields).buffers()
        valid = np.packbits(fields.kinds == TEXT, bitorder="little")
        return pa.StringArray.from_buffers(count, offsets, data, pa.py_buffer(valid))

    def _gathered(self, fields: Fields) -> pa.BinaryArray:
        """The bytes of all values, one behind the other: every second piece of an array whose
        pieces are the values and what lies between them.
        """
        count = len(fields.starts)
        bounds = np.zeros(2 * count + 1, np.int32)
        bounds[0:-1:2] = fields.starts
        bounds[1::2] = fields.starts + fields.lengths
        bounds[2 * count] = bounds[2 * count - 1] if count else 0
        pieces = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        )
        return pieces.take(pa.array(np.arange(0, 2 * count, 2)))
