"""FROM: relations, queries, functions, and joins of them."""

from __future__ import annotations

from waterclock.model.pg_types import PgType
from waterclock.sql.ast.common import Identifier
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query.expressions import Expressions
from waterclock.sql.query.operands import QUERY_WORDS
from waterclock.sql.query.tree import (
    Alias,
    Derived,
    Expression,
    FromItem,
    FunctionTable,
    Join,
    JoinKind,
    Query,
    Select,
    SelectItem,
    Star,
    Table,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind
from waterclock.sql.types import type_name

_KINDS = {"inner": JoinKind.INNER, "left": JoinKind.LEFT, "right": JoinKind.RIGHT}
_KINDS["full"] = JoinKind.FULL
_JOINS = ("join", "cross", "natural", *_KINDS)


class Sources:
    """Parses FROM lists at the place of a stream."""

    def __init__(self, stream: TokenStream, expressions: Expressions) -> None:
        self._stream = stream
        self._expressions = expressions

    def sources(self) -> tuple[FromItem, ...]:
        found = [self._joined()]
        while self._stream.accept_mark(","):
            found.append(self._joined())
        return tuple(found)

    def _joined(self) -> FromItem:
        left = self._single()
        length = 0
        with self._stream.meter.level():
            while self._stream.at_any(*_JOINS):
                length += 1
                self._stream.meter.check_chain(length)
                left = self._join(left)
        return left

    def _join(self, left: FromItem) -> FromItem:
        stream, at = self._stream, self._stream.token.position
        if stream.accept("cross"):
            stream.expect("join")
            right = self._single()
            return Join(JoinKind.CROSS, left, right, None, None, False, None, at)
        is_natural = stream.accept("natural")
        word = stream.accept_any(*_KINDS)
        kind = JoinKind.INNER if word is None else _KINDS[word]
        if kind is not JoinKind.INNER:
            stream.accept("outer")
        stream.expect("join")
        right = self._single()
        if is_natural:
            return Join(kind, left, right, None, None, True, None, at)
        with stream.meter.level():
            while stream.at_any(*_JOINS):  # `a JOIN b JOIN c ON .. ON ..`
                right = self._join(right)
        return self._qualified(kind, left, right, at)

    def _qualified(self, kind: JoinKind, left: FromItem, right: FromItem, at: int) -> Join:
        stream = self._stream
        if stream.accept("on"):
            condition = self._expressions.expression()
            return Join(kind, left, right, condition, None, False, None, at)
        stream.expect("using")
        using = tuple((each.name, each.position) for each in stream.identifiers())
        alias = None
        if stream.accept("as"):
            name = stream.identifier()
            alias = Alias(name.name, (), name.position)
        return Join(kind, left, right, None, using, False, alias, at)

    def _single(self) -> FromItem:
        stream, at = self._stream, self._stream.token.position
        is_lateral = stream.accept("lateral")
        if stream.at_mark("("):
            if self._expressions.at_query() and self._is_derived():
                query = self._expressions.query_in_brackets()
                return Derived(query, self._alias(), is_lateral, at)
            if is_lateral:
                stream.fail()
            return self._bracketed()
        if stream.at("rows") and stream.peek().value == "from":
            return self._rows_from(at)
        if stream.at("xmltable"):
            raise FeatureNotSupported.of("XMLTABLE", at)
        if self._expressions.at_call():
            return self._function(at)
        if is_lateral:
            stream.fail()
        return self._table()

    def _is_derived(self) -> bool:
        """Whether the brackets hold a query, and not a join that begins with one."""
        depth, ahead = 0, 0
        stream = self._stream
        if stream.peek().kind is Kind.WORD and stream.peek().value in QUERY_WORDS:
            return True
        # `((SELECT ...) ...`: the inner brackets end, and then a query goes on or an alias comes.
        while True:
            token = stream.peek(ahead) if ahead else stream.token
            if token.kind in (Kind.END, Kind.FAULT):
                return True
            if token.kind is Kind.OPERATOR and token.value in ("(", ")"):
                depth += 1 if token.value == "(" else -1
                if depth == 1 and token.value == ")":
                    break
            ahead += 1
        following = stream.peek(ahead + 1)
        goes_on = ("union", "intersect", "except", "order", "limit", "offset", "fetch")
        return following.value == ")" or following.value in goes_on

    def _bracketed(self) -> FromItem:
        """A join in brackets; with an alias it is a query of all its columns."""
        stream = self._stream
        stream.expect_mark("(")
        inner = self._joined()
        stream.expect_mark(")")
        alias = self._alias()
        if alias is None:
            return inner
        if not isinstance(inner, Join):
            stream.fail(stream.last)
        at = inner.at
        every = SelectItem(Star((), at), None, at)
        select = Select((every,), (inner,), None, None, False, None, (), None, at)
        return Derived(Query(select, at), alias, False, at)

    def _rows_from(self, at: int) -> FunctionTable:
        stream = self._stream
        stream.expect("rows", "from")
        stream.expect_mark("(")
        calls: list[Expression] = [self._expressions.call()]
        while stream.accept_mark(","):
            calls.append(self._expressions.call())
        stream.expect_mark(")")
        return self._functions(tuple(calls), at)

    def _function(self, at: int) -> FunctionTable:
        return self._functions((self._expressions.call(),), at)

    def _functions(self, calls: tuple[Expression, ...], at: int) -> FunctionTable:
        stream = self._stream
        with_ordinality = False
        if stream.at("with") and stream.peek().value == "ordinality":
            stream.expect("with", "ordinality")
            with_ordinality = True
        if stream.at("as") and stream.peek().value == "(":
            stream.expect("as")
            return FunctionTable(calls, with_ordinality, None, at, *self._definitions())
        if not stream.accept("as") and not stream.at_name():
            return FunctionTable(calls, with_ordinality, None, at)
        name = stream.identifier()
        if self._at_definitions():
            alias = Alias(name.name, (), name.position)
            return FunctionTable(calls, with_ordinality, alias, at, *self._definitions())
        return FunctionTable(calls, with_ordinality, self._columns(name), at)

    def _at_definitions(self) -> bool:
        """Whether a list of columns follows that have types."""
        stream = self._stream
        return stream.at_mark("(") and stream.peek(2).value not in (",", ")")

    def _definitions(self) -> tuple[tuple[tuple[str, PgType], ...], int]:
        """Columns with their types, and where the first of them stands."""
        stream = self._stream
        stream.expect_mark("(")
        begin = stream.token.position
        found = [(stream.identifier().name, type_name(stream))]
        while stream.accept_mark(","):
            found.append((stream.identifier().name, type_name(stream)))
        stream.expect_mark(")")
        return tuple(found), begin

    def _table(self) -> Table:
        stream = self._stream
        stream.accept("only")
        name = stream.object_name()
        stream.accept_mark("*")
        alias = self._alias()
        if stream.at("tablesample"):
            raise FeatureNotSupported.of("TABLESAMPLE", stream.token.position)
        return Table(name.parts, alias, name.position)

    def _alias(self) -> Alias | None:
        stream = self._stream
        if not stream.accept("as") and not stream.at_name():
            return None
        return self._columns(stream.identifier())

    def _columns(self, name: Identifier) -> Alias:
        """An alias whose name has been read, with the names of columns that may follow."""
        columns: tuple[str, ...] = ()
        if self._stream.at_mark("("):
            columns = tuple(each.name for each in self._stream.identifiers())
        return Alias(name.name, columns, name.position)
