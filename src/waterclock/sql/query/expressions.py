"""Expressions, by PostgreSQL's precedences.

From loose to tight: OR, AND, NOT, IS, comparison, BETWEEN/IN/LIKE, any other operator, + and -,
* / %, ^, AT TIME ZONE, COLLATE, a sign, subscripts, casts. IS, comparisons and the BETWEEN group do
not associate: `a < b < c` is a syntax error. A prefix operator that is not a sign binds like
an infix one of its kind: `~ a + b` is `~ (a + b)`, and `~ a & b` is `(~ a) & b`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query.calls import Calls
from waterclock.sql.query.casts import cast
from waterclock.sql.query.keyword_calls import UNICODE_FORMS
from waterclock.sql.query.operands import Operands
from waterclock.sql.query.tree import (
    Between,
    Binary,
    Call,
    Collate,
    Distinct,
    Expression,
    In,
    Is,
    Like,
    Logic,
    Logical,
    Not,
    Pattern,
    Quantified,
    Query,
    Row,
    Slice,
    SortItem,
    String,
    Subscript,
    Test,
    Unary,
    Window,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind


class Level(IntEnum):
    """How tight an operator binds."""

    LOWEST = 0
    OR = 1
    AND = 2
    NOT = 3
    IS = 4
    COMPARISON = 5
    PATTERN = 6
    OPERATOR = 7
    ADDITIVE = 8
    MULTIPLICATIVE = 9
    POWER = 10
    ZONE = 11
    COLLATE = 12
    SIGN = 13
    SUBSCRIPT = 14
    CAST = 15


_BY_MARK = {
    **dict.fromkeys(("<", ">", "=", "<=", ">=", "<>", "!="), Level.COMPARISON),
    **dict.fromkeys(("+", "-"), Level.ADDITIVE),
    **dict.fromkeys(("*", "/", "%"), Level.MULTIPLICATIVE),
    "^": Level.POWER,
    "[": Level.SUBSCRIPT,
    "::": Level.CAST,
}
_BY_WORD = {
    "or": Level.OR,
    "and": Level.AND,
    **dict.fromkeys(("is", "isnull", "notnull"), Level.IS),
    **dict.fromkeys(("between", "in", "like", "ilike", "similar", "overlaps"), Level.PATTERN),
    "operator": Level.OPERATOR,
    "at": Level.ZONE,
    "collate": Level.COLLATE,
}
_NONASSOCIATIVE = (Level.IS, Level.COMPARISON, Level.PATTERN)
_NOT_OPERATORS = frozenset(["(", ")", ",", "]", ".", "..", ";", ":", ":=", "=>"])
_PATTERNS = {"like": Pattern.LIKE, "ilike": Pattern.ILIKE, "similar": Pattern.SIMILAR}
_TESTS = {"null": Test.NULL, "true": Test.TRUE, "false": Test.FALSE, "unknown": Test.UNKNOWN}


class Expressions:
    """Parses expressions at the place of a stream. `query` parses a query there."""

    def __init__(self, stream: TokenStream, query: Callable[[], Query]) -> None:
        self._stream = stream
        self._meter = stream.meter
        self._calls = Calls(stream, self)
        self._operands = Operands(stream, query, self, self._calls)

    def expression(self) -> Expression:
        return self._from(Level.LOWEST)

    def expressions(self) -> tuple[Expression, ...]:
        """One or more, with commas between."""
        found = [self.expression()]
        while self._stream.accept_mark(","):
            found.append(self.expression())
        return tuple(found)

    def restricted(self) -> Expression:
        """One without AND, OR, NOT, IN, LIKE and BETWEEN, which would be ambiguous where it is."""
        return self._from(Level.IS, restricted=True)

    def operand(self) -> Expression:
        """One without operators, except for a sign."""
        return self._from(Level.SIGN)

    def order_by(self) -> tuple[SortItem, ...]:
        return self._calls.order_by()

    def window(self) -> Window:
        return self._calls.window()

    def at_call(self) -> bool:
        """Whether a function call follows."""
        return self._calls.is_call()

    def call(self) -> Expression:
        return self._calls.call()

    def at_query(self) -> bool:
        """Whether a query in brackets follows, however many brackets."""
        return self._operands.at_query()

    def query_in_brackets(self) -> Query:
        return self._operands.query_in_brackets()

    # Operators

    def _from(self, least: Level, *, restricted: bool = False) -> Expression:
        self._meter.enter()
        try:
            return self._climbing(least, restricted)
        finally:
            self._meter.leave()

    def _climbing(self, least: Level, restricted: bool) -> Expression:
        left = self._prefixed(restricted)
        last: Level | None = None
        length = 0
        while True:
            level = self._level(restricted)
            if level is None or level < least:
                return left
            if level == last and level in _NONASSOCIATIVE:
                self._stream.fail(self._stream.token)
            left = self._infix(left, level)
            last = level
            if level is not Level.OR and level is not Level.AND:  # those are one node
                length += 1
                self._meter.check_chain(length)

    def _level(self, restricted: bool) -> Level | None:
        token = self._stream.token
        if token.kind is Kind.OPERATOR:
            if token.value in _NOT_OPERATORS:
                return None
            return _BY_MARK.get(token.value, Level.OPERATOR)
        if token.kind is not Kind.WORD:
            return None
        level = _BY_WORD.get(token.value)
        match token.value:
            case "not" if not restricted:
                following = self._stream.peek().value
                return Level.PATTERN if following in ("between", "in", *_PATTERNS) else None
            case "at" if not self._stream.at("at", "time"):
                return None
            case "similar" if self._stream.peek().value != "to":
                return None
            case "operator" if self._stream.peek().value != "(":
                return None
            case "is" if restricted and self._stream.peek().value not in ("distinct", "not"):
                return None
            case _ if restricted and level in (Level.OR, Level.AND, Level.PATTERN):
                return None
        return level

    def _infix(self, left: Expression, level: Level) -> Expression:
        token = self._stream.token
        at = token.position
        match level:
            case Level.OR | Level.AND:
                return self._logical(left, level)
            case Level.IS:
                return self._is(left)
            case Level.PATTERN:
                return self._patterned(left)
            case Level.ZONE:
                self._stream.expect("at", "time", "zone")
                zone = self._from(Level(Level.ZONE + 1))
                return Call(("timezone",), (zone, left), at)
            case Level.COLLATE:
                self._stream.advance()
                return Collate(left, self._stream.object_name().parts, at)
            case Level.SUBSCRIPT:
                return self._subscripted(left)
            case Level.CAST:
                self._stream.advance()
                return cast(self._stream, left, at)
            case _:
                return self._binary(left, level)

    def _binary(self, left: Expression, level: Level) -> Expression:
        at = self._stream.token.position
        operator = self._operator()
        if self._stream.at_any("any", "some", "all"):
            return self._quantified(left, operator, at)
        return Binary(operator, left, self._from(Level(level + 1)), at)

    def _operator(self) -> str:
        """The operator here, perhaps as `OPERATOR(schema.op)`."""
        if not self._stream.at("operator"):
            value = self._stream.advance().value
            return "<>" if value == "!=" else value
        self._stream.advance()
        self._stream.expect_mark("(")
        schema = None
        while self._stream.token.kind in (Kind.WORD, Kind.QUOTED):
            schema = self._stream.label()
            self._stream.expect_mark(".")
        if self._stream.token.kind is not Kind.OPERATOR:
            self._stream.fail()
        value = self._stream.advance().value
        if schema is not None and schema.name != "pg_catalog":
            raise FeatureNotSupported.of(f"an operator of schema {schema.name}", schema.position)
        self._stream.expect_mark(")")
        return value

    def _quantified(self, left: Expression, operator: str, at: int) -> Expression:
        is_all = self._stream.advance().value == "all"
        right: Expression | Query
        if self.at_query():
            right = self.query_in_brackets()
        else:
            self._stream.expect_mark("(")
            right = self.expression()
            self._stream.expect_mark(")")
        return Quantified(left, operator, is_all, right, at)

    def _logical(self, left: Expression, level: Level) -> Expression:
        """All operands of a run of the same word, as one node."""
        logic = Logic.OR if level is Level.OR else Logic.AND
        word, at = self._stream.token.value, self._stream.token.position
        items = [left]
        if isinstance(left, Logical) and left.logic is logic:
            items, at = [*left.items], left.at
        while self._stream.accept(word):
            items.append(self._from(Level(level + 1)))
        return Logical(logic, tuple(items), at)

    def _is(self, left: Expression) -> Expression:
        token = self._stream.advance()
        if token.value in ("isnull", "notnull"):
            return Is(left, Test.NULL, token.value == "notnull", token.position)
        negated = self._stream.accept("not")
        if self._stream.accept("distinct"):
            self._stream.expect("from")
            right = self._from(Level(Level.IS + 1))
            return Distinct(left, right, negated, token.position)
        form = self._stream.accept_any(*UNICODE_FORMS)
        if form is not None or self._stream.at("normalized"):
            self._stream.expect("normalized")
            return self._is_normalized(left, form or "nfc", negated, token.position)
        if self._stream.at("document"):
            what = f"IS {self._stream.token.value.upper()}"
            raise FeatureNotSupported.of(what, token.position)
        test = _TESTS[self._stream.expect_any(*_TESTS)]
        return Is(left, test, negated, token.position)

    def _is_normalized(self, left: Expression, form: str, negated: bool, at: int) -> Expression:
        found = Call(("is_normalized",), (left, String(form, at)), at)
        return Not(found, at) if negated else found

    def _patterned(self, left: Expression) -> Expression:
        at = self._stream.token.position
        negated = self._stream.accept("not")
        word = self._stream.advance().value
        match word:
            case "between":
                return self._between(left, negated, at)
            case "in":
                return self._in(left, negated, at)
            case "overlaps":
                return self._overlaps(left, at)
        kind = _PATTERNS[word]
        if kind is Pattern.SIMILAR:
            self._stream.expect("to")
        if self._stream.at_any("any", "some", "all"):
            operator = "!" + kind.value if negated else kind.value
            return self._quantified(left, operator, at)
        pattern = self._from(Level(Level.PATTERN + 1))
        escape = None
        if self._stream.accept("escape"):
            escape = self._from(Level(Level.PATTERN + 1))
        return Like(left, pattern, escape, kind, negated, at)

    def _overlaps(self, left: Expression, at: int) -> Expression:
        """`(start, end) OVERLAPS (start, end)` is a call of a function of four arguments."""
        right = self._from(Level(Level.PATTERN + 1))
        for side, operand in (("left", left), ("right", right)):
            if not isinstance(operand, Row):
                self._stream.fail()
            if len(operand.items) != 2:
                message = f"wrong number of parameters on {side} side of OVERLAPS expression"
                raise SyntaxFault(message, operand.at)
        assert isinstance(left, Row)
        assert isinstance(right, Row)
        return Call(("overlaps",), (*left.items, *right.items), at)

    def _between(self, left: Expression, negated: bool, at: int) -> Expression:
        symmetric = self._stream.accept("symmetric")
        if not symmetric:
            self._stream.accept("asymmetric")
        low = self.restricted()
        self._stream.expect("and")
        high = self._from(Level(Level.PATTERN + 1))
        return Between(left, low, high, negated, symmetric, at)

    def _in(self, left: Expression, negated: bool, at: int) -> Expression:
        if self.at_query():
            query = self._operands.try_query()  # None if it is only the first of a list
            if query is not None:
                return In(left, query, negated, at)
        self._stream.expect_mark("(")
        items = self.expressions()
        self._stream.expect_mark(")")
        return In(left, items, negated, at)

    def _subscripted(self, base: Expression) -> Expression:
        at = self._stream.expect_mark("[").position
        low: Expression | None = None
        if not self._stream.at_mark(":"):
            low = self.expression()
        if self._stream.accept_mark(":"):
            high = None if self._stream.at_mark("]") else self.expression()
            self._stream.expect_mark("]")
            return Slice(base, low, high, at)
        self._stream.expect_mark("]")
        assert low is not None
        return Subscript(base, low, at)

    # Operands

    def _prefixed(self, restricted: bool) -> Expression:
        token = self._stream.token
        if token.kind is Kind.WORD and token.value == "not" and not restricted:
            self._stream.advance()
            return Not(self._from(Level.NOT), token.position)
        if token.kind is not Kind.OPERATOR or token.value in ("(", "*"):
            return self._operands.primary()
        if token.value in ("+", "-"):
            self._stream.advance()
            return Unary(token.value, self._from(Level.SIGN), token.position)
        if token.value in _NOT_OPERATORS or token.value in _BY_MARK:
            self._stream.fail()
        self._stream.advance()
        operand = self._from(Level.ADDITIVE, restricted=restricted)
        return Unary(token.value, operand, token.position)
