"""What changes of a table mean for its output: TRUNCATE, errors that heal, a table that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pgoutput_bytes import TABLE, insert, relation, transaction, truncate

from waterclock.persist.rows import DIFF
from waterclock.persist.rows import updates as update_rows
from waterclock.storage.sources.api import Changes, Messages, Standing
from waterclock.storage.sources.postgres.decoding import Decoder, Transaction, failed
from waterclock.storage.sources.postgres.envelope import ChangesOfTable
from waterclock.storage.sources.postgres.replication import HEADER

Row = tuple[Any, ...]


def standing(rows: Sequence[Row] = (), errors: Sequence[tuple[str, str]] = ()) -> Standing:
    batch = update_rows(TABLE.rows, [(row, 5, 1) for row in rows])
    return Standing(lambda: iter([batch] if rows else []), lambda: errors)


def opened(given: Standing) -> ChangesOfTable:
    envelope = ChangesOfTable()
    envelope.resume(given)
    return envelope


def decoded(*transactions: Transaction) -> list[Messages]:
    return list(Decoder([TABLE], HEADER).decode(transactions))


def sums(changes: Changes) -> dict[Row, int]:
    found: Counter[Row] = Counter()
    for batch in changes.rows:
        assert batch.schema.names == [*TABLE.rows.names, DIFF]
        for *row, diff in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[tuple(row)] += diff
    if changes.rows:
        pa.Table.from_batches(list(changes.rows))  # all of them have the same form
    return {row: diff for row, diff in found.items() if diff}


def test_rows_pass() -> None:
    messages = decoded(transaction(9, relation(), insert("1", "x", None)))
    assert sums(opened(standing()).changes(messages)) == {(1, "x", None): 1}


def test_truncate_takes_out_what_is_durable_and_what_came_before() -> None:
    messages = decoded(
        transaction(5, relation(), insert("2", "y", "NaN"), insert("3", "z", None)),
        transaction(9, truncate(TABLE.oid), insert("4", "w", None)),
    )
    given = standing([(1, "x", None), (1, "x", None)], [("k", "22003 wrong"), ("k", "22003 wrong")])
    found = opened(given).changes(messages)
    assert sums(found) == {(1, "x", None): -2, (4, "w", None): 1}
    assert [(each.key, each.diff) for each in found.errors] == [("k", -1), ("k", -1)]


def test_what_can_not_be_held_is_beside_the_rows() -> None:
    messages = decoded(transaction(5, relation(), insert("2", "y", "NaN"), insert("3", "z", None)))
    found = opened(standing()).changes(messages)
    assert sums(found) == {(3, "z", None): 1}
    [error] = found.errors
    assert (error.key, error.diff) == ("(2, y, NaN)", 1)


def test_a_failed_table_stays_failed() -> None:
    envelope = opened(standing([(1, "x", None)]))
    rows = decoded(transaction(9, relation(), insert("2", "y", None)))
    found = envelope.changes([*rows, failed(TABLE, "reason")])
    assert not found.rows
    [error] = found.errors
    assert "reason" in error.message
    assert envelope.changes(rows) == Changes()
    assert envelope.failure is not None
    assert "reason" in envelope.failure
    again = opened(standing(errors=[(error.key, error.message)]))
    assert again.changes([*rows, failed(TABLE, "another reason")]) == Changes()
