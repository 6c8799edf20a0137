"""Queries: SELECT, VALUES, TABLE, WITH and what joins them.

INTERSECT binds tighter than UNION and EXCEPT. What stands behind a set operation, ORDER BY and
LIMIT, belongs to the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from waterclock.sql.budget import Meter
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.keywords import words
from waterclock.sql.lexer import lex
from waterclock.sql.query.expressions import Expressions
from waterclock.sql.query.operands import QUERY_WORDS
from waterclock.sql.query.sources import Sources
from waterclock.sql.query.tree import (
    Body,
    CommonTable,
    Expression,
    GroupElement,
    GroupingKind,
    GroupingSet,
    GroupKeys,
    Lock,
    Number,
    Query,
    Row,
    Select,
    SelectItem,
    SetOperation,
    SetOperator,
    SortItem,
    Star,
    String,
    Table,
    Values,
    Window,
    With,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_NEEDS_AS = words(
    """array as char character create day except fetch filter for from grant group having hour
    intersect into isnull limit minute month notnull offset on order over overlaps precision
    returning second to union varying where window with within without year"""
)
"""Key words that are labels of output columns only behind AS."""
_CHANGES = words("insert update delete merge")
_LOCKS = (("update",), ("no", "key", "update"), ("share",), ("key", "share"))
_SETS = {GroupingKind.ROLLUP: ("rollup",), GroupingKind.CUBE: ("cube",)}
_NOT_EMPTY = words("from where group having window union intersect except order limit offset for")


def parse_query(text: str, meter: Meter | None = None) -> Query:
    """The query that the whole text is. Raises a `SqlFault` with its position in the text."""
    meter = meter or Meter()
    stream = TokenStream(text, lex(text, meter), meter)
    found = Queries(stream).query()
    _expect_end(stream)
    return found


def parse_expression(text: str, meter: Meter | None = None) -> Expression:
    """The expression that the whole text is. Raises a `SqlFault`."""
    meter = meter or Meter()
    tokens = lex(text, meter)
    if len(tokens) == 2:  # most values of an INSERT are one token, and its end
        match tokens[0].kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return Number(tokens[0].value, tokens[0].position)
            case Kind.STRING:
                return String(tokens[0].value, tokens[0].position)
            case _:
                pass
    stream = TokenStream(text, tokens, meter)
    found = Queries(stream).expressions.expression()
    _expect_end(stream)
    return found


def _expect_end(stream: TokenStream) -> None:
    if stream.token.kind is not Kind.END:
        stream.fail(stream.token)


class Queries:
    """Parses queries at the place of a stream."""

    def __init__(self, stream: TokenStream) -> None:
        self._stream = stream
        self.expressions = Expressions(stream, self.query)
        self._sources = Sources(stream, self.expressions)

    def query(self) -> Query:
        """A query, in brackets or not, with all that belongs to it."""
        with self._stream.meter.query():
            return self._query()

    def _query(self) -> Query:
        stream = self._stream
        at = stream.token.position
        with_ = self._with() if stream.at("with") else None
        body = self._set_operation()
        order = self.expressions.order_by()
        locks = self._locks()
        limit, offset, with_ties = self._limits()
        locks += self._locks()
        if with_ is None and not order and limit is None and offset is None:
            if isinstance(body, Query):
                return replace(body, locks=body.locks + locks)
        elif isinstance(body, Query):
            inner = replace(body, locks=body.locks + locks)
            return self._wrapped(inner, at, with_, order, limit, offset, with_ties)
        return Query(body, at, with_, order, limit, offset, with_ties, locks)

    def _wrapped(
        self,
        inner: Query,
        at: int,
        with_: With | None,
        order: tuple[SortItem, ...],
        limit: Expression | None,
        offset: Expression | None,
        with_ties: bool,
    ) -> Query:
        """A query in brackets that something is added to behind them."""
        for clause, ours, theirs in (
            ("ORDER BY", order, inner.order),
            ("LIMIT", limit, inner.limit),
            ("OFFSET", offset, inner.offset),
            ("WITH", with_, inner.with_),
        ):
            if ours and theirs:
                raise SyntaxFault(f"multiple {clause} clauses not allowed", at)
        return Query(
            inner.body,
            at,
            with_ or inner.with_,
            order or inner.order,
            limit or inner.limit,
            offset or inner.offset,
            with_ties or inner.with_ties,
            inner.locks,
        )

    # WITH

    def _with(self) -> With:
        stream = self._stream
        at = stream.advance().position
        if stream.at("mutually"):
            raise FeatureNotSupported.of("WITH MUTUALLY RECURSIVE", stream.token.position)
        is_recursive = stream.accept("recursive")
        tables = [self._common_table()]
        while stream.accept_mark(","):
            tables.append(self._common_table())
        return With(tuple(tables), is_recursive, at)

    def _common_table(self) -> CommonTable:
        stream = self._stream
        name = stream.identifier()
        columns: tuple[str, ...] = ()
        if stream.at_mark("("):
            columns = tuple(each.name for each in stream.identifiers())
        stream.expect("as")
        if stream.accept("not"):
            stream.expect("materialized")
        else:
            stream.accept("materialized")
        following = stream.peek()
        if following.kind is Kind.WORD and following.value in _CHANGES:
            what = "WITH clause containing a data-modifying statement must be at the top level"
            raise FeatureNotSupported(what, following.position)
        inner = self.expressions.query_in_brackets()
        if stream.at_any("search", "cycle"):
            what = f"{stream.token.value.upper()} in WITH"
            raise FeatureNotSupported.of(what, stream.token.position)
        return CommonTable(name.name, columns, inner, name.position)

    # What is behind a query

    def _limits(self) -> tuple[Expression | None, Expression | None, bool]:
        stream = self._stream
        limit: Expression | None = None
        offset: Expression | None = None
        with_ties = False
        while True:
            at = stream.token.position
            if stream.accept("limit"):
                _once(limit is None, "LIMIT", at)
                if stream.accept("all"):
                    continue
                limit = self.expressions.expression()
                if stream.at_mark(","):
                    raise SyntaxFault(
                        "LIMIT #,# syntax is not supported",
                        stream.token.position,
                        hint="Use separate LIMIT and OFFSET clauses.",
                    )
            elif stream.accept("offset"):
                _once(offset is None, "OFFSET", at)
                offset = self.expressions.expression()
                stream.accept_any("row", "rows")
            elif stream.accept("fetch"):
                _once(limit is None, "LIMIT", at)
                limit, with_ties = self._fetch()
            else:
                return limit, offset, with_ties

    def _locks(self) -> tuple[Lock, ...]:
        """`FOR UPDATE`, `FOR SHARE` and the like, as many as follow."""
        stream = self._stream
        found: list[Lock] = []
        while stream.at("for"):
            at = stream.advance().position
            if stream.accept("read", "only"):
                continue
            words = next((each for each in _LOCKS if stream.accept(*each)), None)
            if words is None:
                stream.fail()
            names = [stream.identifier()] if stream.accept("of") else []
            while names and stream.accept_mark(","):
                names.append(stream.identifier())
            if stream.at("nowait") or stream.at("skip"):
                what = f"{stream.token.value.upper()} of locked rows"
                raise FeatureNotSupported(
                    f"{what} is not supported",
                    stream.token.position,
                    hint="Transactions are serializable; one of two that conflict fails.",
                )
            relations = tuple((name.name, name.position) for name in names)
            found.append(Lock(f"FOR {' '.join(words).upper()}", relations, at))
        return tuple(found)

    def _fetch(self) -> tuple[Expression, bool]:
        stream = self._stream
        stream.expect_any("first", "next")
        at = stream.token.position
        count: Expression = Number("1", at)
        if not stream.at_any("row", "rows"):
            count = self.expressions.operand()
        stream.expect_any("row", "rows")
        if stream.accept("with"):
            stream.expect("ties")
            return count, True
        stream.expect("only")
        return count, False

    # Set operations

    def _set_operation(self) -> Body | Query:
        left = self._intersection()
        length = 0
        while self._stream.at_any("union", "except"):
            length += 1
            self._stream.meter.check_chain(length)
            left = self._joined(left, self._intersection)
        return left

    def _intersection(self) -> Body | Query:
        left = self._simple()
        length = 0
        while self._stream.at("intersect"):
            length += 1
            self._stream.meter.check_chain(length)
            left = self._joined(left, self._simple)
        return left

    def _joined(self, left: Body | Query, right_side: Callable[[], Body | Query]) -> Body:
        token = self._stream.advance()
        operator = SetOperator(token.value.upper())
        is_all = self._stream.accept("all")
        if not is_all:
            self._stream.accept("distinct")
        return SetOperation(
            operator, is_all, _as_query(left), _as_query(right_side()), token.position
        )

    def _simple(self) -> Body | Query:
        stream = self._stream
        token = stream.token
        if stream.at_mark("("):
            return self.expressions.query_in_brackets()
        match stream.accept_any(*QUERY_WORDS[:3]):
            case "select":
                return self._select(token.position)
            case "values":
                return self._values(token.position)
            case "table":
                stream.accept("only")
                name = stream.object_name()
                star = SelectItem(Star((), token.position), None, token.position)
                source = Table(name.parts, None, name.position)
                return Select((star,), (source,), None, None, False, None, (), None, token.position)
        raise stream.fault()

    def _values(self, at: int) -> Values:
        rows = [self._value_row()]
        while self._stream.accept_mark(","):
            rows.append(self._value_row())
        return Values(tuple(rows), at)

    def _value_row(self) -> tuple[Expression, ...]:
        self._stream.expect_mark("(")
        found = self.expressions.expressions()
        self._stream.expect_mark(")")
        return found

    # SELECT

    def _select(self, at: int) -> Select:
        stream = self._stream
        distinct_on = self._distinct()
        items = self._items()
        if distinct_on is not None and not items:
            stream.fail()
        if stream.at("into"):
            raise FeatureNotSupported.of("SELECT INTO", stream.token.position)
        sources = self._sources.sources() if stream.accept("from") else ()
        where = self.expressions.expression() if stream.accept("where") else None
        group_by, group_distinct = self._group_by()
        having = self.expressions.expression() if stream.accept("having") else None
        windows = self._windows()
        return Select(
            items, sources, where, group_by, group_distinct, having, windows, distinct_on, at
        )

    def _distinct(self) -> tuple[Expression, ...] | None:
        stream = self._stream
        if stream.accept("all"):
            return None
        if not stream.accept("distinct"):
            return None
        if not stream.accept("on"):
            return ()
        stream.expect_mark("(")
        keys = self.expressions.expressions()
        stream.expect_mark(")")
        return keys

    def _items(self) -> tuple[SelectItem, ...]:
        token = self._stream.token
        ends = token.kind in (Kind.END,) or (token.kind is Kind.WORD and token.value in _NOT_EMPTY)
        if ends or self._stream.at_mark(")"):
            return ()
        items = [self._item()]
        while self._stream.accept_mark(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> SelectItem:
        stream, at = self._stream, self._stream.token.position
        expression = self.expressions.expression()
        label: str | None = None
        if stream.accept("as") or self._at_bare_label():
            label = stream.label().name
        return SelectItem(expression, label, at)

    def _at_bare_label(self) -> bool:
        token = self._stream.token
        if token.kind is Kind.WORD:
            return token.value not in _NEEDS_AS
        return token.kind is Kind.QUOTED

    def _group_by(self) -> tuple[tuple[GroupElement, ...] | None, bool]:
        stream = self._stream
        if not stream.accept("group"):
            return None, False
        stream.expect("by")
        is_distinct = stream.accept("distinct")
        if not is_distinct:
            stream.accept("all")
        return self._group_elements(), is_distinct

    def _group_elements(self) -> tuple[GroupElement, ...]:
        found = [self._group_element()]
        while self._stream.accept_mark(","):
            found.append(self._group_element())
        return tuple(found)

    def _group_element(self) -> GroupElement:
        stream = self._stream
        at = stream.token.position
        for kind, opening in _SETS.items():
            if stream.at(*opening) and stream.peek().value == "(":
                stream.advance()
                stream.expect_mark("(")
                elements = self._group_elements()
                stream.expect_mark(")")
                return GroupingSet(kind, elements, at)
        if stream.at("grouping", "sets"):
            stream.expect("grouping", "sets")
            stream.expect_mark("(")
            elements = self._group_elements()
            stream.expect_mark(")")
            return GroupingSet(GroupingKind.SETS, elements, at)
        if stream.at_mark("(") and stream.peek().value == ")":
            stream.advance()
            stream.advance()
            return GroupKeys((), at)
        return self._group_keys(at)

    def _group_keys(self, at: int) -> GroupKeys:
        found = self.expressions.expression()
        if isinstance(found, Row):
            return GroupKeys(found.items, at)
        return GroupKeys((found,), at)

    def _windows(self) -> tuple[tuple[str, Window], ...]:
        stream = self._stream
        if not stream.accept("window"):
            return ()
        found = [self._named_window()]
        while stream.accept_mark(","):
            found.append(self._named_window())
        return tuple(found)

    def _named_window(self) -> tuple[str, Window]:
        name = self._stream.identifier().name
        self._stream.expect("as")
        return name, self.expressions.window()


def _once(is_first: bool, clause: str, at: int) -> None:
    if not is_first:
        raise SyntaxFault(f"multiple {clause} clauses not allowed", at)


def _as_query(body: Body | Query) -> Query:
    return body if isinstance(body, Query) else Query(body, body.at)
