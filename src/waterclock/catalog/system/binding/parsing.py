"""From the text of a query to sqlglot's tree, without losing what PostgreSQL means by it.

sqlglot reads many function calls as something of its own, shifts subscripts, and stumbles over
parameters, `oid[]` and qualified collations. So the text is cut into tokens first, by PostgreSQL's
rules, and written anew: every string plain, every function call under a name that sqlglot does not
know (`MARK` in front), every subscript inside a call. The places of the tokens are kept, so that an
error can point into the text that was sent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from waterclock.catalog.system.binding.tokens import Token, string_value, tokens_of
from waterclock.catalog.system.errors import FeatureNotSupported, ProgramLimitExceeded, SyntaxFault

MARK = "wcf_"
"""Stands before the name of every function in the tree."""
MOST_TOKENS = 50_000
"""Size limit of one query: sqlglot takes seconds for it, and can not be interrupted."""
SUBSCRIPT = f"{MARK}_subscript"

# Followed by a parenthesis, these are not functions.
_KEYWORDS = re.compile(
    r"(?:all|and|any|array|as|asc|between|by|case|cast|collate|cross|cube|desc|distinct|"
    r"else|escape|except|exists|extract|fetch|filter|for|from|full|group|grouping|"
    r"having|ilike|in|inner|intersect|into|is|isnull|join|lateral|like|limit|"
    r"materialized|natural|not|notnull|offset|on|only|operator|or|order|over|overlay|"
    r"partition|position|recursive|returning|rollup|select|sets|similar|some|substring|"
    r"symmetric|table|tablesample|then|to|trim|union|using|values|when|where|window|"
    r"with|within|rows|range)\Z"
)
# Followed by a parenthesis, these are types with a modifier.
_TYPES = re.compile(
    r"(?:bit|bpchar|char|character|dec|decimal|float|interval|numeric|time|timestamp|"
    r"timestamptz|timetz|varbit|varchar|varying)\Z"
)
# Words that PostgreSQL takes for a name behind AS, and sqlglot does not.
_ALIASES = re.compile(
    r"(?:all|and|any|asc|case|check|column|create|default|delete|desc|distinct|drop|else|end|from|"
    r"group|having|in|insert|limit|offset|on|or|order|primary|references|select|table|then|to|"
    r"truncate|union|unique|update|user|using|values|when|where|with)\Z"
)
# Types whose arrays sqlglot does not read; PostgreSQL's own name for such an array works as well.
_ODD_ELEMENTS = re.compile(r"(oid|reg[a-z]+|xid|xid8|cid|tid|aclitem|pg_node_tree|char)\Z")


class Places:
    """Where the pieces of the rewritten text stood in the text that was sent."""

    def __init__(self, written: list[int], sent: list[int], texts: list[str]) -> None:
        self._written, self._sent = written, sent
        self.tokens = list(zip(written, texts, strict=True))

    def position(self, offset: int | None) -> int | None:
        """The position, from 1 on, for an offset in the rewritten text."""
        if offset is None or not self._written:
            return None
        return self._sent[max(bisect_right(self._written, offset) - 1, 0)] + 1


@dataclass(frozen=True, slots=True)
class Parsed:
    tree: exp.Expr
    places: Places
    tokens: tuple[tuple[int, str], ...]
    """Where each token stands in the rewritten text."""
    parameters: int
    """The highest number of a parameter."""

    def position(self, node: exp.Expr) -> int | None:
        """Where the node stands, as far as sqlglot remembers it of the node or of a part."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        return self.places.position(min(starts)) if starts else None

    def operator_position(self, left: exp.Expr, operator: str) -> int | None:
        """Where the operator behind an operand stands."""
        ends = [part.meta["end"] for part in left.walk() if "end" in part.meta]
        spellings = (operator, "!=") if operator == "<>" else (operator,)
        for start, text in self.tokens:
            if ends and start > max(ends) and text.lower() in spellings:
                return self.places.position(start)
        return None


def parse(sql: str) -> Parsed:
    """The tree of one query; `SyntaxFault`, or `FeatureNotSupported` for another statement."""
    tokens = _statement(list(islice(tokens_of(sql), MOST_TOKENS + 1)))
    if len(tokens) > MOST_TOKENS:
        raise ProgramLimitExceeded(
            "a query that names relations of the system is too large",
            detail=f"It has more than {MOST_TOKENS} tokens.",
            hint="Read the system's relations in a smaller query.",
        )
    text, places = _write(tokens)
    try:
        tree = sqlglot.parse_one(text, read="postgres")
    except SqlglotError as error:
        raise _syntax_fault(error, text, places, tokens) from error
    if not isinstance(tree, exp.Query | exp.Values):
        raise SyntaxFault(f'syntax error at or near "{tokens[0].text}"', tokens[0].start + 1)
    numbers = [int(token.text[1:]) for token in tokens if token.kind == "parameter"]
    return Parsed(tree, places, tuple(places.tokens), max(numbers, default=0))


def _statement(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    for token in tokens:
        if token.text == ";":
            raise SyntaxFault("cannot insert multiple commands into a prepared statement")
    if not tokens:
        raise SyntaxFault("syntax error at end of input")
    if tokens[0].lowered not in ("select", "with", "values", "table", "("):
        raise FeatureNotSupported("only queries can be answered from the catalog")
    return tokens


def _syntax_fault(
    error: SqlglotError, text: str, places: Places, tokens: list[Token]
) -> SyntaxFault:
    for told in getattr(error, "errors", ()):
        position = places.position(_offset(text, told.get("line"), told.get("col")))
        at = next((n for n, token in enumerate(tokens) if token.start + 1 == position), None)
        if at is None:
            continue
        # Where something is missing, sqlglot tells the token before it.
        if "missing" in told.get("description", ""):
            at += 1
        if at == len(tokens):
            end = tokens[-1].start + len(tokens[-1].text)
            return SyntaxFault("syntax error at end of input", end + 1)
        near = tokens[at]
        return SyntaxFault(f'syntax error at or near "{near.text}"', near.start + 1)
    return SyntaxFault("syntax error")


def _offset(text: str, line: int | None, column: int | None) -> int | None:
    """sqlglot tells the place of a token's last character, lines and columns from 1 on."""
    if line is None or column is None:
        return None
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + max(column - 1, 0)


def _write(tokens: list[Token]) -> tuple[str, Places]:
    pieces: list[str] = []
    written: list[int] = []
    sent: list[int] = []
    length = 0
    for text, start in _rewritten(tokens):
        pieces.append(text)
        written.append(length)
        sent.append(start)
        length += len(text) + 1
    return " ".join(pieces), Places(written, sent, pieces)


def _rewritten(tokens: list[Token]) -> Iterator[tuple[str, int]]:
    closing = _subscript_ends(tokens)
    at = 0
    while at < len(tokens):
        token, rest = tokens[at], [t.lowered for t in tokens[at + 1 : at + 4]]
        before = tokens[at - 1] if at else None
        used, text = _replaced(tokens, at, token, before, rest)
        if token.text == "[" and at in closing.values():
            text = f"[ {SUBSCRIPT} ("
        elif token.text == "]" and at in closing:
            text = ") ]"
        if text:
            yield text, token.start
        at += used


def _replaced(
    tokens: list[Token], at: int, token: Token, before: Token | None, rest: list[str]
) -> tuple[int, str]:
    """How many tokens are replaced, and by what."""
    following = rest[0] if rest else ""
    if token.kind in ("string", "escaped", "unicode", "dollar"):
        return _string(tokens, at)
    if token.kind == "cast" and rest[:2] == ["pg_catalog", "."]:
        return 3, "::"
    if token.lowered == "collate":
        return _collation(tokens, at)
    if rest[:2] == ["[", "]"]:
        name = token.text.strip('"') if token.kind == "quoted" else token.lowered
        if _ODD_ELEMENTS.match(name) and (name != "char" or token.kind == "quoted"):
            return 3, f"_{name}"
    after_as = before is not None and before.lowered == "as"
    if after_as and token.kind == "word" and following != "(" and _ALIASES.match(token.lowered):
        return 1, f'"{token.lowered}"'
    if token.kind == "quoted" and token.text == '"char"' and _is_type(before, following):
        return 1, "pg_char"
    if following == "(" and token.kind == "word":
        if not _KEYWORDS.match(token.lowered) and not _TYPES.match(token.lowered):
            return 1, f"{MARK}{token.lowered}"
    elif following == "(" and token.kind == "quoted":
        return 1, f'"{MARK}{token.text[1:]}'
    return 1, token.text


def _is_type(before: Token | None, following: str) -> bool:
    return before is not None and (
        before.kind == "cast" or (before.lowered == "as" and following == ")")
    )


def _string(tokens: list[Token], at: int) -> tuple[int, str]:
    """The string, with those that go on with it on later lines."""
    value, used = string_value(tokens[at]), 1
    while (
        at + used < len(tokens)
        and tokens[at + used].kind == "string"
        and tokens[at + used].after_newline
    ):
        value += string_value(tokens[at + used])
        used += 1
    return used, "'" + value.replace("'", "''") + "'"


def _collation(tokens: list[Token], at: int) -> tuple[int, str]:
    qualified = [t.text for t in tokens[at + 2 : at + 3]] == ["."]
    place = at + 3 if qualified else at + 1
    if place >= len(tokens):
        raise SyntaxFault("syntax error at end of input")
    name = tokens[place].text.strip('"')
    return place - at + 1, f'COLLATE "{name}"'


def _subscript_ends(tokens: list[Token]) -> dict[int, int]:
    """The closing brackets of subscripts that are not slices, each with its opening one."""
    found: dict[int, int] = {}
    open_brackets: list[tuple[int, bool]] = []
    for at, token in enumerate(tokens):
        if token.text == "[":
            before = tokens[at - 1] if at else None
            is_subscript = before is not None and (
                (before.kind in ("word", "quoted") and before.lowered != "array")
                or before.text in (")", "]")
                or before.kind == "parameter"
            )
            open_brackets.append((at, is_subscript))
        elif token.text == ":" and open_brackets:
            open_brackets[-1] = (open_brackets[-1][0], False)
        elif token.text == "]" and open_brackets:
            opening, is_subscript = open_brackets.pop()
            if is_subscript and at - opening > 1:
                found[at] = opening
    return found
