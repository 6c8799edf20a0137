"""Functions that look for one of many matches of a regular expression, from some place on.

They are computed by a class of ours beside Spark (`Matches`), since Spark knows the first match or
all of them. The pattern and its flags are constants, as in `patterns`; places and numbers need not
be.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def _checked(call: str, value: Argument, numbers: Sequence[tuple[str, Argument, str]]) -> str:
    """The call, unless a number is not what it may be: its name, itself, and what is wrong.

    Nothing is wrong where something is null.
    """
    nulls = [f"{each.sql} IS NULL" for each in (value, *(number for _, number, _ in numbers))]
    cases = [f" WHEN {' OR '.join(nulls)} THEN NULL"]
    for name, number, wrong in numbers:
        told = f'invalid value for parameter "{name}": '
        error = raised_with(_WRONG, told, f"CAST({number.sql} AS STRING)", "")
        cases.append(f" WHEN {wrong.format(number.sql)} THEN {error}")
    return f"(CASE{''.join(cases)} ELSE {call} END)"


def _group(number: str, regex: Regex) -> str:
    """Which group is meant: without any, the first is the whole match."""
    return number if regex.groups else f"(CASE WHEN {number} = 1 THEN 0 ELSE {number} END)"


_BELOW_1, _BELOW_0, _NO_FLAG = "{0} < 1", "{0} < 0", "{0} NOT IN (0, 1)"


def _count(use: Use) -> str:
    value, pattern, *rest = use.arguments
    numbers, flags = _split(rest)
    text = quoted(_regex("regexp_count", pattern, flags).text)
    call = f"WC_MATCH_COUNT({value.sql}, {text}, {numbers[0].sql})"
    return _checked(call, value, [("start", numbers[0], _BELOW_1)])


def _substr(use: Use) -> str:
    value, pattern, *rest = use.arguments
    numbers, flags = _split(rest)
    regex = _regex("regexp_substr", pattern, flags)
    text, given = quoted(regex.text), [each.sql for each in numbers]
    given[2:] = [_group(each, regex) for each in given[2:]]
    places = ", ".join([*given, *("1", "1", "0")[len(given) :]])
    call = f"WC_MATCH_GROUP({value.sql}, {text}, {places})"
    rules = (("start", _BELOW_1), ("n", _BELOW_1), ("subexpr", _BELOW_0))
    pairs = zip(rules, numbers, strict=False)
    return _checked(call, value, [(name, each, wrong) for (name, wrong), each in pairs])


def _instr(use: Use) -> str:
    value, pattern, *rest = use.arguments
    numbers, flags = _split(rest)
    regex = _regex("regexp_instr", pattern, flags)
    text, given = quoted(regex.text), [each.sql for each in numbers]
    given[3:] = [_group(each, regex) for each in given[3:]]
    places = ", ".join([*given, *("1", "1", "0", "0")[len(given) :]])
    call = f"WC_MATCH_PLACE({value.sql}, {text}, {places})"
    rules = (
        *(("start", _BELOW_1), ("n", _BELOW_1), ("endoption", _NO_FLAG), ("subexpr", _BELOW_0)),
    )
    pairs = zip(rules, numbers, strict=False)
    return _checked(call, value, [(name, each, wrong) for (name, wrong), each in pairs])


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
    rules = (("start", _BELOW_1), ("n", _BELOW_0))
    pairs = zip(rules, numbers, strict=False)
    return _checked(call, value, [(name, each, wrong) for (name, wrong), each in pairs])


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
