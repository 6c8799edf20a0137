r"""Values as text, the way PostgreSQL prints them.

`true`, `1.50`, `1e+20`, `2024-01-01 10:00:00+00`, `1 mon 2 days 03:04:05`, `{a,"b c",NULL}`.

Java 17 does not always find the shortest decimal of a float; then one with a digit less is tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.manner import Manner
from waterclock.model.pg_types import PgType
from waterclock.sql.dialect.datetimes import is_infinity, is_utc, to_local
from waterclock.sql.dialect.interval_texts import interval_text
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.scaled import text_of as scaled_text
from waterclock.sql.dialect.types import element_type, is_array, is_unconstrained, name_of
from waterclock.sql.errors import FeatureNotSupported

_AS_IT_IS = frozenset({"text", "varchar", "name", "char", "json", "jsonb", "regtype"})
_AS_IT_IS |= {"record", "regclass"}
_CAST = frozenset({"bool", "int2", "int4", "int8", "oid", "mz_timestamp", "uint8", "time"})


def text_of(value: str, declared: PgType, manner: Manner) -> str:
    """The text of a value."""
    if is_array(declared):
        return _array(value, element_type(declared), manner)
    match name_of(declared):
        case name if name in _AS_IT_IS:
            return value
        case name if name in _CAST:
            return f"CAST({value} AS STRING)"
        case "bpchar":
            return f"RTRIM({value})"
        case "numeric":
            return _numeric(value, declared)
        case "float4" | "float8" if manner.float_digits < 1:
            raise FeatureNotSupported(
                "a floating-point number as text inside a query is not supported when"
                " extra_float_digits is below 1",
                hint="Set extra_float_digits to 1, or convert it to numeric and round that.",
            )
        case "float4":
            return _float(value, "1e6")
        case "float8":
            return _float(value, "1e15")
        case "date":
            return _or_infinity(value, "date", _date(value))
        case "timestamp":
            return _or_infinity(value, "timestamp", _timestamp(value))
        case "timestamptz":
            return _or_infinity(value, "timestamptz", _zoned(value, manner.zone))
        case "interval":
            return interval_text(value, manner.intervals)
        case "uuid":
            groups = quoted("^(.{8})(.{4})(.{4})(.{4})(.{12})$")
            return f"REGEXP_REPLACE(LOWER(HEX({value})), {groups}, {_groups(1, 2, 3, 4, 5)})"
        case "bytea":
            return f"CONCAT({quoted(chr(92) + 'x')}, LOWER(HEX({value})))"
        case name:
            raise AssertionError(f"no text form for {name}")


def output_of(value: str, declared: PgType, manner: Manner) -> str:
    """The value as it is shown to a client: as its text, but a truth value is only a letter."""
    if name_of(declared) == "bpchar":
        return value  # a cast cuts the blanks off, what is shown has them
    text = text_of(value, declared, manner)
    return f"LEFT({text}, 1)" if name_of(declared) == "bool" else text


def _or_infinity(value: str, kind: str, text: str) -> str:
    later, earlier = (is_infinity(value, kind, negative=each) for each in (False, True))
    return f"(CASE WHEN {later} THEN 'infinity' WHEN {earlier} THEN '-infinity' ELSE {text} END)"


def _groups(*numbers: int) -> str:
    return quoted("-".join(f"${number}" for number in numbers))


def _numeric(value: str, declared: PgType) -> str:
    return scaled_text(value) if is_unconstrained(declared) else f"CAST({value} AS STRING)"


def without_zeros(text: str) -> str:
    """The text of a decimal with a point, without zeros at the end."""
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"


def _float(value: str, plain_below: str) -> str:
    """Java writes an exponent below 1e-3 and from 1e7 on; PostgreSQL below 1e-4 and later."""
    plain = without_zeros("CAST(CAST(s AS DECIMAL(38,21)) AS STRING)")
    mantissa = "REGEXP_REPLACE(SPLIT_PART(d, 'E', 1), '[.]0$', '')"
    power = "CAST(SPLIT_PART(d, 'E', 2) AS INT)"
    number = f"CASE WHEN ABS({power}) < 10 THEN '0' ELSE '' END, CAST(ABS({power}) AS STRING)"
    exponent = f"CONCAT({mantissa}, CASE WHEN {power} < 0 THEN 'e-' ELSE 'e+' END, {number})"
    # A float that Java writes without exponent is divided down to have one.
    divided = "CONCAT(CAST(CAST(s AS DOUBLE) / 1e6D AS STRING), 'E6')"
    scaled = f"CASE WHEN s LIKE '%E%' THEN s ELSE {divided} END"
    chosen = (
        "CASE WHEN s IN ('NaN', 'Infinity', '-Infinity') THEN s"
        " WHEN s = '0.0' THEN '0' WHEN s = '-0.0' THEN '-0'"
        f" WHEN ABS(CAST(s AS DOUBLE)) >= 1e-4D AND ABS(CAST(s AS DOUBLE)) < {plain_below}D"
        f" THEN {plain}"
        f" ELSE ELEMENT_AT(TRANSFORM(ARRAY({scaled}), d -> {exponent}), 1) END"
    )
    kind = "FLOAT" if plain_below == "1e6" else "DOUBLE"
    written = f"ARRAY(CAST({value} AS STRING))"
    return f"ELEMENT_AT(TRANSFORM(TRANSFORM({written}, s -> {_shortest(kind)}), s -> {chosen}), 1)"


def _shortest(kind: str) -> str:
    """A float as Java writes it, or with a digit less if it is the same number."""
    most = 8 if kind == "FLOAT" else 16
    digits = "LENGTH(REGEXP_REPLACE(SPLIT_PART(s, 'E', 1), '^-?0*[.]?0*|[.]', ''))"
    shorter = (
        f"UPPER(FORMAT_STRING(CONCAT('%.', CAST({digits} - 2 AS STRING), 'e'), CAST(s AS DOUBLE)))"
    )
    doubtful = f"s LIKE '%E-3__' OR s LIKE '%E-4_' OR {digits} > {most}"
    tried = f"CASE WHEN CAST(f AS {kind}) = CAST(s AS {kind}) THEN f ELSE s END"
    return (
        f"CASE WHEN ({doubtful}) AND {digits} > 1 AND s RLIKE '[1-9]'"
        f" THEN ELEMENT_AT(TRANSFORM(ARRAY({shorter}), f -> {tried}), 1) ELSE s END"
    )


def _date(value: str) -> str:
    plain = f"REGEXP_REPLACE(CAST({value} AS STRING), '^[+]', '')"
    before = (
        f"CONCAT(LPAD(CAST(1 - YEAR({value}) AS STRING), 4, '0'),"
        f" DATE_FORMAT({value}, '-MM-dd'), ' BC')"
    )
    return f"CASE WHEN YEAR({value}) > 0 THEN {plain} ELSE {before} END"


def _timestamp(value: str) -> str:
    plain = f"REGEXP_REPLACE(CAST({value} AS STRING), '^[+]', '')"
    time = f"SUBSTRING_INDEX(CAST({value} AS STRING), ' ', -1)"
    before = (
        f"CONCAT(LPAD(CAST(1 - YEAR({value}) AS STRING), 4, '0'),"
        f" DATE_FORMAT({value}, '-MM-dd '), {time}, ' BC')"
    )
    return f"CASE WHEN YEAR({value}) > 0 THEN {plain} ELSE {before} END"


def _zoned(value: str, zone: str) -> str:
    if is_utc(zone):
        text = _timestamp(f"CAST({value} AS TIMESTAMP_NTZ)")
        return _before_era(text, "'+00'")
    local = to_local(value, zone)
    seconds = f"TIMESTAMPDIFF(SECOND, CAST({value} AS TIMESTAMP_NTZ), {local})"
    parts = (
        "CASE WHEN o < 0 THEN '-' ELSE '+' END",
        "LPAD(CAST(ABS(o) DIV 3600 AS STRING), 2, '0')",
        _part_of_offset("ABS(o) % 3600 DIV 60", "ABS(o) % 3600 <> 0"),
        _part_of_offset("ABS(o) % 60", "ABS(o) % 60 <> 0"),
    )
    offset = f"ELEMENT_AT(TRANSFORM(ARRAY({seconds}), o -> CONCAT({', '.join(parts)})), 1)"
    return _before_era(_timestamp(local), offset)


def _part_of_offset(number: str, shown_if: str) -> str:
    text = f"CONCAT(':', LPAD(CAST({number} AS STRING), 2, '0'))"
    return f"CASE WHEN {shown_if} THEN {text} ELSE '' END"


def _before_era(text: str, offset: str) -> str:
    """The offset goes in front of BC."""
    appended = f"CONCAT(t, {offset})"
    moved = f"CONCAT(SUBSTRING_INDEX(t, ' BC', 1), {offset}, ' BC')"
    chosen = f"CASE WHEN t LIKE '% BC' THEN {moved} ELSE {appended} END"
    return f"ELEMENT_AT(TRANSFORM(ARRAY({text}), t -> {chosen}), 1)"


_NEEDS_QUOTES = quoted('^$|["\\\\{},\\s]|^[nN][uU][lL][lL]$')
_TO_ESCAPE = quoted('(["\\\\])')


def _array(value: str, element: PgType, manner: Manner) -> str:
    inner = output_of("e", element, manner)
    escaped = f"CONCAT('\"', REGEXP_REPLACE(x, {_TO_ESCAPE}, {quoted(chr(92) * 2 + '$1')}), '\"')"
    written = (
        f"CASE WHEN x IS NULL THEN 'NULL' WHEN x RLIKE {_NEEDS_QUOTES} THEN {escaped} ELSE x END"
    )
    texts = f"TRANSFORM({value}, e -> {inner})"
    items = f"TRANSFORM({texts}, x -> {written})"
    return f"CONCAT('{{', ARRAY_JOIN({items}, ','), '}}')"


_NEVER_QUOTED = frozenset(
    {"bool", "int2", "int4", "int8", "oid", "numeric", "float4", "float8", "uuid"}
)
_NEEDS_QUOTES_IN_RECORD = quoted('^$|["\\\\(),\\s]')
_TWICE = quoted("$1$1")


def record_of(fields: Sequence[tuple[str, PgType]], manner: Manner) -> str:
    """The text of a row of these values, such as `(1,"a b",,t)`; nulls are left out."""
    pieces = [f"COALESCE({_record_field(value, kind, manner)}, '')" for value, kind in fields]
    inside = ", ',', ".join(pieces)
    return f"CONCAT('(', {inside}, ')')" if pieces else "'()'"


def _record_field(value: str, declared: PgType, manner: Manner) -> str:
    # A value of type character keeps its blanks here, as it does not when it is cast to text.
    text = value if name_of(declared) == "bpchar" else output_of(value, declared, manner)
    if name_of(declared) in _NEVER_QUOTED:
        return text
    escaped = f"CONCAT('\"', REGEXP_REPLACE(x, {_TO_ESCAPE}, {_TWICE}), '\"')"
    written = f"CASE WHEN x RLIKE {_NEEDS_QUOTES_IN_RECORD} THEN {escaped} ELSE x END"
    return f"ELEMENT_AT(TRANSFORM(ARRAY({text}), x -> {written}), 1)"
