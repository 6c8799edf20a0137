"""The tables that bound queries are compared over."""

from waterclock.testing.beside_postgres import TestTable

_T_COLUMNS = {
    "id": "int not null",
    "a": "int",
    "b": "text",
    "c": "numeric(10,2)",
    "n": "numeric",
    "d": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "f": "float8",
    "r": "float4",
    "bl": "bool",
    "s": "smallint",
    "big": "bigint",
    "i": "interval",
    "arr": "int[]",
    "tarr": "text[]",
    "j": "jsonb",
    "u": "uuid",
    "by": "bytea",
    "tm": "time",
    "v": "varchar(10)",
    "ch": "char(5)",
}
_T_ROWS = [
    (
        *("1", "10", "apple", "1.50", "1.5", "2024-02-29", "2024-02-29 12:34:56.789"),
        *("2024-02-29 12:34:56.789+00", "1.5", "0.5", "t", "3", "5000000000"),
        *("1 mon 2 days 03:04:05", "{1,2,3}", "{a,b}", '{"a": 1, "b": "x", "cc": [1, 2]}'),
        *("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "\\x00ff10", "10:20:30", "hello", "ab"),
    ),
    (
        *("2", "-7", "Banana", "-2.25", "-0.001", "1969-12-31", "1969-12-31 23:59:59.999999"),
        *("1969-12-31 23:59:59+00", "-0.25", "1e10", "f", "-3", "-1"),
        *("-1 mon +5 days -00:00:01.5", "{}", "{NULL,x}", '{"a": null, "b": {"k": true}}'),
        *("00000000-0000-0000-0000-000000000000", "\\x", "00:00:00", "world", "cd   "),
    ),
    (
        *("3", None, None, None, None, None, None, None, None, None, None, None, None, None),
        *(None, None, None, None, None, None, None, None),
    ),
    (
        *("4", "2147483647", "", "99999999.99", "12345678901234.123456", "9999-12-31"),
        *("9999-12-31 00:00:00", "2038-01-19 03:14:08+00", "1e300", "3.4e38", "t", "32767"),
        *("9223372036854775807", "100 years", "{5,NULL,7}", '{"a b","c,d"}', '[1, 2.5, "z"]'),
        *("ffffffff-ffff-ffff-ffff-ffffffffffff", "\\x61", "23:59:59.999999", "", "x"),
    ),
    (
        *("5", "0", "apple pie", "0.00", "0", "2000-01-01", "2000-01-01 00:00:00"),
        *("2000-01-01 00:00:00+00", "0", "0", "f", "0", "0", "00:00:00", "{0}", "{}"),
        *('"str"', "12345678-1234-5678-1234-567812345678", "\\x7a7a", "12:00:00", "Hello", ""),
    ),
    (
        *("6", "10", "éclair_100%", "3.33", "2.50", "2023-12-31", "2023-12-31 06:07:08"),
        *("2024-07-01 00:30:00+00", "NaN", "NaN", None, "100", "42", "1 day 25:00:00"),
        *("{3,2,1}", '{"",null,NULL}', "{}", None, None, "06:00:00", "a_b%c\\d", "ab"),
    ),
    (
        *("7", "42", "zebra", "100.10", "1e-18", "2024-03-31", "2024-03-31 02:30:00"),
        *("2024-11-03 05:30:00+00", "Infinity", "-Infinity", "t", "7", "7", "-1 year"),
        *("{10,20,30,40}", "{q}", "null", None, None, None, "Zebra", "zz"),
    ),
]
_U_COLUMNS = {"id": "int", "a": "int", "name": "text", "amount": "numeric(12,3)"}
_U_ROWS = [
    ("1", "10", "one", "10.500"),
    ("2", "10", "two", "20.250"),
    ("3", "42", "three", None),
    ("8", None, "eight", "0.001"),
    ("9", "0", None, "-5.000"),
]
_W_COLUMNS = {"k": "text", "x": "int", "y": "numeric(8,2)", "z": "bigint"}
_W_ROWS = [
    ("a", "1", "1.00", "10"),
    ("a", "2", "2.50", "20"),
    ("a", "3", None, "30"),
    ("b", "1", "4.25", None),
    ("b", "5", "0.75", "50"),
    ("b", None, "9.99", "60"),
    (None, "7", "7.00", "70"),
    (None, "8", "8.00", "80"),
]
_S_COLUMNS = {"id": "int", "g": "text", "i": "interval", "x": "int"}
"""Intervals, of which some are equal and look different."""
_S_ROWS = [
    ("1", "a", "1 mon", "1"),
    ("2", "a", "30 days", "2"),
    ("3", "a", "24:00:00", "3"),
    ("4", "b", "1 day", "1"),
    ("5", "b", None, "2"),
    ("6", "b", "-1 mon", "2"),
    ("7", "c", "1 day", "2"),
    ("8", "c", None, "2"),
    ("9", "c", "720:00:00", "5"),
    ("10", "a", "1 year", "5"),
]

TABLES = {
    "t": TestTable(_T_COLUMNS, _T_ROWS),
    "u": TestTable(_U_COLUMNS, _U_ROWS),
    "w": TestTable(_W_COLUMNS, _W_ROWS),
    "spans": TestTable(_S_COLUMNS, _S_ROWS),
}

FEW_ROWS = {
    "a": TestTable({"k": "int", "v": "int"}, [("1", "1"), ("1", "2"), ("2", "1"), (None, "1")]),
    "b": TestTable({"k": "int", "v": "int"}, [("1", "2"), ("2", "2"), ("2", None)]),
    "e": TestTable({"k": "int"}, []),
    "m": TestTable(
        {"k": "int", "v": "int"},
        [("1", "1")] * 3 + [("1", "2")] * 2 + [("2", "1")] * 2 + [("2", "3")],
    ),
    "f": TestTable(
        {"x": "float8", "y": "float8", "n": "numeric"},
        [
            *(("0", "-0", "1.0"), ("-0", "0", "1.00"), ("NaN", "NaN", "2"), ("1", "1", "1")),
            *((None, "0", "0.0"), ("-0", "-0", None)),
        ],
    ),
    "c": TestTable(
        {"id": "int", "s": "text", "c": "char(4)", "vc": "varchar(6)"},
        [
            *(("1", "abc", "abc", "abc"), ("2", "abc ", "abc ", "abc "), ("3", "", "", "")),
            *(("4", None, None, None), ("5", "abcd", "abcd", "abcd"), ("6", "Abc", "Abc", "ab")),
        ],
    ),
}
"""Duplicates, nulls, values that are equal without being the same, and no rows at all."""
