"""What the answerer tells: rows, types, parameters, settings."""

import datetime
import threading
import time
from dataclasses import replace

import pytest

from waterclock.catalog.system.errors import (
    FeatureNotSupported,
    InvalidText,
    QueryCancelled,
    UndefinedDatabase,
    UndefinedFunction,
    UndefinedTable,
)
from waterclock.catalog.system.facts import load_facts
from waterclock.catalog.system.image import CatalogImage
from waterclock.catalog.system.session import Cancellation
from waterclock.catalog.system.types import NAME, OID, REGCLASS
from waterclock.errors import WaterclockError
from waterclock.testing.system_world import IMAGE, World

EMPTY = CatalogImage(0, IMAGE.databases, IMAGE.roles, IMAGE.system_owner)


def test_session_facts(world: World) -> None:
    sql = (
        "select current_user, session_user, current_database(), current_schema(), pg_backend_pid()"
    )
    assert world.rows(sql) == [("admin", "admin", "shop", "public", 7)]
    assert world.rows(sql, current_user="alice", search_path=("nowhere", "sales")) == [
        ("alice", "admin", "shop", "sales", 7)
    ]
    assert world.rows("select current_schema()", search_path=("nowhere",)) == [(None,)]


def test_version_is_read_by_clients(world: World) -> None:
    [(version,)] = world.rows("select version()")
    assert str(version).startswith("PostgreSQL 15.0 on ")
    assert world.rows("select mz_version() ~ '^v[0-9]+\\.[0-9]+\\.[0-9]+'") == [(True,)]


def test_a_database_shows_its_own_objects(world: World) -> None:
    sql = "select relname from pg_class where oid >= 20000 order by 1"
    assert world.rows(sql) == [("clicks",), ("customers",), ("customers_name",), ("totals",)]
    assert world.rows(sql, database="other") == [("elsewhere",)]
    assert len(world.rows("select name from mz_objects")) == 8, "mz_* show all databases"


def test_an_unknown_database(world: World) -> None:
    with pytest.raises(UndefinedDatabase, match='database "x" does not exist'):
        world.rows("select 1", database="x")


def test_types_of_columns(world: World) -> None:
    result = world.run(
        "select oid, relname, oid::regclass from pg_class where relname = 'customers'"
    )
    assert [c.type.oid for c in result.columns] == [OID, NAME, REGCLASS]
    assert [c.to_pylist() for c in result.rows.columns] == [[20020], ["customers"], ["customers"]]


def test_the_search_path_decides_how_a_name_is_shown(world: World) -> None:
    sql = "select 'sales.totals'::regclass::text"
    assert world.rows(sql) == [("sales.totals",)]
    assert world.rows(sql, search_path=("sales",)) == [("totals",)]
    with pytest.raises(UndefinedTable, match='relation "totals" does not exist') as caught:
        world.rows("select 1, 'totals'::regclass")
    assert caught.value.position == 11


def test_parameters(world: World) -> None:
    assert world.rows("select relname from pg_class where oid = $1", 20020) == [("customers",)]
    assert world.rows("select $1,$2", "a", "b") == [("a", "b")]
    assert world.rows("select $2 || $1", "a", "b") == [("ba",)]
    assert world.rows("select count(*) from pg_class where oid = any($1)", [20020, 20023]) == [(2,)]
    assert world.rows("select relname from pg_class where oid = $1::regclass", "customers") == [
        ("customers",)
    ]
    sql = "select " + ", ".join(f"${n}::int" for n in range(1, 13))
    assert world.rows(sql, *range(1, 13)) == [tuple(range(1, 13))]


def test_a_parameter_in_a_string_is_none(world: World) -> None:
    assert world.rows("select '$1', $1::text", "x") == [("$1", "x")]
    assert world.rows("select '$s_version'") == [("$s_version",)]


def test_too_few_parameters(world: World) -> None:
    with pytest.raises(WaterclockError, match="supplies 1 parameters") as caught:
        world.rows("select $1, $2", 1)
    assert caught.value.sqlstate == "08P01"


def test_given_types_win(world: World) -> None:
    described = world.answerer.describe("select $1, $2 + 1", [20], world.session)
    assert [p.oid for p in described.parameters] == [20, 23]
    assert [c.type.oid for c in described.columns] == [20, 23]


def test_describing_runs_nothing(world: World) -> None:
    described = world.answerer.describe("select 1 / 0, json_build_object($1, 1)", [], world.session)
    assert [c.name for c in described.columns] == ["?column?", "json_build_object"]


def test_settings(world: World) -> None:
    sql = "select setting, source from pg_settings where name = 'jit'"
    assert world.rows(sql) == [("on", "default")]
    assert world.rows(sql, settings={"jit": "off"}) == [("off", "session")]
    assert world.rows("select current_setting('JIT')", settings={"jit": "off"}) == [("off",)]


def test_set_config_is_handed_on(world: World) -> None:
    result = world.run(
        "select current_setting('jit') as cur, set_config('jit', 'off', false) as new"
    )
    assert result.rows.to_pylist() == [{"cur": "on", "new": "off"}]
    assert [(s.name, s.value, s.local) for s in result.settings] == [("jit", "off", False)]


def test_privileges_follow_membership(world: World) -> None:
    sql = """select has_table_privilege('customers', 'select'),
                    has_table_privilege('customers', 'insert')"""
    assert world.rows(sql) == [(True, True)]
    assert world.rows(sql, current_user="alice") == [(True, False)]


def test_results_with_repeated_and_no_columns(world: World) -> None:
    assert world.rows("select 1 as a, 2 as a") == [(1, 2)]
    nothing = world.run("select from pg_class where oid = 20020")
    assert nothing.columns == ()
    assert nothing.rows.num_rows == 1


def test_names_differ_by_case(world: World) -> None:
    sql = 'select x."A", x.a, x.A from (select 1 as "A", 2 as a) x'
    assert world.rows(sql) == [(1, 2, 2)]


def test_every_relation_can_be_read(world: World) -> None:
    for schema, name in load_facts().columns:
        if not name.endswith("()"):
            world.run(f'select * from {schema}."{name}"')


MZ = {
    "select name from mz_databases order by id": [("shop",), ("other",)],
    """select o.name, o.type from mz_objects o join mz_schemas s on s.id = o.schema_id
       where s.name = 'sales'""": [("totals", "materialized-view")],
    "select name, position, type, type_oid from mz_columns where id = 'u12'": [
        ("at", 1, "integer", 23)
    ],
    "select name, type, envelope_type from mz_sources": [("clicks", "load-generator", "none")],
    "select index_position, on_position, on_expression from mz_index_columns order by 1": [
        (1, 2, None),
        (2, None, "balance + 1"),
    ],
    """select object_sub_id, comment from mz_internal.mz_comments where id = 'u10'
       order by 1 nulls first""": [(None, "people"), (2, "as on the letter")],
    "select object_id, referenced_object_id from mz_internal.mz_object_dependencies": [
        ("u11", "u10")
    ],
    "select status, details from mz_source_statuses": [("running", '{"a": 1}')],
    "select hydrated from mz_hydration_statuses": [(True,)],
    """select c.name, r.name from mz_clusters c
       join mz_cluster_replicas r on r.cluster_id = c.id""": [("quickstart", "r1")],
    "select name from mz_secrets": [("password",)],
    "select name from mz_sinks where connection_id = 'u15'": [("out",)],
    "select name from mz_types where oid = 16464": [("uint8",)],
    "select 'mz_objects'::regclass": [("mz_catalog.mz_objects",)],
}


@pytest.mark.parametrize("sql", MZ)
def test_mz_relations(world: World, sql: str) -> None:
    assert world.rows(sql) == MZ[sql]


def test_mz_relations_are_not_listed_among_the_users_own(world: World) -> None:
    sql = """select relname from pg_class c join pg_namespace n on n.oid = relnamespace
             where nspname not in ('pg_catalog', 'information_schema')
             and pg_table_is_visible(c.oid) and relkind in ('r', 'v', 'm') order by 1"""
    assert world.rows(sql) == [("clicks",), ("customers",)]


def test_a_query_is_bound_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.rows("select relname from pg_class where oid = 20020")
    monkeypatch.setattr("waterclock.catalog.system.answerer.parse", None)
    assert world.rows("select relname from pg_class where oid = 20020") == [("customers",)]


def test_a_new_version_shows(world: World) -> None:
    sql = "select count(*) from pg_class where relname = 'customers'"
    assert world.rows(sql) == [(1,)]
    world.image = replace(EMPTY, version=world.image.version + 1)
    assert world.rows(sql) == [(0,)]
    assert world.rows("select to_regclass('customers')") == [(None,)]


def test_nothing_is_made_anew_for_the_same_version(world: World) -> None:
    world.rows("select count(*) from pg_class")
    world.image = replace(EMPTY, version=world.image.version)
    assert world.rows("select count(*) from pg_class where relname = 'customers'") == [(1,)]


def test_versions_change_under_running_queries(world: World) -> None:
    stop, failures = threading.Event(), []
    sql = """select relname, format_type(atttypid, atttypmod) from pg_class c
             join pg_attribute a on attrelid = c.oid where c.oid = 20020"""

    def ask() -> None:
        while not stop.is_set():
            try:
                world.rows(sql)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        world.image = replace(IMAGE, version=world.image.version + 1)
        time.sleep(0.03)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_cancelling(world: World) -> None:
    cancellation = Cancellation()
    threading.Timer(0.1, cancellation.cancel).start()
    with pytest.raises(QueryCancelled, match="canceling statement due to user request"):
        world.answerer.execute("select pg_sleep(60)", [], world.session, (), cancellation)
    slow = """select count(*)
              from pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d, pg_attribute e
              where a.attname || b.attname || c.attname || d.attname = e.attname"""
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    with pytest.raises(QueryCancelled):
        world.answerer.execute(slow, [], world.session, (), cancellation)
    with pytest.raises(QueryCancelled):
        world.answerer.execute("select 1", [], world.session, (), cancellation)


def test_a_failure_is_logged_with_the_client(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UndefinedFunction, match=r"function nope\(integer\) does not exist"):
        world.rows("select nope(1)")
    assert "application_name='a test'" in caplog.text
    assert "42883" in caplog.text
    assert "nope" not in caplog.text, "the log never has the texts of statements"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("select x from (values (1)) as v(x) where x::text::oid = 'y'", InvalidText),
        ("select lower(relname)::int from pg_class", InvalidText),
        ("select xmlparse(document '')", UndefinedFunction),
        ("select c from pg_class c", FeatureNotSupported),
        ("select 1 from pg_class tablesample system (1)", FeatureNotSupported),
        ("select '10:00+02'::timetz", FeatureNotSupported),
        ("select money '12.34'", FeatureNotSupported),
        ("select relname::inet from pg_class", FeatureNotSupported),
        ("select '{1'::json", FeatureNotSupported),
    ],
)
def test_the_words_of_duckdb_are_not_shown(
    world: World, sql: str, kind: type[WaterclockError]
) -> None:
    with pytest.raises(WaterclockError) as caught:
        world.rows(sql)
    assert "duckdb" not in caught.value.message.lower()
    assert "Candidate" not in caught.value.message
    assert "Error" not in caught.value.message
    assert caught.value.sqlstate != "XX000"
    if kind is not UndefinedFunction:
        assert isinstance(caught.value, kind)


def test_local_times_are_those_of_the_zone(world: World) -> None:
    now = datetime.datetime(2026, 7, 1, 2, 30, tzinfo=datetime.UTC)
    sql = "select current_date, localtimestamp from pg_class limit 1"
    for zone, local in {
        "America/New_York": datetime.datetime(2026, 6, 30, 22, 30),
        "Asia/Kolkata": datetime.datetime(2026, 7, 1, 8, 0),
        "UTC": datetime.datetime(2026, 7, 1, 2, 30),
    }.items():
        found = world.rows(sql, now=now, settings={"timezone": zone})
        assert found == [(local.date(), local)]
    with pytest.raises(FeatureNotSupported, match="local time in the zone"):
        world.rows(sql, now=now, settings={"timezone": "<+05>-05"})


def test_types_of_intervals_show_their_fields(world: World) -> None:
    modifiers = (327679, 458751, 470351871, 469762049, 268435456, 2147418115)
    shown = ", ".join(f"format_type(1186, {modifier})" for modifier in modifiers)
    [row] = world.rows(f"select {shown}")
    assert row == (
        *("interval year", "interval year to month", "interval day to second"),
        *("interval hour to second(1)", "interval second(0)", "interval(3)"),
    )
