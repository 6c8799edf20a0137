"""Functions of JSON.

A `jsonb` value is held as its text in PostgreSQL's normal form: members in order of the length of
their names, one blank behind each colon and comma. What is taken out of one is in that form again.

Not exactly as in PostgreSQL: a number of more than 17 digits, or with zeros at its end, is rounded
to a double when it is taken out.
"""

from __future__ import annotations

from waterclock.model.pg_types import INT4, JSONB, TEXT, PgType
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.texts import text_of
from waterclock.sql.dialect.types import (
    ANY,
    ANYELEMENT,
    JSON,
    TEXT_ARRAY,
    element_type,
    is_array,
    name_of,
)
from waterclock.sql.functions.registry import Argument, Function, Refused, SqlRule, Use, scalar

_SPACED = (quoted('\\G((?:[^":,]|"(?:[^"\\\\]|\\\\.)*")*[:,])'), quoted("$1 "))


def spaced(compact: str) -> str:
    """JSON text without blanks in the normal form."""
    return f"REGEXP_REPLACE({compact}, {_SPACED[0]}, {_SPACED[1]})"


def _step(argument: Argument) -> str:
    """One step of a path: `['name']` or `[0]`."""
    if name_of(argument.type) == "int4":
        if argument.value is None or argument.value < 0:
            raise Refused("an element of JSON by a number that is not constant, or below 0")
        return f"[{argument.value}]"
    return _name(argument)


def _name(argument: Argument) -> str:
    if argument.text is None:
        raise Refused("a member of JSON by a name that is not a constant")
    if "'" in argument.text or not argument.text:
        raise Refused("a member of JSON whose name is empty or has a quote in it")
    return f"['{argument.text}']"


def _as_json(value: str, path: str) -> str:
    """What is at the path, as JSON; null if nothing is."""
    where = quoted(path)
    raw = spaced(f"GET_JSON_OBJECT({value}, {where})")
    found = f"VARIANT_GET(PARSE_JSON({value}), {where}, 'variant')"
    chosen = (
        "CASE WHEN v IS NULL THEN NULL WHEN IS_VARIANT_NULL(v) THEN 'null'"
        f" WHEN SCHEMA_OF_VARIANT(v) = 'STRING' THEN TO_JSON(v) ELSE {raw} END"
    )
    return f"ELEMENT_AT(TRANSFORM(ARRAY({found}), v -> {chosen}), 1)"


def _as_text(value: str, path: str) -> str:
    """What is at the path, as text; a JSON null is null."""
    where = quoted(path)
    raw = f"GET_JSON_OBJECT({value}, {where})"
    kind = f"SCHEMA_OF_VARIANT(VARIANT_GET(PARSE_JSON({value}), {where}, 'variant'))"
    nested = f"{kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%'"
    return f"(CASE WHEN {raw} IS NULL THEN NULL WHEN {nested} THEN {spaced(raw)} ELSE {raw} END)"


def _taken(*, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, step = use.arguments
        path = "$" + _step(step)
        found = _as_text(value.sql, path) if as_text else _as_json(value.sql, path)
        if step.value == 0 and name_of(value.type) == "jsonb":
            # A jsonb that is no array counts as one of itself, if it is not an object.
            whole = f"NULLIF({_as_text(value.sql, '$')}, 'null')" if as_text else value.sql
            return f"(CASE WHEN LEFT({value.sql}, 1) IN ('[', '{{') THEN {found} ELSE {whole} END)"
        return found

    return written


def _deep(*, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, path = use.arguments
        if path.value is None:
            raise Refused("a path into JSON that is not a constant")
        steps = [str(each) for each in path.value]
        if any(set(each) & set("'\"\\") for each in steps):
            raise Refused("a path into JSON with quotes in it")
        written_path = "$" + "".join(
            f"[{each}]" if each.isdigit() else f"['{each}']" for each in steps
        )
        return _as_text(value.sql, written_path) if as_text else _as_json(value.sql, written_path)

    return written


_KINDS = (
    "(CASE WHEN {0} IS NULL THEN NULL WHEN LEFT(LTRIM({0}), 1) = '{{' THEN 'object'"
    " WHEN LEFT(LTRIM({0}), 1) = '[' THEN 'array' WHEN LEFT(LTRIM({0}), 1) = '\"' THEN 'string'"
    " WHEN TRIM({0}) IN ('true', 'false') THEN 'boolean' WHEN TRIM({0}) = 'null' THEN 'null'"
    " ELSE 'number' END)"
)
_AS_NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "oid", "uint8", "mz_timestamp"})


def json_of(value: str, declared: PgType, zone: str) -> str:
    """Any value as JSON; null stays null."""
    if is_array(declared):
        inner = f"COALESCE({json_of('e', element_type(declared), zone)}, 'null')"
        return f"CONCAT('[', ARRAY_JOIN(TRANSFORM({value}, e -> {inner}), ', '), ']')"
    name = name_of(declared)
    if name in ("json", "jsonb"):
        return value
    text = text_of(value, declared, zone)
    if name in _AS_NUMBERS or name == "bool":
        return text
    if name in ("float4", "float8"):
        raise Refused("a floating-point number as JSON", "Cast it to numeric.")
    if name in ("timestamp", "timestamptz"):
        text = f"REPLACE({text}, ' ', 'T')"
    return f"TO_JSON(CAST({text} AS VARIANT))"


def _to_json(use: Use) -> str:
    [value] = use.arguments
    return json_of(value.sql, value.type, use.zone)


def _built_array(use: Use) -> str:
    items = [f"COALESCE({json_of(a.sql, a.type, use.zone)}, 'null')" for a in use.arguments]
    return "CONCAT('[', " + ", ', ', ".join(items) + ", ']')"


def _built_object(use: Use) -> str:
    if len(use.arguments) % 2:
        raise Refused("a JSON object of an odd number of arguments")
    members: dict[str, str] = {}
    for key, value in zip(use.arguments[::2], use.arguments[1::2], strict=True):
        if key.text is None:
            raise Refused("a JSON object with a name that is not a constant")
        members[key.text] = f"COALESCE({json_of(value.sql, value.type, use.zone)}, 'null')"
    pieces = [
        f"CONCAT(TO_JSON(CAST({quoted(name)} AS VARIANT)), ': ', {members[name]})"
        for name in sorted(members, key=lambda each: (len(each.encode()), each.encode()))
    ]
    return "CONCAT('{', CONCAT_WS(', ', " + ", ".join(pieces) + "), '}')"


_BOTH = (JSONB, JSON)
OPERATORS: tuple[Function, ...] = tuple(
    entry
    for kind in _BOTH
    for entry in (
        scalar("->", (kind, TEXT), kind, _taken(as_text=False), "A member."),
        scalar("->", (kind, INT4), kind, _taken(as_text=False), "An element, counted from 0."),
        scalar("->>", (kind, TEXT), TEXT, _taken(as_text=True), "A member, as text."),
        scalar("->>", (kind, INT4), TEXT, _taken(as_text=True), "An element, as text."),
        scalar("#>", (kind, TEXT_ARRAY), kind, _deep(as_text=False), "What is at a path."),
        scalar("#>>", (kind, TEXT_ARRAY), TEXT, _deep(as_text=True), "The same, as text."),
    )
)
FUNCTIONS: tuple[Function, ...] = (
    scalar("jsonb_typeof", (JSONB,), TEXT, _KINDS, "What kind of JSON it is."),
    scalar("json_typeof", (JSON,), TEXT, _KINDS, "What kind of JSON it is."),
    scalar("jsonb_array_length", (JSONB,), INT4, "JSON_ARRAY_LENGTH({0})", "How many elements."),
    scalar("json_array_length", (JSON,), INT4, "JSON_ARRAY_LENGTH({0})", "How many elements."),
    scalar("to_jsonb", (ANYELEMENT,), JSONB, _to_json, "A value as JSON."),
    scalar(
        *("jsonb_build_array", (ANY,), JSONB, _built_array, "An array of the arguments."),
        is_variadic=True,
        never_null=True,
    ),
    scalar(
        *("jsonb_build_object", (ANY,), JSONB, _built_object, "An object of names and values."),
        is_variadic=True,
        never_null=True,
    ),
)
