"""A data directory that an older version wrote opens, and everything in it goes on.

`tests/data/format_1.tar.gz` is a real one; `tests/data/README.md` says how it was made.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from waterclock.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(1800)]

ARCHIVE = Path(__file__).parent.parent / "data" / "format_1.tar.gz"
OF_OLD = "000000000000000000"
"""A numeric without a declared scale was held with 18 digits behind the point, and still is."""
ORDERS = "SELECT customer, amount::text, rate::text FROM orders ORDER BY customer, amount"
SALES = (
    "SELECT country, orders, total::text, mean::text, rates::text, mean_rate::text,"
    " quotient::text, highest::text FROM sales ORDER BY country"
)
QUOTIENTS = (
    "SELECT third::text, seventh::text, product::text FROM quotients ORDER BY customer, third"
)
SALES_OF_OLD = [
    (
        *("GB", 2, "11.50", "5.7500000000000000", "2.450000000000000000"),
        *("1.225000000000000000", "5.7500000000000000", "2.300000000000000000"),
    ),
    (
        *("US", 1, "7.00", "7.0000000000000000", f"100.{OF_OLD}"),
        *(f"100.{OF_OLD}", "7.0000000000000000", f"100.{OF_OLD}"),
    ),
]
QUOTIENTS_OF_OLD = [
    ("0.3333333333333333", "0.328571428571428571", "2.300000000000000000"),
    ("3.5000000000000000", "0.021428571428571429", "1.575000000000000000"),
    ("2.3333333333333333", "14.285714285714285714", f"700.{OF_OLD}"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    with ServerProcess(tmp_path / "format_1") as server:
        yield server


def rows(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


def test_a_directory_of_format_1_goes_on(server: ServerProcess) -> None:
    with server.connect() as connection:
        _has_what_it_had(connection)
        _goes_on(connection)
    assert server.stop() == 0
    assert not server.complaints
    command = [sys.executable, "-m", "waterclock.server.cli", "check", "--data", str(server.data)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _has_what_it_had(connection: psycopg.Connection[Any]) -> None:
    assert rows(connection, "SELECT * FROM customers ORDER BY id") == [
        *((1, "Ann", "GB"), (2, "Bob", "US"), (3, None, None)),
    ]
    assert rows(connection, ORDERS) == [
        *((1, "1.00", "2.300000000000000000"), (1, "10.50", "0.150000000000000000")),
        (2, "7.00", f"100.{OF_OLD}"),
    ]
    moment = dt.datetime(2024, 1, 2, 3, 4, 5)
    [fact] = rows(connection, "SELECT * FROM facts WHERE share IS NOT NULL")
    assert fact == (
        *(0.5, moment, moment.replace(tzinfo=dt.UTC), dt.date(2024, 2, 3), dt.timedelta(days=1)),
        *(["a", "b"], {"k": 1.5}, uuid.UUID(int=1), b"\x01\x02"),
    )
    assert rows(connection, "SELECT count(*) FROM facts WHERE share IS NULL") == [(1,)]
    assert rows(connection, SALES) == SALES_OF_OLD
    assert rows(connection, QUOTIENTS) == QUOTIENTS_OF_OLD
    assert rows(connection, "SELECT rate::text FROM large WHERE customer = 2") == [
        (f"100.{OF_OLD}",),
    ]
    assert rows(connection, "SELECT third::text FROM copied ORDER BY third") == [
        *(("0.3333333333333333",), ("2.3333333333333333",), ("3.5000000000000000",)),
    ]
    ticks = [counter for (counter,) in rows(connection, "SELECT counter FROM ticks ORDER BY 1")]
    assert ticks == [*range(ticks[0], ticks[0] + 3)], "the last three; it has a tick each day"
    assert rows(connection, "SELECT has_table_privilege('reader', 'sales', 'select')") == [(True,)]
    assert rows(connection, "SELECT obj_description('orders'::regclass)") == [("all of them",)]
    assert ("hidden",) in rows(connection, "SELECT name FROM mz_secrets")


def _goes_on(connection: psycopg.Connection[Any]) -> None:
    """What is written is seen in the views of old; and new ones read what is there."""
    connection.execute("INSERT INTO orders VALUES (3, 3.30, 1.0), (1, 2, 0.123456789012345678)")
    connection.execute("DELETE FROM orders WHERE amount = 1")
    assert rows(connection, SALES) == [
        (
            *("GB", 2, "12.50", "6.2500000000000000", "0.273456789012345678"),
            *("0.136728394506172839", "6.2500000000000000", "0.150000000000000000"),
        ),
        SALES_OF_OLD[1],
        (
            *(None, 1, "3.30", "3.3000000000000000", f"1.{OF_OLD}"),
            *(f"1.{OF_OLD}", "3.3000000000000000", f"1.{OF_OLD}"),
        ),
    ]
    assert rows(connection, QUOTIENTS) == [
        ("0.6666666666666667", "0.017636684144620811", "0.246913578024691356"),
        *QUOTIENTS_OF_OLD[1:],
        ("1.1000000000000000", "0.142857142857142857", "3.300000000000000000"),
    ]
    found = rows(connection, "SELECT amount::text FROM large WHERE customer = 1")
    assert found == [("10.50",)]
    connection.execute("CREATE TABLE fresh (rate numeric)")
    connection.execute("INSERT INTO fresh VALUES (1.0), (100.0)")
    connection.execute(
        "CREATE MATERIALIZED VIEW matched AS SELECT o.customer, f.rate"
        " FROM orders o JOIN fresh f ON f.rate = o.rate"
    )
    assert rows(connection, "SELECT customer, rate::text FROM matched ORDER BY 1") == [
        *((2, "100.0"), (3, "1.0")),
    ]
