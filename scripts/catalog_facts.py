"""Write the facts about PostgreSQL 15's system catalogs that the catalog answers with.

Facts only: names and numbers of relations, columns, types, operators and functions, as a fresh
PostgreSQL 15 holds them in its own catalogs. Descriptions and settings are left out. Run it with
PostgreSQL 15 installed, from the root of the project:

    .venv/bin/python scripts/catalog_facts.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psycopg

from waterclock.testing.services import PostgresServer

TARGET = Path("src/waterclock/catalog/system/postgres15.json")
FIRST_USER_OID = 16384

# Copied row by row. Rows that depend on the machine (locales, extensions) are filtered.
TABLES = {
    "pg_class": "true",
    "pg_type": "true",
    "pg_am": "true",
    "pg_collation": "collname in ('default', 'C', 'POSIX', 'ucs_basic')",
    "pg_opclass": "true",
    "pg_opfamily": "true",
    "pg_language": "lanname in ('internal', 'c', 'sql')",
    "pg_tablespace": "true",
    "pg_range": "true",
    "pg_cast": "true",
    "pg_operator": "true",
    "pg_index": "indrelid < 16384",
    "pg_constraint": "true",
    "pg_proc": "%overloads%",
    "pg_namespace": "nspname <> 'public'",
}

# What other copied rows refer to, and what clients ask for by name.
FUNCTIONS = """
    create temporary view needed_functions (needed) as
    select unnest(array[typinput, typoutput, typreceive, typsend, typmodin, typmodout, typanalyze,
                        typsubscript]::oid[]) from pg_type
    union select castfunc from pg_cast
    union select unnest(array[oprcode, oprrest, oprjoin]::oid[]) from pg_operator
    union select amhandler::oid from pg_am
    union select unnest(array[lanvalidator, lanplcallfoid, laninline]) from pg_language
    union select unnest(array[rngcanonical, rngsubdiff]::oid[]) from pg_range
    union select oid from pg_proc where proname = any(%s)
"""
# All functions of a name, since a name that several have is shown differently.
OVERLOADS = (
    "oid in (select p.oid from pg_proc p where p.proname in (select q.proname from pg_proc q "
)
OVERLOADS += "where q.oid in (select needed from needed_functions)))"

# What a running server changes by itself.
_UNSTEADY = {
    "relpages": "0",
    "relallvisible": "0",
    "reltuples": "-1",
    "relfrozenxid": "0",
    "relminmxid": "0",
    "relfilenode": "0",
}


def main() -> None:
    with PostgresServer() as server, psycopg.connect(server.conninfo()) as connection:
        if connection.info.server_version // 10000 != 15:
            sys.exit("PostgreSQL 15 is needed")
        connection.execute("set search_path = pg_catalog")
        names = json.dumps(implemented_functions())
        listed = "'{" + names.strip("[]") + "}'::text[]"
        connection.execute(FUNCTIONS.replace("%s", listed))
        TARGET.write_text(rendered(connection))
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


def implemented_functions() -> list[str]:
    """The functions that the catalog can call; empty before there are any."""
    try:
        from waterclock.catalog.system.binding.functions import function_names
    except ImportError:
        return []
    return sorted(function_names())


def rendered(connection: psycopg.Connection[Any]) -> str:
    """One JSON object with a line for each row, so that a change shows as a change of lines."""
    parts = ['"relations": [\n' + lines(relations(connection)) + "\n]"]
    parts.append('"keywords": [\n' + lines(keywords(connection)) + "\n]")
    parts += [
        f'"{table}": {{"columns": {json.dumps(columns(connection, table))}, "rows": [\n'
        + lines(rows(connection, table, kept))
        + "\n]}"
        for table, kept in TABLES.items()
    ]
    return "{" + ",\n".join(parts) + "}\n"


def lines(values: list[Any]) -> str:
    return ",\n".join(
        json.dumps(value, separators=(",", ":"), ensure_ascii=False) for value in values
    )


def relations(connection: psycopg.Connection[Any]) -> list[Any]:
    """Every relation and index of the system with its columns."""
    found = connection.execute(
        """
        select c.oid::int8, n.nspname, c.relname, c.relkind,
               array(select jsonb_build_array(a.attname, a.atttypid::int8, a.atttypmod,
                                              a.attnotnull, a.attcollation::int8, a.attndims,
                                              a.attstorage)
                     from pg_attribute a where a.attrelid = c.oid and a.attnum > 0
                     order by a.attnum)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid < %s order by c.oid
        """,
        (FIRST_USER_OID,),
    ).fetchall()
    return [list(row) for row in found]


def keywords(connection: psycopg.Connection[Any]) -> list[Any]:
    found = connection.execute(
        "select word, catcode::text, barelabel, catdesc, baredesc from pg_get_keywords()"
    ).fetchall()
    return [list(row) for row in found]


def columns(connection: psycopg.Connection[Any], table: str) -> list[str]:
    return [name for name, _ in _columns(connection, table)]


def _columns(connection: psycopg.Connection[Any], table: str) -> list[tuple[str, str]]:
    return connection.execute(
        """
        select attname, format_type(atttypid, atttypmod) from pg_attribute
        where attrelid = %s::regclass and attnum > 0 order by attnum
        """,
        (table,),
    ).fetchall()


def rows(connection: psycopg.Connection[Any], table: str, kept: str) -> list[Any]:
    chosen = ", ".join(_as_plain(name, type_) for name, type_ in _columns(connection, table))
    has_oid = "oid" in columns(connection, table)
    system = f"oid < {FIRST_USER_OID}" if has_oid else "true"
    kept = kept.replace("%overloads%", OVERLOADS)
    key = "oid" if has_oid else "1"
    found = connection.execute(
        f"select {chosen} from {table} where {system} and {kept} order by {key}"
    ).fetchall()
    return [list(row) for row in found]


def _as_plain(name: str, type_: str) -> str:
    """The column in a form that JSON has: numbers for what names an object, lists for vectors."""
    if name in _UNSTEADY:
        return _UNSTEADY[name]
    if type_ == "pg_node_tree":
        return "null::text"
    if type_ in ("oid", "regproc", "xid"):
        return f"{name}::text::int8" if type_ == "xid" else f"{name}::oid::int8"
    if type_ in ("int2vector", "oidvector"):
        return f"string_to_array({name}::text, ' ')::int8[]"
    if type_ == "oid[]":
        return f"{name}::int8[]"
    if type_ in ("name", '"char"'):
        return f"{name}::text"
    if type_ in ("aclitem[]", '"char"[]', "anyarray"):
        return f"{name}::text[]"
    return name


if __name__ == "__main__":
    main()
