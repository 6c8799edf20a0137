"""Window functions: what a row is among the others of its partition."""

from __future__ import annotations

from waterclock.model.pg_types import FLOAT8, INT4, INT8
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.types import ANYCOMPATIBLE, ANYELEMENT, spark_type
from waterclock.sql.functions.registry import F, Function, SqlRule, Use, window

WHOLE = "\x01w"
"""Where the window of all rows of the partition goes, in the same order."""
WITHOUT_FRAME = frozenset(
    [
        *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
        *("lag", "lead"),
    ]
)
"""They look at the whole partition, whatever frame was given."""
_NO_TILES = raised("22014", "argument of ntile must be greater than zero")


def _shifted(name: str) -> SqlRule:
    def written(use: Use) -> str:
        value, *rest = use.arguments
        if rest and rest[0].is_null:
            return f"CAST(NULL AS {spark_type(use.result)})"
        if rest and not rest[0].is_constant:
            return _at_distance(value.sql, rest[0].sql, name, [each.sql for each in rest[1:]])
        return f"{name.upper()}({', '.join([value.sql, *(each.sql for each in rest)])}){F}"

    return written


def _nth(use: Use) -> str:
    value, number = use.arguments
    if number.is_null:
        return f"CAST(NULL AS {spark_type(use.result)})"
    if not number.is_constant or int(number.value) <= 0:
        rows = f"COLLECT_LIST(NAMED_STRUCT('v', {value.sql})){F}"
        wrong = raised("22016", "argument of nth_value must be greater than zero")
        place = f"CASE WHEN {number.sql} <= 0 THEN {wrong} ELSE {number.sql} END"
        return f"TRY_ELEMENT_AT({rows}, {place}).v"
    return f"NTH_VALUE({value.sql}, {number.sql}){F}"


def _at_distance(value: str, distance: str, name: str, default: list[str]) -> str:
    """What stands so many rows away, where the number is another one in each row."""
    place = f"(ROW_NUMBER(){F} {'-' if name == 'lag' else '+'} CAST({distance} AS BIGINT))"
    rows = f"COLLECT_LIST(NAMED_STRUCT('v', {value})){WHOLE}"
    outside = default[0] if default else "NULL"
    found = f"TRY_ELEMENT_AT({rows}, CAST({place} AS INT)).v"
    inside = f"{place} BETWEEN 1 AND COUNT(1){WHOLE}"
    return f"(CASE WHEN {distance} IS NULL THEN NULL WHEN {inside} THEN {found} ELSE {outside} END)"


def _tiles(use: Use) -> str:
    [number] = use.arguments
    if number.is_null:
        return "CAST(NULL AS INT)"
    if not number.is_constant:
        return _tiles_of(number.sql)
    if int(number.value) <= 0:
        return f"CAST(CASE WHEN COUNT(1){F} > 0 THEN {_NO_TILES} END AS INT)"
    return f"NTILE({number.sql}){F}"


def _tiles_of(number: str) -> str:
    """Tiles whose number is computed: PostgreSQL takes it from the first row that has one.

    Rows before that one are in no tile; how large a tile is follows from the number of all rows.
    """
    values = f"TRANSFORM(COLLECT_LIST(NAMED_STRUCT('v', {number})){WHOLE}, e -> e.v)"
    first = "ARRAY_POSITION(TRANSFORM(p.all, e -> e IS NOT NULL), TRUE)"
    counted = {
        "n": "TRY_ELEMENT_AT(FILTER(p.all, e -> e IS NOT NULL), 1)",
        "place": f"p.place - {first} + 1",
        "rows": "SIZE(p.all)",
    }
    # So many rows are in tiles that have one row more than the others.
    larger = "(t.rows % t.n) * (t.rows DIV t.n + 1)"
    tile = (
        "CASE WHEN t.n IS NULL OR t.place < 1 THEN NULL"
        f" WHEN t.n <= 0 THEN {_NO_TILES}"
        f" WHEN t.place <= {larger} THEN (t.place - 1) DIV (t.rows DIV t.n + 1) + 1"
        f" ELSE t.rows % t.n + (t.place - 1 - {larger}) DIV (t.rows DIV t.n) + 1 END"
    )
    within = let({"all": values, "place": f"ROW_NUMBER(){F}"}, "p", let(counted, "t", tile))
    return f"CAST({within} AS INT)"


def _counted(name: str, doc: str) -> Function:
    return window(name, (), INT8, f"CAST({name.upper()}(){{f}} AS BIGINT)", doc, never_null=True)


def _shifts(name: str, doc: str) -> list[Function]:
    rule = _shifted(name)
    return [
        window(name, (ANYELEMENT,), ANYELEMENT, rule, doc),
        window(name, (ANYELEMENT, INT4), ANYELEMENT, rule, doc),
        window(name, (ANYCOMPATIBLE, INT4, ANYCOMPATIBLE), ANYCOMPATIBLE, rule, doc),
    ]


FUNCTIONS: tuple[Function, ...] = (
    _counted("row_number", "The number of the row, from 1."),
    _counted("rank", "The rank, with gaps behind rows that tie."),
    _counted("dense_rank", "The rank, without gaps."),
    window("percent_rank", (), FLOAT8, "PERCENT_RANK(){f}", "The rank from 0 to 1."),
    window("cume_dist", (), FLOAT8, "CUME_DIST(){f}", "Which part of the rows comes up to here."),
    window("ntile", (INT4,), INT4, _tiles, "In which of so many equal parts it is."),
    *_shifts("lag", "The value so many rows before."),
    *_shifts("lead", "The value so many rows behind."),
    window("first_value", (ANYELEMENT,), ANYELEMENT, "FIRST_VALUE({0}){f}", "The first."),
    window("last_value", (ANYELEMENT,), ANYELEMENT, "LAST_VALUE({0}){f}", "The last."),
    window("nth_value", (ANYELEMENT, INT4), ANYELEMENT, _nth, "The one at that place."),
)
