"""The system relations: how long a client's question takes, and what a new version costs.

The questions are those that psql, drivers and reflection ask, over a catalog of a hundred
relations. They are asked of an answerer that has seen them before, as clients repeat themselves.
An answer is made on one thread, so what is measured is that thread's processor time: waiting for a
busy machine is not the answerer's doing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from report import Report, in_turns

from waterclock.catalog.system.answerer import DuckDbAnswerer
from waterclock.catalog.system.image import (
    CatalogImage,
    Column,
    Database,
    Index,
    IndexKey,
    Relation,
    RelationKind,
    Role,
    Schema,
)
from waterclock.catalog.system.session import SessionFacts
from waterclock.model.pg_types import INT4, NUMERIC, TEXT, TIMESTAMPTZ

RELATIONS, COLUMNS, ROUNDS = 100, 10, 15
TYPES = (INT4, TEXT, NUMERIC, TIMESTAMPTZ)

QUESTIONS = {
    "select 1": "select 1",
    "list of relations": """
        select n.nspname as "Schema", c.relname as "Name",
          case c.relkind when 'r' then 'table' when 'v' then 'view' end as "Type",
          pg_catalog.pg_get_userbyid(c.relowner) as "Owner"
        from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'v', 'm') and n.nspname <> 'pg_catalog'
          and n.nspname !~ '^pg_toast' and n.nspname <> 'information_schema'
          and pg_catalog.pg_table_is_visible(c.oid) order by 1, 2""",
    "columns of a relation": """
        select a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
          (select pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) from pg_catalog.pg_attrdef d
           where d.adrelid = a.attrelid and d.adnum = a.attnum and a.atthasdef), a.attnotnull
        from pg_catalog.pg_attribute a
        where a.attrelid = '20005' and a.attnum > 0 and not a.attisdropped order by a.attnum""",
    "indexes of a relation": """
        select c2.relname, i.indisprimary, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true)
        from pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i
        where c.oid = '20005' and c.oid = i.indrelid and i.indexrelid = c2.oid order by 1""",
    "reflection of a schema": """
        select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), d.description
        from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_description d on d.objoid = a.attrelid and d.objsubid = a.attnum
        join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = any (array['r', 'v']) and n.nspname = 'public' order by 1, a.attnum""",
    "columns of information_schema": """
        select column_name, data_type, character_maximum_length
        from information_schema.columns where table_name = 't7' and table_schema = 'public'
        order by ordinal_position""",
    "a type by name": "select oid, typarray from pg_type where oid = to_regtype('numeric')",
    "objects of mz_catalog": """
        select d.name, s.name, o.name, o.type from mz_objects o
        join mz_schemas s on o.schema_id = s.id join mz_databases d on s.database_id = d.id
        where o.type in ('table', 'view')""",
}


def catalog(version: int) -> CatalogImage:
    columns = tuple(Column(f"c{n}", TYPES[n % 4], nullable=n > 0) for n in range(COLUMNS))
    relations = tuple(
        Relation(
            oid=20000 + 5 * n,
            id=f"u{n}",
            schema=18000,
            name=f"t{n}",
            kind=RelationKind.TABLE if n % 2 else RelationKind.VIEW,
            columns=columns,
            owner=10,
            row_type=20001 + 5 * n,
            row_array_type=20002 + 5 * n,
            definition=None if n % 2 else " SELECT 1;",
        )
        for n in range(RELATIONS)
    )
    indexes = tuple(
        Index(
            oid=relation.oid + 3,
            id=f"u9{relation.oid}",
            schema=18000,
            name=f"{relation.name}_key",
            relation=relation.oid,
            keys=(IndexKey(1),),
            owner=10,
            definition=f"CREATE INDEX {relation.name}_key ON public.{relation.name} (c0)",
        )
        for relation in relations
    )
    return CatalogImage(
        version=version,
        databases=(Database(17000, "u1", "bench", 10),),
        roles=(Role(10, "s1", "system", superuser=True),),
        system_owner=10,
        schemas=(Schema(18000, "u3", 17000, "public", 10),),
        relations=relations,
        indexes=indexes,
    )


def timed(run: Callable[[], object]) -> float:
    """Milliseconds of this thread's processor time."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) * 1000


def main() -> None:
    report = Report("Catalog queries")
    current = [catalog(1)]
    answerer = DuckDbAnswerer(lambda: current[0])
    session = SessionFacts("system", "system", "bench")

    def asking(sql: str) -> Callable[[], float]:
        return lambda: timed(lambda: answerer.execute(sql, [], session))

    asking("select 1")()
    asked = {name: asking(sql) for name, sql in QUESTIONS.items()}
    firsts = {name: ask() for name, ask in asked.items()}
    medians = in_turns(ROUNDS, **asked)
    for name, median in medians.items():
        report.figure(f"{name} (the first time {firsts[name]:,.0f} ms)", median, "ms")
    report.limit("median of all questions", statistics.median(medians.values()), 10, "ms")

    columns = asking(QUESTIONS["columns of a relation"])

    def after_a_change() -> float:
        current[0] = catalog(current[0].version + 1)
        return columns()

    costs = in_turns(ROUNDS, same=columns, changed=after_a_change)
    report.figure("columns of a relation, same version", costs["same"], "ms")
    report.figure("columns of a relation, new version", costs["changed"], "ms")
    added = costs["changed"] - costs["same"]
    report.limit(f"what a new version of {RELATIONS} relations adds", added, 50, "ms")
    answerer.close()
    report.exit()


if __name__ == "__main__":
    main()
