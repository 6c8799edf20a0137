"""Defaults as the catalog shows them; what PostgreSQL 15 shows of the same."""

from __future__ import annotations

import pytest

from waterclock.sql.printing.defaults import shown_default
from waterclock.sql.types import parse_type_name


@pytest.mark.parametrize(
    ("declared", "written", "shown"),
    [
        ("text", "'new'", "'new'::text"),
        ("text", "'it''s'", "'it''s'::text"),
        ("varchar(10)", "'x'", "'x'::character varying"),
        ("char(3)", "'abc'", "'abc'::bpchar"),
        ("text", "'x'::varchar", "'x'::character varying"),
        ("smallint", "1", "1"),
        ("int", "-1", "'-1'::integer"),
        ("int", "'5'", "5"),
        ("bigint", "'7'", "'7'::bigint"),
        ("bigint", "3000000000", "'3000000000'::bigint"),
        ("bigint", "0::bigint", "(0)::bigint"),
        ("numeric(10,2)", "9.50", "9.50"),
        ("numeric", "-1.5", "'-1.5'::numeric"),
        ("numeric", "1.0::numeric", "1.0"),
        ("float8", "1.5", "1.5"),
        ("bool", "'t'", "true"),
        ("bool", "false", "false"),
        ("text[]", "'{}'", "'{}'::text[]"),
        ("text[]", "array[]::text[]", "ARRAY[]::text[]"),
        ("text[]", "array['a', 'b']", "ARRAY['a'::text, 'b'::text]"),
        ("int[]", "array[1,2]", "ARRAY[1, 2]"),
        ("jsonb", "'{\"a\": 1}'", "'{\"a\": 1}'::jsonb"),
        ("bytea", "'\\x00ff'", "'\\x00ff'::bytea"),
        ("timestamptz", "NOW()", "now()"),
        ("timestamptz", "current_timestamp", "CURRENT_TIMESTAMP"),
        ("timestamptz", "now() + interval '1 day'", "(now() + '1 day'::interval)"),
        ("date", "current_date", "CURRENT_DATE"),
        ("text", "current_user", "CURRENT_USER"),
        ("int", "1 + 2 * 3", "(1 + (2 * 3))"),
        ("text", "'a' || 'b'", "('a'::text || 'b'::text)"),
        ("uuid", "gen_random_uuid()", "gen_random_uuid()"),
        ("text", "CASE WHEN true THEN 'a' END", "CASE WHEN true THEN 'a' END"),
        ("int", "null", None),
    ],
)
def test_a_default_is_shown_as_it_was_understood(
    declared: str, written: str, shown: str | None
) -> None:
    assert shown_default(written, parse_type_name(declared)) == shown
