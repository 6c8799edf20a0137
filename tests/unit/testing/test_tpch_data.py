"""The data of TPC-H and its changes, without Spark."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pyarrow.compute as pc

from waterclock.testing.tpch.duck import DuckTables
from waterclock.testing.tpch.generate import generate
from waterclock.testing.tpch.queries import queries
from waterclock.testing.tpch.refresh import Changes, Refresh, Row, rows_of
from waterclock.testing.tpch.tables import TABLES

SCALE = 0.002


def test_the_same_seed_gives_the_same_data() -> None:
    assert generate(0.0005, 3) == generate(0.0005, 3)
    assert generate(0.0005, 3)["orders"] != generate(0.0005, 4)["orders"]


def test_sizes_follow_the_scale_factor() -> None:
    tables = generate(SCALE)
    sizes = {name: table.num_rows for name, table in tables.items()}
    lines = sizes.pop("lineitem")
    assert sizes == {
        "region": 5,
        "nation": 25,
        "supplier": 20,
        "part": 400,
        "partsupp": 1600,
        "customer": 300,
        "orders": 3000,
    }
    assert 3.5 < lines / 3000 < 4.5


def test_rows_hang_together() -> None:
    tables = generate(SCALE)
    for name, table in tables.items():
        assert table.schema == TABLES[name].schema
        keys = list(zip(*(table[key].to_pylist() for key in TABLES[name].key), strict=True))
        assert len(set(keys)) == len(keys), name
    pairs = set(
        zip(*(tables["partsupp"][c].to_pylist() for c in TABLES["partsupp"].key), strict=True)
    )
    lines = tables["lineitem"]
    supplied = zip(lines["l_partkey"].to_pylist(), lines["l_suppkey"].to_pylist(), strict=True)
    assert set(supplied) <= pairs
    assert pc.min(lines["l_discount"]).as_py() == Decimal("0.00")
    assert pc.max(lines["l_discount"]).as_py() == Decimal("0.10")
    customers = set(tables["orders"]["o_custkey"].to_pylist())
    assert not any(customer % 3 == 0 for customer in customers)


def test_changes_are_of_rows_that_are_there() -> None:
    tables = generate(SCALE)
    refresh, duck = Refresh(tables, SCALE), DuckTables(tables)
    held = {name: Counter(rows_of(table)) for name, table in tables.items()}
    kinds: Counter[str] = Counter()
    for _ in range(40):
        changes = refresh.next()
        duck.apply(changes)
        _apply(held, changes)
        kinds.update(name for name, rows in changes.gone.items() if rows)
    for name, rows in held.items():
        assert set(rows.values()) == {1}, name
        assert rows == Counter(rows_of(duck.table(name))), name
    assert set(kinds) >= {"orders", "lineitem", "customer", "supplier", "part", "partsupp"}
    duck.close()


def _apply(held: dict[str, Counter[Row]], changes: Changes) -> None:
    for side, diff in ((changes.gone, -1), (changes.come, 1)):
        for name, rows in side.items():
            for row in rows:
                held[name][row] += diff
                assert held[name][row] in (0, 1)
                held[name] += Counter()


def test_every_query_has_an_answer() -> None:
    duck = DuckTables(generate(0.01))
    empty = [number for number, sql in queries(0.01).items() if not duck.answer(sql)]
    assert empty == []
    duck.close()
