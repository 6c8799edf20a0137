"""What may differ from PostgreSQL, each with a name and a reason; all else is a difference.

A rule looks at the query and both answers, and says whether it explains why they differ. The judge
counts how often each was used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from waterclock.testing.judge.systems import Answer, Row

_CHOOSING = re.compile(
    r"\b(distinct|group by|union|intersect|except|max|min|greatest|least|partition by|using"
    r"|first_value|last_value|nth_value|mode|percentile_disc|order by|nullif|coalesce)\b"
)
_FLOAT8, _NUMERIC = 701, 1700
_RUNTIME = re.compile("22|21000")


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    reason: str
    explains: Callable[[str, Answer, Answer], bool]
    """Of the query, our answer and PostgreSQL's."""


def _refused(sql: str, ours: Answer, theirs: Answer) -> bool:
    del sql, theirs
    return ours.sqlstate == "0A000"


def _both_refuse(sql: str, ours: Answer, theirs: Answer) -> bool:
    del sql
    return theirs.sqlstate == "0A000" and ours.sqlstate is None


def _evaluation_order(sql: str, ours: Answer, theirs: Answer) -> bool:
    del sql
    states = [each.sqlstate for each in (ours, theirs)]
    return all(state is None or _RUNTIME.match(state) for state in states) and states != [
        None,
        None,
    ]


def _equal_values(sql: str, ours: Answer, theirs: Answer) -> bool:
    if ours.sqlstate is not None or theirs.sqlstate is not None:
        return False
    if not _CHOOSING.search(sql) or ours.columns != theirs.columns:
        return False
    return _counts(ours) == _counts(theirs)


def _counts(answer: Answer) -> Counter[Row]:
    """The rows with equal numbers in one form."""
    kinds = [kind for _, kind in answer.columns]
    return Counter(
        tuple(_plain(value, kind) for value, kind in zip(row, kinds, strict=True))
        for row in answer.rows
    )


def _plain(value: bytes | None, kind: int) -> bytes | None:
    if value is None:
        return None
    if kind == _NUMERIC:
        try:
            number = Decimal(value.decode())
        except (InvalidOperation, UnicodeDecodeError):
            return value
        return f"{number.normalize():f}".encode() if number.is_finite() else value
    if kind == _FLOAT8 and value == b"-0":
        return b"0"
    return value


RULES = (
    Rule("refused", "Waterclock says by name what it does not do (0A000)", _refused),
    Rule(
        "PostgreSQL refuses", "PostgreSQL does not do it (0A000), and Waterclock does", _both_refuse
    ),
    Rule(
        "evaluation order",
        "SQL leaves open which rows and branches are computed before a condition drops them, so"
        " whether an expression that fails is computed, and which of several fails first",
        _evaluation_order,
    ),
    Rule(
        "equal values",
        "which of several equal values that look different (1 and 1.00, 0 and -0) stands for all",
        _equal_values,
    ),
)


def explanation(sql: str, ours: Answer, theirs: Answer) -> Rule | None:
    """The first rule that explains the difference."""
    return next((rule for rule in RULES if rule.explains(sql, ours, theirs)), None)
