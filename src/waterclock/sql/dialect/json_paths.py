"""Paths of SQL/JSON, as `jsonpath` writes them: read into a tree.

What the grammar allows and nothing here can compute is `Unsupported` by name.
"""

from __future__ import annotations

import re
from decimal import Decimal

from waterclock.sql.dialect.json_path_tree import (
    Bound,
    Compared,
    Condition,
    Constant,
    Current,
    Elements,
    Exists,
    Filter,
    IsUnknown,
    Joined,
    LikeRegex,
    Member,
    Method,
    Negated,
    Path,
    Root,
    StartsWith,
    Step,
    Variable,
    Walk,
)

_TOKEN = re.compile(
    r'\s+|/\*.*?\*/|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)'
    r"|(?P<variable>\$(?:[A-Za-z_]\w*|\"(?:[^\"\\]|\\.)*\"))|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<mark>\*\*|==|!=|<>|<=|>=|&&|\|\||[$@.,*\[\](){}?<>!+\-/%])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIGNS = {"==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CONSTANTS = {"true": True, "false": False, "null": None}


class BadPath(Exception):
    """The text is no path."""


class Unsupported(Exception):
    """It is one, with something in it that can not be computed here."""


def parse_path(text: str) -> Path:
    """The path that a text is; raises `BadPath` or `Unsupported`."""
    parser = _Parser(_tokens(text))
    if parser.accept("strict"):
        raise Unsupported("a strict jsonpath")
    parser.accept("lax")
    found = parser.either()
    if not parser.at_end:
        raise parser.fault()
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadPath(f'syntax error at or near "{text[at]}" of jsonpath input')
        at = match.end()
        if match.lastgroup is not None:
            found.append((match.lastgroup, match.group()))
    return found


def _unescaped(token: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) > 1:
            return chr(int(escape[1:].strip("{}"), 16))
        return _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(plain, token[1:-1]).encode("utf-16", "surrogatepass").decode("utf-16")


class _Parser:
    """Reads tokens from the left to the right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._tokens)

    def fault(self) -> BadPath:
        """What is wrong at this place."""
        if self.at_end:
            return BadPath("syntax error at end of jsonpath input")
        return BadPath(f'syntax error at or near "{self._tokens[self._at][1]}" of jsonpath input')

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else ("end", "")

    def accept(self, text: str) -> bool:
        kind, value = self._peek()
        if kind in ("mark", "word") and value == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fault()

    def _take(self, kind: str) -> str:
        found, value = self._peek()
        if found != kind:
            raise self.fault()
        self._at += 1
        return value

    # Conditions

    def either(self) -> Path:
        """A path or a condition: which of them is known when it has been read."""
        found = self._conjunction()
        while self.accept("||"):
            found = Joined("OR", self._condition(found), self._condition(self._conjunction()))
        return found

    def _condition(self, found: Path) -> Condition:
        if isinstance(found, Walk):
            raise self.fault()
        return found

    def _conjunction(self) -> Path:
        found = self._predicate()
        while self.accept("&&"):
            found = Joined("AND", self._condition(found), self._condition(self._predicate()))
        return found

    def _predicate(self) -> Path:
        if self.accept("!"):
            if self._peek()[1] not in ("(", "exists"):
                raise self.fault()
            return Negated(self._condition(self._predicate()))
        if self._peek() == ("word", "exists"):
            return self._exists()
        if self._peek() == ("mark", "("):
            return self._in_brackets()
        return self._compared(self._walk())

    def _exists(self) -> Exists:
        self._expect("exists")
        self._expect("(")
        walk = self._walk()
        self._expect(")")
        return Exists(walk)

    def _in_brackets(self) -> Path:
        self._expect("(")
        inner = self.either()
        self._expect(")")
        if isinstance(inner, Walk):
            return self._compared(Walk(inner.start, (*inner.steps, *self._steps())))
        if self.accept("is"):
            self._expect("unknown")
            return IsUnknown(inner)
        return inner

    def _compared(self, left: Walk) -> Path:
        kind, value = self._peek()
        if kind == "mark" and value in ("+", "-", "*", "/", "%"):
            raise Unsupported("arithmetic in a jsonpath")
        if kind == "mark" and value in _SIGNS:
            self._at += 1
            right = self._bracketed_walk()
            if self._peek()[1] in ("+", "-", "*", "/", "%"):
                raise Unsupported("arithmetic in a jsonpath")
            return Compared(_SIGNS[value], left, right)
        if self.accept("starts"):
            self._expect("with")
            if self._peek()[0] == "variable":
                raise Unsupported("a variable behind starts with in a jsonpath")
            return StartsWith(left, _unescaped(self._take("string")))
        if self.accept("like_regex"):
            pattern = _unescaped(self._take("string"))
            flags = _unescaped(self._take("string")) if self.accept("flag") else ""
            return LikeRegex(left, pattern, flags)
        return left

    def _bracketed_walk(self) -> Walk:
        if not self.accept("("):
            return self._walk()
        inner = self.either()
        self._expect(")")
        if not isinstance(inner, Walk):
            raise self.fault()
        return Walk(inner.start, (*inner.steps, *self._steps()))

    # Walks

    def _walk(self) -> Walk:
        return Walk(self._start(), self._steps())

    def _start(self) -> Root | Current | Variable | Constant:
        kind, value = self._peek()
        self._at += 1
        match kind, value:
            case "mark", "$":
                return Root()
            case "mark", "@":
                return Current()
            case "variable", _:
                name = value[1:]
                return Variable(_unescaped(name) if name.startswith('"') else name)
            case "string", _:
                return Constant(_unescaped(value))
            case "number", _:
                return Constant(Decimal(value))
            case "word", ("true" | "false" | "null"):
                return Constant(_CONSTANTS[value])
            case "mark", ("-" | "+") if self._peek()[0] == "number":
                return Constant(Decimal(f"{value}{self._take('number')}"))
            case "mark", ("-" | "+"):
                raise Unsupported("arithmetic in a jsonpath")
        self._at -= 1
        raise self.fault()

    def _steps(self) -> tuple[Step, ...]:
        found: list[Step] = []
        while True:
            if self.accept("."):
                found.append(self._dotted())
            elif self.accept("["):
                found.append(self._elements())
            elif self.accept("?"):
                self._expect("(")
                found.append(Filter(self._condition(self.either())))
                self._expect(")")
            else:
                return tuple(found)

    def _dotted(self) -> Step:
        if self.accept("**"):
            raise Unsupported("the accessor .** of a jsonpath")
        if self.accept("*"):
            return Member(None)
        kind, value = self._peek()
        if kind == "string":
            self._at += 1
            return Member(_unescaped(value))
        name = self._take("word")
        if not self.accept("("):
            return Member(name)
        if name not in ("size", "type"):
            raise Unsupported(f"the method .{name}() of a jsonpath")
        self._expect(")")
        return Method(name)

    def _elements(self) -> Elements:
        if self.accept("*"):
            self._expect("]")
            return Elements(())
        ranges = [self._range()]
        while self.accept(","):
            ranges.append(self._range())
        self._expect("]")
        return Elements(tuple(ranges))

    def _range(self) -> tuple[Bound, Bound]:
        first = self._bound()
        return first, self._bound() if self.accept("to") else first

    def _bound(self) -> Bound:
        if self.accept("last"):
            if self.accept("-"):
                return Bound(-int(Decimal(self._take("number"))), True)
            return Bound(0, True)
        sign = -1 if self.accept("-") else 1
        if self.at_end:
            raise self.fault()
        if self._peek()[0] != "number":
            raise Unsupported("a place in a jsonpath that is not a constant")
        return Bound(sign * int(Decimal(self._take("number"))), False)
