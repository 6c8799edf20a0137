"""A place in a list of tokens, and the questions a parser asks there.

`accept_*` moves on if the answer is yes, `expect_*` moves on or raises the syntax error. The error
is that of PostgreSQL: the first token with which no statement goes on is to blame. Where several
ways were tried, that is the token at which the longest of them ended.
"""

from __future__ import annotations

from typing import NoReturn

from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectName, QueryText
from waterclock.sql.budget import Meter
from waterclock.sql.errors import SqlFault, SyntaxFault
from waterclock.sql.keywords import NOT_A_COLUMN, RESERVED
from waterclock.sql.tokens import Kind, Token

_MAX_INT4 = 2**31 - 1


class UnsupportedSyntax(Exception):
    """The statement uses what Waterclock does not have; the parser makes a node of it."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(what)
        self.what = what
        self.position = position


class TokenStream:
    """The tokens of a text, one of which is current. `token` is it."""

    __slots__ = ("_farthest", "index", "meter", "text", "token", "tokens")

    def __init__(self, text: str, tokens: list[Token], meter: Meter | None = None) -> None:
        self.text = text
        self.meter = meter or Meter()
        self.tokens = tokens
        self.index = 0
        self.token = tokens[0]
        self._farthest = 0

    # Moving

    def advance(self) -> Token:
        """The current token; the next becomes current. A fault in the text is raised here."""
        token = self.token
        if token.kind is Kind.FAULT or token.kind is Kind.END:
            self.fail()
        self.index += 1
        self.token = self.tokens[self.index]
        return token

    def back_to(self, index: int) -> None:
        self.index = index
        self.token = self.tokens[index]

    def peek(self, ahead: int = 1) -> Token:
        """A later token, or the last one."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def note_failure(self, index: int) -> None:
        """Remember that some way to read the text came as far as that token and no farther."""
        self._farthest = max(self._farthest, index)

    @property
    def last(self) -> Token:
        """The token before the current one."""
        return self.tokens[self.index - 1]

    # Failing

    def fail(self, token: Token | None = None) -> NoReturn:
        """Raise the syntax error of the token, or else of the farthest one that was reached."""
        raise self.fault(token)

    def fault(self, token: Token | None = None) -> SqlFault:
        token = token or self.tokens[max(self.index, self._farthest)]
        if token.fault is not None:
            return token.fault
        if token.kind is Kind.END:
            return SyntaxFault("syntax error at end of input", token.position)
        near = self.text[token.start : token.end]
        return SyntaxFault(f'syntax error at or near "{near}"', token.position)

    def unsupported(self, what: str, position: int | None = None) -> NoReturn:
        raise UnsupportedSyntax(what, self.token.position if position is None else position)

    # Words and marks

    def at_end(self) -> bool:
        """Whether the statement ends here."""
        token = self.token
        return token.kind is Kind.END or (token.kind is Kind.OPERATOR and token.value == ";")

    def at(self, *words: str) -> bool:
        """Whether the words follow, without quotes, in lower case here."""
        token = self.token
        if token.kind is not Kind.WORD or token.value != words[0]:
            return False
        for ahead in range(1, len(words)):
            token = self.peek(ahead)
            if token.kind is not Kind.WORD or token.value != words[ahead]:
                self.note_failure(self.index + ahead)
                return False
        return True

    def at_any(self, *words: str) -> bool:
        """Whether the current token is one of the words."""
        return self.token.kind is Kind.WORD and self.token.value in words

    def at_mark(self, mark: str) -> bool:
        return self.token.kind is Kind.OPERATOR and self.token.value == mark

    def accept(self, *words: str) -> bool:
        """Move over the words if they all follow."""
        if not self.at(*words):
            return False
        self.back_to(self.index + len(words))
        return True

    def accept_any(self, *words: str) -> str | None:
        """Move over one of the words; which."""
        return self.advance().value if self.at_any(*words) else None

    def accept_mark(self, mark: str) -> bool:
        if not self.at_mark(mark):
            return False
        self.advance()
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.at(word):
                self.fail()
            self.advance()

    def expect_any(self, *words: str) -> str:
        return self.accept_any(*words) or self.fail()

    def expect_mark(self, mark: str) -> Token:
        if not self.at_mark(mark):
            self.fail()
        return self.advance()

    def expect_end(self) -> None:
        if not self.at_end():
            self.fail()

    # Names

    def at_name(self) -> bool:
        token = self.token
        if token.kind is Kind.QUOTED:
            return True
        return token.kind is Kind.WORD and token.value not in NOT_A_COLUMN

    def identifier(self) -> Identifier:
        """The name of a column or of anything that is not a type or function."""
        if not self.at_name():
            self.fail()
        token = self.advance()
        return Identifier(token.value, token.position)

    def label(self) -> Identifier:
        """A name where any key word will do: behind a dot or AS."""
        if self.token.kind not in (Kind.WORD, Kind.QUOTED):
            self.fail()
        token = self.advance()
        return Identifier(token.value, token.position)

    def non_reserved_word(self) -> Identifier:
        """A name that may also be the key word of a type or function, such as that of a role."""
        if self.token.kind is Kind.WORD and self.token.value in RESERVED:
            self.fail()
        return self.label()

    def object_name(self) -> ObjectName:
        """`a`, `a.b`, `a.b.c` and so on; how many parts make sense is not known here."""
        first = self.identifier()
        parts = [first.name]
        while self.accept_mark("."):
            parts.append(self.label().name)
        return ObjectName(tuple(parts), first.position)

    def identifiers(self) -> tuple[Identifier, ...]:
        """`(a, b, ...)`."""
        self.expect_mark("(")
        names = [self.identifier()]
        while self.accept_mark(","):
            names.append(self.identifier())
        self.expect_mark(")")
        return tuple(names)

    def object_names(self) -> tuple[ObjectName, ...]:
        """`a, b.c, ...`."""
        names = [self.object_name()]
        while self.accept_mark(","):
            names.append(self.object_name())
        return tuple(names)

    # Literals

    def string(self) -> str:
        if self.token.kind is not Kind.STRING:
            self.fail()
        return self.advance().value

    def integer(self) -> int:
        """A whole number without sign that fits in four bytes."""
        token = self.token
        if token.kind is not Kind.INTEGER or len(token.value) > 10 or int(token.value) > _MAX_INT4:
            self.fail()
        return int(self.advance().value)

    def signed_integer(self) -> int:
        negative = self.accept_mark("-")
        if not negative:
            self.accept_mark("+")
        number = self.integer()
        return -number if negative else number

    # Text

    def slice(self, first: int) -> str:
        """The text from the token of that index up to and with the one before the current."""
        return self.text[self.tokens[first].start : self.last.end]

    def query_from(self, first: int) -> QueryText:
        return QueryText(self.slice(first), self.tokens[first].position)

    def expression_from(self, first: int) -> ExpressionText:
        return ExpressionText(self.slice(first), self.tokens[first].position)
