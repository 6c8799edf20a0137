"""INSERT, UPDATE, DELETE, TRUNCATE."""

from __future__ import annotations

from waterclock.sql.ast.changes import (
    Assignment,
    Conflict,
    DefaultRow,
    Delete,
    Insert,
    InsertSource,
    RowAssignment,
    Rows,
    Truncate,
    Update,
    Value,
)
from waterclock.sql.ast.common import (
    DefaultValue,
    ExpressionText,
    Identifier,
    ObjectName,
    QueryText,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.parser.scanning import (
    at_as_of,
    at_query,
    clause,
    condition,
    expect_query_end,
    expression,
    expressions,
    query_without_time,
)
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_AFTER_WHERE = frozenset({"returning", "as"})
_DO = frozenset({"do"})
_AFTER_INSERT = frozenset({"returning", "on"})
_AFTER_ASSIGNMENT = frozenset({"from", "where", "returning", "as"})
_AFTER_FROM = frozenset({"where", "returning", "as"})


def insert(stream: TokenStream, ctes: QueryText | None = None) -> Insert:
    stream.expect("insert", "into")
    table = stream.object_name()
    alias = stream.identifier().name if stream.accept("as") else None
    columns: tuple[Identifier, ...] | None = None
    if stream.at_mark("(") and not at_query(stream):
        columns = _insert_columns(stream)
    if stream.accept("overriding"):
        stream.unsupported("OVERRIDING", stream.last.position)
    source = _insert_source(stream)
    conflict = _conflict(stream) if stream.at("on") else None
    return Insert(table, columns, source, _returning(stream), alias, ctes, conflict)


def _conflict(stream: TokenStream) -> Conflict:
    """`ON CONFLICT`, with what is to be done then: nothing, or an update that is only checked.

    No table has what a row could conflict with, so nothing of the update is ever used.
    """
    at = stream.token.position
    stream.expect("on", "conflict")
    found = Conflict()
    if stream.accept_mark("("):
        found = Conflict(keys=expressions(stream))
        stream.expect_mark(")")
        if stream.accept("where"):
            condition(stream, _DO)
    elif stream.accept("on"):
        stream.expect("constraint")
        found = Conflict(constraint=stream.identifier())
    stream.expect("do")
    if stream.accept("nothing"):
        return found
    stream.expect("update", "set")
    list(_assignments(stream))
    while stream.accept_mark(","):
        list(_assignments(stream))
    _where(stream)
    if found == Conflict():
        raise SyntaxFault(
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            at,
            hint="For example, ON CONFLICT (column_name).",
        )
    return found


def _insert_columns(stream: TokenStream) -> tuple[Identifier, ...]:
    stream.expect_mark("(")
    columns = [_target(stream)]
    while stream.accept_mark(","):
        columns.append(_target(stream))
    stream.expect_mark(")")
    return tuple(columns)


def _target(stream: TokenStream) -> Identifier:
    """A column to assign to. PostgreSQL also has parts of columns."""
    column = stream.identifier()
    if stream.at_mark("[") or stream.at_mark("."):
        stream.unsupported("assigning to a part of a column")
    return column


def _insert_source(stream: TokenStream) -> InsertSource:
    if stream.accept("default", "values"):
        return DefaultRow()
    if stream.at("values"):
        first = stream.index
        rows = _rows(stream)
        if stream.at_end() or stream.at_any("returning", "on") or stream.at_mark(")"):
            return rows
        expect_query_end(stream)
        stream.back_to(first)
    return query_without_time(stream, "INSERT", _AFTER_INSERT, _ends_insert)


def _ends_insert(stream: TokenStream) -> bool:
    """ON is also a part of joins, over a relation that may well be called `conflict`."""
    if not stream.at("on"):
        return True
    following = stream.peek(2)
    return stream.at("on", "conflict") and (
        (following.kind is Kind.OPERATOR and following.value == "(")
        or (following.kind is Kind.WORD and following.value in ("do", "on"))
    )


def _rows(stream: TokenStream) -> Rows:
    stream.expect("values")
    rows = [_row(stream)]
    while stream.accept_mark(","):
        rows.append(_row(stream))
    for row in rows:
        if len(row) != len(rows[0]):
            position = row[0].position
            raise SyntaxFault("VALUES lists must all be the same length", position)
    return Rows(tuple(rows))


def _row(stream: TokenStream) -> tuple[Value, ...]:
    stream.expect_mark("(")
    values = [_value(stream)]
    while stream.accept_mark(","):
        values.append(_value(stream))
    stream.expect_mark(")")
    return tuple(values)


def _value(stream: TokenStream, words: frozenset[str] = frozenset()) -> Value:
    position = stream.token.position
    if stream.accept("default"):
        return DefaultValue(position)
    return expression(stream, words, _not_behind_distinct)


def _not_behind_distinct(stream: TokenStream) -> bool:
    """The FROM of `IS DISTINCT FROM` ends nothing."""
    before = stream.last
    return not (stream.at("from") and before.kind is Kind.WORD and before.value == "distinct")


def _returning(stream: TokenStream) -> QueryText | None:
    return clause(stream) if stream.accept("returning") else None


def _changed_table(stream: TokenStream) -> ObjectName:
    """`[ONLY] table [*]`: there is no inheritance, so neither changes anything."""
    if stream.accept("only"):
        if stream.accept_mark("("):
            name = stream.object_name()
            stream.expect_mark(")")
            return name
        return stream.object_name()
    name = stream.object_name()
    stream.accept_mark("*")
    return name


def _alias(stream: TokenStream) -> str | None:
    if at_as_of(stream) and not stream.at("as", "of", "set"):
        return None
    if stream.accept("as"):
        return stream.identifier().name
    return stream.identifier().name if stream.at_name() and not stream.at("set") else None


def update(stream: TokenStream, ctes: QueryText | None = None) -> Update:
    stream.expect("update")
    table = _changed_table(stream)
    alias = _alias(stream)
    stream.expect("set")
    assignments = list(_assignments(stream))
    while stream.accept_mark(","):
        assignments += _assignments(stream)
    from_items = clause(stream, _AFTER_FROM, _ends_from) if stream.accept("from") else None
    where = _where(stream)
    _refuse_time(stream, "UPDATE")
    return Update(table, tuple(assignments), alias, from_items, where, _returning(stream), ctes)


def _where(stream: TokenStream) -> ExpressionText | None:
    if not stream.accept("where"):
        return None
    if stream.at("current", "of"):
        stream.unsupported("WHERE CURRENT OF")
    return condition(stream, _AFTER_WHERE)


def _ends_from(stream: TokenStream) -> bool:
    """Most relations behind FROM have an alias."""
    return not stream.at("as") or at_as_of(stream)


def _refuse_time(stream: TokenStream, what: str) -> None:
    """A write gets its time from the oracle."""
    if at_as_of(stream):
        stream.unsupported(f"AS OF in {what}")


def _assignments(stream: TokenStream) -> tuple[Assignment | RowAssignment, ...]:
    if not stream.at_mark("("):
        column = _target(stream)
        stream.expect_mark("=")
        return (Assignment(column, _value(stream, _AFTER_ASSIGNMENT)),)
    columns = _insert_columns(stream)
    stream.expect_mark("=")
    if stream.at_mark("(") and at_query(stream):
        stream.expect_mark("(")
        inner = query_without_time(stream, "UPDATE")
        stream.expect_mark(")")
        return (RowAssignment(columns, inner),)
    if not stream.accept("row") and not stream.at_mark("("):
        position = _value(stream, _AFTER_ASSIGNMENT).position
        stream.unsupported("assigning an expression to several columns", position)
    position = stream.token.position
    values = _row(stream)
    if len(values) != len(columns):
        raise SyntaxFault("number of columns does not match number of values", position)
    return tuple(map(Assignment, columns, values))


def delete(stream: TokenStream, ctes: QueryText | None = None) -> Delete:
    stream.expect("delete", "from")
    table = _changed_table(stream)
    alias = _alias(stream)
    using = clause(stream, _AFTER_FROM, _ends_from) if stream.accept("using") else None
    where = _where(stream)
    _refuse_time(stream, "DELETE")
    return Delete(table, alias, using, where, _returning(stream), ctes)


def truncate(stream: TokenStream) -> Truncate:
    stream.expect("truncate")
    stream.accept("table")
    tables = [_changed_table(stream)]
    while stream.accept_mark(","):
        tables.append(_changed_table(stream))
    if stream.accept_any("restart", "continue"):
        stream.expect("identity")
    return Truncate(tuple(tables), stream.accept_any("cascade", "restrict") == "cascade")
