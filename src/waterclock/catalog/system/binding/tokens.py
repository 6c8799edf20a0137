"""The text of a query cut into tokens, by PostgreSQL's rules.

Strings of every kind, nested comments, dollar quotes, operators that end before a sign: what a
general SQL lexer gets wrong now and then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.catalog.system.errors import SyntaxFault

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<block>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<unicode>[uU]&'(?:[^']|'')*')
    | (?P<string>[nN]?'(?:[^']|'')*')
    | (?P<bits>[bBxX]'[^']*')
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
    | (?P<parameter>\$\d+)
    | (?P<dollar>\$(?P<tag>[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$)
    | (?P<word>[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*)
    | (?P<number>0[xX][0-9A-Fa-f]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<cast>::)
    | (?P<punctuation>[()\[\],;.:])
    | (?P<operator>[-+*/<>=~!@\#%^&|`?]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)|''", re.DOTALL
)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int
    after_newline: bool = False

    @property
    def lowered(self) -> str:
        return self.text.lower() if self.kind == "word" else self.text


def tokens_of(sql: str) -> Iterator[Token]:
    at, newline = 0, False
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None:
            raise _unreadable(sql, at)
        kind, text = match.lastgroup or "", match.group()
        if kind == "tag":
            kind = "dollar"
        end = match.end()
        if kind == "space":
            newline = newline or "\n" in text
            at = end
            continue
        if kind == "block":
            at = _comment_end(sql, at)
            continue
        if kind == "operator":
            text = _operator(text)
            end = at + len(text)
        elif kind == "dollar":
            end = _dollar_end(sql, at, text)
            text = sql[at:end]
        yield Token(kind, text, at, newline)
        at, newline = end, False


def _unreadable(sql: str, at: int) -> SyntaxFault:
    if sql[at] == "'":
        return SyntaxFault(f'unterminated quoted string at or near "{sql[at:]}"', at + 1)
    if sql[at] == '"':
        return SyntaxFault(f'unterminated quoted identifier at or near "{sql[at:]}"', at + 1)
    return SyntaxFault(f'syntax error at or near "{sql[at]}"', at + 1)


def _comment_end(sql: str, at: int) -> int:
    depth, place = 1, at + 2
    while depth:
        match = re.compile(r"/\*|\*/").search(sql, place)
        if match is None:
            raise SyntaxFault(f'unterminated /* comment at or near "{sql[at:]}"', at + 1)
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
    return place


def _dollar_end(sql: str, at: int, tag: str) -> int:
    end = sql.find(tag, at + len(tag))
    if end < 0:
        message = f'unterminated dollar-quoted string at or near "{sql[at:]}"'
        raise SyntaxFault(message, at + 1)
    return end + len(tag)


def _operator(text: str) -> str:
    """The operator that a run of operator characters begins with."""
    for comment in ("--", "/*"):
        text = text.split(comment)[0] or text
    while len(text) > 1 and text[-1] in "+-" and not set(text[:-1]) & set("~!@#%^&|`?"):
        text = text[:-1]
    return text


def string_value(token: Token) -> str:
    text = token.text
    match token.kind:
        case "string":
            return text[text.index("'") + 1 : -1].replace("''", "'")
        case "escaped":
            return _ESCAPE.sub(_unescaped, text[2:-1])
        case "unicode":
            plain = text[3:-1].replace("''", "'")
            return re.sub(r"\\(?:\+([0-9A-Fa-f]{6})|([0-9A-Fa-f]{4})|\\)", _code_point, plain)
        case _:
            tag = text[: text.index("$", 1) + 1]
            return text[len(tag) : -len(tag)]


def _unescaped(match: re.Match[str]) -> str:
    text = match.group()
    if text == "''":
        return "'"
    rest = text[1:]
    if rest[0] in "uUx" and len(rest) > 1:
        return chr(int(rest[1:], 16))
    if rest[0] in "01234567":
        return chr(int(rest, 8))
    return _ESCAPES.get(rest, rest)


def _code_point(match: re.Match[str]) -> str:
    digits = match.group(1) or match.group(2)
    return chr(int(digits, 16)) if digits else "\\"
