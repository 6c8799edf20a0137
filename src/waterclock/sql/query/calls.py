"""Function calls, and the many constructs of SQL that are calls written another way.

What PostgreSQL's own parser turns into a call of a function is turned into one here, so that only
one thing has to be understood afterwards.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import TIMESTAMP, TIMESTAMPTZ, PgType
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.keywords import COLUMN_NAME, RESERVED
from waterclock.sql.query.casts import cast
from waterclock.sql.query.tree import (
    Call,
    Cast,
    Coalescing,
    Exclusion,
    Expression,
    Frame,
    FrameBound,
    FrameUnit,
    Grouping,
    Number,
    SortItem,
    String,
    Window,
    WindowName,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind, Token
from waterclock.sql.types import type_name_of_value

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
_TYPE_WORDS = frozenset(
    [
        *("bigint", "bit", "boolean", "char", "character", "dec", "decimal", "double", "float"),
        *("int", "integer", "interval", "national", "nchar", "numeric", "real", "smallint"),
        *("time", "timestamp", "varchar"),
    ]
)
_INTERVAL_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_SECONDS = r"\d+(?:\.\d*)?"
_OF_FIELDS = {
    ("year", "month"): (r"(-?\d+-\d+)", r"\1"),
    ("day", "hour"): (r"(\d+) (\d+)", r"\1 days \2 hours"),
    ("day", "minute"): (r"(\d+) (\d+:\d+)", r"\1 days \2"),
    ("day", "second"): (rf"(\d+) (\d+:\d+:{_SECONDS})", r"\1 days \2"),
    ("hour", "minute"): (r"(-?\d+:\d+)", r"\1"),
    ("hour", "second"): (rf"(-?\d+:\d+:{_SECONDS})", r"\1"),
    ("minute", "second"): (rf"(\d+):({_SECONDS})", r"\1 minutes \2 seconds"),
}
"""How constants of several fields are written, and what they are without naming them."""
_TRIMS = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}
_NO_CALLS = frozenset(["treat", "xmlconcat", "xmlelement", "xmlforest", "xmlparse"])
UNICODE_FORMS = ("nfc", "nfd", "nfkc", "nfkd")


class Calls:
    """Parses calls at the place of a stream."""

    def __init__(self, stream: TokenStream, expressions: Expressions) -> None:
        self._stream = stream
        self._expressions = expressions

    # Which kind

    def is_call(self) -> bool:
        """Whether a function's name and a bracket follow."""
        stream, ahead = self._stream, 0
        token = stream.token
        if token.kind is Kind.WORD and token.value in RESERVED | COLUMN_NAME:
            return False
        while stream.peek(ahead + 1)[:2] == (Kind.OPERATOR, "."):
            ahead += 2
            if stream.peek(ahead).kind not in (Kind.WORD, Kind.QUOTED):
                return False
        return stream.peek(ahead + 1)[:2] == (Kind.OPERATOR, "(")

    def try_special(self, token: Token) -> Expression | None:
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

    def try_typed_constant(self) -> Expression | None:
        """`date '2020-01-01'`, `interval '1' day`, `timestamp with time zone '...'`."""
        stream, first = self._stream, self._stream.index
        token = stream.token
        is_type_word = token.kind is Kind.WORD and token.value in _TYPE_WORDS
        if not is_type_word and stream.peek().kind is not Kind.STRING:
            return None
        try:
            found = type_name_of_value(stream)
        except SyntaxFault:
            stream.back_to(first)
            return None
        if stream.token.kind is not Kind.STRING:
            stream.back_to(first)
            return None
        constant = stream.advance()
        text = constant.value
        if is_type_word and token.value == "interval" and stream.at_any(*_INTERVAL_FIELDS):
            text = self._of_field(text, constant)
        return Cast(String(text, constant.position), found, token.position)

    def _of_field(self, text: str, constant: Token) -> str:
        """`interval '3' day`, `interval '1-2' year to month`: a constant of just these fields."""
        first = last = self._stream.advance().value
        if self._stream.accept("to"):
            last = self._stream.expect_any(*_INTERVAL_FIELDS)
        if last == "second" and self._stream.accept_mark("("):
            self._stream.integer()
            self._stream.expect_mark(")")
        is_number = text.strip().removeprefix("-").replace(".", "", 1).isdigit()
        if is_number:
            return f"{text} {last}"
        form = _OF_FIELDS.get((first, last))
        found = None if form is None else re.fullmatch(form[0], text.strip())
        if form is None or found is None:
            what = "an interval of some fields only"
            raise FeatureNotSupported.of(what, constant.position)
        return found.expand(form[1])

    # Calls that are written as such

    def call(self) -> Expression:
        stream = self._stream
        at = stream.token.position
        name = [stream.label().name]
        while stream.accept_mark("."):
            name.append(stream.label().name)
        stream.expect_mark("(")
        call = self._arguments(tuple(name), at)
        within = self._within(call)
        condition = None
        if stream.at("filter") and stream.peek().value == "(":
            stream.advance()
            stream.expect_mark("(")
            stream.expect("where")
            condition = self._expressions.expression()
            stream.expect_mark(")")
        over = self._over()
        return replace(call, within=within, filter=condition, over=over)

    def _arguments(self, name: tuple[str, ...], at: int) -> Call:
        stream = self._stream
        if stream.accept_mark("*"):
            stream.expect_mark(")")
            return Call(name, (), at, is_star=True)
        if stream.accept_mark(")"):
            return Call(name, (), at)
        is_distinct = stream.accept("distinct")
        if not is_distinct:
            stream.accept("all")
        arguments: list[Expression] = []
        names: list[str] = []
        is_variadic = False
        while True:
            is_variadic = stream.accept("variadic")
            self._named(names)
            arguments.append(self._expressions.expression())
            if is_variadic or not stream.accept_mark(","):
                break
        order = self.order_by()
        stream.expect_mark(")")
        return Call(
            name,
            tuple(arguments),
            at,
            is_distinct=is_distinct,
            is_variadic=is_variadic,
            order=order,
            names=tuple(names),
        )

    def _named(self, names: list[str]) -> None:
        """Take the name of the argument that follows, if it is given by name."""
        following = self._stream.peek()
        if following.kind is Kind.OPERATOR and following.value in ("=>", ":="):
            name = self._stream.label()
            self._stream.advance()
            if name.name in names:
                message = f'argument name "{name.name}" used more than once'
                raise SyntaxFault(message, name.position)
            names.append(name.name)
        elif names:
            message = "positional argument cannot follow named argument"
            raise SyntaxFault(message, self._stream.token.position)

    def _within(self, call: Call) -> tuple[SortItem, ...] | None:
        if not self._stream.accept("within"):
            return None
        self._stream.expect("group")
        self._stream.expect_mark("(")
        order = self.order_by()
        if not order:
            self._stream.fail()
        self._stream.expect_mark(")")
        if call.order or call.is_distinct:
            raise SyntaxFault("cannot use DISTINCT or ORDER BY with WITHIN GROUP", call.at)
        return order

    def order_by(self) -> tuple[SortItem, ...]:
        """`ORDER BY ...`, if it follows."""
        stream = self._stream
        if not stream.accept("order"):
            return ()
        stream.expect("by")
        found = [self._sort_item()]
        while stream.accept_mark(","):
            found.append(self._sort_item())
        return tuple(found)

    def _sort_item(self) -> SortItem:
        stream, at = self._stream, self._stream.token.position
        expression = self._expressions.expression()
        descending = False
        if stream.accept("using"):
            operator = stream.advance()
            if operator.value not in ("<", ">"):
                raise FeatureNotSupported.of(f"ORDER BY USING {operator.value}", operator.position)
            descending = operator.value == ">"
        elif stream.accept_any("asc", "desc") == "desc":
            descending = True
        nulls_first: bool | None = None
        if stream.accept("nulls"):
            nulls_first = stream.expect_any("first", "last") == "first"
        return SortItem(expression, descending, nulls_first, at)

    # Windows

    def _over(self) -> Window | WindowName | None:
        stream = self._stream
        if not stream.at("over"):
            return None
        stream.advance()
        if not stream.at_mark("("):
            name = stream.identifier()
            return WindowName(name.name, name.position)
        return self.window()

    def window(self) -> Window:
        """`( [name] [PARTITION BY ...] [ORDER BY ...] [frame] )`."""
        stream = self._stream
        at = stream.expect_mark("(").position
        base = None
        if stream.at_name() and not stream.at_any("partition", "range", "rows", "groups"):
            base = stream.identifier().name
        partition: tuple[Expression, ...] = ()
        if stream.accept("partition"):
            stream.expect("by")
            partition = self._expressions.expressions()
        order = self.order_by()
        frame = self._frame() if stream.at_any("range", "rows", "groups") else None
        stream.expect_mark(")")
        return Window(base, partition, order, frame, at)

    def _frame(self) -> Frame:
        stream, at = self._stream, self._stream.token.position
        unit = FrameUnit(stream.advance().value.upper())
        if stream.accept("between"):
            start = self._bound()
            stream.expect("and")
            end = self._bound()
        else:
            start = self._bound()
            end = FrameBound("current row", None, at)
        return Frame(unit, start, end, at, self._exclusion())

    def _exclusion(self) -> Exclusion | None:
        """`EXCLUDE ...` behind a frame, if it follows."""
        stream = self._stream
        if not stream.accept("exclude") or stream.accept("no", "others"):
            return None
        if stream.accept("current", "row"):
            return Exclusion.CURRENT_ROW
        return Exclusion(stream.expect_any("group", "ties").upper())

    def _bound(self) -> FrameBound:
        stream, at = self._stream, self._stream.token.position
        if stream.accept("unbounded"):
            way = stream.expect_any("preceding", "following")
            return FrameBound(f"unbounded {way}", None, at)
        if stream.accept("current", "row"):
            return FrameBound("current row", None, at)
        offset = self._expressions.expression()
        return FrameBound(stream.expect_any("preceding", "following"), offset, at)

    # Calls that are written otherwise

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
