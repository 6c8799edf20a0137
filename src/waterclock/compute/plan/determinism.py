"""Refusing views whose rows are not a function of what they read.

A maintained view is its SQL applied to its inputs at each time. A random number, the clock on the
wall, the session's user or the place where Spark happens to compute a row is not there to be looked
up again when the row is to be retracted, so a view can not use it.

The plan to look at is the analyzed one: the optimizer has already put constants in the place of
some of these functions. `mz_now()` is the time of the collections themselves, and is fine.
"""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.errors import NotMaintainable

_CLOCK = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime"})
_SESSION = frozenset(
    {
        "CurrentCatalog",
        "CurrentDatabase",
        "CurrentPath",
        "CurrentTimeZone",
        "CurrentUser",
        "SessionUser",
        "SparkVersion",
    }
)
_WITH_PLANS = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
_DATES = frozenset({'"date"', '"timestamp"', '"timestamp_ntz"'})
_RELATIVE = ("now", "today", "tomorrow", "yesterday")
_CLOCK_HINT = "Compare with mz_now() in a filter: it is the time at which the view is read."
_OTHER_HINT = "A view that is maintained must give the same rows whenever its inputs hold the same."


def refuse_nondeterministic(analyzed: Logical) -> None:
    """`NotMaintainable` with the function's name if the plan uses one that is not a function of
    the rows.
    """
    for node in analyzed.walk():
        if node.kind == "Sample":
            raise _refusal("TABLESAMPLE", _OTHER_HINT)
        for expression in node.expressions:
            for part in _parts(expression):
                _check(part)


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it; those of the plans of subqueries are checked on the way."""
    for part in expression.walk():
        if part.kind in _WITH_PLANS:
            refuse_nondeterministic(Logical(part.java.plan()))
        yield part


def _check(part: Expression) -> None:
    if part.kind in _CLOCK:
        raise _refusal(f"{_name(part)}()", _CLOCK_HINT)
    if part.kind in _SESSION:
        raise _refusal(f"{_name(part)}()", _OTHER_HINT)
    if part.kind == "Cast" and (word := _relative_date(part)) is not None:
        raise _refusal(f"the date '{word}'", _CLOCK_HINT)
    if not part.deterministic and all(child.deterministic for child in part.children):
        raise _refusal(f"{_name(part)}()", _OTHER_HINT)


def _name(part: Expression) -> str:
    if part.kind == "PythonUDF":
        return part.name
    name: str = part.java.prettyName()
    return name.lower()


def _relative_date(cast: Expression) -> str | None:
    """The word, if a word such as 'today' is cast to a date or a timestamp."""
    [text] = cast.children
    if text.kind != "Literal" or text.type_json != '"string"' or cast.type_json not in _DATES:
        return None
    value = text.java.eval(None)
    words = value.toString().strip().lower().split() if value is not None else []
    return words[0] if words and words[0] in _RELATIVE else None


def _refusal(what: str, hint: str) -> NotMaintainable:
    return NotMaintainable(
        f"a view can not be maintained over {what}: it is not a function of the view's inputs",
        hint=hint,
    )
