"""The data of the benchmark at any scale, the same for the same seed.

The rows are those of the load generator; here each table is made whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from waterclock.storage.sources.tpch import rows
from waterclock.storage.sources.tpch.rows import Column, orders, sparse_keys
from waterclock.testing.tpch.tables import TABLES, rows_at

__all__ = ["as_table", "generate", "orders", "sparse_keys"]


def generate(scale: float, seed: int = 1) -> dict[str, pa.Table]:
    """All tables at a scale factor."""
    pick = np.random.default_rng(seed)
    keys = {name: np.arange(1, rows_at(scale, name) + 1) for name in ("supplier", "part")}
    made = rows.fixed()
    made["supplier"] = rows.suppliers(pick, keys["supplier"])
    made["part"] = rows.parts(pick, keys["part"])
    made["partsupp"] = rows.offers(pick, keys["part"], rows_at(scale, "supplier"))
    made["customer"] = rows.customers(pick, np.arange(1, rows_at(scale, "customer") + 1))
    numbers = np.arange(rows_at(scale, "orders"))
    made.update(orders(pick, sparse_keys(numbers), scale))
    return {name: as_table(name, columns) for name, columns in made.items()}


def as_table(name: str, columns: Mapping[str, Column]) -> pa.Table:
    """Columns under their names as a table, with the types they should have."""
    schema = TABLES[name].schema
    return pa.Table.from_arrays(rows.arrays(columns, schema), schema=schema)
