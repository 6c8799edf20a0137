"""Names of types."""

from __future__ import annotations

import pytest

from waterclock.model.pg_types import PgType, UnknownType, format_type
from waterclock.sql.errors import SqlFault, UnknownTypeName
from waterclock.sql.types import parse_type_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", "integer"),
        ("INTEGER", "integer"),
        ("int4", "integer"),
        ("pg_catalog.int4", "integer"),
        ("pg_catalog . int8", "bigint"),
        ("smallint", "smallint"),
        ("bool", "boolean"),
        ("boolean", "boolean"),
        ("real", "real"),
        ("float", "double precision"),
        ("float(24)", "real"),
        ("float(25)", "double precision"),
        ("double precision", "double precision"),
        ("numeric", "numeric"),
        ("numeric(10)", "numeric(10,0)"),
        ("decimal(10, 2)", "numeric(10,2)"),
        ("dec(5,5)", "numeric(5,5)"),
        ("text", "text"),
        ('"text"', "text"),
        ("varchar", "character varying"),
        ("varchar(20)", "character varying(20)"),
        ("character varying(20)", "character varying(20)"),
        ("national character varying (3)", "character varying(3)"),
        ("pg_catalog.varchar(7)", "character varying(7)"),
        ("char", "character(1)"),
        ("char(5)", "character(5)"),
        ("character(5)", "character(5)"),
        ("nchar", "character(1)"),
        ("char varying(4)", "character varying(4)"),
        ('"char"', '"char"'),
        ('pg_catalog."char"', '"char"'),
        ("timestamp", "timestamp without time zone"),
        ("timestamp without time zone", "timestamp without time zone"),
        ("timestamp(3) with time zone", "timestamp(3) with time zone"),
        ("timestamptz(0)", "timestamp(0) with time zone"),
        ("timestamp(9)", "timestamp(6) without time zone"),
        ("time(3)", "time(3) without time zone"),
        ("time without time zone", "time without time zone"),
        ("date", "date"),
        ("interval", "interval"),
        ("interval(3)", "interval(3)"),
        ("interval year", "interval year"),
        ("interval YEAR TO MONTH", "interval year to month"),
        ("interval day to hour", "interval day to hour"),
        ("interval day to second", "interval day to second"),
        ("interval hour to second (2)", "interval hour to second(2)"),
        ("interval minute to second(9)", "interval minute to second(6)"),
        ("interval second(0)[]", "interval second(0)[]"),
        ("uuid", "uuid"),
        ("JSONB", "jsonb"),
        ("mz_timestamp", "mz_timestamp"),
        ("uint8", "uint8"),
        ("oid", "oid"),
        ("int[]", "integer[]"),
        ("int[3]", "integer[]"),
        ("int[3][]", "integer[]"),
        ("integer array", "integer[]"),
        ("integer array[4]", "integer[]"),
        ("varchar(3)[]", "character varying(3)[]"),
        ("_int4", "integer[]"),
        ("timestamp with time zone[]", "timestamp with time zone[]"),
    ],
)
def test_names(text: str, expected: str) -> None:
    assert format_type(parse_type_name(text)) == expected


def test_bpchar_has_no_length_of_its_own() -> None:
    assert parse_type_name("bpchar") == PgType(1042)


@pytest.mark.parametrize(
    ("text", "sqlstate", "position", "message"),
    [
        ("nosuch", "42704", 1, 'type "nosuch" does not exist'),
        ("public.int4", "42704", 1, 'type "public.int4" does not exist'),
        ('"integer"', "42704", 1, 'type "integer" does not exist'),
        ("pg_catalog.integer", "42704", 1, 'type "pg_catalog.integer" does not exist'),
        ("bit(3)", "0A000", 1, 'type "bit" is not supported'),
        ("inet", "0A000", 1, 'type "inet" is not supported'),
        ("pg_catalog._money", "0A000", 1, 'type "pg_catalog._money" is not supported'),
        ("tstzrange[]", "0A000", 1, 'type "tstzrange" is not supported'),
        ("serial", "42704", 1, 'type "serial" does not exist'),
        ("varchar(0)", "22023", 1, "length for type varchar must be at least 1"),
        ("char(0)", "22023", 1, "length for type char must be at least 1"),
        ("varchar(10485761)", "22023", 1, "length for type varchar cannot exceed 10485760"),
        ("float(0)", "22023", 7, "precision for type float must be at least 1 bit"),
        ("float(54)", "22023", 7, "precision for type float must be less than 54 bits"),
        ("numeric(0)", "22023", 1, "NUMERIC precision 0 must be between 1 and 1000"),
        ("numeric(1,2,3)", "22023", 1, "invalid NUMERIC type modifier"),
        ("numeric(39)", "0A000", 1, "a numeric of more than 38 digits is not supported"),
        (
            "numeric(3,-1)",
            "0A000",
            1,
            "a numeric scale below 0 or above the precision is not supported",
        ),
        ("interval day to year", "42601", 17, 'syntax error at or near "year"'),
        ("interval year to day", "42601", 18, 'syntax error at or near "day"'),
        ("interval day(2)", "42601", 13, 'syntax error at or near "("'),
        ("interval(2) day", "42601", 13, 'syntax error at or near "day"'),
        ("text(3)", "42601", 1, 'type modifier is not allowed for type "text"'),
        ("int(3)", "42601", 4, 'syntax error at or near "("'),
        ("varchar(1,2)", "42601", 10, 'syntax error at or near ","'),
        ("varchar(x)", "42601", 9, 'syntax error at or near "x"'),
        ("int[-1]", "42601", 5, 'syntax error at or near "-"'),
        ("int[", "42601", 5, "syntax error at end of input"),
        ("int array array", "42601", 11, 'syntax error at or near "array"'),
        ("timestamp with zone", "42601", 11, 'syntax error at or near "with"'),
        ("select", "42601", 1, 'syntax error at or near "select"'),
        ("row", "42601", 1, 'syntax error at or near "row"'),
        ("", "42601", 1, "syntax error at end of input"),
        ("'int'", "42601", 1, "syntax error at or near \"'int'\""),
    ],
)
def test_refused(text: str, sqlstate: str, position: int, message: str) -> None:
    with pytest.raises(SqlFault) as raised:
        parse_type_name(text)
    fault = raised.value
    assert (fault.sqlstate, fault.position, str(fault)) == (sqlstate, position, message)


def test_an_unknown_name_is_an_unknown_type() -> None:
    with pytest.raises(UnknownType) as raised:
        parse_type_name("nosuch")
    assert isinstance(raised.value, UnknownTypeName)
