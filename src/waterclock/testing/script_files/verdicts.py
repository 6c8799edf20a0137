"""Compares two answers: PostgreSQL's is right.

What may differ is a rule with a name and a reason. The judge's rules about rows and errors hold
here too; a statement that a rule explains is counted and listed under the name of the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from waterclock.testing.judge.rules import explanation
from waterclock.testing.judge.systems import Answer, Row
from waterclock.testing.script_files.sessions import LOST

_RECORD = 2249
_FIRST_OF_USERS = 16384
_TIMED_OUT = "57014"
_SHOWN = 4

AMBIGUOUS = "ambiguous"
ROW_TYPES = "row types"
STAND_IN = "stand-in"
VIEW_TEXT = "text of a view"
RULES = {
    AMBIGUOUS: "PostgreSQL itself gives other rows when the same tables are stored in another"
    " order and the planner's methods are others",
    ROW_TYPES: "types of the user's own have numbers that differ, and rows are plain records",
    VIEW_TEXT: "the definition of a view is shown as it was written, not as PostgreSQL's parser has"
    " it",
    STAND_IN: "the table was copied from PostgreSQL without the keys, triggers, rules, defaults"
    " or inheritance that decide what the statement does",
}
"""The rules beside the judge's."""
_JUDGED = frozenset({"PostgreSQL refuses", "evaluation order", "equal values"})


class Outcome(Enum):
    """What came of a statement, from the harmless to the worst."""

    SAME = "same"
    EXPLAINED = "explained by a rule"
    REFUSED = "refused"
    OTHER_SQLSTATE = "other SQLSTATE"
    ACCEPTED = "accepted, PostgreSQL refuses"
    FAILED = "fails when it runs"
    OTHER_NAMES = "other names"
    OTHER_TYPES = "other types"
    OTHER_ROWS = "other rows"
    INTERNAL = "internal error"


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    text: str = ""
    """What differs, or the message of a refusal."""
    rule: str = ""
    sqlstate: str = ""
    """That of a refusal or a failure."""


SAME = Verdict(Outcome.SAME)

Variants = Callable[[], list[Answer]]
"""PostgreSQL's other answers to the same query: tables in another order, and other plans."""


def is_internal(answer: Answer) -> bool:
    """Whether the server broke, rather than refuse."""
    return answer.sqlstate in ("XX000", LOST, _TIMED_OUT)


def compared(
    sql: str,
    ours: Answer,
    theirs: Answer,
    *,
    is_ordered: bool,
    variants: Variants,
    with_names: bool = True,
) -> Verdict:
    """The verdict on our answer; `variants` is called only if rows differ."""
    if ours.sqlstate is not None or theirs.sqlstate is not None:
        return _of_errors(sql, ours, theirs)
    if len(ours.columns) != len(theirs.columns):
        text = f"{len(ours.columns)} columns, not {len(theirs.columns)}"
        return Verdict(Outcome.OTHER_ROWS, text)
    rows = _of_rows(sql, ours, theirs, is_ordered, variants)
    if rows.outcome is Outcome.OTHER_ROWS:
        return rows
    kinds, wanted = ([kind for _, kind in each.columns] for each in (ours, theirs))
    if kinds != wanted:
        plain = [_RECORD if kind >= _FIRST_OF_USERS else kind for kind in wanted]
        if [_RECORD if kind >= _FIRST_OF_USERS else kind for kind in kinds] == plain:
            return Verdict(Outcome.EXPLAINED, f"types {kinds}, not {wanted}", ROW_TYPES)
        return Verdict(Outcome.OTHER_TYPES, _pairs(ours, kinds, wanted))
    names, right = ([name for name, _ in each.columns] for each in (ours, theirs))
    if with_names and names != right:
        return Verdict(Outcome.OTHER_NAMES, _pairs(theirs, names, right))
    return rows


def rows_difference(ours: tuple[Row, ...], theirs: tuple[Row, ...]) -> str | None:
    """What differs between two multisets of rows."""
    found, wanted = Counter(ours), Counter(theirs)
    if found == wanted:
        return None
    more, fewer = found - wanted, wanted - found
    return (
        f"{more.total()} rows too many: {shown(list(more.elements()))};"
        f" {fewer.total()} too few: {shown(list(fewer.elements()))}"
    )


def shown(rows: list[Row] | tuple[Row, ...]) -> str:
    """The first of the rows, as text."""
    texts = [
        f"({', '.join('null' if v is None else v.decode(errors='replace') for v in row)})"
        for row in rows[:_SHOWN]
    ]
    return " ".join(texts + ["..."] * (len(rows) > _SHOWN))


def _of_errors(sql: str, ours: Answer, theirs: Answer) -> Verdict:
    state = ours.sqlstate or ""
    if is_internal(ours) and ours.sqlstate != theirs.sqlstate:
        return Verdict(Outcome.INTERNAL, f"{state}: {ours.message}", sqlstate=state)
    if ours.sqlstate == theirs.sqlstate:
        return SAME
    rule = explanation(sql.lower(), ours, theirs)
    name = rule.name if rule is not None and rule.name in _JUDGED else ""
    if theirs.sqlstate is None:
        if state.startswith(("21", "22")):
            return Verdict(Outcome.FAILED, f"{state}: {ours.message}", sqlstate=state)
        return Verdict(Outcome.REFUSED, ours.message, sqlstate=state)
    right = f"{theirs.sqlstate} ({theirs.message})"
    if ours.sqlstate is None:
        text = f"{len(ours.rows)} rows {shown(ours.rows)}, not {right}"
        return Verdict(Outcome.EXPLAINED if name else Outcome.ACCEPTED, text, name)
    text = f"{state} ({ours.message}), not {right}"
    return Verdict(Outcome.EXPLAINED if name else Outcome.OTHER_SQLSTATE, text, name, state)


def _of_rows(
    sql: str, ours: Answer, theirs: Answer, is_ordered: bool, variants: Variants
) -> Verdict:
    difference = rows_difference(ours.rows, theirs.rows)
    if difference is None and (not is_ordered or ours.rows == theirs.rows):
        return SAME
    rule = explanation(sql.lower(), ours, theirs)
    if difference is not None and rule is not None:
        return Verdict(Outcome.EXPLAINED, difference, rule.name)
    if "pg_get_viewdef" in sql.lower():
        return Verdict(Outcome.EXPLAINED, difference or "another order", VIEW_TEXT)
    others = variants()
    if difference is not None:
        if any(rows_difference(each.rows, theirs.rows) is not None for each in others):
            return Verdict(Outcome.EXPLAINED, difference, AMBIGUOUS)
        return Verdict(Outcome.OTHER_ROWS, difference)
    if any(each.rows != theirs.rows for each in others):
        return SAME  # rows that tie come in any order
    place = next(n for n, row in enumerate(ours.rows) if row != theirs.rows[n])
    text = f"another order from row {place + 1} on: {shown(ours.rows[place:])}"
    return Verdict(Outcome.OTHER_ROWS, f"{text}, not {shown(theirs.rows[place:])}")


def _pairs(answer: Answer, found: list[str] | list[int], wanted: list[str] | list[int]) -> str:
    names = [name for name, _ in answer.columns]
    return ", ".join(
        f"column {place} ({name}): {one}, not {other}"
        for place, (name, one, other) in enumerate(zip(names, found, wanted, strict=True), start=1)
        if one != other
    )
