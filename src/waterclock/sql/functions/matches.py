"""Functions that look for one of many matches of a regular expression, from some place on.

They are computed by a class of ours beside Spark (`Matches`), since Spark knows the first match or
all of them. The pattern and its flags are constants, as in `patterns`; places and numbers need not
be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waterclock.model.pg_types import INT4, TEXT
from waterclock.sql.dialect.faults import raised_with
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.functions.regexes import Regex, java_regex, java_replacement
from waterclock.sql.functions.registry import Argument, Function, Invalid, Refused, Use, scalar

_WRONG = "22023"


def _regex(name: str, pattern: Argument, flags: Sequence[Argument]) -> Regex:
    if pattern.text is None or any(each.text is None for each in flags):
        raise Refused("a regular expression that is not a constant")
    options = "".join(each.text or "" for each in flags)
    if "g" in options and name != "regexp_replace":
        raise Invalid(_WRONG, f'{name}() does not support the "global" option')
    regex = java_regex(pattern.text, options)
    regex.require_unambiguous()
    return regex


def _split(arguments: Sequence[Argument]) -> tuple[list[Argument], list[Argument]]:
    """The numbers among the arguments, and the flags."""
    numbers = [each for each in arguments if each.type == INT4]
    return numbers, [each for each in arguments if each.type != INT4]


_Rule = tuple[str, str]
"""The name of a number, and the condition under which it is wrong."""
_START, _N = ("start", "{0} < 1"), ("n", "{0} < 1")
_N_OR_ALL, _END = ("n", "{0} < 0"), ("endoption", "{0} NOT IN (0, 1)")
_SUBEXPR = ("subexpr", "{0} < 0")


def _checked(
    call: str, value: Argument, numbers: Sequence[Argument], rules: Sequence[_Rule]
) -> str:
    """The call, unless a number is not what it may be.

    Nothing is wrong where something is null.
    """
    nulls = [f"{each.sql} IS NULL" for each in (value, *numbers)]
    cases = [f" WHEN {' OR '.join(nulls)} THEN NULL"]
    for (name, wrong), number in zip(rules, numbers, strict=False):  # the last may be left out
        told = f'invalid value for parameter "{name}": '
        error = raised_with(_WRONG, told, f"CAST({number.sql} AS STRING)", "")
        cases.append(f" WHEN {wrong.format(number.sql)} THEN {error}")
    return f"(CASE{''.join(cases)} ELSE {call} END)"


def _group(number: str, regex: Regex) -> str:
    """Which group is meant: without any, the first is the whole match."""
    return number if regex.groups else f"(CASE WHEN {number} = 1 THEN 0 ELSE {number} END)"


def _count(use: Use) -> str:
    value, pattern, *rest = use.arguments
    numbers, flags = _split(rest)
    text = quoted(_regex("regexp_count", pattern, flags).text)
    call = f"WC_MATCH_COUNT({value.sql}, {text}, {numbers[0].sql})"
    return _checked(call, value, numbers, [_START])


def _of_one(
    name: str, function: str, rules: Sequence[_Rule], defaults: Sequence[str]
) -> Callable[[Use], str]:
    """What is told of one match. The last of its numbers is that of a group."""
    last = len(rules) - 1

    def written(use: Use) -> str:
        value, pattern, *rest = use.arguments
        numbers, flags = _split(rest)
        regex = _regex(name, pattern, flags)
        given = [each.sql for each in numbers]
        given[last:] = [_group(each, regex) for each in given[last:]]
        places = ", ".join([*given, *defaults[len(given) :]])
        call = f"{function}({value.sql}, {quoted(regex.text)}, {places})"
        return _checked(call, value, numbers, rules)

    return written


_substr = _of_one("regexp_substr", "WC_MATCH_GROUP", (_START, _N, _SUBEXPR), ("1", "1", "0"))
_instr = _of_one(
    "regexp_instr", "WC_MATCH_PLACE", (_START, _N, _END, _SUBEXPR), ("1", "1", "0", "0")
)


def _replaced(use: Use) -> str:
    value, pattern, replacement, *rest = use.arguments
    numbers, flags = _split(rest)
    regex = _regex("regexp_replace", pattern, flags)
    if replacement.text is None:
        raise Refused("a replacement that is not a constant")
    new = quoted(java_replacement(replacement.text, regex.groups))
    number = numbers[1].sql if len(numbers) > 1 else "1"
    call = (
        f"WC_MATCH_REPLACED({value.sql}, {quoted(regex.text)}, {new}, {numbers[0].sql}, {number})"
    )
    return _checked(call, value, numbers, (_START, _N_OR_ALL))


_TWO, _THREE, _INT = (TEXT, TEXT), (TEXT, TEXT, TEXT), INT4
FUNCTIONS: tuple[Function, ...] = (
    *(
        scalar("regexp_count", (*_TWO, *more), INT4, _count, "How often it matches, from there on.")
        for more in ((_INT,), (_INT, TEXT))
    ),
    *(
        scalar("regexp_substr", (*_TWO, *more), TEXT, _substr, "What a match, or its group, holds.")
        for more in ((_INT,), (_INT,) * 2, (_INT, _INT, TEXT), (_INT, _INT, TEXT, _INT))
    ),
    *(
        scalar("regexp_instr", (*_TWO, *more), INT4, _instr, "Where a match begins, or ends.")
        for more in (
            *((_INT,), (_INT,) * 2, (_INT,) * 3),
            *((*(_INT,) * 3, TEXT), (*(_INT,) * 3, TEXT, _INT)),
        )
    ),
    *(
        scalar("regexp_replace", (*_THREE, *more), TEXT, _replaced, "A match from there replaced.")
        for more in ((_INT,), (_INT,) * 2, (_INT, _INT, TEXT))
    ),
)
