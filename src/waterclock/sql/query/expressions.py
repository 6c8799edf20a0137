"""Expressions, by PostgreSQL's precedences.

From loose to tight: OR, AND, NOT, IS, comparison, BETWEEN/IN/LIKE, any other operator, + and -,
* / %, ^, AT TIME ZONE, COLLATE, a sign, subscripts, casts. IS, comparisons and the BETWEEN group do
not associate: `a < b < c` is a syntax error. A prefix operator that is not a sign reaches as far as
an infix one of its kind: `~ a + b` is `~ (a + b)`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.keywords import RESERVED, TYPE_OR_FUNCTION
from waterclock.sql.query.calls import Calls
from waterclock.sql.query.tree import (
    ArrayItems,
    ArrayQuery,
    Between,
    Binary,
    Boolean,
    Call,
    Case,
    Cast,
    Collate,
    ColumnRef,
    Default,
    Distinct,
    Exists,
    Expression,
    In,
    Is,
    Like,
    Logic,
    Logical,
    Not,
    Null,
    Number,
    Parameter,
    Pattern,
    Quantified,
    Query,
    Row,
    Slice,
    SortItem,
    Star,
    String,
    Subquery,
    Subscript,
    Test,
    Unary,
    Window,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind, Token
from waterclock.sql.types import type_name

QUERY_WORDS = ("select", "values", "table", "with")


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
        self._query = query
        self._calls = Calls(stream, self)

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
        ahead = 0
        while True:
            token = self._stream.peek(ahead) if ahead else self._stream.token
            if token.kind is not Kind.OPERATOR or token.value != "(":
                break
            ahead += 1
        return ahead > 0 and token.kind is Kind.WORD and token.value in QUERY_WORDS

    def query_in_brackets(self) -> Query:
        self._stream.expect_mark("(")
        found = self._query()
        self._stream.expect_mark(")")
        return found

    # Operators

    def _from(self, least: Level, *, restricted: bool = False) -> Expression:
        left = self._prefixed(restricted)
        last: Level | None = None
        while True:
            level = self._level(restricted)
            if level is None or level < least:
                return left
            if level == last and level in _NONASSOCIATIVE:
                self._stream.fail(self._stream.token)
            left = self._infix(left, level)
            last = level

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
                return Cast(left, type_name(self._stream), at)
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
        logic = Logic.OR if level is Level.OR else Logic.AND
        at = self._stream.advance().position
        right = self._from(Level(level + 1))
        if isinstance(left, Logical) and left.logic is logic:
            return Logical(logic, (*left.items, right), left.at)
        return Logical(logic, (left, right), at)

    def _is(self, left: Expression) -> Expression:
        token = self._stream.advance()
        if token.value in ("isnull", "notnull"):
            return Is(left, Test.NULL, token.value == "notnull", token.position)
        negated = self._stream.accept("not")
        if self._stream.accept("distinct"):
            self._stream.expect("from")
            right = self._from(Level(Level.IS + 1))
            return Distinct(left, right, negated, token.position)
        if self._stream.at_any("document", "normalized", "nfc", "nfd", "nfkc", "nfkd"):
            what = f"IS {self._stream.token.value.upper()}"
            raise FeatureNotSupported.of(what, token.position)
        test = _TESTS[self._stream.expect_any(*_TESTS)]
        return Is(left, test, negated, token.position)

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
                raise FeatureNotSupported.of("OVERLAPS", at)
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
            query = self._try_query()  # None if it is only the first of a list
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
            return self._primary()
        if token.value in ("+", "-"):
            self._stream.advance()
            return Unary(token.value, self._from(Level.SIGN), token.position)
        if token.value in _NOT_OPERATORS or token.value in _BY_MARK:
            self._stream.fail()
        self._stream.advance()
        operand = self._from(Level.OPERATOR, restricted=restricted)
        return Unary(token.value, operand, token.position)

    def _primary(self) -> Expression:
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
            found = self._try_query()
            if found is not None:
                return Subquery(found, at)
        self._stream.expect_mark("(")
        items = self.expressions()
        self._stream.expect_mark(")")
        inner = items[0] if len(items) == 1 else Row(items, at)
        return self._followed(inner)

    def _try_query(self) -> Query | None:
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
        following = self._stream.peek(ahead + 1)
        if following.kind is Kind.WORD:
            return following.value in (
                *("union", "intersect", "except", "order", "limit", "offset", "fetch", "for"),
            )
        return following.kind is Kind.OPERATOR and following.value == ")"

    def _followed(self, base: Expression) -> Expression:
        """`(row).field`, which only composite values have."""
        if self._stream.at_mark("."):
            raise FeatureNotSupported.of("a field of a row", self._stream.token.position)
        return base

    def _worded(self, token: Token) -> Expression:
        if token.kind is Kind.WORD:
            special = self._special(token)
            if special is not None:
                return special
        if self._calls.is_call():
            return self._calls.call()
        constant = self._calls.try_typed_constant()
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
        return self._calls.try_special(token)

    def _case(self) -> Expression:
        at = self._stream.advance().position
        operand = None if self._stream.at("when") else self.expression()
        branches = []
        while self._stream.accept("when"):
            condition = self.expression()
            self._stream.expect("then")
            branches.append((condition, self.expression()))
        if not branches:
            self._stream.fail()
        default = self.expression() if self._stream.accept("else") else None
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
            items.append(self.expression())
        self._stream.expect_mark("]")
        return ArrayItems(tuple(items), at)

    def _row(self, at: int) -> Expression:
        self._stream.expect_mark("(")
        items = () if self._stream.at_mark(")") else self.expressions()
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
