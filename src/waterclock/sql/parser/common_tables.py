"""WITH in front of a statement: queries under names, and changes of tables under names.

A change in WITH is a statement of its own, which what follows knows by the rows that it returns. In
the text of what follows there are blanks in its place, so that everything else stays where it was
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from waterclock.sql.ast.changes import Change, NamedChange, WithChanges
from waterclock.sql.ast.common import Identifier, QueryText
from waterclock.sql.ast.queries import Query
from waterclock.sql.parser.changes import delete, insert, update
from waterclock.sql.parser.queries import CHANGES, select
from waterclock.sql.parser.scanning import at_query, column_list, expect_query, skip
from waterclock.sql.stream import TokenStream, UnsupportedSyntax
from waterclock.sql.tokens import Kind

_CHANGES: dict[str, Callable[[TokenStream, QueryText | None], Change]] = {
    "insert": insert,
    "update": update,
    "delete": delete,
}


@dataclass(frozen=True, slots=True)
class _Table:
    """What a name in WITH stands for: where it is in the text, and the change if it is one."""

    start: int
    end: int
    change: NamedChange | None


def with_in_front(stream: TokenStream) -> Query | Change | WithChanges:
    """A query or a change that begins with WITH."""
    first = stream.index
    stream.expect("with")
    head = stream.last
    if stream.accept("mutually", "recursive"):
        return _mutually(stream, first)
    if stream.accept("recursive"):
        head = stream.last
    tables = [_table(stream)]
    while stream.accept_mark(","):
        tables.append(_table(stream))
    front = _Front(stream.text, stream.tokens[first].start, head.end, tables)
    has_changes = any(table.change is not None for table in tables)
    if not has_changes and not stream.at_any(*CHANGES):
        if not at_query(stream) and not stream.at_any("search", "cycle"):
            expect_query(stream)
        stream.back_to(first)
        return select(stream)
    main = _main(stream, front.before(len(tables)))
    return WithChanges(front.changes(), main) if has_changes else main


def _mutually(stream: TokenStream, first: int) -> Query | Change:
    """WITH MUTUALLY RECURSIVE, whose columns have types; what is wrong with it is told later."""
    if stream.at_mark("("):
        _skip_brackets(stream)
    _typed_table(stream)
    while stream.accept_mark(","):
        _typed_table(stream)
    if stream.at_any(*CHANGES):
        return _main(stream, stream.query_from(first))
    if not at_query(stream):
        expect_query(stream)
    stream.back_to(first)
    return select(stream)


def _main(stream: TokenStream, ctes: QueryText | None) -> Query | Change:
    """The statement behind WITH, in whose text its queries are."""
    parse = _CHANGES.get(stream.token.value) if stream.token.kind is Kind.WORD else None
    if parse is not None:
        return parse(stream, ctes)
    if stream.at("merge"):
        raise UnsupportedSyntax("MERGE", stream.token.position)
    found = select(stream)
    if ctes is None:
        return found
    gap = found.query.position - ctes.position - len(ctes.text)
    text = ctes.text + " " * gap + found.query.text
    return replace(found, query=QueryText(text, ctes.position))


def _table(stream: TokenStream) -> _Table:
    """`name [(columns)] AS [[NOT] MATERIALIZED] (query or change)`."""
    first = stream.index
    name = stream.identifier()
    columns = column_list(stream)
    _expect_as(stream)
    stream.expect_mark("(")
    change = _named_change(stream, name, columns)
    if change is None:
        expect_query(stream)
        skip(stream)
    stream.expect_mark(")")
    return _Table(stream.tokens[first].start, stream.last.end, change)


def _named_change(
    stream: TokenStream, name: Identifier, columns: tuple[Identifier, ...] | None
) -> NamedChange | None:
    if not stream.at_any(*CHANGES):
        return None
    if stream.at("merge"):
        stream.unsupported("MERGE")
    first = stream.index
    change = _CHANGES[stream.token.value](stream, None)
    between = stream.tokens[first : stream.index]
    numbers = {int(token.value) for token in between if token.kind is Kind.PARAMETER}
    return NamedChange(name, columns or (), change, tuple(sorted(numbers)))


def _typed_table(stream: TokenStream) -> None:
    stream.identifier()
    if stream.at_mark("("):
        _skip_brackets(stream)
    _expect_as(stream)
    stream.expect_mark("(")
    expect_query(stream)
    skip(stream)
    stream.expect_mark(")")


def _expect_as(stream: TokenStream) -> None:
    stream.expect("as")
    if stream.accept("not"):
        stream.expect("materialized")
    else:
        stream.accept("materialized")


def _skip_brackets(stream: TokenStream) -> None:
    stream.expect_mark("(")
    skip(stream)
    stream.expect_mark(")")


@dataclass(frozen=True, slots=True)
class _Front:
    """WITH and what it names. `head` is where its words end."""

    text: str
    start: int
    head: int
    tables: Sequence[_Table]

    def changes(self) -> tuple[NamedChange, ...]:
        """The changes, each with the queries that are named before it."""
        found = []
        for place, table in enumerate(self.tables):
            named = table.change
            if named is not None:
                change = replace(named.change, ctes=self.before(place))
                found.append(replace(named, change=change))
        return tuple(found)

    def before(self, place: int) -> QueryText | None:
        """The clause with the queries before a place, and blanks for changes; None if it is empty.

        A comma takes the place right in front of a query.
        """
        queries = [table for table in self.tables[:place] if table.change is None]
        if not queries:
            return None
        text = self.text[self.start : self.head]
        for number, table in enumerate(queries):
            gap = table.start - self.start - len(text)
            text += " " * (gap - 1) + ("," if number else " ")
            text += self.text[table.start : table.end]
        return QueryText(text, self.start + 1)
