"""Conversions between types.

`cast_sql` writes one out; whether a conversion may happen where it stands is not asked here. Each
rounds, pads, trims and fails as PostgreSQL's does: numerics round half away from zero, floats to
the even neighbour, a text that is no number is an error.

Texts are read in the forms that PostgreSQL writes. Other forms that it would read too, such as
dates by the names of months, raise an error when they are met; in a constant they are understood.
"""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.model.interval_fields import fields_of, places_of
from waterclock.model.manner import Manner
from waterclock.model.pg_types import (
    NO_MODIFIER,
    NUMERIC,
    TEXT,
    PgType,
    format_type,
    type_info,
    type_names,
)
from waterclock.sql.dialect import datetimes, json_reading, jsons, scaled
from waterclock.sql.dialect.faults import invalid_input, raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.texts import text_of
from waterclock.sql.dialect.types import (
    bounded,
    digits,
    element_type,
    is_array,
    is_unconstrained,
    name_of,
    spark_type,
)

INTEGERS = frozenset({"int2", "int4", "int8", "oid", "mz_timestamp"})
FLOATS = frozenset({"float4", "float8"})
_MOST_PLACES = 6
"""The digits of seconds that there are."""
TEXTS = frozenset({"text", "varchar", "bpchar", "name", "char"})
_READ = TEXTS | {"json", "jsonb"}
_LONG = 300
_FLOAT_DIGITS = {"float4": 6, "float8": 15}


class NoConversion(Exception):
    """No expression of Spark's makes the one of the other."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a cast: its SQL, and its type with the digits it really has."""

    sql: str
    type: PgType


def cast_sql(
    value: str, source: PgType, target: PgType, manner: Manner, *, explicit: bool
) -> Conversion:
    """The value in another type; `NoConversion` if there is no way to write that.

    `explicit` matters for texts that are too long: a cast cuts them, an assignment refuses.
    """
    if len(value) <= _LONG or is_array(source) or name_of(source) not in _READ:
        return _cast_sql(value, source, target, manner, explicit=explicit)
    # What reads a text names it several times.
    found = _cast_sql("ct.v", source, target, manner, explicit=explicit)
    sql = value if found.sql == "ct.v" else let({"v": value}, "ct", f"({found.sql})")
    return Conversion(sql, found.type)


def _cast_sql(
    value: str, source: PgType, target: PgType, manner: Manner, *, explicit: bool
) -> Conversion:
    if is_array(source) and is_array(target):
        return _array(value, source, target, manner, explicit=explicit)
    have, want = name_of(source), name_of(target)
    if want in ("varchar", "bpchar"):
        return _bounded_text(value, source, target, manner, explicit=explicit)
    if have == want and have != "numeric" and target.modifier in (NO_MODIFIER, source.modifier):
        return Conversion(value, source)
    if want == "char":
        text = value if have == "bpchar" else text_of(value, source, manner)
        return Conversion(one_byte(text), target)
    if want in TEXTS or (want == "json" and have == "jsonb"):
        return Conversion(text_of(value, source, manner), target)
    if want == "numeric" or want == "uint8":
        return _to_numeric(value, source, target)
    if have in TEXTS or (have == "json" and want == "jsonb"):
        return Conversion(_shortened(_from_text(value, target, manner.zone), target), target)
    if is_unconstrained(source):
        return Conversion(_from_scaled(value, want, target), target)
    sql = _converted(value, have, want, target, manner.zone)
    return Conversion(sql, target)


def _from_scaled(value: str, want: str, target: PgType) -> str:
    """A number with a scale of its own in other types of numbers."""
    if want in FLOATS:
        return scaled.to_float(value, spark_type(target))
    if want in INTEGERS:
        return f"CAST({scaled.to_exact(value, bounded(38, 0))} AS {spark_type(target)})"
    raise NoConversion


def _converted(value: str, have: str, want: str, target: PgType, zone: str) -> str:
    """Everything but texts and numerics."""
    kind = spark_type(target)
    match have, want:
        case (h, "regtype") if h in INTEGERS:
            return _type_named(value)
        case ("regtype", w) if w in INTEGERS:
            return f"CAST({_type_number(value)} AS {kind})"
        case (h, w) if h in INTEGERS | {"bool"} and w in INTEGERS | FLOATS | {"bool"}:
            return f"CAST({value} AS {kind})"
        case ("numeric" | "uint8", w) if w in FLOATS:
            return f"CAST({value} AS {kind})"
        case ("numeric" | "uint8", w) if w in INTEGERS:
            return f"CAST(ROUND({value}, 0) AS {kind})"
        case (h, w) if h in FLOATS and w in FLOATS:
            return _narrowed(value) if w == "float4" else f"CAST({value} AS {kind})"
        case (h, w) if h in FLOATS and w in INTEGERS:
            rounded = f"CAST(RINT({value}) AS {kind})"
            if w != "int8":
                return rounded
            # The engine takes 2 ^ 63 for the greatest number there is.
            too_large = raised("22003", "bigint out of range")
            return (
                f"(CASE WHEN {value} >= 9223372036854775808D THEN {too_large} ELSE {rounded} END)"
            )
        case "date", "timestamp":
            return _rounded(datetimes.date_as_timestamp(value), target, zoned=False)
        case "date", "timestamptz":
            moment = datetimes.to_moment(datetimes.date_as_timestamp(value), zone)
            return _rounded(moment, target, zoned=True)
        case "timestamp" | "timestamptz", "date":
            local = value if have == "timestamp" else datetimes.to_local(value, zone)
            return datetimes.between_kinds(value, have, "date", f"CAST({local} AS DATE)")
        case "timestamp" | "timestamptz", "timestamp" | "timestamptz":
            return _timestamps(value, have, want, target, zone)
        case "timestamp" | "date", "mz_timestamp":
            local = f"CAST({value} AS TIMESTAMP_NTZ)"
            return f"({datetimes.micros_of(local, zoned=False)} DIV 1000L)"
        case "timestamptz", "mz_timestamp":
            return f"({datetimes.micros_of(value, zoned=True)} DIV 1000L)"
        case "mz_timestamp", "timestamptz" | "timestamp":
            return datetimes.from_micros(f"({value} * 1000L)", zoned=want == "timestamptz")
        case ("timestamp" | "timestamptz" | "interval" | "time" | "jsonb", _):
            return _shortened(_to_other(value, have, want, zone), target)
    raise NoConversion


def _type_named(number: str) -> str:
    """The name of the type of that number; of one that there is not, the number."""
    names = " ".join(f"WHEN {oid} THEN {quoted(name)}" for oid, name in type_names().items())
    return f"CASE {number} WHEN 0 THEN '-' {names} ELSE CAST({number} AS STRING) END"


def _type_number(name: str) -> str:
    numbers = " ".join(f"WHEN {quoted(each)} THEN {oid}L" for oid, each in type_names().items())
    return f"CASE {name} WHEN '-' THEN 0L {numbers} ELSE CAST({name} AS BIGINT) END"


def _to_other(value: str, have: str, want: str, zone: str) -> str:
    match have, want:
        case "timestamp" | "timestamptz", "time":
            local = value if have == "timestamp" else datetimes.to_local(value, zone)
            finite = f"NOT {datetimes.is_infinite(value, have)}"
            return f"CASE WHEN {finite} THEN CAST({local} AS TIME(6)) END"
        case "time", "interval":
            made = datetimes.interval("0", "0", datetimes.time_micros(value))
            return datetimes.unless_null(value, made)
        case "interval", "time":
            return f"TIME_FROM_MICROS(PMOD({value}.micros, {datetimes.DAY_MICROS}L))"
        case ("interval", "interval") | ("time", "time"):
            return value
        case "jsonb", "bool":
            valid = f"CASE WHEN {value} IN ('true', 'false') THEN {value} = 'true'"
            wrong = raised("22023", "cannot cast this jsonb value to type boolean")
            return f"{valid} WHEN {value} IS NOT NULL THEN {wrong} END"
        case ("jsonb", w) if w in INTEGERS | FLOATS:
            return jsons.number_as(value, w)
    raise NoConversion


def _timestamps(value: str, have: str, want: str, target: PgType, zone: str) -> str:
    sql = value
    if have == "timestamp" and want == "timestamptz":
        sql = datetimes.to_moment(value, zone)
    elif have == "timestamptz" and want == "timestamp":
        sql = datetimes.to_local(value, zone)
    return _rounded(sql, target, zoned=want == "timestamptz")


def _rounded(value: str, target: PgType, *, zoned: bool) -> str:
    """The timestamp with as many digits of its seconds as its type has."""
    if not 0 <= target.modifier < 6:
        return value
    micros = datetimes.micros_of(value, zoned=zoned)
    rounded = datetimes.from_micros(f"ROUND({micros}, {target.modifier - 6})", zoned=zoned)
    return datetimes.if_finite(value, "timestamptz" if zoned else "timestamp", rounded)


def _shortened(value: str, target: PgType) -> str:
    """A time or an interval, however long its SQL, with as many digits of seconds as its type."""
    kind = name_of(target)
    if kind == "interval":
        return _with_fields(value, target.modifier)
    less = target.modifier - _MOST_PLACES
    if target.modifier == NO_MODIFIER or less >= 0:
        return value
    match kind:
        case "timestamp" | "timestamptz":
            made = _rounded("st.v", target, zoned=kind == "timestamptz")
        case "time":
            micros = f"ROUND({datetimes.time_micros('st.v')}, {less})"
            made = (
                f"CASE WHEN {micros} < {datetimes.DAY_MICROS}L THEN TIME_FROM_MICROS({micros})"
                f" WHEN st.v IS NOT NULL THEN {datetimes.NO_MIDNIGHT} END"
            )
        case _:
            return value
    return let({"v": value}, "st", made)


def _with_fields(value: str, modifier: int) -> str:
    """An interval without what its type does not keep."""
    last, places = (fields_of(modifier) or ("", ""))[1], places_of(modifier)
    months, days, micros = "st.v.months", "st.v.days", "st.v.micros"
    match last:
        case "year":
            months, days, micros = f"{months} DIV 12 * 12", "0", "0"
        case "month":
            days, micros = "0", "0"
        case "day":
            micros = "0"
        case "hour" | "minute":
            unit = 3_600_000_000 if last == "hour" else 60_000_000
            micros = f"{micros} DIV {unit}L * {unit}L"
        case _ if places is None or places >= _MOST_PLACES:
            return value
        case _:
            micros = f"ROUND({micros}, {places - _MOST_PLACES})"
    made = datetimes.interval(months, days, micros)
    return let({"v": value}, "st", datetimes.unless_null("st.v", made))


# --- Numerics -------------------------------------------------------------------------------------


def _to_numeric(value: str, source: PgType, target: PgType) -> Conversion:
    """Without a modifier, the digits stay what they are."""
    have = name_of(source)
    if have in INTEGERS | {"numeric", "uint8"}:
        return _exact(value, source, target)
    if have in FLOATS:
        shortest = scaled.from_float(value, _FLOAT_DIGITS[have])
        made = (
            f"CASE WHEN ISNAN({value}) OR ABS({value}) = {_INFINITY} THEN {_NOT_A_NUMERIC}"
            f" WHEN {value} IS NOT NULL THEN {shortest} END"
        )
    elif have in TEXTS:
        odd = f"LOWER({value}) RLIKE {quoted(_NOT_FINITE)}"
        made = f"CASE WHEN {odd} THEN {_NOT_A_NUMERIC} ELSE {scaled.from_text(value)} END"
    elif have == "jsonb":
        made = scaled.from_text(value)
    else:
        raise NoConversion
    return _exact(f"({made})", NUMERIC, target)


def _exact(value: str, source: PgType, target: PgType) -> Conversion:
    """An exact number with other digits; without a modifier, with those it has."""
    if is_unconstrained(target):
        result = source if name_of(source) == "numeric" else bounded(*digits(source))
        return Conversion(value if source == result else _decimal(value, result), result)
    if is_unconstrained(source):
        return Conversion(scaled.to_exact(value, target), target)
    return Conversion(_decimal(value, target), target)


def _decimal(value: str, target: PgType) -> str:
    return f"CAST({value} AS {spark_type(target)})"


_INFINITY = "CAST('Infinity' AS DOUBLE)"
_NOT_A_NUMERIC = raised("0A000", "an infinite numeric, or one that is no number, is not supported")
_OVER = raised("22003", "value out of range: overflow")
_UNDER = raised("22003", "value out of range: underflow")


def _narrowed(value: str) -> str:
    """A float of half the size, unless that is infinite or zero where the other is not."""
    narrow = f"CAST({value} AS FLOAT)"
    return (
        f"CASE WHEN ABS({narrow}) = {_INFINITY} AND ABS({value}) < {_INFINITY} THEN {_OVER}"
        f" WHEN {narrow} = 0 AND {value} <> 0 THEN {_UNDER} ELSE {narrow} END"
    )


# --- Texts ----------------------------------------------------------------------------------------


def _bounded_text(
    value: str, source: PgType, target: PgType, manner: Manner, *, explicit: bool
) -> Conversion:
    """`varchar(n)` and `character(n)`."""
    have, want = name_of(source), name_of(target)
    if have == want and (source.modifier == target.modifier or target.modifier == NO_MODIFIER):
        return Conversion(value, source)
    text = text_of(value, source, manner)
    if target.modifier == NO_MODIFIER:
        return Conversion(text, target)
    length = target.modifier - 4
    cut = f"LEFT({text}, {length})"
    if not explicit:
        message = f"value too long for type {format_type(target)}"
        too_long = raised("22001", message)
        cut = f"CASE WHEN LENGTH(RTRIM({text})) > {length} THEN {too_long} ELSE {cut} END"
    if want == "bpchar":
        cut = f"RPAD({cut}, {length}, ' ')"
    return Conversion(cut, target)


_TRUE = "('t', 'tr', 'tru', 'true', 'y', 'ye', 'yes', 'on', '1')"
_FALSE = "('f', 'fa', 'fal', 'fals', 'false', 'n', 'no', 'of', 'off', '0')"
_DAY = "[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = "[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
_OFFSET = "(Z|UTC|[+-][0-9]{1,2}(:?[0-9]{2})?)"
_FORMS = {
    "date": f"^\\s*{_DAY}\\s*$",
    "time": f"^\\s*{_CLOCK}\\s*$",
    "timestamp": f"^\\s*{_DAY}([ T]{_CLOCK})?\\s*$",
    "uuid": "^[{]?([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}[}]?$",
    "float4": "^\\s*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\\s*$",
}
_FORMS["float8"] = _FORMS["float4"]
_ZONED_FORM = f"^\\s*{_DAY}([ T]{_CLOCK})?\\s*{_OFFSET}\\s*$"
_NOT_FINITE = "^\\s*[+-]?(nan|inf|infinity)\\s*$"


def _from_text(value: str, target: PgType, zone: str) -> str:
    want = name_of(target)
    kind = spark_type(target)
    match want:
        case "int2" | "int4" | "int8" | "oid" | "mz_timestamp":
            return f"CAST({value} AS {kind})"
        case "bool":
            word = f"LOWER(TRIM({value}))"
            wrong = invalid_input("boolean", value)
            return (
                f"CASE WHEN {word} IN {_TRUE} THEN TRUE WHEN {word} IN {_FALSE} THEN FALSE"
                f" WHEN {value} IS NOT NULL THEN {wrong} END"
            )
        case "float4" | "float8":
            return _float_from_text(value, target)
        case "date" | "time" | "timestamp":
            condition = f"{value} RLIKE {quoted(_FORMS[want])}"
            return _checked(value, condition, f"CAST({value} AS {kind})", target, "22007")
        case "timestamptz":
            return _moment_from_text(value, target, zone)
        case "uuid":
            condition = f"{value} RLIKE {quoted(_FORMS[want])}"
            made = f"UNHEX(REGEXP_REPLACE({value}, '[^0-9a-fA-F]', ''))"
            return _checked(value, condition, made, target)
        case "bytea":
            return _bytes_from_text(value)
        case "jsonb":
            return json_reading.normal(value)
        case "json":
            return json_reading.checked(value)
    raise NoConversion


def _float_from_text(value: str, target: PgType) -> str:
    number = f"CAST({value} AS {spark_type(target)})"
    out = raised("22003", f"value is out of range for type {type_info(target.oid).sql_name}")
    hexadecimal = raised("0A000", "a hexadecimal number is not supported")
    digits_in_it = f"REGEXP_EXTRACT({value}, '^[^eE]*', 0) RLIKE '[1-9]'"
    wrong = invalid_input(type_info(target.oid).sql_name, value)
    return (
        f"CASE WHEN LOWER({value}) RLIKE {quoted(_NOT_FINITE)} THEN {number}"
        f" WHEN {value} RLIKE {quoted(_FORMS['float4'])} THEN CASE WHEN ABS({number}) = {_INFINITY}"
        f" OR ({number} = 0 AND {digits_in_it}) THEN {out} ELSE {number} END"
        f" WHEN {value} RLIKE '^\\\\s*[+-]?0[xX]' THEN {hexadecimal}"
        f" WHEN {value} IS NOT NULL THEN {wrong} END"
    )


def _moment_from_text(value: str, target: PgType, zone: str) -> str:
    local = datetimes.to_moment(f"CAST({value} AS TIMESTAMP_NTZ)", zone)
    spelled = (
        f"REGEXP_REPLACE({value}, '([+-][0-9]{{1,2}})([0-9]{{2}})?\\\\s*$', '\\u00241:\\u00242')"
    )
    padded = f"REGEXP_REPLACE({spelled}, ':$', ':00')"
    zoned = f"CAST({padded} AS TIMESTAMP)"
    wrong = invalid_input(type_info(target.oid).sql_name, value, "22007")
    return (
        f"CASE WHEN {value} RLIKE {quoted(_FORMS['timestamp'])} THEN {local}"
        f" WHEN {value} RLIKE {quoted(_ZONED_FORM)} THEN {zoned}"
        f" WHEN {value} IS NOT NULL THEN {wrong} END"
    )


def _bytes_from_text(value: str) -> str:
    return (
        f"CASE WHEN {value} LIKE {quoted(chr(92) * 2 + 'x%')}"
        f" THEN {bytes_of_hex(f'SUBSTRING({value}, 3)')}"
        f" ELSE {bytes_of_escaped(value)} END"
    )


_BLANKS = quoted("[ \\n\\t\\r]")


def bytes_of_hex(text: str) -> str:
    """Bytes of a text of hexadecimal digits, with blanks between bytes."""
    plain = f"REGEXP_REPLACE({text}, {_BLANKS}, '')"
    odd = raised("22023", "invalid hexadecimal data: odd number of digits")
    wrong = raised("22023", "invalid hexadecimal digit")
    bytes_and_blanks = quoted(r"^([0-9a-fA-F]{2}|[ \n\t\r])*\z")
    return (
        f"(CASE WHEN {text} RLIKE {bytes_and_blanks} THEN UNHEX({plain})"
        f" WHEN {plain} RLIKE '^[0-9a-fA-F]*$' THEN {odd}"
        f" WHEN {plain} IS NOT NULL THEN {wrong} END)"
    )


def bytes_of_escaped(text: str) -> str:
    """Bytes of a text in which odd ones are a backslash and three octal digits."""
    pieces = r"\\\\|\\[0-3][0-7]{2}|[^\\]+"
    wrong = raised("22P02", "invalid input syntax for type bytea")
    each = (
        f"CASE WHEN p = {quoted(chr(92) * 2)} THEN '5C'"
        f" WHEN LEFT(p, 1) = {quoted(chr(92))} THEN LPAD(CONV(SUBSTRING(p, 2), 8, 16), 2, '0')"
        " ELSE HEX(ENCODE(p, 'UTF-8')) END"
    )
    parts = f"TRANSFORM(REGEXP_EXTRACT_ALL({text}, {quoted(pieces)}, 0), p -> {each})"
    return (
        f"(CASE WHEN {text} RLIKE {quoted(f'^({pieces})*{chr(92)}z')}"
        f" THEN UNHEX(ARRAY_JOIN({parts}, '')) WHEN {text} IS NOT NULL THEN {wrong} END)"
    )


def _checked(
    value: str, condition: str, result: str, target: PgType, sqlstate: str = "22P02"
) -> str:
    wrong = invalid_input(type_info(target.oid).sql_name, value, sqlstate)
    return f"CASE WHEN {condition} THEN {result} WHEN {value} IS NOT NULL THEN {wrong} END"


# --- Arrays ---------------------------------------------------------------------------------------


def _array(
    value: str, source: PgType, target: PgType, manner: Manner, *, explicit: bool
) -> Conversion:
    inner, outer = element_type(source), element_type(target)
    each = cast_sql("e", inner, outer, manner, explicit=explicit)
    result = PgType(target.oid, each.type.modifier)
    if each.sql == "e":
        return Conversion(value, result)
    return Conversion(f"TRANSFORM({value}, e -> {each.sql})", result)


def as_text(value: str, source: PgType, manner: Manner) -> Conversion:
    """The value as text."""
    return Conversion(text_of(value, source, manner), TEXT)


def one_byte(text: str) -> str:
    """A text as `"char"`: its first byte, or the one that it names, such as `\\101`."""
    is_octal = f"x.t RLIKE {quoted(chr(92) * 2 + '[0-7]{3}')} AND LENGTH(x.t) = 4"
    octal = "CAST(CONV(SUBSTRING(x.t, 2), 8, 10) AS INT) % 256"
    first = "CAST(CONV(SUBSTRING(HEX(ENCODE(x.t, 'UTF-8')), 1, 2), 16, 10) AS INT)"
    byte = let({"t": text}, "x", f"CASE WHEN {is_octal} THEN {octal} ELSE {first} END")
    above = f"CONCAT({quoted(chr(92))}, LPAD(CONV(CAST(y.b AS STRING), 10, 8), 3, '0'))"
    shown = f"CASE WHEN y.b = 0 THEN '' WHEN y.b < 128 THEN CHR(y.b) ELSE {above} END"
    made = let({"b": byte}, "y", shown)
    return f"CASE {text} WHEN '' THEN '' ELSE {made} END"
