"""The same query in PostgreSQL and, bound, in Spark: the same data, the same answer.

Tables are declared once, with their rows as text, and exist in both. A query is compared by names,
types and rows, as text, byte for byte. Only numerics may differ in how many digits are shown, and
quotients in the last of them. Without ORDER BY, rows are compared in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal

import psycopg
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.faults import told
from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle
from waterclock.model.pg_types import RECORD, PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import UTC_ZONE, Zone, zone_named
from waterclock.sql.binding import BoundQuery, bind_query
from waterclock.sql.types import parse_type_name
from waterclock.testing.relations import KnownRelations, session_facts

Row = tuple[str | None, ...]
_FIRST_OF_USERS = 16384
"""The numbers of types that are rows of a relation begin here; to us these are just records."""


@dataclass(frozen=True, slots=True)
class TestTable:
    """A table: its columns with their types, and its rows as text."""

    __test__ = False

    columns: Mapping[str, str]
    rows: Sequence[Row]


class BesidePostgres:
    """Both systems with the same tables."""

    def __init__(
        self,
        spark: SparkSession,
        connection: psycopg.Connection,
        tables: Mapping[str, TestTable],
        timezone: str = "UTC",
    ) -> None:
        self._spark = spark
        self._connection = connection
        self._zone = zone_named(timezone)
        self._facts = session_facts(timezone)
        self._relations = KnownRelations({name: t.columns for name, t in tables.items()})
        connection.execute(f"SET timezone = '{timezone}'")
        connection.execute("SET extra_float_digits = 1")
        self._contents: dict[str, pa.Table] = {}
        for number, (name, table) in enumerate(tables.items(), start=1):
            self._create(name, table)
            self._contents[name] = self._show(f"u{number}", table)

    def _create(self, name: str, table: TestTable) -> None:
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        self._connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        places = ", ".join("%s" for _ in table.columns)
        with self._connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {name} VALUES ({places})".encode(), table.rows)

    def _show(self, name: str, table: TestTable) -> pa.Table:
        declared = [
            parse_type_name(kind.removesuffix(" not null")) for kind in table.columns.values()
        ]
        arrays = [
            decode_text(pa.array([row[n] for row in table.rows], pa.string()), kind, UTC_ZONE)
            for n, kind in enumerate(declared)
        ]
        data = pa.Table.from_arrays(arrays, names=list(table.columns))
        frame = self._spark.createDataFrame(data, from_arrow_schema(data.schema))
        frame.createOrReplaceTempView(name)
        return data

    @contextmanager
    def intervals_in(self, style: IntervalStyle) -> Iterator[None]:
        """Both show intervals in another style for a while."""
        zone, facts = self._zone, self._facts
        self._zone = zone_named(zone.name, style)
        self._facts = replace(facts, interval_style=style)
        self._connection.execute(f"SET intervalstyle = {style}".encode())
        try:
            yield
        finally:
            self._zone, self._facts = zone, facts
            self._connection.execute("RESET intervalstyle")

    def contents(self, name: str) -> pa.Table:
        """The rows of a table, as Arrow."""
        return self._contents[name]

    def run(self, sql: str) -> pa.Table:
        """The result of Spark SQL."""
        return self._spark.sql(sql).toArrow()

    def type_in_postgres(self, query: str) -> str:
        """The type of a query's column in PostgreSQL, or the SQLSTATE with which it is refused."""
        try:
            with self._connection.transaction(force_rollback=True):
                cursor = self._connection.execute(f"{query} LIMIT 0".encode())
                assert cursor.description is not None
                oid = cursor.description[0].type_code
        except psycopg.Error as error:
            return error.sqlstate or ""
        shown = self._connection.execute("SELECT format_type(%s, NULL)", [oid]).fetchone()
        assert shown is not None
        return str(shown[0])

    # Comparing

    def difference(self, query: str) -> str | None:
        """What differs between the two answers; None if nothing does."""
        with self._connection.transaction(force_rollback=True):
            cursor = self._connection.execute(query.encode())
            result = cursor.pgresult
            assert result is not None
            names = [column.name for column in cursor.description or ()]
            oids = [column.type_code for column in cursor.description or ()]
            theirs = [
                tuple(_text(result.get_value(row, n)) for n in range(len(names)))
                for row in range(result.ntuples)
            ]
        bound = bind_query(query, 1, self._relations, facts=self._facts)
        complaint = _headings(bound, names, oids)
        if complaint is not None:
            return complaint
        try:
            ours = self._rows(bound)
        except PySparkException as error:
            return f"Spark: {str(error)[:400]}\n  {bound.sql}"
        return _rows_differ(bound, ours, theirs)

    def refusal(self, query: str) -> tuple[str, str | None, str, str | None]:
        """The SQLSTATE and position with which PostgreSQL refuses a query, and ours."""

        theirs: tuple[str, str | None] = ("00000", None)
        try:
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(query.encode())
        except psycopg.Error as error:
            theirs = (error.sqlstate or "", error.diag.statement_position)
        try:
            bind_query(query, 1, self._relations, facts=self._facts)
        except WaterclockError as error:
            at = getattr(error, "position", None)
            return (*theirs, error.sqlstate, None if at is None else str(at))
        return (*theirs, "00000", None)

    def failure(self, query: str) -> tuple[str, str]:
        """The SQLSTATE with which PostgreSQL fails to compute a query, and ours."""
        theirs = ours = "00000"
        try:
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(query.encode())
        except psycopg.Error as error:
            theirs = error.sqlstate or ""
        try:
            bound = bind_query(query, 1, self._relations, facts=self._facts)
            with told():
                self.run(bound.sql)
        except WaterclockError as error:
            ours = error.sqlstate
        return theirs, ours

    def _rows(self, bound: BoundQuery) -> list[Row]:
        table = self.run(bound.sql)
        return row_texts(table, bound, self._zone)


def row_texts(table: pa.Table, bound: BoundQuery, zone: Zone) -> list[Row]:
    """The rows of a query's result as text, as a client sees them."""
    if not bound.columns:
        return [()] * table.num_rows
    columns = [
        _as_text(column, declared.type, zone)
        for column, declared in zip(table.columns, bound.columns, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode()


def _as_text(column: pa.ChunkedArray, declared: PgType, zone: Zone) -> list[str | None]:
    held = column.combine_chunks().cast(arrow_type(column_type(declared)))
    if isinstance(held, pa.ChunkedArray):
        held = held.combine_chunks() if held.num_chunks != 1 else held.chunk(0)
    texts: list[str | None] = encode_text(held, declared, zone).to_pylist()
    return texts


def _headings(bound: BoundQuery, names: list[str], oids: list[int]) -> str | None:
    ours = [column.name for column in bound.columns]
    if ours != names:
        return f"columns {ours}, not {names}"
    found = [column.type.oid for column in bound.columns]
    expected = [RECORD.oid if oid >= _FIRST_OF_USERS else oid for oid in oids]
    return None if found == expected else f"types {found}, not {oids}"


def _rows_differ(bound: BoundQuery, ours: list[Row], theirs: list[Row]) -> str | None:
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}: {ours[:3]} and {theirs[:3]}\n  {bound.sql}"
    if not bound.is_ordered:
        ours, theirs = (sorted(rows, key=_sort_key) for rows in (ours, theirs))
    for row, right in zip(ours, theirs, strict=True):
        for place, (one, other) in enumerate(zip(row, right, strict=True)):
            if one != other:
                name = bound.columns[place].name
                return f"{name} ({place + 1}): {one!r}, not {other!r}, in {right}\n  {bound.sql}"
    return None


def _sort_key(row: Row) -> list[tuple[bool, str]]:
    return [(value is None, _normal(value)) for value in row]


def _normal(value: str | None) -> str:
    """A number in one form, so that rows that only differ in zeros sort alike."""
    if value is None:
        return ""
    try:
        return f"{round(Decimal(value), 12).normalize():f}"
    except ArithmeticError:
        return value
