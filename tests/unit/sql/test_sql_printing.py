"""Statements as text, and the same statement read from it."""

from __future__ import annotations

from typing import get_args

import pytest

from waterclock.model.pg_types import INT4
from waterclock.sql.ast import CreateStatement
from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectName
from waterclock.sql.ast.relations import ColumnDefinition, CreateTable
from waterclock.sql.parser import parse_statements
from waterclock.sql.printing import create_text

CANONICAL = [
    "CREATE DATABASE d OWNER = r",
    "CREATE SCHEMA IF NOT EXISTS d.s AUTHORIZATION r",
    'CREATE TABLE d.s."T" (a integer NOT NULL DEFAULT 1 + 2 PRIMARY KEY, '
    'b character varying(20)[] CONSTRAINT k UNIQUE, c "char" REFERENCES u (v), '
    "d timestamp(3) with time zone CHECK (d > now()), CONSTRAINT x PRIMARY KEY (a, b), "
    'FOREIGN KEY (a, "B") REFERENCES v, UNIQUE (a))',
    "CREATE TEMPORARY TABLE IF NOT EXISTS t (a bpchar, b character(1), c bpchar[]) "
    "WITH (RETAIN HISTORY = '1h')",
    "CREATE TABLE t ()",
    "CREATE TABLE t (a, b) AS SELECT 1, 2 WITH NO DATA",
    "CREATE OR REPLACE VIEW d.s.v (a) AS SELECT\n  1",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS d.s.v (a) IN CLUSTER c "
    "WITH (ASSERT NOT NULL = a, REFRESH EVERY = '1 day' ALIGNED TO x) AS SELECT 1",
    "CREATE INDEX i IN CLUSTER c ON d.s.t USING btree (a DESC NULLS LAST, lower(b), (c + 1))",
    "CREATE DEFAULT INDEX ON t",
    "CREATE SOURCE d.s.x IN CLUSTER c FROM LOAD GENERATOR AUCTION (TICK INTERVAL = '1s', "
    "SCALE FACTOR = 0.01) FOR ALL TABLES EXPOSE PROGRESS AS d.s.p WITH (A = 1)",
    "CREATE SOURCE s (a, b) FROM KAFKA CONNECTION k (TOPIC = 'x', START OFFSET = (0, 10)) "
    "KEY FORMAT TEXT VALUE FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r "
    "INCLUDE KEY AS k, HEADER 'h' AS hh ENVELOPE UPSERT (VALUE DECODING ERRORS = (INLINE AS e))",
    "CREATE SOURCE s FROM KAFKA (BROKER = 'h', TOPIC = 't') FORMAT JSON ENVELOPE NONE",
    "CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION = 'x', TEXT COLUMNS = (a.b.c)) "
    "FOR TABLES (public.a AS x.b, c)",
    "CREATE SOURCE s FROM KAFKA CONNECTION k (TRANSACTION TOPIC = 'x.transaction') FORMAT JSON"
    " ENVELOPE DEBEZIUM FOR TABLES (public.a AS b (i integer NOT NULL, t text), c)",
    "CREATE SOURCE s FROM POSTGRES CONNECTION p FOR SCHEMAS (a, b)",
    "CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC = 't') FORMAT JSON ENVELOPE UPSERT "
    "ON DECODE ERROR SKIP (MAX ERRORS = 10) EXPOSE PROGRESS AS p EXPOSE ERRORS AS e WITH (A = 1)",
    "CREATE SOURCE s FROM FILE '/x' FORMAT TEXT ON DECODE ERROR INLINE AS \"Wrong\"",
    "CREATE SOURCE s FROM POSTGRES CONNECTION p ON DECODE ERROR FAIL FOR ALL TABLES",
    "CREATE SOURCE s (a integer) FROM WEBHOOK BODY FORMAT JSON ARRAY INCLUDE HEADERS, "
    "HEADER 'X-A' AS a CHECK (HMAC = 'sha256', KEY = SECRET d.s.k, HEADER = 'X-B')",
    "CREATE SOURCE s FROM WEBHOOK BODY FORMAT BYTES",
    "CREATE SOURCE s FROM FILE E'C:\\\\x' FORMAT CSV WITH HEADER (a, b)",
    "CREATE SOURCE s FROM FILE '/x' FORMAT CSV WITH 3 COLUMNS DELIMITED BY ';'",
    "CREATE SOURCE s (a integer NOT NULL, b numeric(5,2), c text[]) FROM FILE '/x' FORMAT JSON",
    "CREATE TABLE t (a, b) FROM SOURCE s (REFERENCE = public.x, TEXT COLUMNS = (c)) FORMAT JSON",
    "CREATE TABLE t (a integer NOT NULL, PRIMARY KEY (a)) FROM SOURCE s",
    "CREATE SINK s FROM v INTO KAFKA CONNECTION k (TOPIC = 't') KEY (a) NOT ENFORCED FORMAT JSON",
    "CREATE OR REPLACE CONNECTION k TO CONFLUENT SCHEMA REGISTRY (URL = 'x', PASSWORD = SECRET p, "
    "SSH TUNNEL = jump) WITH (VALIDATE = false)",
    "CREATE CLUSTER c (SIZE = '1')",
    "CREATE ROLE r LOGIN NOSUPERUSER CONNECTION LIMIT -1 VALID UNTIL 'infinity' "
    "IN ROLE a, CURRENT_USER ADMIN b",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_the_canonical_form_is_itself(text: str) -> None:
    (parsed,) = parse_statements(text)
    statement = parsed.statement
    assert isinstance(statement, get_args(CreateStatement))
    assert create_text(statement) == text
    (again,) = parse_statements(create_text(statement))
    assert again.statement == statement


def test_other_ways_to_write_it_come_to_the_canonical_form() -> None:
    for text, expected in [
        ("create temp table T(A int, b VARCHAR(3) null)",
         "CREATE TEMPORARY TABLE t (a integer, b character varying(3))"),
        ("create source s from kafka broker 'h' topic 't'",
         "CREATE SOURCE s FROM KAFKA (BROKER = 'h', TOPIC = 't')"),
        ("create user u password 'hush'", "CREATE ROLE u LOGIN"),
        ("create secret s as 'hush'", "CREATE SECRET s AS '********'"),
        ("create cluster c size '1'", "CREATE CLUSTER c (SIZE = '1')"),
    ]:  # fmt: skip
        (parsed,) = parse_statements(text)
        assert create_text(parsed.statement) == expected  # type: ignore[arg-type]


def test_a_default_that_would_end_too_early_gets_brackets() -> None:
    default = ExpressionText("a IS NOT NULL")
    table = CreateTable(
        ObjectName(("t",)), (ColumnDefinition(Identifier("a"), INT4, default=default),)
    )
    text = create_text(table)
    assert text == "CREATE TABLE t (a integer DEFAULT (a IS NOT NULL))"
    (parsed,) = parse_statements(text)
    assert isinstance(parsed.statement, CreateTable)
    assert not parsed.statement.columns[0].not_null
