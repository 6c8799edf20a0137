"""Operands of expressions: constants, columns, calls, CASE, arrays, rows, and what is in brackets.

A bracket may open an expression, a row or a query, and which it is may only show at its end: in
`((SELECT 1) + 1)` the inner one is a query, in `((SELECT 1))` both are around the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.keywords import RESERVED, TYPE_OR_FUNCTION
from waterclock.sql.query.calls import Calls
from waterclock.sql.query.keyword_calls import KeywordCalls
from waterclock.sql.query.tree import (
    AllFields,
    ArrayItems,
    ArrayQuery,
    Boolean,
    Case,
    ColumnRef,
    Default,
    Exists,
    Expression,
    Field,
    Null,
    Number,
    Parameter,
    Query,
    Row,
    Star,
    String,
    Subquery,
)
from waterclock.sql.query.typed_constants import try_typed_constant
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind, Token

if TYPE_CHECKING:
    from waterclock.sql.query.expressions import Expressions

QUERY_WORDS = ("select", "values", "table", "with")


class Operands:
    """Parses operands at the place of a stream. `query` parses a query there."""

    def __init__(
        self,
        stream: TokenStream,
        query: Callable[[], Query],
        expressions: Expressions,
        calls: Calls,
    ) -> None:
        self._stream = stream
        self._query = query
        self._expressions = expressions
        self._calls = calls
        self._keyword_calls = KeywordCalls(stream, expressions)

    def at_query(self) -> bool:
        """Whether a query in brackets follows, however many brackets."""
        ahead = 0
        while True:
            token = self._stream.peek(ahead) if ahead else self._stream.token
            if token.kind is not Kind.OPERATOR or token.value != "(":
                break
            ahead += 1
        self._stream.meter.count(ahead)
        return ahead > 0 and token.kind is Kind.WORD and token.value in QUERY_WORDS

    def query_in_brackets(self) -> Query:
        self._stream.expect_mark("(")
        found = self._query()
        self._stream.expect_mark(")")
        return found

    def primary(self) -> Expression:
        token = self._stream.token
        match token.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                self._stream.advance()
                return Number(token.value, token.position)
            case Kind.STRING:
                self._stream.advance()
                return String(token.value, token.position)
            case Kind.PARAMETER:
                self._stream.advance()
                return Parameter(int(token.value), token.position)
            case Kind.BITS:
                raise FeatureNotSupported.of("a bit string", token.position)
            case Kind.OPERATOR if token.value == "(":
                return self._bracketed()
            case Kind.OPERATOR if token.value == "*":
                self._stream.advance()
                return Star((), token.position)
            case Kind.WORD | Kind.QUOTED:
                return self._worded(token)
        raise self._stream.fault()

    def _bracketed(self) -> Expression:
        at = self._stream.token.position
        if self.at_query():
            found = self.try_query()
            if found is not None:
                return self._followed(Subquery(found, at))
        self._stream.expect_mark("(")
        items = self._expressions.expressions()
        self._stream.expect_mark(")")
        inner = items[0] if len(items) == 1 else Row(items, at)
        return self._followed(inner)

    def try_query(self) -> Query | None:
        """The query in brackets; None if the brackets go on as an expression, as in `((q) + 1)`."""
        first = self._stream.index
        self._stream.expect_mark("(")
        if self._stream.at_mark("("):
            # Several brackets: a query if what they enclose as a whole is one.
            self._stream.back_to(first)
            if not self._encloses_query():
                return None
            self._stream.expect_mark("(")
        found = self._query()
        self._stream.expect_mark(")")
        return found

    def _encloses_query(self) -> bool:
        """Whether behind the inner bracket comes what goes on a query, and no expression."""
        depth, ahead = 0, 1
        while True:
            token = self._stream.peek(ahead)
            if token.kind in (Kind.END, Kind.FAULT):
                return True
            if token.kind is Kind.OPERATOR and token.value in ("(", ")"):
                depth += 1 if token.value == "(" else -1
                if depth == 0:
                    break
            ahead += 1
        self._stream.meter.count(ahead)
        following = self._stream.peek(ahead + 1)
        if following.kind is Kind.WORD:
            return following.value in (
                *("union", "intersect", "except", "order", "limit", "offset", "fetch", "for"),
            )
        return following.kind is Kind.OPERATOR and following.value == ")"

    def _followed(self, base: Expression) -> Expression:
        """`(row).field` or `(row).*`."""
        length = 0
        while self._stream.accept_mark("."):
            length += 1
            self._stream.meter.check_chain(length)
            if self._stream.accept_mark("*"):
                return AllFields(base, base.at)
            base = Field(base, self._stream.label().name, base.at)
        return base

    def _worded(self, token: Token) -> Expression:
        if token.kind is Kind.WORD:
            special = self._special(token)
            if special is not None:
                return special
        if self._calls.is_call():
            return self._calls.call()
        constant = try_typed_constant(self._stream)
        if constant is not None:
            return constant
        return self._column(token)

    def _special(self, token: Token) -> Expression | None:
        """What begins with a key word."""
        at = token.position
        match token.value:
            case "null":
                self._stream.advance()
                return Null(at)
            case "true" | "false":
                self._stream.advance()
                return Boolean(token.value == "true", at)
            case "case":
                return self._case()
            case "default":
                self._stream.advance()
                return Default(at)
            case "exists" if self._stream.peek().value == "(":
                self._stream.advance()
                if not self.at_query():
                    self._stream.fail()
                return Exists(self.query_in_brackets(), at)
            case "array" if self._stream.peek().value in ("[", "("):
                self._stream.advance()
                return self._array(at)
            case "row" if self._stream.peek().value == "(":
                self._stream.advance()
                return self._row(at)
        return self._keyword_calls.try_call(token)

    def _case(self) -> Expression:
        at = self._stream.advance().position
        operand = None if self._stream.at("when") else self._expressions.expression()
        branches = []
        while self._stream.accept("when"):
            condition = self._expressions.expression()
            self._stream.expect("then")
            branches.append((condition, self._expressions.expression()))
        if not branches:
            self._stream.fail()
        default = self._expressions.expression() if self._stream.accept("else") else None
        self._stream.expect("end")
        return Case(operand, tuple(branches), default, at)

    def _array(self, at: int) -> Expression:
        if self._stream.at_mark("("):
            return ArrayQuery(self.query_in_brackets(), at)
        return self._array_items(at)

    def _array_items(self, at: int) -> Expression:
        self._stream.expect_mark("[")
        items: list[Expression] = []
        while not self._stream.at_mark("]"):
            if items:
                self._stream.expect_mark(",")
            if self._stream.at_mark("["):
                raise FeatureNotSupported.of(
                    "an array of more than one dimension", self._stream.token.position
                )
            items.append(self._expressions.expression())
        self._stream.expect_mark("]")
        return ArrayItems(tuple(items), at)

    def _row(self, at: int) -> Expression:
        self._stream.expect_mark("(")
        items = () if self._stream.at_mark(")") else self._expressions.expressions()
        self._stream.expect_mark(")")
        return Row(items, at)

    def _column(self, token: Token) -> Expression:
        if token.kind is Kind.WORD and token.value in RESERVED | TYPE_OR_FUNCTION:
            self._stream.fail()
        parts = [self._stream.label().name]
        while self._stream.accept_mark("."):
            if self._stream.accept_mark("*"):
                return Star(tuple(parts), token.position)
            parts.append(self._stream.label().name)
        return ColumnRef(tuple(parts), token.position)
