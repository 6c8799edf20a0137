"""LIKE, SIMILAR TO and regular expressions.

Patterns of PostgreSQL are rewritten for Java's engine, which is called through classes of ours:
they end what takes too long (`compute/jvm`). Spark's own LIKE is used only for patterns that it
turns into comparisons.
 Where a pattern has to be rewritten it must
be a constant, and where the two engines would find different matches it is refused: PostgreSQL
prefers the longest alternative, Java the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.pg_types import BOOL, INT4, TEXT
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.types import BPCHAR, TEXT_ARRAY
from waterclock.sql.functions.regexes import (
    Regex,
    is_simple_like,
    java_regex,
    java_replacement,
    like_pattern,
    similar_parts,
    similar_regex,
)
from waterclock.sql.functions.registry import Argument, Function, Refused, SqlRule, Use, scalar


def _like(word: str, *, negated: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, pattern, *rest = use.arguments
        escape = rest[0].text if rest else "\\"
        if pattern.text is not None and escape is not None:
            rewritten = like_pattern(pattern.text, escape)
            if is_simple_like(rewritten):
                negation = "NOT " if negated else ""
                return f"({value.sql} {negation}{word} {quoted(rewritten)})"
            wanted, escape = quoted(rewritten), "\\"
        elif escape is None or len(escape) > 1:
            raise Refused("ESCAPE that is not one constant character")
        else:
            wanted = pattern.sql
        texts = [value.sql, wanted, quoted(escape)]
        if word == "ILIKE":
            texts = [f"LOWER({text})" for text in texts]
        call = f"WC_LIKE({', '.join(texts)})"
        return f"(NOT {call})" if negated else call

    return written


def _similar(*, negated: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, pattern, *rest = use.arguments
        escape = rest[0].text if rest else "\\"
        if pattern.text is None or escape is None:
            raise Refused("SIMILAR TO a pattern that is not a constant")
        matched = _found(value.sql, quoted(similar_regex(pattern.text, escape)))
        return f"(NOT {matched})" if negated else matched

    return written


def _constant(pattern: Argument, flags: Argument | None = None) -> Regex:
    if pattern.text is None or (flags is not None and flags.text is None):
        raise Refused("a regular expression that is not a constant")
    return java_regex(pattern.text, "" if flags is None else flags.text or "")


def _matches(flags: str, *, negated: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, pattern = use.arguments
        if pattern.text is None:
            raise Refused("a regular expression that is not a constant")
        matched = _found(value.sql, quoted(java_regex(pattern.text, flags).text))
        return f"(NOT {matched})" if negated else matched

    return written


def _regexp_like(use: Use) -> str:
    value, pattern, *flags = use.arguments
    return _found(value.sql, quoted(_constant(pattern, *flags).text))


def _found(value: str, text: str) -> str:
    """Whether a pattern is found: in bounded time, which RLIKE would not promise."""
    return f"WC_MATCHES({value}, {text})"


def _first(value: str, text: str, group: int) -> str:
    """What a group of the first match holds; null if there is none."""
    return f"WC_MATCH_GROUP({value}, {text}, 1, 1, {group})"


def _replaced(use: Use) -> str:
    value, pattern, replacement, *flags = use.arguments
    regex = _constant(pattern, *flags)
    regex.require_unambiguous()
    if replacement.text is None:
        raise Refused("a replacement that is not a constant")
    new = quoted(java_replacement(replacement.text, regex.groups))
    which = 0 if regex.is_global else 1
    return f"WC_MATCH_REPLACED({value.sql}, {quoted(regex.text)}, {new}, 1, {which})"


def _match(use: Use) -> str:
    value, regex, numbers = _searched(use)
    text = quoted(regex.text)
    return f"(CASE WHEN {_found(value, text)} THEN {_groups(value, text, numbers)} END)"


def matches(use: Use) -> str:
    """What the groups of each match hold, as an array of arrays; without the flag g, of one."""
    value, regex, numbers = _searched(use)
    text = quoted(regex.text)
    if not regex.is_global:
        one = f"ARRAY({_groups(value, text, numbers)})"
        none = f"CAST(ARRAY() AS {_ARRAYS})"
        return f"(CASE WHEN {_found(value, text)} THEN {one} ELSE {none} END)"
    regex.require_characters()
    found = {f"g{n}": f"WC_MATCH_ALL({value}, {text}, {n})" for n in numbers}
    groups = ", ".join(f"GET(m.g{n}, i)" for n in numbers)
    return let(found, "m", f"TRANSFORM(m.g{numbers[0]}, (x, i) -> ARRAY({groups}))")


def _searched(use: Use) -> tuple[str, Regex, Sequence[int]]:
    """The text, what is searched in it, and the numbers of the groups to show: 0 is all of it."""
    value, pattern, *flags = use.arguments
    regex = _constant(pattern, *flags)
    regex.require_unambiguous()
    regex.require_groups_that_match()
    return value.sql, regex, range(1, regex.groups + 1) if regex.groups else (0,)


def _groups(value: str, text: str, numbers: Sequence[int]) -> str:
    """What the groups of the first match hold, as an array."""
    groups = ", ".join(_first(value, text, number) for number in numbers)
    return f"ARRAY({groups})"


def _substring(use: Use) -> str:
    value, pattern = use.arguments
    regex = _constant(pattern)
    regex.require_unambiguous()
    regex.require_groups_that_match()
    text, number = quoted(regex.text), 1 if regex.groups else 0
    return _first(value.sql, text, number)


def _similar_substring(use: Use) -> str:
    """The part of a text that stands between two separators of a SIMILAR TO pattern."""
    value, pattern, escape = use.arguments
    if pattern.text is None or escape.text is None:
        raise Refused("a pattern of SUBSTRING that is not a constant")
    regex, has_parts = similar_parts(pattern.text, escape.text)
    text = quoted(regex)
    return _first(value.sql, text, int(has_parts))


def _count(use: Use) -> str:
    value, pattern = use.arguments
    regex = _constant(pattern)
    regex.require_unambiguous()
    return f"WC_MATCH_COUNT({value.sql}, {quoted(regex.text)}, 1)"


def _first_match(use: Use) -> str:
    value, pattern = use.arguments
    regex = _constant(pattern)
    regex.require_unambiguous()
    return _first(value.sql, quoted(regex.text), 0)


def _where(use: Use) -> str:
    value, pattern = use.arguments
    regex = _constant(pattern)
    regex.require_unambiguous()
    return f"WC_MATCH_PLACE({value.sql}, {quoted(regex.text)}, 1, 1, 0, 0)"


def split(use: Use) -> str:
    """The pieces of a text between matches, as an array."""
    value, pattern, *flags = use.arguments
    regex = _constant(pattern, *flags)
    regex.require_unambiguous()
    regex.require_characters()
    return f"WC_MATCH_SPLIT({value.sql}, {quoted(regex.text)})"


_ARRAYS = "ARRAY<ARRAY<STRING>>"
_TWO, _THREE, _FOUR = (TEXT,) * 2, (TEXT,) * 3, (TEXT,) * 4
_LIKES = {"~~": "LIKE", "~~*": "ILIKE"}


def _likes() -> list[Function]:
    found = []
    for sign, word in _LIKES.items():
        for negated in (False, True):
            name = "!" + sign if negated else sign
            doc = f"Whether the text is {'not ' if negated else ''}{word} the pattern."
            rule = _like(word, negated=negated)
            found += _of_texts(name, rule, doc)
    for negated in (False, True):
        name = "!similar" if negated else "similar"
        rule = _similar(negated=negated)
        doc = f"Whether the text is {'not ' if negated else ''}SIMILAR TO the pattern."
        found += _of_texts(name, rule, doc)
    return found


def _of_texts(name: str, rule: SqlRule, doc: str) -> list[Function]:
    """A pattern sees the blanks at the end of a `character`."""
    kinds = (_TWO, _THREE, (BPCHAR, TEXT), (BPCHAR, TEXT, TEXT))
    return [scalar(name, each, BOOL, rule, doc) for each in kinds]


OPERATORS: tuple[Function, ...] = (
    *_likes(),
    *(
        function
        for kinds in (_TWO, (BPCHAR, TEXT))
        for function in (
            scalar("~", kinds, BOOL, _matches("", negated=False), "Whether an expression matches."),
            scalar("~*", kinds, BOOL, _matches("i", negated=False), "The same in any case."),
            scalar("!~", kinds, BOOL, _matches("", negated=True), "Whether it does not match."),
            scalar("!~*", kinds, BOOL, _matches("i", negated=True), "The same in any case."),
        )
    ),
)
FUNCTIONS: tuple[Function, ...] = (
    scalar("regexp_like", _TWO, BOOL, _regexp_like, "Whether a regular expression matches."),
    scalar("regexp_like", _THREE, BOOL, _regexp_like, "Whether it matches, with flags."),
    scalar("regexp_replace", _THREE, TEXT, _replaced, "The first match replaced."),
    scalar("regexp_replace", _FOUR, TEXT, _replaced, "Matches replaced; all with the flag g."),
    scalar("regexp_match", _TWO, TEXT_ARRAY, _match, "What the groups of the first match hold."),
    scalar("regexp_match", _THREE, TEXT_ARRAY, _match, "What the groups of the first match hold."),
    scalar("regexp_count", _TWO, INT4, _count, "How often a regular expression matches."),
    scalar("regexp_substr", _TWO, TEXT, _first_match, "What it matches first; null for nothing."),
    scalar("regexp_instr", _TWO, INT4, _where, "Where it matches first; 0 for nowhere."),
    scalar("regexp_split_to_array", _TWO, TEXT_ARRAY, split, "The pieces between matches."),
    scalar("regexp_split_to_array", _THREE, TEXT_ARRAY, split, "The pieces between matches."),
    scalar("substring", _TWO, TEXT, _substring, "What a regular expression matches."),
    scalar("substring", _THREE, TEXT, _similar_substring, "A part of a SIMILAR TO pattern."),
)
