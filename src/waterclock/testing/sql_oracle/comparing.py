"""What differs between the two sides, call by call and row by row.

The same is: the same text; null on both sides; or errors of the same class of SQLSTATE. Ours may
also say that something is not supported (0A000), or that a number has more digits than there are
(22003): these are no answers, and so no wrong ones. Powers, logarithms, angles and the like depend
on the library that computes them in their last digit, on either side.

All else, numbers with their zeros at the end too, must be the same to the letter.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from waterclock.model.pg_types import FLOAT8, NUMERIC, PgType
from waterclock.sql.functions.registry import Kind
from waterclock.sql.types import parse_type_name
from waterclock.testing.sql_oracle.arguments import Row, combined, pool
from waterclock.testing.sql_oracle.calls import Call
from waterclock.testing.sql_oracle.engine import SOME_ERROR, Answer, Engine, Refusal
from waterclock.testing.sql_oracle.oracle import Oracle, Outcome

_MOST_ROWS = 100
_IN_ONE_JOB = 60
INEXACT = frozenset(
    [
        *("^", "power", "pow", "exp", "ln", "log", "log10", "cbrt", "||/", "sin", "cos", "tan"),
        *("cot", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh"),
        *("atanh", "sind", "cosd", "tand", "cotd", "asind", "acosd", "atand", "atan2d"),
    ]
)
_NO_CAST = "42846"
_NOT_SUPPORTED = ("0A000", "42883")


@dataclass(slots=True)
class Tally:
    """What was compared, and what was found."""

    calls: int = 0
    values: int = 0
    errors: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """What is not supported: the call, and why."""
    refused_rows: int = 0
    differences: list[str] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    """The entries of which something was compared."""

    def lines(self) -> list[str]:
        return [
            *self.differences,
            f"{len(self.labels)} signatures, {self.calls} calls, {self.values} values,"
            f" {self.errors} errors, {self.refused_rows} rows and {len(self.refused)} calls"
            f" not supported, {len(self.differences)} differences",
        ]


def compare_scalars(
    engine: Engine, oracle: Oracle, calls: Iterable[Call], tally: Tally, seed: int = 0
) -> None:
    """Compare calls of ordinary functions and operators."""
    groups: dict[tuple[str, ...], list[Call]] = {}
    for call in calls:
        if call.entry.kind is Kind.SCALAR:
            groups.setdefault(call.columns, []).append(call)
    for number, (columns, members) in enumerate(groups.items()):
        types = [each or "int" for each in columns]
        pools = [pool(parse_type_name(each), each) if each else ("0",) for each in columns]
        rows = combined(pools, seed + number, _MOST_ROWS)
        name = f"r{number}"
        engine.create(name, types, rows)
        oracle.create(name, types, rows)
        for at in range(0, len(members), _IN_ONE_JOB):
            _compare(engine, oracle, name, members[at : at + _IN_ONE_JOB], rows, tally)


def _compare(
    engine: Engine,
    oracle: Oracle,
    relation: str,
    calls: Sequence[Call],
    rows: Sequence[Row],
    tally: Tally,
) -> None:
    answers = engine.answers(relation, [call.sql for call in calls])
    for call, answer in zip(calls, answers, strict=True):
        theirs = oracle.outcomes(relation, call.sql)
        tally.calls += 1
        if isinstance(answer, Refusal):
            _note_refusal(call, answer, theirs, tally)
        else:
            tally.labels.add(call.label)
            _note_rows(call, answer, theirs, rows, tally)


def _note_refusal(
    call: Call, refusal: Refusal, theirs: Mapping[int, Outcome], tally: Tally
) -> None:
    where = f"{call.sql} of {call.columns}"
    if refusal.sqlstate in (*_NOT_SUPPORTED, _NO_CAST):
        tally.refused[where] = refusal.message
        return
    others = [each for each in theirs.values() if not _is_class(each, refusal.sqlstate)]
    if others and len(others) == len(theirs):
        tally.differences.append(f"{where}: {refusal.sqlstate} {refusal.message}, not {others[0]}")


def _is_class(outcome: Outcome, sqlstate: str) -> bool:
    return outcome is not None and outcome.startswith("!" + sqlstate[:2])


def _note_rows(
    call: Call,
    answer: Answer,
    theirs: Mapping[int, Outcome],
    rows: Sequence[Row],
    tally: Tally,
) -> None:
    shown = 0
    for number, row in enumerate(rows):
        ours, other = answer.outcomes[number], theirs[number]
        if ours == SOME_ERROR and not is_same(ours, other, answer.type):
            ours = answer.tell(number)
        if _is_no_answer(call, ours, other, answer.type):
            tally.refused_rows += 1
        elif not is_same(ours, other, answer.type, call.entry.name):
            shown += 1
            if shown <= 4:
                tally.differences.append(f"{call.sql} {row}: {ours!r}, not {other!r}")
        elif ours is not None and ours.startswith("!"):
            tally.errors += 1
        else:
            tally.values += 1


def _is_no_answer(call: Call, ours: Outcome, theirs: Outcome, declared: PgType) -> bool:
    """Whether ours says that it can not tell, where PostgreSQL can."""
    if ours is None or not ours.startswith("!"):
        return False
    if ours[1:] in _NOT_SUPPORTED:
        return True
    if theirs is None or not theirs.startswith("="):
        return False
    # A text may be a time in one of the forms that are read in constants only.
    is_time = call.entry.name.startswith(("cast to date", "cast to time", "cast to interval"))
    if is_time and ours in ("!22007", "!22008"):
        return True
    return ours == "!22003" and declared.oid == NUMERIC.oid


def is_same(ours: Outcome, theirs: Outcome, declared: PgType, function: str = "") -> bool:
    """Whether two outcomes of a call of a function are the same; of any one, if none is named."""
    if ours == theirs:
        return True
    if ours is None or theirs is None:
        return False
    if ours.startswith("!"):
        return theirs.startswith(ours[:3])
    if theirs.startswith("!"):
        return False
    if function in INEXACT and declared.oid == FLOAT8.oid:
        one, other = float(ours[1:]), float(theirs[1:])
        return math.isclose(one, other, rel_tol=4 * sys.float_info.epsilon)
    return False
