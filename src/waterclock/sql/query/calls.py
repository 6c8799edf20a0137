"""Function calls that are written as such, and what may stand behind one.

That is FILTER, WITHIN GROUP and OVER with its window; and ORDER BY, which a query has as well.
Calls that begin with a key word are not understood here: see `keyword_calls`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.keywords import COLUMN_NAME, RESERVED
from waterclock.sql.query.tree import (
    Call,
    Exclusion,
    Expression,
    Frame,
    FrameBound,
    FrameUnit,
    SortItem,
    Window,
    WindowName,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

if TYPE_CHECKING:
    from waterclock.sql.query.expressions import Expressions


class Calls:
    """Parses calls at the place of a stream."""

    def __init__(self, stream: TokenStream, expressions: Expressions) -> None:
        self._stream = stream
        self._expressions = expressions

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
