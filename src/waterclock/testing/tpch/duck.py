"""The queries from scratch in DuckDB, an engine that shares nothing with what is maintained.

It gives averages and quotients of decimals as floating-point numbers. Averages are rounded as Spark
does, to four digits more than the argument has, where a query compares with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from waterclock.testing.tpch.refresh import Changes, Row
from waterclock.testing.tpch.tables import TABLES

_AVERAGE = re.compile(r"avg\((\w+)\)")


class DuckTables:
    """The tables as they are at a time, in memory."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        for name, table in tables.items():
            self._insert(f"CREATE TABLE {name} AS FROM given", table)

    def apply(self, changes: Changes) -> None:
        """Bring the tables to the next time."""
        for name, rows in changes.gone.items():
            key = TABLES[name].key
            columns = ", ".join(key)
            text = f"DELETE FROM {name} WHERE ({columns}) IN (SELECT ({columns}) FROM given)"
            if rows:
                self._insert(text, table_of(name, rows))
        for name, rows in changes.come.items():
            if rows:
                self._insert(f"INSERT INTO {name} FROM given", table_of(name, rows))

    def answer(self, sql: str) -> list[Row]:
        """What a query gives now."""
        rounded = _AVERAGE.sub(r"CAST(avg(\1) AS DECIMAL(19, 6))", sql)
        return self._connection.execute(rounded).fetchall()

    def table(self, name: str) -> pa.Table:
        """A table as it is now."""
        found: pa.Table = self._connection.sql(f"FROM {name}").to_arrow_table()
        return found.cast(TABLES[name].schema)

    def close(self) -> None:
        self._connection.close()

    def _insert(self, text: str, given: pa.Table) -> None:
        self._connection.register("given", given)
        self._connection.execute(text)
        self._connection.unregister("given")


def table_of(name: str, rows: list[Row]) -> pa.Table:
    """Rows as a table."""
    schema = TABLES[name].schema
    columns = [[row[place] for row in rows] for place in range(len(schema))]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
