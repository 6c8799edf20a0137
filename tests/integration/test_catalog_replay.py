"""The system relations against a real PostgreSQL 15: same rows, same row descriptions, same errors.

One schema is made in PostgreSQL, its catalog is read into an image with the same OIDs, and every
query is asked of both. `catalog_queries.sql` has the queries, and what is known to differ and why.
Statements that were captured from real clients are replayed too, from the folder that lies beside
the project or that the variable WATERCLOCK_CAPTURED_STATEMENTS names; without it that is left out.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from waterclock.catalog.system.answerer import CatalogResult, DuckDbAnswerer
from waterclock.catalog.system.arrays import array_text
from waterclock.catalog.system.errors import CatalogQueryError
from waterclock.catalog.system.facts import SYSTEM_SCHEMAS
from waterclock.catalog.system.routing import Route, route
from waterclock.catalog.system.session import SessionFacts
from waterclock.persist.numerics import python_value
from waterclock.sql.parser import parse_statements
from waterclock.testing.postgres_image import image_of
from waterclock.testing.services import PostgresServer

pytestmark = pytest.mark.service

SCHEMA = """
create table customers (
    id bigint primary key, name varchar(40) not null unique,
    balance numeric(12,2) default 0 check (balance >= 0), created timestamptz default now(),
    tags text[], meta jsonb, note text);
comment on table customers is 'people who buy';
comment on column customers.name is 'as on the letter';
create index customers_lower on customers (lower(name::text));
create schema sales;
comment on schema sales is 'orders and the like';
create table sales.orders (
    id int primary key, customer_id bigint not null references customers(id), placed date,
    total numeric(10,2) default 1.5 check (total >= 0), "Odd Name" text);
create index orders_placed on sales.orders (placed, total);
comment on index sales.orders_placed is 'by day';
create view v_cust as select id, name, balance from customers where balance > 0;
comment on view v_cust is 'with money';
create materialized view sales.mv_totals as
    select customer_id, sum(total) as total, count(*) as n from sales.orders group by 1;
create unique index mv_totals_key on sales.mv_totals (customer_id);
create table moods (id int, m text);
create role reader nologin;
create role alice login in role reader;
grant select on customers to reader;
grant usage on schema sales to public;
comment on role reader is 'reads';
comment on database shop is 'the shop';
"""
DIFFERS = "differs: "


def statements() -> dict[str, str]:
    text = Path(__file__).with_name("catalog_queries.sql").read_text()
    found = {}
    for block in re.split(r"(?m)^-- @ ", text)[1:]:
        name, _, query = block.partition("\n")
        assert name not in found, f"two queries are called {name}"
        found[name] = query.strip()
    return found


STATEMENTS = statements()


@dataclass
class Shop:
    """Both sides. What PostgreSQL answers is text, so what we answer is made text too."""

    connection: psycopg.Connection[Any]
    answerer: DuckDbAnswerer
    session: SessionFacts

    def oid(self, relation: str) -> int:
        row = self.connection.execute("select %s::regclass::oid::int8", (relation,)).fetchone()
        assert row is not None
        return int(row[0])

    def theirs(self, sql: str, types: list[int], values: list[Any]) -> Any:
        """PostgreSQL's result, or the error's SQLSTATE, message and position."""
        server = self.connection.pgconn
        made = server.prepare(b"", sql.encode(), types or None)
        if made.status == psycopg.pq.ExecStatus.COMMAND_OK:
            sent = [None if value is None else _as_text(value, 0).encode() for value in values]
            made = server.exec_prepared(b"", sent)
        if made.status == psycopg.pq.ExecStatus.TUPLES_OK:
            return _pg_rows(made)
        fields = psycopg.pq.DiagnosticField
        parts = (fields.SQLSTATE, fields.MESSAGE_PRIMARY, fields.STATEMENT_POSITION)
        state, message, position = (made.error_field(part) for part in parts)
        assert state is not None
        assert message is not None
        return state.decode(), message.decode(), int(position) if position else None

    def parameter_types(self, sql: str, types: list[int]) -> list[int] | None:
        """What PostgreSQL makes of the parameters; None if it refuses the query."""
        server = self.connection.pgconn
        if server.prepare(b"", sql.encode(), types or None).status != 1:
            return None
        described = server.describe_prepared(b"")
        return [described.param_type(number) for number in range(described.nparams)]

    def ours(self, sql: str, types: list[int], values: list[Any]) -> Any:
        try:
            return _our_rows(self.answerer.execute(sql, values, self.session, types))
        except CatalogQueryError as error:
            return error.sqlstate, error.message, error.position


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """On a server of its own, for what is compared tells of all databases and roles of one."""
    with (
        PostgresServer() as server,
        psycopg.connect(server.create_database("shop"), autocommit=True) as connection,
    ):
        if connection.info.server_version // 10000 != 15:
            pytest.skip("compared with PostgreSQL 15 only")
        connection.execute(SCHEMA)
        image = image_of(connection)
        answerer = DuckDbAnswerer(lambda: image)
        session = SessionFacts(
            current_user="postgres",
            session_user="postgres",
            database="shop",
            backend_pid=connection.info.backend_pid,
            application_name="replay",
            settings={"search_path": '"$user", public'},
        )
        yield Shop(connection, answerer, session)
        answerer.close()


def _as_text(value: Any, oid: int) -> str:
    match value:
        case bool():
            return "t" if value else "f"
        case list():
            return array_text([None if part is None else _as_text(part, 0) for part in value])
        case float():
            return repr(value).removesuffix(".0")
        case datetime.datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}" + ("+00" if oid == 1184 else "")
        case _:
            return str(value)


def _our_rows(result: CatalogResult) -> tuple[list[Any], list[Any]]:
    described = [(c.name, c.type.oid, c.type.modifier) for c in result.columns]
    columns = [[python_value(each) for each in column] for column in result.rows.columns]
    rows = [
        [None if v is None else _as_text(v, d[1]) for v, d in zip(row, described, strict=True)]
        for row in zip(*columns, strict=True)
    ]
    return described, rows


def _pg_rows(made: Any) -> tuple[list[Any], list[Any]]:
    described = [(made.fname(n).decode(), made.ftype(n), made.fmod(n)) for n in range(made.nfields)]
    cells = [[made.get_value(row, n) for n in range(made.nfields)] for row in range(made.ntuples)]
    return described, [[None if c is None else c.decode() for c in row] for row in cells]


def _asked(shop: Shop, name: str) -> tuple[Any, Any]:
    sql = STATEMENTS[name].replace("{customers}", str(shop.oid("customers")))
    return shop.theirs(sql, [], []), shop.ours(sql, [], [])


@pytest.mark.parametrize("name", [n for n in STATEMENTS if not n.startswith((DIFFERS, "error: "))])
def test_rows_and_row_description_are_postgres(shop: Shop, name: str) -> None:
    theirs, ours = _asked(shop, name)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("name", [n for n in STATEMENTS if n.startswith("error: ")])
def test_errors_are_postgres(shop: Shop, name: str) -> None:
    theirs, ours = _asked(shop, name)
    assert ours[:2] == theirs[:2]
    # The place is told where the tree has kept it, and then it is the right one.
    assert ours[2] in (theirs[2], None)


@pytest.mark.parametrize("name", [n for n in STATEMENTS if n.startswith(DIFFERS)])
def test_known_differences_still_differ(shop: Shop, name: str) -> None:
    theirs, ours = _asked(shop, name)
    assert len(ours) == 2, f"the query fails: {ours}"
    assert ours[0] == theirs[0]
    assert ours[1] != theirs[1]


def test_most_errors_tell_the_place(shop: Shop) -> None:
    errors = [_asked(shop, name) for name in STATEMENTS if name.startswith("error: ")]
    placed = [(theirs, ours) for theirs, ours in errors if theirs[2] is not None]
    silent = [theirs[1] for theirs, ours in placed if ours[2] is None]
    assert len(silent) <= 4, silent


@pytest.mark.parametrize(
    ("view", "columns"),
    [
        ("tables", "table_schema, table_name"),
        ("columns", "table_name, column_name"),
        ("views", "table_name"),
        ("table_constraints", "table_name, constraint_name"),
        ("key_column_usage", "table_name, column_name"),
        ("constraint_column_usage", "table_name, column_name"),
        ("table_privileges", "table_name, privilege_type"),
        ("schemata", "schema_name"),
        ("enabled_roles", "role_name"),
    ],
)
def test_information_schema_shows_what_the_role_has_a_right_to(
    shop: Shop, view: str, columns: str
) -> None:
    first = columns.partition(",")[0]
    sql = f"select {columns} from information_schema.{view} where {first} !~ '^(pg|mz|sql)_'"
    sql += f" and {first} in ('public', 'sales', 'customers', 'orders', 'v_cust', 'reader')"
    sql += f" order by {columns}"
    shop.connection.execute("set role alice")
    try:
        theirs = shop.theirs(sql, [], [])
    finally:
        shop.connection.execute("reset role")
    alice = replace(shop.session, current_user="alice")
    assert _our_rows(shop.answerer.execute(sql, [], alice)) == theirs
    superuser = shop.ours(sql, [], [])
    assert len(superuser[1]) >= len(theirs[1])


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        ("select relname from pg_class where oid = $1", []),
        ("select relname from pg_class where relname = $1 and relkind = $2", []),
        ("select $1", []),
        ("select $1::int, $2::text, $3::oid[]", []),
        ("select * from pg_type where oid = any($1)", []),
        ("select * from pg_type where typname = any($1)", []),
        ("select format_type($1, $2)", []),
        ("select to_regtype($1)", []),
        ("select $1 + 1", []),
        ("select 'a' || $1", []),
        ("select coalesce($1, 1)", []),
        ("select case when $1 then 1 end", []),
        ("select relname from pg_class limit $1 offset $2", []),
        ("select relname from pg_class where oid in ($1, $2)", []),
        ("select relname from pg_class where relnatts between $1 and $2", []),
        ("select relname from pg_class where oid = $1", [20]),
        ("select relname from pg_class where relname like $1", []),
        ("select current_setting($1)", []),
        ("values ($1, 1), (2, $2)", []),
        ("select 1 union all select $1", []),
    ],
)
def test_types_of_parameters_are_postgres(shop: Shop, sql: str, given: list[int]) -> None:
    ours = [p.oid for p in shop.answerer.describe(sql, given, shop.session).parameters]
    assert ours == shop.parameter_types(sql, given)


# --- captured statements --------------------------------------------------------------------------

CAPTURED = Path(
    os.environ.get(
        "WATERCLOCK_CAPTURED_STATEMENTS",
        Path(__file__).parents[3] / "shared" / "pg_catalog_queries",
    )
)
# The relations that the captured statements name by number, as they were numbered then.
NUMBERED = {
    **{16388: "customers", 16399: "sales.orders", 16412: "v_cust", 16416: "sales.mv_totals"},
    **{16411: "sales.orders_placed", 16429: "moods"},
}
OTHERS_ROWS = re.compile(r"\b_?mz_|\b_?uint8\b|pg_toast_\d|plpgsql")
"""Rows about what only one of the two has."""
KNOWN = {
    "pg_table_size": "sizes",
    "pg_database_size": "sizes",
    "tmp.PAGES": "pages of an index",
    "version()": "what version() says",
    "s.setting IS DISTINCT FROM s.boot_val": "where a setting comes from",
    "pg_get_viewdef(pg_catalog.pg_class.oid)": "a view's definition that is not pretty",
    "pg_get_indexdef(i.indexrelid, 0, true)": "an expression in an index that is pretty",
    "p.prokind != 'p' AND (p.proname) LIKE": "functions",
}


@dataclass(frozen=True)
class Captured:
    sql: str
    types: tuple[int, ...]
    values: tuple[str | None, ...]
    binary: tuple[bool, ...]


def captured() -> Iterator[Captured]:
    for path in sorted(CAPTURED.glob("*.sql")):
        for block in re.split(r"(?m)^-- @@ ", path.read_text())[1:]:
            told, _, text = block.partition("\n")
            facts = json.loads(told)
            values = tuple((facts.get("vals") or [[]])[0])
            formats = facts.get("pfmt") or [0]
            binary = tuple(
                bool(f) for f in (formats * len(values) if len(formats) == 1 else formats)
            )
            sql = re.sub(r"\n;\s*\Z", "", text)
            yield Captured(sql, tuple(facts.get("poids", ())), values, binary)


def _is_ours(sql: str) -> bool:
    """Whether it is one query that the system relations answer."""
    if "pg_sleep" in sql or len(parse_statements(sql)) != 1:
        return False
    if not re.match(r"(\s|/\*.*?\*/|\()*(select|with|values)\b", sql, re.IGNORECASE | re.DOTALL):
        return False
    found = route(sql, lambda s, n: s in SYSTEM_SCHEMAS or (s is None and n.startswith("pg_")))
    return found in (Route.CATALOG, Route.CONSTANT)


def _value(text: str | None, binary: bool, oid: int, numbers: dict[int, int]) -> Any:
    if text is None:
        return None
    if not binary:
        return int(text) if oid in (20, 21, 23, 26) else text
    data = bytes.fromhex(text)
    if oid in (20, 21, 23, 26):
        number = int.from_bytes(data, "big", signed=True)
        return numbers.get(number, number)
    if oid == 16:
        return data == b"\1"
    if oid == 1028:
        count = int.from_bytes(data[12:16], "big")
        items = [int.from_bytes(data[24 + 8 * n : 28 + 8 * n], "big") for n in range(count)]
        return [numbers.get(item, item) for item in items]
    return data.decode()


def _comparable(rows: list[Any]) -> list[Any]:
    kept = [row for row in rows if not any(c and OTHERS_ROWS.search(c) for c in row)]
    return sorted(kept, key=lambda row: ["" if cell is None else f"x{cell}" for cell in row])


@pytest.mark.skipif(not CAPTURED.is_dir(), reason=f"no captured statements in {CAPTURED}")
def test_captured_statements_are_answered_as_postgres_does(shop: Shop) -> None:
    numbers = {number: shop.oid(name) for number, name in NUMBERED.items()}
    compared, wrong, met = 0, [], set()
    for statement in captured():
        sql = statement.sql
        for number, actual in numbers.items():
            sql = re.sub(rf"\b{number}\b", str(actual), sql)
        if not _is_ours(sql):
            continue
        given = list(statement.types)
        types = shop.parameter_types(sql, given) or []
        pairs = zip(statement.values, statement.binary, types, strict=False)
        values = [_value(text, binary, oid, numbers) for text, binary, oid in pairs]
        values += [None] * (len(types) - len(values))
        theirs, ours = shop.theirs(sql, given, values), shop.ours(sql, given, values)
        compared += 1
        reasons = {part for part in KNOWN if part in sql}
        if len(theirs) == 2 and len(ours) == 2:
            same = _comparable(ours[1]) == _comparable(theirs[1])
            met |= set() if same else reasons
            if ours[0] != theirs[0] or not (same or reasons):
                wrong.append((sql, theirs, ours))
        elif ours[:2] != theirs[:2]:
            wrong.append((sql, theirs, ours))
    assert not wrong, wrong[0]
    assert met == set(KNOWN), "a known difference is gone"
    assert compared > 300
