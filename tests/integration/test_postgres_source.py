"""A PostgreSQL source against a real server, step by step, with crashes at chosen places."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
import psycopg
import pytest

from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.postgres import pieces as pieces_module
from waterclock.storage.sources.postgres import replication as replication_module
from waterclock.storage.sources.postgres.connector import PostgresSource
from waterclock.storage.sources.postgres.replication import Replication
from waterclock.storage.sources.postgres.requirements import Wanted
from waterclock.storage.sources.status import Health
from waterclock.testing.postgres_source import Scene, drop_slots
from waterclock.testing.services import PostgresServer
from waterclock.testing.source_world import Crash

pytestmark = pytest.mark.service

TWO = """
CREATE TABLE a (id int PRIMARY KEY, v text);
ALTER TABLE a REPLICA IDENTITY FULL;
CREATE TABLE b (id int PRIMARY KEY, v text);
ALTER TABLE b REPLICA IDENTITY FULL;
INSERT INTO a SELECT i, 'a' || i FROM generate_series(1, 10) i;
INSERT INTO b SELECT i, 'b' || i FROM generate_series(1, 5) i;
CREATE PUBLICATION p FOR TABLE a, b
"""
Make = Callable[[str], Scene]


@pytest.fixture
def make(logical_server: PostgresServer) -> Iterator[Make]:
    """Makes scenes, each with a database of its own."""
    made: list[Scene] = []

    def one(setup: str) -> Scene:
        made.append(Scene(logical_server.create_database(f"d{uuid.uuid4().hex}"), setup))
        return made[-1]

    yield one
    for scene in made:
        scene.close()
        with psycopg.connect(scene.conninfo, autocommit=True) as upstream:
            drop_slots(upstream)


@pytest.fixture
def scene(make: Make) -> Scene:
    """Two tables with some rows, and a source that has not been stepped."""
    found = make(TWO)
    found.create()
    return found


def until(holds: Callable[[], bool]) -> None:
    """Wait for what is to happen soon."""
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def runs_after_a_step(scene: Scene) -> bool:
    scene.step()
    return scene.health is Health.RUNNING


def same(scene: Scene, *tables: str) -> None:
    """What is here is what is there."""
    for table in tables:
        assert scene.errors(table) == []
        assert scene.rows(table) == scene.upstream(f"SELECT * FROM {table}")


# Contents


@pytest.mark.semantics(114, 155, 161, 164)
def test_a_snapshot_and_all_that_follows(scene: Scene) -> None:
    scene.step()
    assert scene.ingestion.statistics.first_rows_read == 15
    assert scene.ingestion.statistics.first_rows_known is None  # nobody has counted them yet
    same(scene, "a", "b")
    scene.run(
        "INSERT INTO a VALUES (11, NULL); UPDATE b SET v = 'new' WHERE id < 3;"
        "DELETE FROM a WHERE id = 4"
    )
    scene.caught_up()
    same(scene, "a", "b")
    scene.run("UPDATE a SET id = id + 100; UPDATE a SET id = 1 WHERE id = 101")
    scene.caught_up()
    same(scene, "a", "b")


def test_all_changes_of_a_transaction_have_one_time(scene: Scene) -> None:
    scene.step()
    with scene.sql.transaction():
        scene.sql.execute("INSERT INTO a VALUES (50, 'x')")
        scene.sql.execute("UPDATE a SET v = 'y' WHERE id = 50")
        scene.sql.execute("DELETE FROM b WHERE id = 1")
    scene.caught_up()
    inserted = [
        time
        for (row, time), _ in scene.world.updates(scene.output("a")).items()
        if row == (50, "y")
    ]
    deleted = [t for (row, t), n in scene.world.updates(scene.output("b")).items() if n == -1]
    assert inserted == deleted
    assert (50, "x") not in {row for row, _ in scene.world.updates(scene.output("a"))}


def test_a_step_brings_everything_that_was_committed_before_it(scene: Scene) -> None:
    scene.step()
    for i in range(100, 120):
        scene.sql.execute("INSERT INTO a VALUES (%s, 'x')", [i])
        scene.step()
        assert (i, "x") in scene.rows("a")


def test_what_is_rolled_back_never_was(scene: Scene) -> None:
    scene.step()
    with scene.sql.transaction(force_rollback=True):
        scene.sql.execute("INSERT INTO a VALUES (50, 'x')")
    scene.caught_up()
    same(scene, "a")


@pytest.mark.semantics(113, 114, 161)
def test_transactions_over_two_tables_are_never_torn(make: Make) -> None:
    """Money moves between two tables; at every time there is all of it."""
    scene = make("""
        CREATE TABLE a (id int PRIMARY KEY, money bigint);
        ALTER TABLE a REPLICA IDENTITY FULL;
        CREATE TABLE b (id int PRIMARY KEY, money bigint);
        ALTER TABLE b REPLICA IDENTITY FULL;
        INSERT INTO a SELECT i, 100 FROM generate_series(0, 9) i;
        INSERT INTO b SELECT i, 100 FROM generate_series(0, 9) i;
        CREATE PUBLICATION p FOR TABLE a, b
    """)
    stop = threading.Event()
    writers = [
        threading.Thread(target=move_money, args=(scene.conninfo, i, stop)) for i in range(3)
    ]
    for each in writers:
        each.start()
    try:
        scene.create()
        while scene.health is Health.STARTING or len(scene.times("a")) < 25:
            scene.step()
            assert scene.health is Health.RUNNING, scene.error
    finally:
        stop.set()
        for each in writers:
            each.join()
    scene.caught_up()
    same(scene, "a", "b")
    totals = Counter(total_at(scene, time) for time in scene.times("a", "b"))
    assert set(totals) == {2000}
    assert totals[2000] > 20


def move_money(conninfo: str, which: int, stop: threading.Event) -> None:
    with psycopg.connect(conninfo) as connection:
        for i in count(which):
            if stop.is_set():
                return
            one, other = ("a", "b") if i % 2 else ("b", "a")
            with connection.transaction():
                connection.execute(f"UPDATE {one} SET money = money - 1 WHERE id = {which}")
                connection.execute(f"UPDATE {other} SET money = money + 1 WHERE id = {which + 5}")


def total_at(scene: Scene, time: int) -> int:
    return sum(
        row[1] * times for table in ("a", "b") for row, times in scene.rows(table, time).items()
    )


def test_truncate(scene: Scene) -> None:
    scene.step()
    scene.run("TRUNCATE a")
    scene.caught_up()
    same(scene, "a", "b")
    scene.run("INSERT INTO a VALUES (1, 'x')")
    with scene.sql.transaction():
        scene.sql.execute("INSERT INTO b VALUES (100, 'gone')")
        scene.sql.execute("TRUNCATE a, b")
        scene.sql.execute("INSERT INTO b VALUES (101, 'stays')")
    scene.run(
        "INSERT INTO a VALUES (2, 'y'); DELETE FROM a WHERE id = 2; INSERT INTO a VALUES (3, 'z')"
    )
    scene.caught_up()
    same(scene, "a", "b")
    assert scene.rows("b") == {(101, "stays"): 1}


def test_values_that_are_stored_elsewhere(make: Make) -> None:
    scene = make("""
        CREATE TABLE t (id int PRIMARY KEY, n int, large text, other text);
        ALTER TABLE t ALTER large SET STORAGE EXTERNAL;
        ALTER TABLE t REPLICA IDENTITY FULL;
        INSERT INTO t SELECT i, 0, repeat(md5(i::text), 1000), 'x' FROM generate_series(1, 3) i;
        CREATE PUBLICATION p FOR TABLE t
    """)
    scene.create()
    scene.step()
    scene.run("""
        UPDATE t SET n = n + 1; UPDATE t SET large = large || 'y', other = large WHERE id = 1;
        UPDATE t SET id = 10 WHERE id = 2; DELETE FROM t WHERE id = 3
    """)
    scene.caught_up()
    same(scene, "t")


TYPES = """
bool boolean | true | false
int2 smallint | -32768 | 32767
int4 integer | -2147483648 | 2147483647
int8 bigint | -9223372036854775808 | 9223372036854775807
oid oid | 4294967295 | 0
float4 real | 3.4028235e38 | 'NaN'
float8 double precision | 5e-324 | '-Infinity'
num numeric | 12345678901234567890.000000000000000001 | -0.5
dec numeric(10,3) | -1234567.891 | 0
txt text | E'tab\\t quote" comma, newline\\n\\\\N é 😀' | ''
vc varchar(5) | 'ab' | 'abcde'
ch char(4) | 'a' | ''
nm name | 'n' | ''
byt bytea | '\\x00ff5c' | ''
dat date | '0044-03-15 BC' | 'infinity'
dat2 date | '2024-02-29' | '5874897-12-31'
tim time | '24:00:00' | '12:34:56.789'
ts timestamp | '-infinity' | '2024-02-29 12:34:56.000001'
ts3 timestamp(3) | '0001-01-01 00:00:00 BC' | '10000-01-01 00:00:00'
tsz timestamptz | '2024-07-01 12:00:00+05:30' | '1900-01-01 00:00:00-11'
iv interval | '1 year 2 mons -3 days 04:05:06.789' | '-00:00:00.000001'
id uuid | '00112233-4455-6677-8899-aabbccddeeff' | 'ffffffff-ffff-ffff-ffff-ffffffffffff'
js json | '{"b":1,  "a":[null, 1.0]}' | '"x"'
jb jsonb | '{"b":1,  "a":[null, 1.0]}' | '1e3'
ai integer[] | '{1,NULL,-3}' | '{}'
at text[] | '{a,"b c","",NULL,"NULL","q\\"\\\\,{}"}' | '{é}'
an numeric(6,2)[] | '{1.50,-2}' | '{NULL}'
atz timestamptz[] | '{2024-01-01 00:00:00+00,infinity}' | '{}'
aj jsonb[] | '{"{\\"a\\": 1}"}' | '{}'
mood mood | 'happy' | 'sad'
moods mood[] | '{happy,sad}' | '{}'
dom positive | 5 | 7
net inet | '10.0.0.1/8' | '::1'
rng int4range | '[1,5)' | 'empty'
tz timetz | '12:00:00+02' | '00:00:00-11'
bits bit varying | '10101' | ''
pt point | '(1,2.5)' | '(0,0)'
mon money | 12.5 | -1
comp pair | '(1,"a b")' | '(,)'
mac macaddr | '08:00:2b:01:02:03' | '00:00:00:00:00:00'
ts_q tsvector | 'a fat cat' | ''
x xml | '<a>1</a>' | '<b/>'
"""


def test_types_have_the_text_that_postgres_has_for_them(make: Make) -> None:
    columns = [[part.strip() for part in line.split(" | ")] for line in TYPES.strip().splitlines()]
    declared = ", ".join(each[0] for each in columns)
    rows = [", ".join(each[i] for each in columns) for i in (1, 2)]
    nulls = ", ".join("NULL" for _ in columns)
    scene = make("SELECT 1")
    for statement in (
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS integer CHECK (value > 0)",
        "CREATE TYPE pair AS (one int, two text)",
        f"CREATE TABLE t (k int PRIMARY KEY, {declared})",
        "ALTER TABLE t ADD twice int GENERATED ALWAYS AS (k * 2) STORED",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t VALUES (1, {rows[0]}), (2, {rows[1]}), (3, {nulls})",
        "CREATE PUBLICATION p FOR TABLE t",
    ):
        scene.sql.execute(statement)
    scene.create()
    scene.step()
    check_texts(scene)
    scene.sql.execute("UPDATE t SET k = k + 10")
    scene.sql.execute(f"INSERT INTO t VALUES (1, {rows[0]}), (2, {rows[1]}), (3, {nulls})")
    scene.caught_up()
    assert scene.errors("t") == []
    check_texts(scene)


def check_texts(scene: Scene) -> None:
    """Every value here, written as our server writes it, is what PostgreSQL writes."""
    [table] = scene.definition.tables
    assert "twice" not in table.rows.names
    rows = scene.table("t")
    found: dict[str, list[str | None]] = {}
    for column in table.columns:
        values = rows[column.name].combine_chunks()
        found[column.name] = encode_text(values, column.held, zone_named("UTC")).to_pylist()
    with psycopg.connect(scene.conninfo, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        for column in table.columns:
            text = f"CASE WHEN num_nulls({column.name}) = 0 THEN format('%s', {column.name}) END"
            expected = dict(connection.execute(f"SELECT k::text, {text} FROM t").fetchall())
            ours = dict(zip(found["k"], found[column.name], strict=True))
            assert ours == expected, column.name


RANDOM = {
    "i2": "((random() - 0.5) * 65000)::smallint",
    "i8": "((random() - 0.5) * 1e18)::bigint",
    "f4": "(exp((random() - 0.5) * 100) * sign(random() - 0.5))::real",
    "f8": "exp((random() - 0.5) * 1000) * sign(random() - 0.5)",
    "dec": "((random() - 0.5) * 1e12)::numeric(20,5)",
    "dat": "date '1900-01-01' + (random() * 100000)::int",
    "tim": "time '00:00' + random() * interval '1 day'",
    "ts": "timestamp '1000-01-01' + random() * interval '2000 years'",
    "tsz": "timestamptz '1900-01-01' + random() * interval '200 years'",
    "iv": "make_interval(years => (random() * 9 - 4)::int, months => (random() * 9 - 4)::int,"
    " days => (random() * 99 - 50)::int, secs => random() * 99999 - 50000)",
    "id": "md5(random()::text)::uuid",
    "byt": "decode(md5(random()::text), 'hex')",
    "txt": "CASE WHEN random() < 0.9 THEN repeat(chr(40 + (random() * 900)::int), i % 20) END",
    "jb": "jsonb_build_object(md5(random()::text), i, 'n', random(), 'x', NULL)",
    "ai": "ARRAY(SELECT (random() * 99)::int FROM generate_series(1, i % 5))",
    "at": "ARRAY[chr(34 + i % 90), NULL, '{' || i]",
    "yes": "random() < 0.5",
}


def test_many_values_are_the_same_by_both_ways(make: Make) -> None:
    """Half of them come with the snapshot and half with the stream, in large batches."""
    scene = make("SELECT setseed(0.5)")
    names, values = ", ".join(RANDOM), ", ".join(RANDOM.values())
    rows = f"SELECT i AS k, {values} FROM generate_series(1, 1000) i"
    scene.sql.execute(f"CREATE TABLE t (k, {names}) AS {rows}")
    scene.sql.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    scene.sql.execute("CREATE PUBLICATION p FOR TABLE t")
    scene.create()
    scene.step()
    check_texts(scene)
    scene.sql.execute("UPDATE t SET k = k + 1000")
    scene.sql.execute(f"INSERT INTO t {rows}")
    scene.caught_up()
    assert scene.errors("t") == []
    check_texts(scene)


def test_a_value_that_can_not_be_held_is_an_error_until_it_is_gone(make: Make) -> None:
    scene = make("""
        CREATE TABLE t (id int PRIMARY KEY, n numeric);
        ALTER TABLE t REPLICA IDENTITY FULL;
        INSERT INTO t VALUES (1, 'NaN'), (2, 1);
        CREATE PUBLICATION p FOR TABLE t
    """)
    scene.create()
    scene.step()
    [error] = scene.errors("t")
    assert error.startswith('22003 column "n" of table public.t: "NaN" can not be held as numeric')
    scene.run("UPDATE t SET n = 0.0000000000000000000000000000000000001 WHERE id = 1")
    scene.caught_up()
    [error] = scene.errors("t")
    assert "0.0000000000000000000000000000000000001" in error
    scene.run("UPDATE t SET n = 3 WHERE id = 1")
    scene.caught_up()
    same(scene, "t")


def test_columns_as_text_and_columns_left_out(make: Make) -> None:
    scene = make("""
        CREATE TABLE t (id int PRIMARY KEY, n numeric, secret text, grid int[]);
        ALTER TABLE t REPLICA IDENTITY FULL;
        INSERT INTO t VALUES (1, 'NaN', 'x', '{{1,2},{3,4}}');
        CREATE PUBLICATION p FOR TABLE t
    """)
    as_text = [(None, "t", "n"), ("public", "t", "grid")]
    scene.create(Wanted("p", as_text=as_text, excluded=[(None, "t", "secret")]))
    scene.step()
    scene.run("UPDATE t SET n = n + 1, grid = '[0:1]={7,8}'")
    scene.caught_up()
    assert scene.rows("t") == {(1, "NaN", "[0:1]={7,8}"): 1}


def test_a_large_table_is_read_in_pieces(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "_PAGES", 3)
    monkeypatch.setattr(pieces_module, "_AT_ONCE_BYTES", 1000)
    scene = make(
        f"{TWO}; INSERT INTO a SELECT i, repeat('x', i % 100) FROM generate_series(11, 5000) i"
    )
    scene.run("ANALYZE a; ANALYZE b")
    scene.create()
    scene.step()
    same(scene, "a", "b")
    statistics = scene.ingestion.statistics
    assert statistics.first_rows_known == statistics.first_rows_read == 5005


def test_partitions_and_a_row_filter(make: Make) -> None:
    scene = make("""
        CREATE TABLE t (id int, part int) PARTITION BY LIST (part);
        CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1);
        CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
        ALTER TABLE t1 REPLICA IDENTITY FULL;
        ALTER TABLE t2 REPLICA IDENTITY FULL;
        CREATE TABLE f (id int PRIMARY KEY, v int);
        ALTER TABLE f REPLICA IDENTITY FULL;
        INSERT INTO t VALUES (1, 1), (2, 2);
        INSERT INTO f VALUES (1, 10), (2, -10);
        CREATE PUBLICATION p FOR TABLE t, f WHERE (v > 0)
    """)
    scene.create()
    scene.step()
    scene.run(
        "UPDATE t SET part = 2 WHERE id = 1; INSERT INTO t VALUES (3, 1); UPDATE f SET v = -v"
    )
    scene.caught_up()
    same(scene, "t1", "t2")
    assert scene.rows("f") == scene.upstream("SELECT * FROM f WHERE v > 0")


# What changes upstream


def test_what_does_not_concern_us_goes_on(scene: Scene) -> None:
    scene.step()
    scene.run("""
        ALTER TABLE a ADD COLUMN more int DEFAULT 7; INSERT INTO a VALUES (20, 'x', 1);
        UPDATE a SET v = 'y' WHERE id = 1; ALTER TABLE b RENAME TO c;
        INSERT INTO c VALUES (20, 'z'); CREATE TABLE d (id int);
        ALTER PUBLICATION p ADD TABLE d; INSERT INTO d VALUES (1)
    """)
    scene.caught_up()
    assert scene.rows("a") == scene.upstream("SELECT id, v FROM a")
    assert scene.rows("b") == scene.upstream("SELECT * FROM c")
    scene.run("ALTER TABLE a DROP COLUMN more; VACUUM FULL a; INSERT INTO a VALUES (21, 'x')")
    scene.caught_up()
    same(scene, "a")


def test_a_column_with_a_default_goes_on_when_the_table_is_written_anew(make: Make) -> None:
    """It was added quickly: its default is in the server's catalog until all rows are rewritten."""
    scene = make(TWO)
    scene.run("ALTER TABLE a ADD COLUMN quick int DEFAULT 7; ALTER TABLE b ADD quick int DEFAULT 7")
    scene.create()
    scene.step()
    scene.run("""
        ALTER TABLE a ADD COLUMN more timestamptz DEFAULT clock_timestamp();
        INSERT INTO a VALUES (20, 'x', 1); DELETE FROM a WHERE id = 1; VACUUM FULL b
    """)
    scene.caught_up()
    assert scene.rows("a") == scene.upstream("SELECT id, v, quick FROM a")
    scene.run("UPDATE b SET v = 'y'; ALTER TABLE a ALTER quick TYPE int USING quick + 1")
    scene.run("VACUUM FULL b; INSERT INTO b VALUES (20, 'z')")
    scene.caught_up()
    same(scene, "b")
    [told] = scene.errors("a")
    assert 'column "quick" was altered and the table written anew upstream' in told


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ("ALTER TABLE a DROP COLUMN v", 'column "v" was dropped or renamed upstream'),
        ("ALTER TABLE a RENAME COLUMN v TO w", 'column "v" was dropped or renamed upstream'),
        ("ALTER TABLE a ALTER v TYPE varchar(9)", 'the type of column "v" was changed upstream'),
        ("ALTER TABLE a DROP COLUMN v; ALTER TABLE a ADD v text", 'column "v" was dropped'),
        (
            "ALTER TABLE a ALTER v TYPE text USING upper(v)",
            'column "v" was altered and the table written anew upstream',
        ),
        ("ALTER TABLE a REPLICA IDENTITY DEFAULT", "its REPLICA IDENTITY is not FULL any more"),
        (
            "ALTER TABLE a REPLICA IDENTITY DEFAULT; DELETE FROM a WHERE id = 1;"
            "ALTER TABLE a REPLICA IDENTITY FULL",
            "its REPLICA IDENTITY is not FULL any more",
        ),
        ("DROP TABLE a", "it was dropped upstream, or taken out of the publication"),
        ("ALTER PUBLICATION p DROP TABLE a", "it was dropped upstream, or taken out"),
        (
            "ALTER PUBLICATION p DROP TABLE a; DELETE FROM a; ALTER PUBLICATION p ADD TABLE a",
            "it was taken out of the publication and put in again",
        ),
    ],
)
def test_what_concerns_a_table_fails_it_and_no_other(
    scene: Scene, statements: str, reason: str
) -> None:
    scene.step()
    scene.run("INSERT INTO a VALUES (50, 'last')")
    scene.caught_up()
    before = scene.rows("a")
    scene.run(f"{statements}; INSERT INTO b VALUES (50, 'x')")
    scene.caught_up()
    [error] = scene.errors("a")
    assert error.startswith("55000 table public.a can not be followed any more: ")
    assert reason in error
    same(scene, "b")
    scene.crash()
    scene.run("INSERT INTO b VALUES (51, 'y')")
    scene.caught_up()
    assert scene.errors("a") == [error]
    assert scene.rows("a") == before
    same(scene, "b")
    report = scene.ingestion.report()
    assert report.status.health is Health.RUNNING
    [(output, status)] = report.failed.items()
    assert output == scene.ingestion.description.outputs["public.a"]
    assert status.health is Health.FAILED
    assert error.endswith(str(status.error))


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("DROP PUBLICATION p", 'publication "p" was dropped upstream'),
        (
            "ALTER PUBLICATION p SET (publish = 'insert'); DELETE FROM a;"
            "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')",
            'publication "p" was altered upstream',
        ),
    ],
)
def test_a_publication_that_was_changed_ends_the_source(
    scene: Scene, statements: str, message: str
) -> None:
    scene.step()
    scene.run(statements)
    scene.step()
    assert scene.health is Health.FAILED
    assert str(scene.error) == message or 'publication "p" does not exist' in str(scene.error)


def test_a_slot_that_is_gone_ends_the_source(scene: Scene) -> None:
    scene.step()
    scene.crash()
    drop_slots(scene.sql)
    scene.run("INSERT INTO a VALUES (50, 'lost')")
    scene.step()
    assert scene.health is Health.FAILED
    error = scene.ingestion.status.error
    assert error is not None
    assert error.message == f'replication slot "{scene.slot}" does not exist any more upstream'
    assert error.hint == "Drop the source and create it again to read what is upstream now."
    assert (50, "lost") not in scene.rows("a")


def test_a_slot_that_has_lost_its_log_ends_the_source() -> None:
    settings = {"wal_level": "logical", "max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB"}
    with PostgresServer(settings) as server:
        scene = Scene(server.create_database("d"), TWO)
        scene.create()
        scene.step()
        scene.crash()
        scene.run("CREATE TABLE more AS SELECT repeat('x', 1000) FROM generate_series(1, 60000)")
        scene.run("SELECT pg_switch_wal(); CHECKPOINT")
        scene.step()
        assert scene.health is Health.FAILED
        assert str(scene.error) == (
            f'replication slot "{scene.slot}" has lost the log it needs upstream'
        )
        scene.close()


def test_a_slot_that_somebody_else_has_read_ends_the_source(scene: Scene) -> None:
    scene.step()
    scene.crash()
    scene.run("INSERT INTO a VALUES (50, 'lost')")
    advance = "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())"
    scene.sql.execute(advance, [scene.slot])
    scene.step()
    assert scene.health is Health.FAILED
    assert "was advanced upstream by somebody else" in str(scene.error)


def test_another_server_at_the_same_address_ends_the_source(scene: Scene) -> None:
    scene.step()
    scene.crash()
    [system] = (
        scene.sql.execute("SELECT system_identifier FROM pg_control_system()").fetchone() or ()
    )
    assert scene.definition.system == str(system)
    other = msgspec.structs.replace(scene.definition, system="1")
    source = PostgresSource(other, scene.ingestion._surroundings)
    source.resume(SourceFrontier.single(scene.lsn_at(scene.world.now)))
    with pytest.raises(SourceFault, match="leads to another PostgreSQL server"):
        source.probe()
    source.close()


# Crashes and faults


def output_writes(scene: Scene) -> Callable[[Any], bool]:
    """Whether an append is that of the data and not that of a binding."""

    def is_data(writes: Any) -> bool:
        filled = {write.capability.id for write in writes if write.updates is not None}
        return scene.output("a") in filled

    return is_data


def crash_before_append(scene: Scene) -> None:
    scene.world.crash_at = output_writes(scene)
    with pytest.raises(Crash):
        scene.step()
    scene.crash()


@pytest.mark.semantics(113, 114, 151)
def test_a_crash_between_binding_and_append(scene: Scene) -> None:
    scene.step()
    scene.run("UPDATE a SET v = 'bound'; DELETE FROM b WHERE id = 1")
    crash_before_append(scene)
    scene.run("UPDATE a SET v = 'later'; TRUNCATE b")
    bound_at = scene.world.now
    scene.caught_up()
    same(scene, "a", "b")
    [bound] = {
        time
        for (row, time), _ in scene.world.updates(scene.output("a")).items()
        if row[1] == "bound" and time <= bound_at
    }
    assert bound == bound_at
    assert {row[1] for row in scene.rows("a", bound)} == {"bound"}
    assert scene.rows("b", bound) == {(i, f"b{i}"): 1 for i in range(2, 6)}


@pytest.mark.semantics(113, 114, 151)
def test_a_crash_while_the_first_contents_are_read(scene: Scene) -> None:
    """The snapshot is gone with the crash, but what is bound is what was there then."""
    first = {table: scene.upstream(f"SELECT * FROM {table}") for table in ("a", "b")}
    crash_before_append(scene)
    scene.run("UPDATE a SET v = 'later'; DELETE FROM a WHERE id = 1; INSERT INTO b VALUES (9, 'x')")
    scene.run(
        "UPDATE b SET id = id + 10; DELETE FROM b WHERE id = 19; INSERT INTO b VALUES (9, 'x')"
    )
    scene.caught_up()
    same(scene, "a", "b")
    bound_at = min(scene.times("a", "b"))
    for table, rows in first.items():
        assert scene.rows(table, bound_at) == rows


def test_a_crash_after_the_slot_was_made(scene: Scene) -> None:
    """Nothing was bound, so the source begins anew, with one slot."""
    scene.world.crash_at = lambda writes: scene.world.now > 1000 and len(writes) == 1
    with pytest.raises(Crash):
        scene.step()
    scene.crash()
    scene.run("UPDATE a SET v = 'later'")
    scene.caught_up()
    same(scene, "a", "b")
    count_slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert scene.upstream(count_slots) == {(1,): 1}


def test_a_truncate_before_the_first_contents_could_be_read_again(scene: Scene) -> None:
    crash_before_append(scene)
    scene.run("TRUNCATE a; INSERT INTO b VALUES (9, 'x')")
    scene.caught_up()
    [error] = scene.errors("a")
    assert "it was truncated while its first contents were read" in error
    same(scene, "b")


def test_truncate_waits_until_the_snapshot_was_read(scene: Scene) -> None:
    """TRUNCATE does not care for snapshots; it must not empty what we are about to read."""
    ingestion = scene.ingestion
    source = PostgresSource(scene.definition, ingestion._surroundings)
    probe = source.probe()
    other = psycopg.connect(scene.conninfo, autocommit=True)
    truncate = threading.Thread(target=other.execute, args=("TRUNCATE a",))
    truncate.start()
    ranges = probe.frontier.ranges_since(source.start())
    rows = sum(each.batch.num_rows for each in source.read(ranges) if each.output == "public.a")
    source.close()
    truncate.join(240)
    other.close()
    assert rows == 10


@pytest.mark.semantics(151)
def test_the_log_is_released_when_we_have_it_and_not_before(scene: Scene) -> None:
    scene.step()
    scene.run("INSERT INTO a SELECT i, 'x' FROM generate_series(100, 200) i")
    [(before,)] = confirmed(scene)
    crash_before_append(scene)
    assert confirmed(scene) == {(before,): 1}
    scene.caught_up()
    bound = scene.ingestion.statistics.offsets_committed
    until(lambda: confirmed(scene) == {(bound,): 1})
    assert bound > before
    same(scene, "a")


def confirmed(scene: Scene) -> Counter[tuple[Any, ...]]:
    return scene.upstream(
        "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots"
        f" WHERE slot_name = '{scene.slot}'"
    )


def test_a_server_that_is_restarted(make: Make, logical_server: PostgresServer) -> None:
    scene = make(TWO)
    scene.create()
    scene.step()
    scene.run("INSERT INTO a VALUES (50, 'x')")
    scene.sql.close()
    logical_server.stop(immediate=True)
    try:
        for _ in range(2):
            assert scene.step().again_ms
            assert scene.health is Health.STALLED
            assert "could not read from PostgreSQL" in str(scene.error)
    finally:
        logical_server.start()
    scene.sql = psycopg.connect(scene.conninfo, autocommit=True)
    scene.run("INSERT INTO a VALUES (51, 'y')")
    until(lambda: scene.step().again_ms is None and scene.health is Health.RUNNING)
    scene.caught_up()
    same(scene, "a", "b")


def test_a_transaction_that_takes_long_is_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot can not be made while one is under way that began before; that is told, not hidden."""
    command = Replication._command

    def impatient(self: Replication, text: str, expected: Any) -> Any:
        if text.startswith("CREATE_REPLICATION_SLOT"):
            monkeypatch.setattr(replication_module, "_COMMAND_SECONDS", 0.5)
        return command(self, text, expected)

    monkeypatch.setattr(Replication, "_command", impatient)
    with psycopg.connect(scene.conninfo) as other:
        other.execute("INSERT INTO a VALUES (50, 'before')")
        scene.step()
        assert scene.health is Health.STALLED
        assert "CREATE_REPLICATION_SLOT takes long upstream" in str(scene.error)
        assert scene.world.upper(scene.output("a")) == 1000  # nothing can be read yet
    monkeypatch.undo()
    until(lambda: runs_after_a_step(scene))
    scene.caught_up()
    same(scene, "a", "b")


def test_a_slot_in_use_is_waited_for(scene: Scene) -> None:
    scene.step()
    scene.run("INSERT INTO a VALUES (50, 'x')")
    scene.step()
    first = scene.ingestion
    scene.start()
    scene.step()
    assert scene.health is Health.STALLED
    assert "is active for PID" in str(scene.error)
    first.close()
    until(lambda: runs_after_a_step(scene))
    scene.caught_up()
    same(scene, "a")


def test_the_bound_frontier_is_in_the_remap(scene: Scene) -> None:
    scene.step()
    first = scene.lsn_at(scene.world.now)
    scene.run("INSERT INTO a VALUES (50, 'x')")
    scene.caught_up()
    assert scene.lsn_at(scene.world.now) == scene.ingestion.statistics.offsets_committed > first
    assert scene.ingestion.statistics.lag_offsets == 0
