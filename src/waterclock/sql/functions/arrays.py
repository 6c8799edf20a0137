"""Functions of arrays. They have one dimension, and are counted from 1."""

from __future__ import annotations

from waterclock.model.pg_types import BOOL, BYTEA, INT4, TEXT, PgType
from waterclock.sql.dialect.equality import equality_key
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.texts import output_of
from waterclock.sql.dialect.types import (
    ANYARRAY,
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    ANYELEMENT,
    TEXT_ARRAY,
    element_type,
)
from waterclock.sql.functions.registry import Function, SqlRule, Use, scalar

_LENGTH = "(CASE WHEN {1} = 1 AND SIZE({0}) > 0 THEN SIZE({0}) END)"
_CONTAINS = (
    "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL"
    " THEN SIZE(ARRAY_EXCEPT({1}, {0})) = 0 AND NOT EXISTS({1}, e -> e IS NULL) END)"
)
_CONTAINED = (
    "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL"
    " THEN SIZE(ARRAY_EXCEPT({0}, {1})) = 0 AND NOT EXISTS({0}, e -> e IS NULL) END)"
)
_OVERLAP = (
    "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL"
    " THEN COALESCE(ARRAYS_OVERLAP({0}, {1}), FALSE) END)"
)
_REMOVED = "FILTER({0}, e -> NOT ({key} <=> {1}))"
_REPLACED = "TRANSFORM({0}, e -> CASE WHEN {key} <=> {1} THEN {2} ELSE e END)"
_PLACE = (
    "NULLIF(AGGREGATE({0}, NAMED_STRUCT('n', 0, 'found', 0), (a, e) -> NAMED_STRUCT('n', a.n + 1,"
    " 'found', CASE WHEN a.found = 0 AND {key} <=> {1} THEN a.n + 1 ELSE a.found END),"
    " a -> CASE WHEN {0} IS NULL THEN NULL ELSE a.found END), 0)"
)
INT4_ARRAY = PgType(1007)
_PLACES = (
    "FILTER(TRANSFORM({0}, (e, i) -> CASE WHEN {key} <=> {1} THEN i + 1 END), p -> p IS NOT NULL)"
)
_TRIMMED = (
    "(CASE WHEN {0} IS NULL THEN NULL WHEN {1} < 0 OR {1} > SIZE({0}) THEN "
    + raised("2202E", "number of elements to trim is out of range")
    + " ELSE SLICE({0}, 1, SIZE({0}) - {1}) END)"
)
_CAT = "(CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE CONCAT({0}, {1}) END)"
_APPEND = "CONCAT(COALESCE({0}, ARRAY()), ARRAY({1}))"
_PREPEND = "CONCAT(ARRAY({0}), COALESCE({1}, ARRAY()))"


SORTED_IN_ARRAYS = frozenset(
    [
        *("int2", "int4", "int8", "float4", "float8", "text", "varchar", "bool", "uuid"),
        *("date", "time", "timestamp", "timestamptz"),
    ]
)
"""Elements by which arrays can be sorted."""


def array_order(value: str) -> str:
    """What arrays are sorted by: a null comes behind all that is none."""
    return f"TRANSFORM({value}, e -> NAMED_STRUCT('n', e IS NULL, 'e', e))"


def _filled(use: Use) -> str:
    value, sizes = (each.sql for each in use.arguments)
    missing = raised("22004", "dimension array or low bound array cannot be null")
    unknown = raised("22004", "dimension values cannot be null")
    many = raised("0A000", "an array of more than one dimension is not supported")
    large = raised("54000", "array size exceeds the maximum allowed (134217727)")
    of_texts = use.arguments[0].type.oid in (TEXT.oid, BYTEA.oid)
    size = "(8L + COALESCE(OCTET_LENGTH(f.v), 0))" if of_texts else "8L"
    body = (
        f"(CASE WHEN f.n IS NULL THEN {missing} WHEN EXISTS(f.n, e -> e IS NULL) THEN {unknown}"
        f" WHEN SIZE(f.n) = 0 OR EXISTS(f.n, e -> e = 0) THEN ARRAY_REPEAT(f.v, 0)"
        f" WHEN SIZE(f.n) > 1 THEN {many} WHEN NOT GET(f.n, 0) BETWEEN 0 AND 134217727"
        f" THEN {large} WHEN WC_ROOM(CAST(GET(f.n, 0) AS BIGINT) * {size})"
        f" THEN ARRAY_REPEAT(f.v, GET(f.n, 0)) END)"
    )
    return let({"v": value, "n": sizes}, "f", body)


def _of_keys(template: str) -> SqlRule:
    """A template over arrays that are only compared."""
    return lambda use: template.format(*(equality_key(a.sql, a.type) for a in use.arguments))


def _of_equal(template: str) -> SqlRule:
    """A template that compares elements with one that is given."""

    def written(use: Use) -> str:
        array, wanted, *others = (each.sql for each in use.arguments)
        kind = element_type(use.arguments[0].type)
        key = equality_key("e", kind)
        return template.format(array, equality_key(wanted, kind), *others, key=key)

    return written


def _joined(use: Use) -> str:
    array, separator, *rest = use.arguments
    inner = output_of("e", element_type(array.type), use.manner)
    texts = f"TRANSFORM({array.sql}, e -> {inner})"
    plain = f"ARRAY_JOIN({texts}, {separator.sql})"
    if not rest:
        return plain
    [null] = rest
    shown = f"ARRAY_JOIN({texts}, {separator.sql}, {null.sql})"
    return f"(CASE WHEN {null.sql} IS NULL THEN {plain} ELSE {shown} END)"


def split(use: Use) -> str:
    """The pieces of a text between separators, as an array; one character each without one."""
    text, separator, *rest = (each.sql for each in use.arguments)
    pieces = (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} = '' THEN ARRAY()"
        f" WHEN {separator} IS NULL THEN SPLIT({text}, '')"
        f" WHEN {separator} = '' THEN ARRAY({text})"
        f" ELSE SPLIT({text}, CONCAT('\\\\Q', {separator}, '\\\\E'), -1) END"
    )
    if rest:
        return f"TRANSFORM(({pieces}), e -> NULLIF(e, {rest[0]}))"
    return f"({pieces})"


_ANY, _ELEMENT = ANYCOMPATIBLEARRAY, ANYCOMPATIBLE
FUNCTIONS: tuple[Function, ...] = (
    scalar("array_length", (ANYARRAY, INT4), INT4, _LENGTH, "How many elements; null for none."),
    scalar("array_upper", (ANYARRAY, INT4), INT4, _LENGTH, "The last place; null for none."),
    scalar(
        *("array_lower", (ANYARRAY, INT4), INT4),
        "(CASE WHEN {1} = 1 AND SIZE({0}) > 0 THEN 1 END)",
        "The first place, which is 1; null for none.",
    ),
    scalar(
        *("array_ndims", (ANYARRAY,), INT4, "(CASE WHEN SIZE({0}) > 0 THEN 1 END)"),
        "How many dimensions: 1; null for an empty array.",
    ),
    scalar(
        *("cardinality", (ANYARRAY,), INT4, "(CASE WHEN {0} IS NOT NULL THEN SIZE({0}) END)"),
        "How many elements.",
    ),
    scalar("array_append", (_ANY, _ELEMENT), _ANY, _APPEND, "With one more at the end."),
    scalar("array_prepend", (_ELEMENT, _ANY), _ANY, _PREPEND, "With one more in front."),
    scalar("array_cat", (_ANY, _ANY), _ANY, _CAT, "Both as one."),
    scalar("array_remove", (_ANY, _ELEMENT), _ANY, _of_equal(_REMOVED), "Without these elements."),
    scalar(
        "array_replace", (_ANY, _ELEMENT, _ELEMENT), _ANY, _of_equal(_REPLACED), "One by another."
    ),
    scalar(
        "array_position", (_ANY, _ELEMENT), INT4, _of_equal(_PLACE), "Where an element is first."
    ),
    scalar(
        *("array_positions", (_ANY, _ELEMENT), INT4_ARRAY, _of_equal(_PLACES)),
        "Where it is, everywhere.",
    ),
    scalar("trim_array", (ANYARRAY, INT4), ANYARRAY, _TRIMMED, "Without so many at the end."),
    scalar(
        *("array_dims", (ANYARRAY,), TEXT),
        "(CASE WHEN SIZE({0}) > 0 THEN CONCAT('[1:', SIZE({0}), ']') END)",
        "The first and last place, as text.",
    ),
    scalar(
        *("array_fill", (ANYELEMENT, INT4_ARRAY), ANYARRAY, _filled),
        "An array of one value, so many times.",
    ),
    scalar("array_to_string", (ANYARRAY, TEXT), TEXT, _joined, "The elements as one text."),
    scalar("array_to_string", (ANYARRAY, TEXT, TEXT), TEXT, _joined, "With a text for nulls."),
    scalar("string_to_array", (TEXT, TEXT), TEXT_ARRAY, split, "The pieces between separators."),
    scalar("string_to_array", (TEXT,) * 3, TEXT_ARRAY, split, "With a text that stands for null."),
)
OPERATORS: tuple[Function, ...] = (
    scalar("||", (_ANY, _ANY), _ANY, _CAT, "Both as one."),
    scalar("||", (_ANY, _ELEMENT), _ANY, _APPEND, "With one more at the end."),
    scalar("||", (_ELEMENT, _ANY), _ANY, _PREPEND, "With one more in front."),
    scalar(
        *("@>", (ANYARRAY, ANYARRAY), BOOL, _of_keys(_CONTAINS)),
        "Whether the first has all of the second.",
    ),
    scalar(
        *("<@", (ANYARRAY, ANYARRAY), BOOL, _of_keys(_CONTAINED)),
        "Whether the second has all of the first.",
    ),
    scalar(
        *("&&", (ANYARRAY, ANYARRAY), BOOL, _of_keys(_OVERLAP)), "Whether they have one in common."
    ),
)
