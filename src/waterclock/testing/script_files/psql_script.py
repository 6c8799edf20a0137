"""The text of a psql script: statements, backslash commands, variables and data of COPY.

psql cuts a script into statements without knowing SQL's grammar: it knows quotes, comments,
brackets and the bodies of SQL functions, and so does this. A statement is kept as it is written;
variables are filled in just before it is run, since earlier statements may set them (`\\gset`).

Data of COPY is not a part of the statement: whoever runs it calls `Reader.copy_data` when the
server asks for data, as psql does. If the server refuses the COPY, the lines are read as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<string>[eE]'(?:[^'\\]|''|\\.)*+(?:'|\Z)|(?:[nNbBxX]|[uU]&)?'(?:[^']|'')*+(?:'|\Z))
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*+(?:"|\Z))
    | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    | (?P<number>\d[\w.]*|\$\d+)
    | (?P<cast>::|:=)
    | (?P<variable>:\{\?\w+\}|:'\w+'|:"\w+"|:\w+)
    | (?P<backslash>\\)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_COMMAND = re.compile(r"\\(\\|[^\s\\]+)?([^\n]*)")
_ARGUMENT = re.compile(
    r"""\s*(?:(?P<end>\\.*)|(?P<text>(?:'(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*"|`[^`]*`|[^\s'"`\\])+))""",
    re.VERBOSE,
)
_PIECE = re.compile(
    r"""(?P<variable>:\{\?\w+\}|:'\w+'|:"\w+"|(?<!:):\w+)
      | '(?P<string>(?:[^'\\]|''|\\.)*)' | (?P<plain>"(?:[^"]|"")*"|`[^`]*`|.)""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "r": "\r", "f": "\f"}
EXECUTING = frozenset({"g", "gx", "gset", "gexec", "gdesc", "crosstabview", "watch"})
"""Backslash commands that run the statement before them."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL that is neither white space nor a comment."""

    kind: str
    text: str
    start: int
    depth: int
    """The number of brackets around it."""

    @property
    def word(self) -> str:
        """A keyword or unquoted name in lower case; empty for all else."""
        return self.text.lower() if self.kind == "word" else ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without its end, which is `;` or a backslash command."""

    line: int
    text: str
    ending: str = ";"
    arguments: str = ""
    is_several: bool = False
    """Whether it is several statements in one message, written with `\\;` between them."""


@dataclass(frozen=True, slots=True)
class Command:
    """A backslash command that does not run a statement."""

    line: int
    name: str
    arguments: str = ""


def tokens_of(text: str, at: int = 0) -> Iterator[Token]:
    """All tokens from an offset on. Never raises: what is not closed goes on until the end."""
    depth = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "every character is a token"
        kind, end = match.lastgroup or "", match.end()
        if kind == "blank":
            at = end
            continue
        if kind == "comment":
            at = _comment_end(text, end)
            continue
        if kind == "dollar":
            closed = text.find(match.group(), end)
            end = len(text) if closed < 0 else closed + len(match.group())
        piece = text[at:end]
        if piece in (")", "]"):
            depth = max(depth - 1, 0)
        yield Token(kind, piece, at, depth)
        if piece in ("(", "["):
            depth += 1
        at = end


def _comment_end(text: str, at: int) -> int:
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(text, at)
        if edge is None:
            return len(text)
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at


class Reader:
    """Reads a script from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def __iter__(self) -> Iterator[Statement | Command]:
        item = self._next()
        while item is not None:
            yield item
            item = self._next()

    def copy_data(self) -> str:
        """The lines behind the current one up to `\\.`, which is passed over."""
        text = self._text
        newline = text.find("\n", self._at)
        start = len(text) if newline < 0 else newline + 1
        at = start
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            if text[at:end].rstrip("\r") == "\\.":
                self._at = min(end + 1, len(text))
                return text[start:at]
            at = end + 1
        self._at = len(text)
        return text[start:]

    def _next(self) -> Statement | Command | None:
        text, start = self._text, self._at
        pieces: list[Token] = []
        is_several = False
        body = _FunctionBody()
        scan = tokens_of(text, start)
        for token in scan:
            end = token.start + len(token.text)
            if token.kind == "backslash":
                if text.startswith("\\;", token.start):
                    is_several = True
                    next(scan)
                    continue
                name, arguments, self._at = self._command(token.start)
                if not pieces or name not in EXECUTING:
                    if name in ("r", "reset"):
                        return self._next()
                    if pieces:  # the statement goes on behind the command
                        self._text = text[: token.start] + text[self._at :]
                        self._at = start
                    return Command(self._line(token.start), name, arguments)
                sql = text[pieces[0].start : token.start].rstrip()
                return Statement(self._line(pieces[0].start), sql, name, arguments, is_several)
            if token.text == ";" and token.depth == 0 and not body.is_open:
                self._at = end
                if not pieces:
                    continue
                sql = text[pieces[0].start : token.start].replace("\\;", ";").rstrip()
                return Statement(self._line(pieces[0].start), sql, is_several=is_several)
            body.take(token)
            pieces.append(token)
        self._at = len(text)
        if not pieces:
            return None
        sql = text[pieces[0].start :].rstrip()
        return Statement(self._line(pieces[0].start), sql, "end", is_several=is_several)

    def _command(self, start: int) -> tuple[str, str, int]:
        match = _COMMAND.match(self._text, start)
        assert match is not None, "it begins with a backslash"
        name, rest = match.group(1) or "", match.group(2)
        at = 0
        for argument in _ARGUMENT.finditer(rest):
            if argument["end"] is not None:  # the next command on the line
                at = argument.start("end")
                return name, rest[:at].strip(), match.start(2) + at
        return name, rest.strip(), match.end()

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1


class _FunctionBody:
    """Whether a `BEGIN ... END` of a SQL function is open, inside which `;` ends nothing."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._depth = 0

    @property
    def is_open(self) -> bool:
        return self._depth > 0

    def take(self, token: Token) -> None:
        word = token.word
        if len(self._first) < 4:
            self._first.append(word)
        words = [each for each in self._first if each not in ("or", "replace")]
        if words[:1] != ["create"] or words[1:2] not in (["function"], ["procedure"]):
            return
        if word == "begin" or (word == "case" and self._depth):
            self._depth += 1
        elif word == "end" and self._depth:
            self._depth -= 1


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """The statement with variables filled in; those that are not set stay as they are."""
    pieces, at = [], 0
    for token in tokens_of(text):
        if token.kind == "variable":
            pieces += [text[at : token.start], _value(token.text, variables)]
            at = token.start + len(token.text)
    return "".join([*pieces, text[at:]])


def argument_list(text: str, variables: Mapping[str, str]) -> list[str]:
    """The arguments of a backslash command, without their quotes and with variables filled in."""

    def unquoted(match: re.Match[str]) -> str:
        if match["variable"] is not None:
            return _value(match["variable"], variables)
        if match["string"] is None:
            return match["plain"]
        inner = match["string"].replace("''", "'")
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner)

    found = (match["text"] for match in _ARGUMENT.finditer(text))
    return [_PIECE.sub(unquoted, each) for each in found if each is not None]


def _value(reference: str, variables: Mapping[str, str]) -> str:
    if reference.startswith(":{?"):
        return "TRUE" if reference[3:-1] in variables else "FALSE"
    name = reference[1:].strip("'\"")
    if name not in variables:
        return reference
    value = variables[name]
    if reference[1] == "'":
        return "'" + value.replace("'", "''") + "'"
    return '"' + value.replace('"', '""') + '"' if reference[1] == '"' else value
