"""Mistakes are told as PostgreSQL tells them: the same words at the same character.

The server only parses here: a statement is prepared, which for anything but a query checks nothing
else, and never run.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import DiagnosticField

from waterclock.sql.errors import SqlFault
from waterclock.sql.keywords import COLUMN_NAME, RESERVED, TYPE_OR_FUNCTION, UNRESERVED
from waterclock.sql.lexer import lex
from waterclock.sql.parser import parse_statements
from waterclock.sql.quoting import quote_ident, quote_literal
from waterclock.testing.services import PostgresServer

pytestmark = pytest.mark.service

BROKEN = """\
selct 1
select 'abc
select "abc
select ""
select 1_000
select 12ab
select 1e+
select $1x
select $
select {
select (1
select 1)
select (1]
select /* a /* b */ c
select $q$ abc
select b'01
select e'\\ud800'
select U&'\\12'
select U&'a' UESCAPE 'aa'
select 1; ; foo
(insert
ä ö
'select'
with a as select 1
with a as (select 1) foo
with a as (1) select 1
table
table t foo
insert t
insert into t
insert into t values ()
insert into t (a values (1)
insert into t values (1) returning
update t set
update t set a = where b
delete t
delete from t where
truncate
copy t
copy t from stdin with foo
copy (select 1) from stdin
set
set x = select
set transaction
set time zone
show
reset a b
discard foo
begin isolation level foo
begin read only,
commit and
rollback to
prepare p
prepare p as begin
execute p ()
declare c for select 1
fetch forward x y
fetch 99999999999 c
close
listen 'a'
notify a, b
create
create or
create or replace table t (a int)
create temporary schema s
create schema if not
create table
create table select (a int)
create table t
create table t (a
create table t (a)
create table t (a int,)
create table t (a int not)
create table t (a int default)
create table t (a int, primary key a)
create table t (a int(3))
create table t (a varchar(1,2))
create table t (a timestamp with zone)
create table t (check (a > 1, b int)
create view v
create view v () as select 1
create materialized v
create index i t (a)
create index i on t ()
create index i on t (a desc nulls)
create role
create role r password
create role r in a
drop
drop foo x
drop table if x
drop table a b
alter table t
alter table t rename a b
alter table t alter a set
alter table t drop c,
alter view v owner r
comment on table t
comment on table t is x
grant x
grant select on t
grant all to r
revoke grant option
revoke select on t to r
explain
explain explain select 1
create role none
create role r foo
""".splitlines()


VALID = """\
INSERT INTO a.t (x, y) VALUES (1, DEFAULT), ($1, 'b') RETURNING x AS z, y
INSERT INTO t AS u DEFAULT VALUES RETURNING *
INSERT INTO t SELECT 1 RETURNING id
UPDATE ONLY t AS u SET a = 1, b = DEFAULT, (c, d) = (3, DEFAULT), (e, f) = (SELECT 1, 2) FROM v,\
 w WHERE u.a = v.a RETURNING *
DELETE FROM t u USING v WHERE u.a = v.a RETURNING u.*
TRUNCATE TABLE ONLY a, b.c RESTART IDENTITY CASCADE
COPY t (a, b) FROM STDIN WITH (FORMAT csv, DELIMITER ',', NULL '', HEADER true, QUOTE '"', \
ESCAPE '"', FORCE_NOT_NULL (a, b), ENCODING 'utf8') WHERE a > 1
COPY t TO STDOUT WITH CSV HEADER DELIMITER AS ';' NULL AS 'x' QUOTE 'q' ESCAPE 'e' FORCE QUOTE a, b
COPY t FROM STDIN BINARY
COPY BINARY t FROM STDIN
COPY (SELECT 1) TO STDOUT (FORMAT binary)
SET SESSION search_path TO a, 'b', "C"
SET LOCAL statement_timeout = -5
SET TIME ZONE 'UTC'
SET TIME ZONE LOCAL
SET x.y = on
SET NAMES 'utf8'
SET ROLE foo
SET SESSION AUTHORIZATION DEFAULT
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT \
DEFERRABLE
SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE
RESET ALL
RESET SESSION AUTHORIZATION
SHOW a.b
SHOW TRANSACTION ISOLATION LEVEL
DISCARD ALL
BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY DEFERRABLE
START TRANSACTION READ WRITE
COMMIT WORK AND NO CHAIN
END TRANSACTION
ROLLBACK AND CHAIN
ROLLBACK WORK TO SAVEPOINT a
SAVEPOINT a
RELEASE SAVEPOINT a
PREPARE p (int, text[], numeric(10,2)) AS SELECT $1
EXECUTE p (1, 'a')
DEALLOCATE PREPARE p
DEALLOCATE ALL
DECLARE c BINARY NO SCROLL CURSOR WITH HOLD FOR SELECT 1
FETCH FORWARD 5 FROM c
FETCH ABSOLUTE -1 IN c
FETCH ALL FROM c
FETCH PRIOR c
MOVE BACKWARD ALL IN c
MOVE 3 c
CLOSE ALL
CLOSE c
LISTEN a
UNLISTEN *
NOTIFY a, 'b'
CREATE SCHEMA IF NOT EXISTS s AUTHORIZATION r
CREATE DATABASE d WITH OWNER = r ENCODING 'UTF8' CONNECTION LIMIT 5
CREATE TABLE IF NOT EXISTS a.t (a int NOT NULL DEFAULT 1 + 2 PRIMARY KEY, b varchar(20)[] \
UNIQUE, c timestamp(3) with time zone NULL CHECK (c > 1), d double precision REFERENCES u (x) ON\
 DELETE CASCADE, CONSTRAINT k PRIMARY KEY (a, b), UNIQUE (a), CHECK (a > 0), FOREIGN KEY (a, b) \
REFERENCES v (c, d)) WITH (fillfactor = 70)
CREATE TEMPORARY TABLE t (a integer ARRAY[3], b national character varying (3), c "char") ON \
COMMIT PRESERVE ROWS
CREATE TABLE t (a, b) AS SELECT 1, 2
CREATE OR REPLACE TEMPORARY VIEW v (a, b) AS SELECT 1, 2
CREATE MATERIALIZED VIEW IF NOT EXISTS v (a) AS SELECT 1 WITH DATA
CREATE INDEX IF NOT EXISTS i ON t USING btree (a, lower(b) DESC NULLS LAST, (c + 1)) WITH \
(fillfactor = 70)
CREATE INDEX ON t (a)
REFRESH MATERIALIZED VIEW CONCURRENTLY a.v WITH NO DATA
CREATE ROLE r WITH LOGIN NOSUPERUSER PASSWORD 'x' CONNECTION LIMIT -1 VALID UNTIL 'infinity' IN \
ROLE a, b ADMIN c
CREATE USER u ENCRYPTED PASSWORD 'x' CREATEDB INHERIT
ALTER ROLE r PASSWORD NULL NOLOGIN
ALTER USER r SET search_path TO a, b
ALTER ROLE r RENAME TO s
ALTER ROLE ALL RESET ALL
ALTER TABLE IF EXISTS ONLY t ADD COLUMN IF NOT EXISTS c int NOT NULL, DROP COLUMN IF EXISTS d \
CASCADE, ALTER COLUMN e SET DEFAULT 1, ALTER f DROP NOT NULL, ALTER g SET DATA TYPE text USING \
h, ADD CONSTRAINT k CHECK (a > 1), DROP CONSTRAINT k, OWNER TO r
ALTER TABLE t RENAME COLUMN a TO b
ALTER TABLE t RENAME TO u
ALTER VIEW v SET SCHEMA s
ALTER TABLE t SET (fillfactor = 70)
ALTER INDEX i RESET (fillfactor)
ALTER SCHEMA s OWNER TO CURRENT_USER
ALTER SYSTEM SET work_mem TO 5
DROP TABLE IF EXISTS a.b, c CASCADE
DROP MATERIALIZED VIEW v RESTRICT
DROP ROLE IF EXISTS a, b
DROP SCHEMA s
GRANT SELECT, INSERT (a, b) ON TABLE t, u TO r, PUBLIC WITH GRANT OPTION
GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA s, u TO GROUP r
GRANT a, b TO c WITH ADMIN OPTION
REVOKE GRANT OPTION FOR USAGE ON SCHEMA s FROM r CASCADE
REVOKE ADMIN OPTION FOR a FROM b
COMMENT ON TABLE a.t IS 'x'
COMMENT ON COLUMN a.t.c IS NULL
EXPLAIN ANALYZE VERBOSE SELECT 1
EXPLAIN (ANALYZE, FORMAT json) SELECT 1
WITH a AS (SELECT 1), b (x) AS NOT MATERIALIZED (SELECT 2) INSERT INTO t SELECT 1
WITH RECURSIVE a AS (SELECT 1) SELECT 1
(SELECT 1) UNION (VALUES (2))
TABLE t
""".splitlines()


@pytest.fixture(scope="module")
def connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as opened:
        yield opened


def told_by_postgres(connection: psycopg.Connection, text: str) -> tuple[str, str, int | None]:
    result = connection.pgconn.prepare(b"", text.encode())
    message = result.error_field(DiagnosticField.MESSAGE_PRIMARY)
    assert message is not None, f"PostgreSQL accepts {text!r}"
    state = result.error_field(DiagnosticField.SQLSTATE)
    assert state is not None
    position = result.error_field(DiagnosticField.STATEMENT_POSITION)
    return message.decode(), state.decode(), int(position) if position else None


@pytest.mark.parametrize("text", BROKEN)
def test_the_same_mistake(connection: psycopg.Connection, text: str) -> None:
    with pytest.raises(SqlFault) as raised:
        parse_statements(text)
    fault = raised.value
    assert (str(fault), fault.sqlstate, fault.position) == told_by_postgres(connection, text)


@pytest.mark.parametrize("text", VALID)
def test_every_beginning_of_a_statement(connection: psycopg.Connection, text: str) -> None:
    """A statement that breaks off is wrong at the same place, or is a statement here as there."""
    for token in lex(text)[:-1]:
        beginning = text[: token.end]
        assert refused_by_us(beginning) == refused_by_postgres(connection, beginning), beginning


def refused_by_us(text: str) -> tuple[str, str, int | None] | None:
    try:
        parse_statements(text)
    except SqlFault as fault:
        return str(fault), fault.sqlstate, fault.position
    return None


def refused_by_postgres(
    connection: psycopg.Connection, text: str
) -> tuple[str, str, int | None] | None:
    """What the grammar has against it; what a query's names or types have is no matter here."""
    result = connection.pgconn.prepare(b"", text.encode())
    if result.error_field(DiagnosticField.SQLSTATE) != b"42601":
        return None
    return told_by_postgres(connection, text)


def test_key_words(connection: psycopg.Connection) -> None:
    rows = connection.execute("select word, catcode::text from pg_get_keywords()").fetchall()
    ours = {"R": RESERVED, "T": TYPE_OR_FUNCTION, "C": COLUMN_NAME, "U": UNRESERVED}
    for code, words in ours.items():
        assert words == {word for word, found in rows if found == code}


TRICKY = ["a", "A", "select", "int", "left", "source", "a b", 'a"b', "a'b", "a\\b", "ä", "_1", "$a"]


@pytest.mark.parametrize("text", TRICKY)
def test_quoting(connection: psycopg.Connection, text: str) -> None:
    row = connection.execute("select quote_ident(%s), quote_literal(%s)", (text, text)).fetchone()
    assert row == (quote_ident(text), quote_literal(text).removeprefix(" "))


STRINGS = [
    "'a'\n'b'", "'it''s'", r"E'\t\\\'\101\x41\u0041\U0001F600'", r"U&'d\0061t\+000061'",
    r"U&'d!0061!!' UESCAPE '!'", "$$it's$$", "$a$ $$ $a$", r"E'\xc3\xa4'", r"E'\ud83d\ude00'",
    "'a' -- b\n 'c'", "E'a'\n'\\n'",
]  # fmt: skip


@pytest.mark.parametrize("text", STRINGS)
def test_strings_mean_the_same(connection: psycopg.Connection, text: str) -> None:
    row = connection.execute(f"select {text}::text".encode()).fetchone()
    assert row is not None
    assert lex(text)[0].value == row[0]
