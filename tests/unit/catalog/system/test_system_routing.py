"""Where a query goes."""

import pytest
import sqlglot

from waterclock.catalog.system.errors import FeatureNotSupported, SyntaxFault
from waterclock.catalog.system.routing import Route, is_catalog_query, route
from waterclock.testing.system_world import World


def resolver(schema: str | None, name: str) -> bool:
    if schema is not None:
        return schema in ("pg_catalog", "information_schema")
    return name.startswith("pg_")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select 1", Route.CONSTANT),
        ("select version()", Route.CONSTANT),
        ("select pg_backend_pid(), current_schema()", Route.CONSTANT),
        ("select * from generate_series(1, 3)", Route.CONSTANT),
        ("values (1), (2)", Route.CONSTANT),
        ("select * from pg_class", Route.CATALOG),
        ("select * from PG_CATALOG.Pg_Class", Route.CATALOG),
        ('select * from "shop".INFORMATION_SCHEMA.columns', Route.CATALOG),
        ("select * from customers", Route.USER),
        ("select * from public.pg_class", Route.USER),
        ("select * from pg_class, customers", Route.MIXED),
        ("select * from pg_class where relname in (select name from customers)", Route.MIXED),
        ("select (select max(id) from customers)", Route.USER),
        ("with a as (select 1) select * from a", Route.CONSTANT),
        ("with a as (select * from pg_class) select * from a", Route.CATALOG),
        ("with a as (select * from customers) select * from a, pg_class", Route.MIXED),
        (
            "with recursive t(n) as (select 1 union all select n + 1 from t) select * from t",
            Route.CONSTANT,
        ),
        ("select 1 union all select oid::int from pg_type", Route.CATALOG),
        ("with customers as (select 1) select * from public.customers", Route.USER),
    ],
)
def test_the_relations_decide(sql: str, expected: Route) -> None:
    assert route(sql, resolver) is expected
    assert is_catalog_query(sql, resolver) == (expected in (Route.CATALOG, Route.CONSTANT))


def test_a_tree_that_somebody_else_parsed_is_taken_too() -> None:
    tree = sqlglot.parse_one("select * from pg_class c join customers on true", read="postgres")
    assert route(tree, resolver) is Route.MIXED


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(FeatureNotSupported):
        route("drop table x", resolver)
    with pytest.raises(SyntaxFault):
        route("select from where", resolver)


def test_the_answerer_knows_its_relations(world: World) -> None:
    known = world.answerer.is_system_relation
    assert known(None, "pg_class")
    assert known(None, "mz_objects")
    assert known("mz_internal", "mz_comments")
    assert known("pg_catalog", "nowhere"), "so that the error is told here"
    assert not known(None, "columns")
    assert known(None, "columns", ("information_schema",))
    assert not known("public", "pg_class")
    assert not known(None, "customers")
