"""Window functions: what a row is among the others of its partition."""

from __future__ import annotations

from waterclock.model.pg_types import FLOAT8, INT4, INT8
from waterclock.sql.dialect.types import ANYCOMPATIBLE, ANYELEMENT
from waterclock.sql.functions.registry import F, Function, Refused, SqlRule, Use, window

WITHOUT_FRAME = frozenset(
    [
        *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
        *("lag", "lead"),
    ]
)
"""They look at the whole partition, whatever frame was given."""


def _shifted(name: str) -> SqlRule:
    def written(use: Use) -> str:
        value, *rest = use.arguments
        if rest and not rest[0].is_constant:
            raise Refused(f"{name}() by a number of rows that is not constant")
        return f"{name.upper()}({', '.join([value.sql, *(each.sql for each in rest)])}){F}"

    return written


def _nth(use: Use) -> str:
    value, number = use.arguments
    if not number.is_constant:
        raise Refused("nth_value() of a number that is not constant")
    return f"NTH_VALUE({value.sql}, {number.sql}){F}"


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
    window("ntile", (INT4,), INT4, "NTILE({0}){f}", "In which of so many equal parts it is."),
    *_shifts("lag", "The value so many rows before."),
    *_shifts("lead", "The value so many rows behind."),
    window("first_value", (ANYELEMENT,), ANYELEMENT, "FIRST_VALUE({0}){f}", "The first."),
    window("last_value", (ANYELEMENT,), ANYELEMENT, "LAST_VALUE({0}){f}", "The last."),
    window("nth_value", (ANYELEMENT, INT4), ANYELEMENT, _nth, "The one at that place."),
)
