"""PostgreSQL's types as the catalog's queries meet them: what holds their values, and which become
which.

A type is known by its OID. In DuckDB its values are held as plainly as possible: every kind of
text as VARCHAR, OIDs and names of objects (regclass and its like) as UINTEGER, vectors and arrays
as lists. Nothing here knows queries.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.catalog.system.facts import PG_CATALOG_OID, Facts, FactType
from waterclock.model import interval_fields, pg_types
from waterclock.model.pg_types import NO_MODIFIER, PgType

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4 = 16, 17, 18, 19, 20, 21, 22, 23
REGPROC, TEXT, OID, XID, OIDVECTOR, JSON, PG_NODE_TREE = 24, 25, 26, 28, 30, 114, 194
FLOAT4, FLOAT8, UNKNOWN, TEXT_ARRAY, NAME_ARRAY, OID_ARRAY = 700, 701, 705, 1009, 1003, 1028
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = (
    1042,
    1043,
    1082,
    1083,
    1114,
    1184,
    1186,
)
NUMERIC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE = 1700, 2202, 2203, 2204, 2205, 2206
RECORD, VOID, UUID, JSONB, REGNAMESPACE, REGROLE = 2249, 2278, 2950, 3802, 4089, 4096
REGCONFIG, REGDICTIONARY, REGCOLLATION, INT2_ARRAY, INT4_ARRAY = 3734, 3769, 4191, 1005, 1007

REG_TYPES = frozenset(
    {REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE}
    | {REGNAMESPACE, REGROLE, REGCONFIG, REGDICTIONARY, REGCOLLATION}
)
INTEGERS = (INT2, INT4, INT8)
VECTORS = {INT2VECTOR: INT2, OIDVECTOR: OID}

_HELD = {
    BOOL: "BOOLEAN",
    INT2: "SMALLINT",
    INT4: "INTEGER",
    INT8: "BIGINT",
    FLOAT4: "FLOAT",
    FLOAT8: "DOUBLE",
    OID: "UINTEGER",
    XID: "UINTEGER",
    29: "UINTEGER",
    5069: "UBIGINT",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP",
    INTERVAL: "INTERVAL",
    UUID: "UUID",
    BYTEA: "BLOB",
    NUMERIC: "DECIMAL(38, 6)",
    INT2VECTOR: "SMALLINT[]",
    OIDVECTOR: "UINTEGER[]",
    pg_types.UINT8.oid: "UBIGINT",
    pg_types.MZ_TIMESTAMP.oid: "UBIGINT",
} | dict.fromkeys(REG_TYPES, "UINTEGER")

_ACLITEM = 1033
_AS_WRITTEN = frozenset([_ACLITEM, *_HELD, JSON, JSONB])
"""Types besides those of strings: what is held as something else is read by that."""

_ALIASES = {
    **{"bigint": INT8, "smallint": INT2, "integer": INT4, "int": INT4, "boolean": BOOL},
    **{"real": FLOAT4, "double precision": FLOAT8, "float": FLOAT8, "decimal": NUMERIC},
    **{"dec": NUMERIC, "character varying": VARCHAR, "character": BPCHAR, "char": BPCHAR},
    **{"timestamp without time zone": TIMESTAMP, "timestamp with time zone": TIMESTAMPTZ},
    **{"time without time zone": TIME, "time with time zone": 1266, '"char"': CHAR},
    **{"bit varying": 1562, "string": TEXT},
}
_SQL_NAMES = {
    **{CHAR: '"char"', INT8: "bigint", INT2: "smallint", INT4: "integer", BOOL: "boolean"},
    **{FLOAT4: "real", FLOAT8: "double precision", VARCHAR: "character varying"},
    **{BPCHAR: "character", TIMESTAMP: "timestamp without time zone", 1562: "bit varying"},
    **{TIMESTAMPTZ: "timestamp with time zone", TIME: "time without time zone"},
    **{1266: "time with time zone"},
}


class Types:
    """The types of the facts. Those of users' relations are known to a snapshot only."""

    def __init__(self, facts: Facts) -> None:
        self._types = facts.types
        self._by_name = {
            found.name: found.oid
            for found in facts.types.values()
            if found.schema == PG_CATALOG_OID
        }
        self._implicit = {(row[1], row[2]) for row in facts.rows["pg_cast"] if row[4] == "i"}
        for own in (pg_types.UINT8.oid, pg_types.MZ_TIMESTAMP.oid):
            self._implicit |= {(number, own) for number in INTEGERS} | {(own, NUMERIC)}

    def find(self, oid: int) -> FactType | None:
        return self._types.get(oid)

    def named(self, name: str) -> int | None:
        """The OID for a name as SQL writes it, lower case, without modifier."""
        return _ALIASES.get(name) or self._by_name.get(name)

    def base(self, declared: PgType) -> PgType:
        """The type that a row description shows: a domain's base type."""
        found = self._types.get(declared.oid)
        if found is None or found.kind != "d":
            return declared
        return PgType(found.base, found.modifier)

    def base_oid(self, oid: int) -> int:
        return self.base(PgType(oid)).oid

    def category(self, oid: int) -> str:
        found = self._types.get(oid)
        return found.category if found is not None else "C"

    def element_of(self, oid: int) -> int | None:
        """The element of an array or vector."""
        found = self._types.get(oid)
        if found is None or not found.element or found.length not in (-1, NO_MODIFIER):
            return None
        return found.element if found.category == "A" else None

    def array_of(self, oid: int) -> int:
        found = self._types.get(oid)
        return found.array if found is not None and found.array else TEXT_ARRAY

    def held_as(self, oid: int) -> str:
        """The DuckDB type that holds the values."""
        held = _HELD.get(oid)
        if held is not None:
            return held
        element = self.element_of(oid)
        return f"{self.held_as(element)}[]" if element is not None else "VARCHAR"

    def is_read_as_written(self, oid: int) -> bool:
        """Whether a text is a value of the type just as it is; of no other type held as text can
        that be said, such as one of money.
        """
        return oid in _AS_WRITTEN or self.category(oid) in ("C", "S", "X", "Z")

    def is_text(self, oid: int) -> bool:
        return self.held_as(oid) == "VARCHAR" and oid != UNKNOWN

    def common(self, oids: Sequence[int]) -> int | None:
        """The type that values of all of these become in one column; None if there is none.

        As in PostgreSQL, one known type decides what a bare string means.
        """
        known = [oid for oid in oids if oid != UNKNOWN]
        if not known:
            return TEXT
        chosen = known[0]
        for oid in known[1:]:
            if oid == chosen:
                continue
            if self.category(oid) != self.category(chosen):
                return None
            if (
                not self._preferred(chosen)
                and self.becomes(chosen, oid)
                and not self.becomes(oid, chosen)
            ):
                chosen = oid
        return chosen

    def _preferred(self, oid: int) -> bool:
        found = self._types.get(oid)
        return found is not None and found.preferred

    def becomes(self, source: int, target: int) -> bool:
        """Whether a value is converted without being asked."""
        if source in (target, UNKNOWN) or (source, target) in self._implicit:
            return True
        vector = VECTORS.get(source)
        return vector is not None and target == self.array_of(vector)

    def is_string(self, oid: int) -> bool:
        return oid in (TEXT, VARCHAR, NAME, BPCHAR, CHAR, PG_NODE_TREE)

    def shown(self, oid: int) -> str:
        """The type's name in a message."""
        return self.format(oid) if oid in self._types else "record"

    def format(self, oid: int, modifier: int | None = None) -> str:
        """The type's name as SQL writes it, of a type of the facts."""
        found = self._types[oid]
        if found.category == "A" and found.length == -1 and oid not in VECTORS:
            return f"{self.format(found.element, modifier)}[]"
        name = _SQL_NAMES.get(oid, found.name)
        if oid == BPCHAR and modifier is not None and modifier < 0:
            return "bpchar"
        if modifier is None or modifier < 0:
            return name
        return _with_modifier(oid, name, modifier)


def _with_modifier(oid: int, name: str, modifier: int) -> str:
    match oid:
        case 1042 | 1043 if modifier > 4:
            return f"{name}({modifier - 4})"
        case 1700 if modifier >= 4:
            packed = modifier - 4
            return f"numeric({packed >> 16 & 0xFFFF},{packed & 0x7FF})"
        case 1114 | 1184 | 1083 | 1266:
            first, _, rest = name.partition(" ")
            return f"{first}({modifier}) {rest}"
        case 1560 | 1562:
            return f"{name}({modifier})"
        case 1186:
            return f"{name}{interval_fields.shown(modifier)}"
        case _:
            return name
