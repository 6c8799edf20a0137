"""Values to call functions with: the ordinary ones of each type, and those at its edges.

Values are texts as PostgreSQL reads them, so both sides are given the same. What a type has of
nulls, extremes, empty, negative, infinite and odd values is here once; which of them are combined
for a function of several arguments is drawn from a seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from waterclock.model.pg_types import PgType
from waterclock.sql.dialect.types import name_of

Value = str | None
Row = tuple[Value, ...]

_FLOATS = (
    *("0", "-0", "1", "0.5", "-0.5", "1.5", "2.5", "-2.5", "0.1", "-7", "3", "100", "1e-5"),
    *("123456.789", "1e10", "NaN", "Infinity", "-Infinity"),
)
VALUES: dict[str, tuple[Value, ...]] = {
    "bool": (None, "t", "f"),
    "int2": (None, "0", "1", "-1", "2", "7", "-32768", "32767", "100"),
    "int4": (
        *(None, "0", "1", "-1", "2", "3", "-2", "5", "10", "-7", "31", "33", "64", "-100"),
        *("2147483647", "-2147483648", "1999", "128512"),
    ),
    "int8": (
        *(None, "0", "1", "-1", "3", "255", "-42", "5000000000", "-5000000000"),
        *("9223372036854775807", "-9223372036854775808"),
    ),
    "oid": (None, "0", "1", "2147483647"),
    "regtype": (None, "integer", "text[]", "boolean", "name"),
    "uint8": (None, "0", "1", "18446744073709551615"),
    "mz_timestamp": (None, "0", "1", "1700000000000"),
    "float4": (None, *_FLOATS, "3.4028235e38", "1e-40", "16777216"),
    "float8": (
        *(None, *_FLOATS, "1e15", "-1e15", "123456789012345.6", "1e300", "-1e300", "5e-324"),
        *("1.7976931348623157e308", "9007199254740993", "0.49999999999999994", "1e20", "709.5"),
    ),
    "numeric": (
        *(None, "0", "1", "-1", "0.001", "12345678901234.123456", "0.000000000000000001", "2.5"),
        *("-2.5", "3.5", "0.5", "-0.5", "99999999999999999999", "7", "-3", "10", "1e10"),
    ),
    "numeric(10,2)": (
        *(None, "0.00", "1.50", "-2.25", "99999999.99", "0.01", "-0.01", "2.50", "3.00", "-7.00"),
        *("10.00", "100.10", "-99999999.99", "0.50"),
    ),
    "text": (
        *(
            None,
            "",
            "a",
            "abc",
            "ABC",
            "Hello World",
            " padded ",
            "éclair_100%",
            "Straße",
            "日本語",
        ),
        *("😀x", "a,b,,c", "12", "-1.5", "x\ny", "it's", "back\\slash", "aaa", "NULL", "\ttab"),
        *("foo123bar", "2024-02-29", "a b  c", "ΑΣ", "xXx", "%_%", "{1,2}", "end\n", "ÀÉ ñ_1"),
        *(" 42 ", "1e3", "NaN", "yes", "+5", "2147483648", ".5", "5.", "infinity", "10:20", "0x1F"),
        *("1e400", "-0", "32768", "2024-13-01", "2024-01-01 10:00:00+02", "off", "--5", "1 2"),
        *("1999-12-31 23:59:59", "0001-01-01", "YWJj", "YQ==", "YQ=", "a\\134\\\\\\303\\251"),
        *("1,234,567", "99-", "12.3", "12.34", "-9,999"),
    ),
    "bytea": (
        *(None, "\\x", "\\x00ff10", "\\x61", "\\x7a7a7a", "\\xc3a9", "\\x5c410a7f80"),
        *("\\x" + "61" * 56, "\\x" + "62" * 57, "\\x" + "00fe" * 60),
    ),
    "uuid": (
        *(None, "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ),
    "date": (
        *(None, "2024-02-29", "1969-12-31", "1970-01-01", "0001-01-01", "9999-12-31", "2024-01-31"),
        *("10000-01-01", "2023-12-31", "2000-02-29", "0044-03-15 BC", "infinity", "-infinity"),
        *("2021-01-03", "1900-03-01", "290000-01-01", "4713-01-01 BC"),
    ),
    "time": (None, "00:00:00", "10:20:30", "23:59:59.999999", "06:00:00.5"),
    "timestamp": (
        *(None, "2024-02-29 12:34:56.789", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00"),
        *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "12345-06-07 08:09:10"),
        *("0044-03-15 10:11:12 BC", "infinity", "-infinity", "2024-03-31 02:30:00"),
        *("2024-11-03 01:30:00", "2000-01-01 00:00:00", "2024-01-31 23:00:00.5"),
        *("2021-01-03 00:00:00", "1999-12-31 12:00:00.000001", "1883-11-18 12:00:00"),
    ),
    "interval": (
        *(None, "00:00:00", "1 mon 2 days 03:04:05", "-1 mon +5 days -00:00:01.5", "100 years"),
        *("1 day 25:00:00", "-1 year", "00:15:00", "30 days", "1 mon -1 days", "00:00:00.000001"),
        *("-3 days", "14 mons", "1 year 2 mons 3 days 04:05:06.789", "-00:00:59.5", "35 days"),
        *("10000 years", "-40 days +30:00:00", "2147483647 days"),
    ),
    "jsonb": (
        *(None, "null", "true", "1", "-1.50", '"str"', '"q\\"b\\\\ é \\u0001"', "{}", "[]"),
        *('{"a": 1, "b": "x", "cc": [1, 2]}', '{"a": null, "b": {"k": true}}', '[1, 2.50, "z"]'),
        *('[{"a": 1}, {"a": 2}, null]', '{"": 0, "a b": [], "it\'s": {"x": {"y": [10, 20]}}}'),
        *('[[1, [2]], {"k": "a, b: c"}]', "12345678901234567890.123", "[1, 1, 2]", '{"a": "1"}'),
    ),
    "_int4": (None, "{}", "{1,2,3}", "{NULL}", "{5,NULL,7}", "{1,1,2}", "{3,2,1}", "{2147483647}"),
    "_text": (None, "{}", "{a,b}", "{NULL,x}", '{"a b","c,d"}', '{"",null,"NULL"}', "{a}", "{b,a}"),
}
VALUES["name"] = VALUES["varchar"] = VALUES["bpchar"] = VALUES["text"][:12]
VALUES["char"] = (None, "a", "b")
VALUES["json"] = (
    *VALUES["jsonb"],
    *('{"a":1,"b":[ 1,2 ,3 ],"a" : {"k" :null}}', ' [1 , {"a" : [ 1,"x, y" ] }, null ]\n', " 1.0 "),
    *('{"\\u0061": "\\u00e9\\n", "b":  {"k": "{[,:]}"}}', "[\n]", '{"a" : " \\" "}', " null"),
)
VALUES["timestamptz"] = tuple(
    v if v is None or "inf" in v else v.removesuffix(" BC") + "+00" + (" BC" if "BC" in v else "")
    for v in VALUES["timestamp"]
)


def pool(declared: PgType, spelled: str) -> tuple[Value, ...]:
    """The values of a type."""
    return VALUES.get(spelled) or VALUES[name_of(declared)]


def combined(pools: Sequence[Sequence[Value]], seed: int, most: int) -> list[Row]:
    """Rows of arguments: all combinations if they are few, else each value at least once."""
    if not pools:
        return [()]
    chance = random.Random(seed)
    total = 1
    for each in pools:
        total *= len(each)
    if total <= most:
        return list(itertools.product(*pools))
    longest = max(len(each) for each in pools)
    rows: list[Row] = [tuple(p[place % len(p)] for p in pools) for place in range(longest)]
    seen = set(rows)
    while len(rows) < most:
        row = tuple(chance.choice(p) for p in pools)
        if row not in seen:
            seen.add(row)
            rows.append(row)
    return rows
