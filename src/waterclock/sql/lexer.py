"""From characters to tokens, by PostgreSQL 15's rules.

Words are folded to lower case (ASCII only) and cut to 63 bytes, names in quotes keep their case.
Strings come in all of PostgreSQL's forms: `'..'`, `E'..'`, `U&'..'`, `B'..'`, `X'..'` and
`$tag$..$tag$`, and go on after a line break and another quote. Comments nest. An operator ends
before a comment, and gives back a trailing `+` or `-` unless it holds a character that only
operators have.

The tokens cover the text: between them there is only white space and comments. Lexing never raises;
a fault is the last token (see `tokens`).
"""

from __future__ import annotations

import re
from enum import IntEnum

from waterclock.sql.budget import Meter
from waterclock.sql.errors import SqlFault, SyntaxFault
from waterclock.sql.escapes import is_escape_character, with_backslashes, with_code_points
from waterclock.sql.tokens import Kind, Token

MAX_NAME_BYTES = 63
_MAX_PARAMETER_DIGITS = 9
_HIGH = "\x80-\U0010ffff"
_NAME = f"[A-Za-z_{_HIGH}][A-Za-z0-9_${_HIGH}]*+"
_BLANK = r"[ \t\n\r\f]*+(?:--[^\n\r]*+[ \t\n\r\f]*+)*+"

_TOKEN = re.compile(
    rf"""{_BLANK}(?:
      (?P<word>{_NAME})
    | (?P<mark>[,()\[\];]|::|:=?|\.(?![0-9.])|\.\.)
    | (?P<string>')
    | (?P<number>(?:[0-9]++(?:\.(?!\.)[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)
    | (?P<quoted>")
    | (?P<comment>/\*)
    | (?P<operator>[~!@\#^&|`?+\-*/%<>=]++)
    | \$(?P<parameter>[0-9]++)
    | (?P<dollar>\$(?:[A-Za-z_{_HIGH}][A-Za-z0-9_{_HIGH}]*+)?\$)
    )""",
    re.VERBOSE,
)


class _Group(IntEnum):
    """The groups of `_TOKEN`, in their order."""

    WORD = 1
    MARK = 2
    STRING = 3
    NUMBER = 4
    QUOTED = 5
    COMMENT = 6
    OPERATOR = 7
    PARAMETER = 8
    DOLLAR = 9


_SKIP = re.compile(_BLANK)
_NAME_AT = re.compile(_NAME)
_PLAIN_BODY = re.compile(r"[^']*+(?:''[^']*+)*+'")
_BACKSLASH_BODY = re.compile(r"[^'\\]*+(?:(?:''|\\.)[^'\\]*+)*+'", re.DOTALL)
_QUOTED_BODY = re.compile(r'[^"]*+(?:""[^"]*+)*+"')
_CONTINUED = re.compile(r"(?:[ \t\f]|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f]++|--[^\n\r]*+[\n\r])*+'")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_FAILED_EXPONENT = re.compile(r"[eE][+-]")
_ONLY_IN_OPERATORS = frozenset("~!@#^&|`?%")
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_PREFIXES = frozenset("eEbBxXnNuU")
_BIT_STRINGS = {"b": "bit string", "x": "hexadecimal string"}


def lex(text: str, meter: Meter | None = None) -> list[Token]:
    """All tokens of the text; the last is an END or a FAULT, and there is no other such.

    Raises only what the meter does: the text has too many tokens, or brackets too deep.
    """
    tokens: list[Token] = []
    try:
        _lex_into(tokens, text, meter or Meter())
    except _Fault as stop:
        tokens.append(Token(Kind.FAULT, "", stop.start, len(text), stop.fault))
    return tokens


class _Fault(Exception):
    """Lexing has to end at an offset."""

    def __init__(self, fault: SqlFault, start: int) -> None:
        super().__init__()
        self.fault = fault
        self.start = start


def _lex_into(tokens: list[Token], text: str, meter: Meter) -> None:
    at = 0
    match, add, word_kind, mark_kind = _TOKEN.match, tokens.append, Kind.WORD, Kind.OPERATOR
    depth, deepest, look_at = 0, meter.deepest, 0
    while True:
        if len(tokens) >= look_at:
            look_at = _look(tokens, meter)
        found = match(text, at)
        if found is None:
            _end(tokens, text, at)
            return
        group = found.lastindex
        at = found.end()
        if group == 1:  # numbers here: this is the loop that runs for every token
            word = found[1]
            if len(word) == 1 and word in _PREFIXES and text[at : at + 1] in ("'", "&"):
                at = _prefixed(tokens, text, word, at)
            else:
                add(Token(word_kind, fold(word), at - len(word), at))
        elif group == 2:
            mark = found[2]
            add(Token(mark_kind, mark, found.start(2), at))
            if mark == "(" or mark == "[":
                depth += 1
                if depth > deepest:
                    meter.refuse_depth()
            elif mark == ")" or mark == "]":
                depth -= 1
        else:
            assert group is not None
            at = _other(tokens, text, found, group)
            if at - found.start(group) > meter.budget.literal_bytes:
                _check_literal(tokens, meter)


_LOOK_AFTER = 256
"""Tokens between two looks at the meter."""


def _look(tokens: list[Token], meter: Meter) -> int:
    """Count the tokens; how many there will be at the next look."""
    if len(tokens) > meter.budget.statement_tokens:
        raise meter.budget.too_many_tokens()
    meter.count(_LOOK_AFTER if tokens else 1)
    return len(tokens) + _LOOK_AFTER


def _check_literal(tokens: list[Token], meter: Meter) -> None:
    """Raise if the last token is a constant that is too large; a comment may be that long."""
    last = tokens[-1] if tokens else None
    if last is not None and last.kind in (Kind.STRING, Kind.BITS, Kind.INTEGER, Kind.DECIMAL):
        size = last.end - last.start
        if size > meter.budget.literal_bytes:
            raise meter.budget.literal_too_large(size)


def _other(tokens: list[Token], text: str, found: re.Match[str], group: int) -> int:
    """Add the rarer tokens; the offset behind."""
    start, end = found.span(group)
    match group:
        case _Group.STRING:
            body, end = _body(text, end, _PLAIN_BODY, start, "quoted string")
            tokens.append(Token(Kind.STRING, body.replace("''", "'"), start, end))
        case _Group.NUMBER:
            _refuse_junk(text, start, end, "numeric literal")
            digits = found[group]
            kind = Kind.INTEGER if digits.isdigit() else Kind.DECIMAL
            tokens.append(Token(kind, digits, start, end))
        case _Group.QUOTED:
            name, end = _quoted(text, start, end)
            tokens.append(Token(Kind.QUOTED, truncate(name), start, end))
        case _Group.COMMENT:
            return _behind_comment(text, start)
        case _Group.OPERATOR:
            end = start + _operator_length(text, found[group], start)
            tokens.append(Token(Kind.OPERATOR, text[start:end], start, end))
        case _Group.PARAMETER:
            start -= 1
            _refuse_junk(text, start, end, "parameter")
            if len(found[group].lstrip("0")) > _MAX_PARAMETER_DIGITS:
                raise _fault("parameter number too large", text, start, end)
            tokens.append(Token(Kind.PARAMETER, str(int(found[group])), start, end))
        case _:
            body, end = _dollar_quoted(text, found[group], start)
            tokens.append(Token(Kind.STRING, body, start, end))
    return end


def fold(word: str) -> str:
    """A name as it is without quotes: in lower case, ASCII letters only, and cut."""
    if word.isascii():
        return word.lower()[:MAX_NAME_BYTES]
    return truncate(word.translate(_FOLD))


def truncate(name: str) -> str:
    """At most 63 bytes of the name, whole characters."""
    if len(name) * 4 <= MAX_NAME_BYTES:
        return name
    size = 0
    for index, character in enumerate(name):
        size += len(character.encode("utf-8", "surrogatepass"))
        if size > MAX_NAME_BYTES:
            return name[:index]
    return name


def _fault(problem: str, text: str, start: int, end: int) -> _Fault:
    return _Fault(SyntaxFault(f'{problem} at or near "{text[start:end]}"', start + 1), start)


def _end(tokens: list[Token], text: str, at: int) -> None:
    """Nothing more is a token: the end of the text, or a character that starts none."""
    skipped = _SKIP.match(text, at)
    assert skipped is not None
    start = skipped.end()
    if start < len(text):
        raise _fault("syntax error", text, start, start + 1)
    tokens.append(Token(Kind.END, "", start, start))


def _behind_comment(text: str, start: int) -> int:
    depth, at = 1, start + 2
    while depth:
        edge = _COMMENT_EDGE.search(text, at)
        if edge is None:
            raise _fault("unterminated /* comment", text, start, len(text))
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def _behind_blank(text: str, at: int) -> int:
    """The offset of the next token."""
    while True:
        skipped = _SKIP.match(text, at)
        assert skipped is not None
        at = skipped.end()
        if not text.startswith("/*", at):
            return at
        at = _behind_comment(text, at)


def _body(text: str, at: int, pattern: re.Pattern[str], start: int, what: str) -> tuple[str, int]:
    """What stands between quotes from `at` on, with its continuations, and the offset behind."""
    bodies: list[str] = []
    while True:
        found = pattern.match(text, at)
        if found is None:
            raise _fault(f"unterminated {what}", text, start, len(text))
        bodies.append(text[at : found.end() - 1])
        continued = _CONTINUED.match(text, found.end())
        if continued is None:
            return "".join(bodies), found.end()
        at = continued.end()


def _quoted(text: str, start: int, at: int) -> tuple[str, int]:
    found = _QUOTED_BODY.match(text, at)
    if found is None:
        raise _fault("unterminated quoted identifier", text, start, len(text))
    name = text[at : found.end() - 1].replace('""', '"')
    if not name:
        raise _fault("zero-length delimited identifier", text, start, found.end())
    return name, found.end()


def _dollar_quoted(text: str, tag: str, start: int) -> tuple[str, int]:
    body = start + len(tag)
    end = text.find(tag, body)
    if end < 0:
        raise _fault("unterminated dollar-quoted string", text, start, len(text))
    return text[body:end], end + len(tag)


def _refuse_junk(text: str, start: int, end: int, what: str) -> None:
    junk = _NAME_AT.match(text, end)
    if what == "numeric literal":
        junk = _FAILED_EXPONENT.match(text, end) or junk
    if junk is not None:
        raise _fault(f"trailing junk after {what}", text, start, junk.end())


def _operator_length(text: str, run: str, start: int) -> int:
    """How much of a run of operator characters is one operator."""
    for comment in ("/*", "--"):
        inside = run.find(comment)
        if inside >= 0:
            run = run[:inside]
    if len(run) > 1 and run[-1] in "+-" and _ONLY_IN_OPERATORS.isdisjoint(run[:-1]):
        run = run[0] + run[1:].rstrip("+-")
    if len(run) > MAX_NAME_BYTES:
        raise _fault("operator too long", text, start, start + len(run))
    return len(run)


def _prefixed(tokens: list[Token], text: str, letter: str, at: int) -> int:
    """A string or name that a letter, which ends at `at`, may begin; the offset behind."""
    start, letter = at - 1, letter.lower()
    if letter == "u":
        return _with_escape(tokens, text, at)
    if text[at] != "'":
        tokens.append(Token(Kind.WORD, letter, start, at))
        return at
    if letter == "n":
        tokens.append(Token(Kind.WORD, "nchar", start, at))
        return at
    if letter == "e":
        try:
            value, end = _backslashed(text, start)
        except SqlFault as fault:
            raise _Fault(fault, start) from None
        tokens.append(Token(Kind.STRING, value, start, end))
        return end
    what = f"{_BIT_STRINGS[letter]} literal"
    body, end = _body(text, at + 1, _PLAIN_BODY, start, what)
    tokens.append(Token(Kind.BITS, letter + body, start, end))
    return end


def _backslashed(text: str, start: int) -> tuple[str, int]:
    body, end = _body(text, start + 2, _BACKSLASH_BODY, start, "quoted string")
    return with_backslashes(body, start + 2), end


def _with_escape(tokens: list[Token], text: str, at: int) -> int:
    """`U&'..'` or `U&".."`, with UESCAPE if that follows; or only a word `u`."""
    start, quote = at - 1, text[at + 1 : at + 2]
    if text[at] != "&" or quote not in ("'", '"') or not quote:
        tokens.append(Token(Kind.WORD, "u", start, at))
        return at
    if quote == "'":
        body, end = _body(text, at + 2, _PLAIN_BODY, start, "quoted string")
        kind, body = Kind.STRING, body.replace("''", "'")
    else:
        kind = Kind.QUOTED
        body, end = _quoted(text, start, at + 2)
    try:
        escape, end = _escape_clause(text, end)
        value = with_code_points(body, escape, start + 3)
    except _Fault as stop:
        raise _Fault(stop.fault, start) from None
    except SqlFault as fault:
        raise _Fault(fault, start) from None
    tokens.append(Token(kind, value if quote == "'" else truncate(value), start, end))
    return end


def _escape_clause(text: str, end: int) -> tuple[str, int]:
    """The escape character of the string that ends here, and the offset behind its clause."""
    at = _behind_blank(text, end)
    word = _NAME_AT.match(text, at)
    if word is None or fold(word[0]) != "uescape":
        return "\\", end
    start = _behind_blank(text, word.end())
    if not text.startswith("'", start):
        problem = "UESCAPE must be followed by a simple string literal"
        if start == len(text):
            raise _Fault(SyntaxFault(f"{problem} at end of input", start + 1), start)
        following = _TOKEN.match(text, start)
        raise _fault(problem, text, start, start + 1 if following is None else following.end())
    body, end = _body(text, start + 1, _PLAIN_BODY, start, "quoted string")
    escape = body.replace("''", "'")
    if not is_escape_character(escape):
        raise _fault("invalid Unicode escape character", text, start, end)
    return escape, end
