"""The many constructs of SQL that begin with a key word and are calls written another way.

What PostgreSQL's own parser turns into a call of a function is turned into one here, so that only
one thing has to be understood afterwards. Few of them stay what they are: CAST, COALESCE and those
like it, GROUPING.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.model.pg_types import TIMESTAMP, TIMESTAMPTZ, PgType
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query.casts import cast
from waterclock.sql.query.tree import (
    Call,
    Cast,
    Coalescing,
    Expression,
    Grouping,
    Number,
    String,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind, Token

if TYPE_CHECKING:
    from waterclock.sql.query.expressions import Expressions

_WORDS = frozenset(
    [
        *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
        *("current_role", "current_user", "session_user", "user", "current_catalog"),
    ]
)
_MOMENTS = {"current_timestamp": TIMESTAMPTZ, "localtimestamp": TIMESTAMP}
"""Those that may be rounded to a number of digits."""
_WITH_DIGITS = frozenset(["current_time", "current_timestamp", "localtime", "localtimestamp"])
_COALESCING = frozenset(["coalesce", "greatest", "least", "nullif"])
_TRIMS = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}
_NO_CALLS = frozenset(["treat", "xmlconcat", "xmlelement", "xmlforest", "xmlparse"])
UNICODE_FORMS = ("nfc", "nfd", "nfkc", "nfkd")


class KeywordCalls:
    """Parses such constructs at the place of a stream."""

    def __init__(self, stream: TokenStream, expressions: Expressions) -> None:
        self._stream = stream
        self._expressions = expressions

    def try_call(self, token: Token) -> Expression | None:
        """What begins with a key word and is a call in PostgreSQL's eyes."""
        word, stream = token.value, self._stream
        if word in _WORDS:
            return self._word(token)
        if word == "current_schema" and stream.peek().value != "(":
            stream.advance()
            return Call((word,), (), token.position, is_word=True)
        if stream.peek()[:2] != (Kind.OPERATOR, "("):
            return None
        match word:
            case "cast":
                return self._cast()
            case "extract":
                return self._extract()
            case "position":
                return self._position()
            case "substring":
                return self._substring()
            case "overlay":
                return self._overlay()
            case "trim":
                return self._trim()
            case "grouping":
                stream.advance()
                return Grouping(self._in_brackets(), token.position)
            case _ if word in _COALESCING:
                stream.advance()
                return Coalescing(word, self._in_brackets(), token.position)
            case "normalize":
                return self._normalize()
            case _ if word in _NO_CALLS:
                raise FeatureNotSupported.of(word.upper(), token.position)
        return None

    def _in_brackets(self) -> tuple[Expression, ...]:
        self._stream.expect_mark("(")
        found = self._expressions.expressions()
        self._stream.expect_mark(")")
        return found

    def _word(self, token: Token) -> Expression:
        if token.value == "current_time":
            raise FeatureNotSupported(
                "current_time, which has a time zone, is not supported",
                token.position,
                hint="Use localtime or current_timestamp.",
            )
        self._stream.advance()
        if self._stream.at_mark("("):
            if token.value not in _WITH_DIGITS:
                self._stream.fail()
            return self._with_digits(token)
        return Call((token.value,), (), token.position, is_word=True)

    def _with_digits(self, token: Token) -> Expression:
        """`CURRENT_TIMESTAMP(n)`: the time, rounded to so many digits of its seconds."""
        kind = _MOMENTS.get(token.value)
        [digits] = self._in_brackets()
        if kind is None or not isinstance(digits, Number) or digits.text not in "0123456":
            raise FeatureNotSupported.of(f"{token.value.upper()} with a precision", token.position)
        time = Call((token.value,), (), token.position, is_word=True)
        return Cast(time, PgType(kind.oid, int(digits.text)), token.position)

    def _cast(self) -> Expression:
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        operand = self._expressions.expression()
        stream.expect("as")
        found = cast(stream, operand, at)
        stream.expect_mark(")")
        return found

    def _extract(self) -> Expression:
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        token = stream.token
        if token.kind not in (Kind.WORD, Kind.QUOTED, Kind.STRING):
            stream.fail()
        stream.advance()
        field = String(token.value.lower(), token.position)
        stream.expect("from")
        operand = self._expressions.expression()
        stream.expect_mark(")")
        return Call(("extract",), (field, operand), at)

    def _position(self) -> Expression:
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        wanted = self._expressions.restricted()
        stream.expect("in")
        where = self._expressions.restricted()
        stream.expect_mark(")")
        return Call(("position",), (where, wanted), at)

    def _substring(self) -> Expression:
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        subject = self._expressions.expression()
        start: Expression | None = None
        count: Expression | None = None
        if stream.at_mark(","):
            stream.advance()
            return Call(("substring",), (subject, *self._rest()), at)
        if stream.accept("similar"):
            pattern = self._expressions.expression()
            stream.expect("escape")
            return Call(("substring",), (subject, pattern, *self._rest()), at)
        while stream.at_any("from", "for"):
            if stream.advance().value == "from":
                start = self._expressions.expression()
            else:
                count = self._expressions.expression()
        stream.expect_mark(")")
        if start is None and count is None:
            stream.fail(stream.last)
        first = start if start is not None else Number("1", at)
        return Call(("substring",), (subject, first, *([count] if count is not None else ())), at)

    def _normalize(self) -> Expression:
        """`normalize(text, form)`; the form is a word."""
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        subject = self._expressions.expression()
        form = stream.expect_any(*UNICODE_FORMS) if stream.accept_mark(",") else "nfc"
        stream.expect_mark(")")
        return Call(("normalize",), (subject, String(form, at)), at)

    def _rest(self) -> tuple[Expression, ...]:
        found = self._expressions.expressions()
        self._stream.expect_mark(")")
        return found

    def _overlay(self) -> Expression:
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        subject = self._expressions.expression()
        if stream.accept_mark(","):
            return Call(("overlay",), (subject, *self._rest()), at)
        stream.expect("placing")
        arguments = [subject, self._expressions.expression()]
        stream.expect("from")
        arguments.append(self._expressions.expression())
        if stream.accept("for"):
            arguments.append(self._expressions.expression())
        stream.expect_mark(")")
        return Call(("overlay",), tuple(arguments), at)

    def _trim(self) -> Expression:
        stream = self._stream
        at = stream.advance().position
        stream.expect_mark("(")
        name = _TRIMS[stream.accept_any(*_TRIMS) or "both"]
        if stream.accept("from"):
            return Call((name,), self._rest(), at)
        characters = self._expressions.expression()
        if stream.accept("from"):
            return Call((name,), (*self._rest(), characters), at)
        if stream.accept_mark(","):
            return Call((name,), (characters, *self._rest()), at)
        stream.expect_mark(")")
        return Call((name,), (characters,), at)
