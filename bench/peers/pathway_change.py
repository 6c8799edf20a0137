"""A large change through a join and an aggregate, in Pathway; run by `steps.py`, not by itself.

    python pathway_change.py ROWS

Runs in an environment that has Pathway and nothing of ours. Prints the seconds from rows in memory
to the new totals, and the totals' sum, so that the caller can tell whether they are right.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
import pathway as pw

CUSTOMERS = 100_000
NATIONS = 25


def main() -> None:
    rows = int(sys.argv[1])
    random = np.random.default_rng(7)
    customer_ids = np.arange(CUSTOMERS)
    customers = pd.DataFrame(
        {"customer_id": customer_ids, "nation_id": customer_ids % NATIONS, "__time__": 2}
    )
    orders = pd.DataFrame(
        {
            "order_id": np.arange(rows),
            "customer_id": random.integers(0, CUSTOMERS, rows),
            "amount": random.integers(1, 1000, rows),
            "__time__": 4,
        }
    )
    expected = int(orders["amount"].sum()) * 2
    began = time.perf_counter()
    o = pw.debug.table_from_pandas(orders)
    c = pw.debug.table_from_pandas(customers)
    joined = o.join(c, o.customer_id == c.customer_id).select(c.nation_id, o.amount)
    totals = joined.groupby(joined.nation_id).reduce(
        joined.nation_id, orders=pw.reducers.count(), total=pw.reducers.sum(joined.amount * 2)
    )
    found: dict[int, int] = {}

    def changed(*, row: dict[str, int], is_addition: bool, **_: object) -> None:
        if is_addition:
            found[row["nation_id"]] = row["total"]

    pw.io.subscribe(totals, on_change=changed)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    took = time.perf_counter() - began
    assert sum(found.values()) == expected, "Pathway's totals are not right"
    print(f"seconds {took:.3f}")


if __name__ == "__main__":
    main()
