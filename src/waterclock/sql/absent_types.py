"""Types that PostgreSQL has and Waterclock has not, with what to use in their place."""

from __future__ import annotations

_TEXT = "Use text."
_NUMBERS = "Use columns of type double precision."
_BOUNDS = "Use two columns, for the lower and the upper bound."
_NUMBER = "Use bigint."
_NAME = "Use oid, or text."

_HINTS: dict[str, tuple[str, ...]] = {
    _TEXT: (
        *("inet", "cidr", "macaddr", "macaddr8", "xml", "tsvector", "tsquery", "jsonpath"),
        *("refcursor", "pg_lsn", "pg_snapshot", "txid_snapshot", "aclitem", "gtsvector"),
    ),
    "Use text, or bytea.": ("bit", "varbit"),
    "Use numeric.": ("money",),
    "Use jsonb.": ("hstore",),
    "Use timestamp with time zone, or time.": ("timetz", "time with time zone"),
    _NUMBERS: ("point", "line", "lseg", "box", "path", "polygon", "circle"),
    _BOUNDS: (
        *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
        *("int4multirange", "int8multirange", "nummultirange", "tsmultirange"),
        *("tstzmultirange", "datemultirange"),
    ),
    _NUMBER: ("xid", "xid8", "cid", "tid"),
    "Use an array.": ("int2vector", "oidvector"),
    "Use a column for each field, or jsonb.": ("record",),
    _NAME: (
        *("regclass", "regproc", "regprocedure", "regoper", "regoperator", "regnamespace"),
        *("regrole", "regconfig", "regdictionary", "regcollation"),
    ),
}
_BY_NAME = {name: hint for hint, names in _HINTS.items() for name in names}


def hint_for(name: str) -> str | None:
    """What to use in place of the type, or of an array of it; None if PostgreSQL has none either.

    The name is that in pg_type, where an array's begins with `_`, perhaps behind `pg_catalog.`
    """
    plain = name.removeprefix("pg_catalog.")
    return _BY_NAME.get(plain) or _BY_NAME.get(plain.removeprefix("_"))
