"""Bytes of pgoutput become the right messages, and bytes that are not pgoutput an error."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pgoutput_bytes import (
    COLUMNS,
    OID,
    TABLE,
    UNCHANGED,
    delete,
    insert,
    relation,
    row,
    transaction,
    truncate,
    update,
    update_without_old,
)

from waterclock.persist.numerics import numbers_of
from waterclock.persist.rows import DIFF
from waterclock.storage.sources.api import OFFSET, Messages
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.postgres import decoding as decoding_module
from waterclock.storage.sources.postgres import pgoutput
from waterclock.storage.sources.postgres.decoding import Decoder, Transaction
from waterclock.storage.sources.postgres.envelope import TableFailed, Truncated
from waterclock.storage.sources.postgres.pgoutput import Attribute, Relation
from waterclock.storage.sources.postgres.replication import HEADER
from waterclock.storage.sources.postgres.tuples import Buffer

Change = tuple[tuple[Any, ...], int, int]
"""A row, its offset, and its diff."""


def changes(messages: Iterable[Messages]) -> Counter[tuple[tuple[Any, ...], int]]:
    """The sum of the diffs of each row at each offset."""
    found: Counter[tuple[tuple[Any, ...], int]] = Counter()
    for each in messages:
        assert each.output == "public.t"
        columns = {name: each.batch.column(name).to_pylist() for name in each.batch.schema.names}
        columns["n"] = numbers_of(each.batch.column("n"))
        rows = zip(*(columns[name] for name in ("a", "b", "n")), strict=True)
        for line, offset, diff in zip(rows, columns[OFFSET], columns[DIFF], strict=True):
            found[line, offset] += diff
    return Counter({key: diff for key, diff in found.items() if diff})


def decoded(*transactions: Transaction) -> list[Messages]:
    return list(Decoder([TABLE], HEADER).decode(transactions))


def test_a_relation_is_read() -> None:
    found = pgoutput.relation(relation([("é", 23, -1), ("n", 1700, 655366)]), 0)
    attributes = (Attribute("é", 23, -1), Attribute("n", 1700, 655366))
    assert found == Relation(OID, "public", "t", "f", attributes)


def test_all_kinds_of_changes() -> None:
    found = decoded(
        transaction(100, relation(), insert("1", "x", "1.50"), insert("2", None, None)),
        transaction(
            200,
            update(("1", "x", "1.50"), ("1", "yé", "-2")),
            delete("2", None, None),
            update(("1", "yé", "-2"), ("7", "", "-2")),  # the key changes
        ),
    )
    assert changes(found) == {
        ((1, "x", Decimal("1.5")), 99): 1,
        ((2, None, None), 99): 1,
        ((1, "x", Decimal("1.5")), 199): -1,
        ((2, None, None), 199): -1,
        ((7, "", Decimal(-2)), 199): 1,
    }


def test_what_has_not_changed_is_taken_from_the_row_before() -> None:
    old, new = ("1", "long" * 1000, "1"), ("2", UNCHANGED, "2")
    found = decoded(transaction(9, relation(), update(old, new)))
    assert changes(found) == {((1, old[1], Decimal(1)), 8): -1, ((2, old[1], Decimal(2)), 8): 1}


def test_a_table_that_is_read_twice() -> None:
    """Each edition has its columns, and one may fail without the other."""
    narrow = msgspec.structs.replace(TABLE, columns=TABLE.columns[:1], edition=2)
    decoder = Decoder([TABLE, narrow], HEADER)
    [first, second] = decoder.decode([transaction(9, relation(), insert("1", "x", "2"))])
    assert (first.output, second.output) == ("public.t", "public.t (2)")
    assert first.batch.schema.names == ["a", "b", "n", OFFSET, DIFF]
    assert second.batch.schema.names == ["a", OFFSET, DIFF]
    [lost, other] = decoder.decode([transaction(20, relation(COLUMNS[:2]), insert("3", "y"))])
    assert isinstance(lost, TableFailed)
    assert lost.output == "public.t"
    assert (other.output, other.batch.column("a").to_pylist()) == ("public.t (2)", [3])
    [emptied] = decoder.decode([transaction(30, truncate(OID))])
    assert isinstance(emptied, Truncated)
    assert emptied.output == "public.t (2)"


def test_other_tables_are_left_out() -> None:
    other = relation(COLUMNS[:1], oid=OID + 1)
    found = decoded(transaction(9, other, insert("1", oid=OID + 1), insert("1", oid=OID + 2)))
    assert found == []


def test_columns_in_another_order_and_more_of_them() -> None:
    more = [("new", 25, -1), *COLUMNS[::-1]]
    found = decoded(
        transaction(5, relation(), insert("1", "x", "1")),
        transaction(9, relation(more), insert("!", "2", "y", "2")),
        transaction(12, relation(), insert("3", "z", "3")),
    )
    assert changes(found) == {
        ((1, "x", Decimal(1)), 4): 1,
        ((2, "y", Decimal(2)), 8): 1,
        ((3, "z", Decimal(3)), 11): 1,
    }


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (relation(COLUMNS[:2]), 'column "n" was dropped or renamed'),
        (relation([COLUMNS[0], ("b", 1043, 24), COLUMNS[2]]), 'the type of column "b" was changed'),
        (relation([*COLUMNS[:2], ("n", 1700, 655366)]), 'the type of column "n" was changed'),
        (relation(identity=b"d"), "its REPLICA IDENTITY is not FULL"),
    ],
)
def test_another_form_fails_the_table(form: bytes, reason: str) -> None:
    first = transaction(5, relation(), insert("1", "x", "1"))
    *before, last = decoded(first, transaction(9, form, insert("1", "x")))
    assert changes(before) == {((1, "x", Decimal(1)), 4): 1}
    assert isinstance(last, TableFailed)
    assert last.message.startswith("55000 table public.t can not be followed any more: ")
    assert reason in last.message
    assert last.message.endswith("ALTER SOURCE ... ADD TABLE")


@pytest.mark.parametrize(
    "change", [update_without_old("1", "x", "1"), delete("1", None, None, mark=b"K")]
)
def test_a_change_without_the_row_before_fails_the_table(change: bytes) -> None:
    [failed] = decoded(transaction(9, relation(), change))
    assert isinstance(failed, TableFailed)
    assert "REPLICA IDENTITY" in failed.message


def test_truncate_stands_where_it_happened() -> None:
    found = decoded(
        transaction(5, relation(), insert("1", "x", "1")),
        transaction(9, truncate(OID + 1, OID), insert("2", "y", "2")),
    )
    [place] = [i for i, each in enumerate(found) if isinstance(each, Truncated)]
    assert changes(found[place + 1 :]) == {((2, "y", Decimal(2)), 8): 1}


def test_values_that_can_not_be_held_are_told_with_their_row() -> None:
    found = decoded(
        transaction(
            5, relation(), insert("1", "x", "NaN"), insert("2", "y", "1e"), insert("3", "z", "2")
        ),
        transaction(9, delete("1", "x", "NaN"), insert(None, "no key", "1")),
    )
    told: Counter[tuple[str, str]] = Counter()
    for each in found:
        errors = each.batch.column("mz_error").to_pylist()
        keys = each.batch.column("mz_key").to_pylist()
        for error, key, diff in zip(errors, keys, each.batch.column(DIFF).to_pylist(), strict=True):
            if error is not None:
                told[key, error[:5]] += diff
    assert told == {
        ("(1, x, NaN)", "22003"): 0,
        ("(2, y, 1e)", "22003"): 1,
        ("(NULL, no key, 1)", "23502"): 1,
    }


def test_many_changes_are_the_sum_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_module, "_AT_ONCE_BYTES", 200)
    pick = random.Random(3)
    texts = [None, "", "a", "é", "xyz" * 30]
    held: list[tuple[int, str | None]] = []
    transactions = [transaction(10, relation())]
    for end in range(20, 600, 10):
        messages = []
        for _ in range(pick.randrange(6)):
            if held and pick.random() < 0.6:
                place = pick.randrange(len(held))
                a, b = held[place]
                if pick.random() < 0.5:
                    held.pop(place)
                    messages.append(delete(str(a), b, None))
                    continue
                new = pick.choice(texts)
                held[place] = (a + 1, new)
                messages.append(update((str(a), b, None), (str(a + 1), new, None)))
            else:
                held.append((pick.randrange(1000), pick.choice(texts)))
                messages.append(insert(str(held[-1][0]), held[-1][1], None))
        transactions.append(transaction(end, *messages))
    total: Counter[tuple[Any, ...]] = Counter()
    for (line, _), diff in changes(decoded(*transactions)).items():
        total[line] += diff
    assert +total == Counter((a, b, None) for a, b in held)
    assert not -total


@pytest.mark.parametrize(
    "message",
    [
        b"?",
        insert("1", "x"),  # a column is missing
        insert("1", "x", "1")[:-1],
        insert("1", UNCHANGED, "1"),
        b"I" + OID.to_bytes(4) + b"O" + row(("1", "x", "1")),
        b"I" + OID.to_bytes(4) + b"N" + b"\0\x03zzz",
        update(("1", "x", "1"), ())[:-3],
        b"R\0\0",
        b"T\0\0\0\x09\0",
    ],
)
def test_what_is_not_pgoutput_is_refused(message: bytes) -> None:
    with pytest.raises(SourceFault, match="can not be read"):
        decoded(transaction(9, relation(), message))


def test_an_empty_buffer_is_walked() -> None:
    buffer = Buffer.of([])
    fields, ends = buffer.walk(buffer.starts, 2)
    assert [len(buffer.texts(each)) for each in fields] == [0, 0]
    assert len(ends) == 0
