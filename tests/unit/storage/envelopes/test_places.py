"""Where changes stand, told for a whole batch: the same as for each of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from waterclock.storage.envelopes import places as module
from waterclock.storage.envelopes.places import Places, places
from waterclock.storage.envelopes.positions import (
    collection,
    is_snapshot,
    position,
    transaction_name,
)

KIND = pa.struct(
    [
        *((name, pa.string()) for name in ("connector", "snapshot", "sequence", "file", "gtid")),
        *((name, pa.string()) for name in ("db", "schema", "table")),
        *((name, pa.int64()) for name in ("pos", "row")),
    ]
)


def pg(sequence: str | None = '["12","345"]', **more: Any) -> dict[str, Any]:
    whole = {"connector": "postgresql", "sequence": sequence, "schema": "s", "table": "t"}
    return {**dict.fromkeys(field.name for field in KIND), **whole, **more}


ALIKE = [
    (pg(), "u", "7:345"),
    (pg('[null,"9"]', snapshot='"false"'), "c", "8:9"),
    (pg('[null, "9"]', snapshot='"last"'), "r", None),
    (pg(snapshot="true"), "c", None),
    (pg(snapshot="false", table="t.u"), "d", "9:1:2\nx"),
    (pg(snapshot="False"), None, "10"),
]
OTHERS = [
    (None, "c", "1:2"),
    (pg(None), "c", "1:2"),
    (pg('["x","1"]'), "c", "1:2"),
    (pg('["1",2]'), "c", "1:2"),
    (pg(schema=None), "c", "1:2"),
    (pg(table=None), "r", "1:2"),
    (pg(connector="mysql", file="b.000001", pos=4, row=1, db="d"), "u", "x:2"),
]


def check(rows: list[tuple[Any, Any, Any]]) -> None:
    sources, ops, ids = zip(*rows, strict=True)
    arrays = (pa.array(sources, KIND), pa.array(ops, pa.string()), pa.array(ids, pa.string()))
    found: Places = places(*arrays)
    for i, (source, op, identity) in enumerate(rows):
        at = position(source)
        told = [getattr(found, name)[i].as_py() for name in ("transaction", "branch", "place")]
        assert told == ([None] * 3 if at is None else [at.transaction, at.branch, at.place])
        assert found.lane[i].as_py() == (None if at is None else at.lane)
        assert found.name[i].as_py() == transaction_name(source, identity)
        assert found.table[i].as_py() == collection(source)
        assert found.snapshot[i].as_py() == is_snapshot(source, op)


def test_a_batch_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(module, "_one_by_one")  # it is not needed
    check(ALIKE)


@pytest.mark.parametrize("other", OTHERS)
def test_one_of_another_form(other: tuple[Any, Any, Any]) -> None:
    check([*ALIKE, other])


def test_no_changes_at_all() -> None:
    found = places(pa.array([], KIND), pa.array([], pa.string()), pa.array([], pa.string()))
    assert len(found.lane) == len(found.snapshot) == 0
