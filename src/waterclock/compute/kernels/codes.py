"""Numbers that stand for rows, and sums over them.

Equal rows get equal numbers, exactly: by value and never by a hash. Numbers in a narrow range are
counted off in a table as wide as the range, others are sorted; sums are scattered into place. All
of that is several times faster than a hash table that does not fit the processor's caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.consolidate import row_codes
from waterclock.persist.hashing import Hashes, hash_rows

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LIMIT = 2**62
_TELLING = 8
"""Columns tell most rows apart if they have room for so many times as many, and only one in so many
rows agrees with another.
"""


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def numbers(table: pa.Table, name: str) -> Codes:
    """An integer column without nulls."""
    return flat(table[name]).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)  # type: ignore[no-any-return]


def ordinals(values: Codes) -> tuple[Codes, Codes]:
    """Each number's place among the distinct ones, and these in ascending order."""
    if len(values) == 0:
        return values, values
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span <= 4 * len(values) + 1024:
        used = np.zeros(span, dtype=np.bool_)
        used[values - least] = True
        return (np.cumsum(used) - 1)[values - least], np.flatnonzero(used) + least
    order = ascending(values)
    ordered = values[order]
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    places = np.empty_like(values)
    places[order] = np.cumsum(fresh) - 1
    return places, ordered[fresh]


def ascending(values: Codes) -> Codes:
    """The order that sorts the numbers, the first of equal ones first.

    To sort numbers is several times faster than to find the order that sorts them. So where number
    and place fit into 64 bits together, both are sorted as one.
    """
    if len(values) == 0:
        return np.empty(0, dtype=np.int64)
    least = int(values.min())
    bits = len(values).bit_length()
    if int(values.max()) - least >= 1 << (63 - bits):
        return np.argsort(values, kind="stable")
    packed = ((values - least) << bits) | np.arange(len(values))
    packed.sort()
    return packed & ((1 << bits) - 1)


def dense(codes: Codes) -> tuple[Codes, int]:
    """The codes numbered from 0 without gaps, and how many there are."""
    places, distinct = ordinals(codes)
    return places, len(distinct)


def dense_rows(columns: Sequence[pa.Array], length: int) -> tuple[Codes, int]:
    """Equal rows numbered from 0 without gaps, and how many there are.

    Columns that are numbers come first; if they tell all rows apart the others need no look.
    """
    columns = [column for column in columns if column.null_count < length]
    codes, _ = _word_codes(_numbers_among(columns), length)
    codes, count = dense(codes)
    others = [column for column in columns if not is_word(column.type)]
    if others and count < length:
        codes, count = dense(_combined(codes, row_codes(others, length)))
    return codes, count


def equal_rows(columns: Sequence[pa.Array], length: int) -> Codes | None:
    """For each row the place of the first one that equals it; None if no two rows are equal.

    That is much less work than to number the rows where few or none are equal, which is usual. Rows
    of numbers that fit into 64 bits together with their places are sorted as that. Of others it is
    looked for those that agree in as many columns as fit, if these tell most rows apart, or in
    their hashes; and only such rows are compared.
    """
    bits = length.bit_length()
    columns = [column for column in columns if column.null_count < length]
    fitting, width = _fitting(columns, 1 << (63 - bits))
    shared = None
    if len(fitting) == len(columns) or width >= length * _TELLING:
        codes, _ = _word_codes(fitting, length)
        shared, fresh = _neighbours(codes.view(np.uint64) << np.uint64(bits), bits)
        if not len(shared):
            return None
        if len(fitting) == len(columns):
            return _first_of_each(shared, fresh, length)
    if shared is None or len(shared) * _TELLING > length:
        hashed = [column for column in columns if _is_quickly_hashed(column.type)]
        shared, _ = _neighbours(hash_rows(hashed, length), bits)
        if not len(shared):
            return None
    shared.sort()
    codes, count = dense_rows([column.take(pa.array(shared)) for column in columns], len(shared))
    if count == len(shared):
        return None
    places = np.arange(length)
    places[shared] = shared[first_places(codes, count)[codes]]
    return places


def _fitting(columns: Sequence[pa.Array], room: int) -> tuple[list[_Numbers], int]:
    """Columns of numbers whose ranges have that much room together, the widest first, and how much
    of it they need.
    """
    fitting, width = [], 1
    for each in sorted(_numbers_among(columns), key=attrgetter("span"), reverse=True):
        if width * each.span <= room:
            fitting.append(each)
            width *= each.span
    return fitting, width


def _neighbours(keys: Hashes, bits: int) -> tuple[Codes, Mask]:
    """The places of keys that occur several times, equal ones together and in order, and which of
    them are the first of theirs. The lowest `bits` of a key do not count.
    """
    low = np.uint64((1 << bits) - 1)
    packed = (keys & ~low) | np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    same = (packed[1:] ^ packed[:-1]) <= low
    if not same.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    after, before = np.append(False, same), np.append(same, False)
    shared = after | before
    return (packed[shared] & low).view(np.int64), ~after[shared]


def _first_of_each(shared: Codes, fresh: Mask, length: int) -> Codes:
    places = np.arange(length)
    places[shared] = shared[fresh][np.cumsum(fresh) - 1]
    return places


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column of numbers, not all of them null, and the range in which they lie."""

    column: pa.Array
    values: Codes
    least: int
    span: int
    """How many numbers there are from the least value to the greatest, and null as one more."""

    @classmethod
    def of(cls, column: pa.Array) -> _Numbers:
        values = words(column)
        least = int(values.min())
        return cls(column, values, least, int(values.max()) - least + 1 + bool(column.null_count))

    def digits(self) -> tuple[Codes, int]:
        """The values from 0 on, which is null if there are nulls, and what they are below."""
        if self.span > _LIMIT:
            found, count = dense(self.values)
        else:
            found, count = self.values - self.least, self.span - bool(self.column.null_count)
        if not self.column.null_count:
            return found, count
        valid = self.column.is_valid().to_numpy(zero_copy_only=False)
        return np.where(valid, found + 1, 0), count + 1


def _numbers_among(columns: Sequence[pa.Array]) -> list[_Numbers]:
    return [_Numbers.of(column) for column in columns if is_word(column.type)]


def _word_codes(columns: Sequence[_Numbers], length: int) -> tuple[Codes, int]:
    """A number for each row of such columns, from 0 on, and what all of them are below.

    Equal exactly where the rows are. As long as the ranges of the columns have room in 64 bits
    together, a row is just one number written with them as its digits.
    """
    codes, width = np.zeros(length, dtype=np.int64), 1
    for column in columns:
        found, span = column.digits()
        if span == 1:
            continue
        if width > _LIMIT // span:
            (codes, width), (found, span) = dense(codes), dense(found)
        codes = codes * span + found if width > 1 else found
        width *= span
    return codes, width


def _combined(left: Codes, right: Codes) -> Codes:
    """One code for each pair of codes."""
    for_left, for_right = int(left.max(initial=0)) + 1, int(right.max(initial=0)) + 1
    if for_left > _LIMIT // for_right:
        left, _ = dense(left)
        right, _ = dense(right)
        for_right = int(right.max(initial=0)) + 1
    return left * for_right + right


def is_word(kind: pa.DataType) -> bool:
    """Whether values of the type are numbers of at most 64 bits."""
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
    )


def _is_quickly_hashed(kind: pa.DataType) -> bool:
    """Whether values have no others inside."""
    simple = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal128(kind)
    return bool(simple or is_word(kind))


def words(array: pa.Array) -> Codes:
    """Such values as integers that are equal, and ordered, as the values are.

    Minus zero is just below zero, all NaN are one and the greatest. A null may be any number.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        return array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
    if pa.types.is_floating(kind):
        values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    if not pa.types.is_integer(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if array.null_count:
        array = array.fill_null(0)
    return array.to_numpy().astype(np.int64, copy=False)  # type: ignore[no-any-return]


def paired(left: Codes, right: Codes) -> tuple[Codes, int]:
    """One dense code for each pair of codes."""
    return dense(_combined(left, right))


def first_places(codes: Codes, count: int) -> Codes:
    """Where each of the dense codes appears first."""
    firsts = np.empty(count, dtype=np.int64)
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last assignment stays
    return firsts


def sums(codes: Codes, weights: Codes, count: int) -> Codes:
    """The sum of the weights of each of the dense codes, modulo 2^64."""
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, codes, weights)
    return totals


def unique(hashes: Hashes) -> Hashes:
    """The distinct hashes in ascending order."""
    ordered = np.sort(hashes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def spread(starts: Codes, lengths: Codes) -> Codes:
    """The numbers of all the ranges, one range after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)  # type: ignore[no-any-return]
