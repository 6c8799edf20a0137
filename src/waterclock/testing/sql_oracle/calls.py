"""Calls of the table's entries, as SQL that both sides read.

An entry is called over columns `a0`, `a1`, ... of the types that it wants; a polymorphic type is
tried as a few ordinary ones. Arguments that decide what is computed, such as the unit of
`date_trunc`, must be constants: `CONSTANTS` has them. Entries with nothing to compare are left out
by name, with the reason; those with WITHIN GROUP are compared as written queries elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.model.pg_types import (
    BOOL,
    BYTEA,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    JSONB,
    MZ_TIMESTAMP,
    NO_MODIFIER,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    UINT8,
    PgType,
    format_type,
    numeric,
)
from waterclock.sql.dialect.types import (
    ANY,
    ANYARRAY,
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    ANYELEMENT,
    ANYNONARRAY,
    POLYMORPHIC,
    TEXT_ARRAY,
    is_array,
    name_of,
)
from waterclock.sql.functions import FUNCTIONS, OPERATORS, Function
from waterclock.sql.functions.aggregates import WITHIN
from waterclock.sql.functions.json_rows import POPULATE, RECORDS
from waterclock.sql.functions.registry import Kind, Stability

_OURS = frozenset({MZ_TIMESTAMP.oid, UINT8.oid})
LEFT_OUT = {
    "random": "chance",
    "gen_random_uuid": "chance",
    "version": "it names this system",
    "mz_now": "PostgreSQL has none",
    **dict.fromkeys(("clock_timestamp", "timeofday"), "it is never the same twice"),
    **dict.fromkeys(RECORDS, "the query tells its columns"),
    **dict.fromkeys(POPULATE, "a relation tells its columns"),
}
_NUMBERS = frozenset({INT4.oid, INT8.oid, NUMERIC.oid})
_INT_ARRAY = PgType(1007)
_CONCRETE: dict[int, tuple[PgType, ...]] = {
    ANY.oid: (INT4, TEXT, BOOL, numeric(10, 2), FLOAT8, TIMESTAMP, TEXT_ARRAY, JSONB),
    ANYELEMENT.oid: (INT4, TEXT, numeric(10, 2), JSONB),
    ANYNONARRAY.oid: (INT4, BOOL, numeric(10, 2), FLOAT8, TIMESTAMP),
    ANYCOMPATIBLE.oid: (INT4, TEXT),
    ANYARRAY.oid: (_INT_ARRAY, TEXT_ARRAY),
    ANYCOMPATIBLEARRAY.oid: (_INT_ARRAY, TEXT_ARRAY),
}
_ELEMENTS = {INT4.oid: _INT_ARRAY, TEXT.oid: TEXT_ARRAY}
_FIELDS = (
    *("year", "month", "day", "quarter", "week", "dow", "isodow", "doy", "isoyear", "decade"),
    *("century", "millennium", "hour", "minute", "second", "milliseconds", "microseconds"),
    *("epoch", "julian", "timezone"),
)
_UNITS = (
    *("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month"),
    *("quarter", "year", "decade", "century", "millennium", "nonsense"),
)
_REGEXES = (
    *("a", "^[a-z]+$", "(b)(c)", "o{2}", "[[:digit:]]+", "\\d", "x.y", "\\s", "(?:l)o", "^$"),
    *("\\w+$", "\\mb", "[^a-z ]", "d$", "\\yc"),
)
_LIKES = ("a%", "%\\_100\\%", "", "_b_", "%", "%l_", "日__", "a,%c")
_ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "+02")
_PATHS = ("'{a}'", "'{b,k}'", "'{cc,1}'", "'{0}'", "'{-1}'", "'{}'", "'{1,1,0}'", "'{\"it''s\",x}'")
_JSONS = tuple(
    f"'{each}'::jsonb"
    for each in ('{"a": 1}', "[1]", "1", "{}", "[]", '{"b": {"k": true}}', '[{"a": 2.0}]', '"str"')
)
_JSON_PATHS = tuple(
    f"'{each}'"
    for each in (
        *("$", "$.a", "$.*", "$[*]", "$.b.k", "$.cc[1]", "$[last]", "$[0, 1 to last]", "$.size()"),
        *("$[*].type()", "$[*] ? (@ > 1)", '$.* ? (@ == "x" || @ < $x)', "$ ? (exists(@.a))"),
        *("$[*] ? (@ != null && !(@ == true))", "$.a == 1", '$.b starts with "x"', "$.a > $.b"),
        *('$.* ? (@ like_regex "^[xs]")', '$[*] ? (@ like_regex "Z" flag "i")'),
        *("($[0] < $[1]) is unknown", "$ ? (@.a >= $x).a", "$.a b", "$x"),
    )
)
_FILLS = ("'{3}'::int[]", "'{}'::int[]", "'{0}'::int[]", "NULL::int[]", "'{NULL}'::int[]")
CONSTANTS: dict[str, dict[int, tuple[str, ...]]] = {
    "extract": {0: _FIELDS},
    "date_part": {0: tuple(f"'{each}'" for each in _FIELDS)},
    "date_trunc": {0: tuple(f"'{each}'" for each in _UNITS), 2: ("'America/New_York'",)},
    "timezone": {0: tuple(f"'{each}'" for each in _ZONES)},
    "encode": {1: ("'hex'", "'base64'", "'escape'")},
    "decode": {1: ("'hex'", "'base64'", "'escape'")},
    "round": {1: ("0", "1", "-2", "5")},
    "trunc": {1: ("0", "1", "-2", "5")},
    "~": {1: tuple(f"'{each}'" for each in _REGEXES)},
    "~~": {1: tuple(f"'{each}'" for each in _LIKES), 2: ("'#'", "''")},
    "similar": {1: ("'%(b|d)%'", "'[a-z]+'", "'_*'", "'a,%'"), 2: ("'#'",)},
    "regexp_replace": {2: ("'X'", "'<\\1>'", "''"), 3: ("'g'", "'i'", "'gi'"), 5: ("'i'",)},
    "regexp_count": {3: ("'i'",)},
    "regexp_substr": {4: ("'i'",)},
    "regexp_instr": {5: ("'i'",)},
    "normalize": {1: ("nfc", "nfd", "nfkc", "nfkd")},
    "is_normalized": {1: ("'nfc'", "'NFD'", "'nfkc'", "'nfkd'", "'nfx'")},
    "unistr": {0: (r"'d\0061t\+000061'", r"'\u00e4\U0001F600\\'", r"'\zz'", r"'\d83d\de00'")},
    "regexp_like": {2: ("'i'", "'n'")},
    "regexp_match": {2: ("'i'",)},
    "regexp_matches": {2: ("'g'", "'i'", "'gi'")},
    "make_timestamptz": {6: ("'UTC'", "'America/New_York'")},
    "to_number": {
        1: (
            *("'99'", "'S99.9'", "'99D99'", "'9,999,999'", "'99999MI'", "'09.9S'", "NULL"),
            *("'L9,999.99PR'", "'99V9'", "'9th'", "''", "'RN'"),
        )
    },
    "regexp_split_to_array": {2: ("'i'",)},
    "->": {1: ("'a'", "'b'", "'it''s'", "''", "0", "1", "-1", "7")},
    "#>": {1: _PATHS},
    "@>": {1: (*_JSONS, "a1")},
    "<@": {0: (*_JSONS, "a0")},
    "#-": {1: _PATHS},
    "to_date": {1: ("'YYYY-MM-DD'", "'YYYY-MM-DDD'", "'DD Mon YYYY'")},
    "to_timestamp": {1: ("'YYYY-MM-DD HH24:MI:SS'", "'YYYY-MM-DD'", "'YYYY-MM-DD HH12:MI:SS'")},
    "format": {0: ("'<%s> 100%% [%s]'", "'%I = %L'", "'%2$s|%1$-9s|%5s'", "'100%%'", "'%x'")},
    "jsonb_set": {1: _PATHS[1:6], 2: ("'{\"new\": 1}'::jsonb",), 3: ("true", "false")},
    "jsonb_set_lax": {
        1: _PATHS[1:6:2],
        2: ("'{\"new\": 1}'::jsonb", "NULL::jsonb"),
        3: ("true", "false"),
        4: ("'raise_exception'", "'use_json_null'", "'delete_key'", "'return_target'", "'no'"),
    },
    "jsonb_insert": {1: _PATHS[1:6], 2: ("'{\"new\": 1}'::jsonb",), 3: ("true", "false")},
    "convert_from": {1: ("'UTF8'",)},
    "convert_to": {1: ("'utf-8'",)},
    "array_fill": {1: _FILLS},
    "lag": {1: ("1", "2", "0", "-1"), 2: ("NULL",)},
    "nth_value": {1: ("1", "2", "5")},
    "ntile": {0: ("1", "2", "3", "10")},
    "string_agg": {1: ("','", "''", "NULL")},
    "generate_series": {
        2: ("'1 day'::interval", "'-1 mon'::interval", "'36:00'::interval", "1", "-2", "0", "3")
    },
    "to_char": {
        1: (
            *("'YYYY-MM-DD HH24:MI:SS.US'", "'Mon DD, YYYY HH12:MI AM'", "'Day Month D ID Q IW'"),
            *("'FMDay, FMDD FMMonth YYYY'", "'DDD YY MS IYYY hh:mi pm'", "'\"at\" HH24'", "''"),
            *("'FMDDth Month YYYYth'", "'Y,YYY RM|rm|FMRM CC WW W J'", "'SSSS FF1 FF3 ff6 FMMS'"),
            *("'YYY Y IYY IY I IDDD a.m. B.C. ad'", "'TZ OF TZH TZM tz'", "'DAY dy MONTH mon'"),
            *("'YYYY MM DD HH24:MI:SS.MS'", "'FMHH24h FMMIm SSTH'", "'words are here'"),
        )
    },
}
for _one, _same in {
    **dict.fromkeys(("~*", "!~", "!~*"), "~"),
    **dict.fromkeys(("~~*", "!~~", "!~~*"), "~~"),
    **{"!similar": "similar", "->>": "->", "#>>": "#>", "lead": "lag"},
}.items():
    CONSTANTS[_one] = CONSTANTS[_same]
for _one in (
    *("regexp_replace", "regexp_like", "regexp_match", "regexp_count", "regexp_split_to_array"),
    *("substring", "regexp_split_to_table", "regexp_matches", "regexp_substr", "regexp_instr"),
):
    CONSTANTS.setdefault(_one, {})[1] = CONSTANTS["~"][1]
for _one in (
    *("@?", "@@", "jsonb_path_exists", "jsonb_path_match", "jsonb_path_query"),
    *("jsonb_path_query_array", "jsonb_path_query_first"),
):
    CONSTANTS[_one] = {1: _JSON_PATHS, 2: ("'{\"x\": 2}'",), 3: ("true",)}
_LIKE_FORMS = {
    **{"~~": "{0} LIKE {1}", "~~*": "{0} ILIKE {1}", "similar": "{0} SIMILAR TO {1}"},
    **{"!~~": "{0} NOT LIKE {1}", "!~~*": "{0} NOT ILIKE {1}"},
    "!similar": "{0} NOT SIMILAR TO {1}",
}
_FORMS = {
    **_LIKE_FORMS,
    "extract": "extract({0} FROM {1})",
    "position": "position({1} IN {0})",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A call over columns of some types; `label` names the entry."""

    label: str
    sql: str
    entry: Function
    columns: tuple[str, ...]
    """The types of `a0`, `a1`, ..., spelled as PostgreSQL spells them; "" for a constant."""


def all_calls() -> Iterator[Call]:
    """Calls of every entry that can be compared."""
    for table in (OPERATORS, FUNCTIONS):
        for entries in table.values():
            for entry in entries:
                if is_compared(entry):
                    yield from calls_of(entry)


_CAST_TO = (
    *("int2", "int4", "int8", "numeric", "numeric(6,2)", "float4", "float8", "bool", "text"),
    *("varchar(3)", "char(4)", "date", "time", "timestamp", "timestamp(0)", "timestamptz"),
    *("interval", "uuid", "bytea"),
)
_CAST_FROM = (
    *("int2", "int4", "int8", "numeric", "numeric(10,2)", "float4", "float8", "bool", "text"),
    *("date", "time", "timestamp", "timestamptz", "interval", "uuid", "bytea", "jsonb"),
    *("integer[]", "text[]", "bpchar"),
)


def cast_calls() -> Iterator[Call]:
    """Casts of each type to each that both sides know a cast to."""
    for source in _CAST_FROM:
        for target in _CAST_TO:
            entry = Function(f"cast to {target}", (), TEXT, "", "A cast.")
            yield Call(f"{source}::{target}", f"(a0::{target})", entry, (source,))


def is_compared(entry: Function) -> bool:
    told = entry.stability in (Stability.SESSION, Stability.CLOCK)
    ours = any(each.oid in _OURS for each in entry.arguments)
    return not told and not ours and entry.name not in LEFT_OUT and entry.sql != WITHIN


def calls_of(entry: Function) -> Iterator[Call]:
    """The entry with each choice of types and constants."""
    for types in _concrete(entry):
        label = f"{entry.name}({', '.join(spelled(each) for each in types)})"
        for arguments in itertools.product(*_arguments(entry, types)):
            columns = tuple(
                spelled(kind) if text == f"a{place}" else ""
                for place, (kind, text) in enumerate(zip(types, arguments, strict=True))
            )
            yield Call(label, _written(entry, arguments), entry, columns)


def spelled(kind: PgType) -> str:
    """The type as a column is declared with it, such that a text of any length fits."""
    if kind.modifier != NO_MODIFIER or is_array(kind):
        return format_type(kind)
    name = name_of(kind)
    return '"char"' if name == "char" else name


def _concrete(entry: Function) -> Iterator[tuple[PgType, ...]]:
    wanted = entry.arguments
    if entry.is_variadic:
        wanted = (*wanted, wanted[-1])
    generic = [each.oid for each in wanted if each.oid in POLYMORPHIC]
    if not generic:
        yield tuple(_with_digits(wanted))
        return
    if ANY.oid in generic:
        for each in _CONCRETE[ANY.oid]:
            yield tuple(each if kind.oid == ANY.oid else kind for kind in wanted)
        return
    first = next(iter(_ELEMENTS)) if len(set(generic)) > 1 else None
    if first is None:
        for each in _CONCRETE[generic[0]]:
            yield tuple(each if kind.oid in POLYMORPHIC else kind for kind in wanted)
        return
    for element, array in _ELEMENTS.items():
        yield tuple(
            array
            if kind.oid in (ANYARRAY.oid, ANYCOMPATIBLEARRAY.oid)
            else PgType(element)
            if kind.oid in POLYMORPHIC
            else kind
            for kind in wanted
        )


def _with_digits(wanted: tuple[PgType, ...]) -> Iterator[PgType]:
    """The first numeric has known digits, the others have not."""
    seen = False
    for each in wanted:
        if each == NUMERIC and not seen:
            seen = True
            yield numeric(10, 2)
        else:
            yield each


_SIMILAR_PARTS = tuple(
    f"'{each}'"
    for each in ('a#"%#"c', '%#"l_#"%', '#"%#"', "%", "a%c", '#"_#"%', '%#"#"_', 'a#"b#"c#"d')
)
_WITH_SOME_PATHS = frozenset({"jsonb_path_exists", "jsonb_path_query", "jsonb_path_query_first"})
"""They are made of the same values as others, for which all paths are tried."""
_NUMBER_FORMATS = tuple(
    f"'{each}'"
    for each in (
        *("999", "000", "9,999,999.99", "FM999,999.00", "S999.9", "999.9S", "999MI", "FM9.99"),
        *("0999.990", "$9,999", "FM0000", "99999999999999999999.99", "9G999D99", "FM990.0%", "99"),
        *("RN", "FMrn", "9.99EEEE", "9999PR", "FM9990.99PR", "FM999th", "SG99", "PL9.9MI"),
        *("L99,9.0", ".99", '9,9" 9 "9', "", "words"),
    )
)


def _arguments(entry: Function, types: tuple[PgType, ...]) -> list[tuple[str, ...]]:
    fixed = CONSTANTS.get(entry.name, {})
    if entry.name in ("@>", "<@") and types[0] != JSONB:
        fixed = {}
    if entry.name == "to_char" and types[0].oid in {*_NUMBERS, FLOAT4.oid, FLOAT8.oid}:
        fixed = {1: _NUMBER_FORMATS}
    if len(types) > 2 and 1 in fixed and fixed[1] is _JSON_PATHS:
        fixed = {**fixed, 1: tuple(each for each in _JSON_PATHS if "$x" in each)}
    elif entry.name in _WITH_SOME_PATHS:
        fixed = {1: _JSON_PATHS[:20:4]}
    if entry.name == "width_bucket" and types[0].oid == NUMERIC.oid:
        fixed = {1: ("0", "10"), 2: ("100", "-5")}
    elif entry.name == "width_bucket" and len(types) == 4:
        fixed = {3: ("5", "0", "1000000")}
    if entry.name == "width_bucket" and len(types) == 2:
        fixed = {1: ("'{1,3,50}'",)} if types[0] == INT4 else {1: ("'{a,b}'",)}
    if entry.name in ("substring", "substr") and types[0].oid == BYTEA.oid:
        fixed = {}
    if entry.name.startswith("regexp_") and INT4 in types:
        fixed = {n: each for n, each in fixed.items() if INT4 not in types[n : n + 1]}
        fixed = {**fixed, 1: ("'o'", "'(b)(c)'", "'[[:alpha:]]'", "'x*'")}
    if entry.name == "substring" and types == (TEXT, TEXT, TEXT):
        fixed = {1: _SIMILAR_PARTS, 2: ("'#'",)}
    if entry.name in ("^", "power", "pow") and types[0].oid == NUMERIC.oid:
        fixed = {1: ("0", "1", "2", "3", "5", "-1", "0.5")}
    return [
        _fitting(fixed[place], kind) if place in fixed else (f"a{place}",)
        for place, kind in enumerate(types)
    ]


def _fitting(constants: tuple[str, ...], kind: PgType) -> tuple[str, ...]:
    """Those of the constants that are of the type."""
    quoted = [each for each in constants if not each.lstrip("-").isdigit()]
    numbers = [each for each in constants if each.lstrip("-").isdigit()]
    chosen = numbers if kind.oid in _NUMBERS and numbers else quoted or numbers
    return tuple(chosen)


def _written(entry: Function, arguments: tuple[str, ...]) -> str:
    name = entry.name
    form = _FORMS.get(name)
    if form is not None:
        text = form.format(*arguments)
        return f"({text} ESCAPE {arguments[2]})" if len(arguments) > 2 else f"({text})"
    if name == "overlay":
        length = f" FOR {arguments[3]}" if len(arguments) > 3 else ""
        return f"overlay({arguments[0]} PLACING {arguments[1]} FROM {arguments[2]}{length})"
    if entry.kind is Kind.AGGREGATE and not arguments:
        return "count(*)"
    if name.isidentifier():
        return f"{name}({', '.join(arguments)})"
    if len(arguments) == 1:
        return f"({name} {arguments[0]})"
    return f"({arguments[0]} {name} {arguments[1]})"
