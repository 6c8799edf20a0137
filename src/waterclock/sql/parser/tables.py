"""CREATE TABLE in its three forms: with columns, as a query, from a source."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectName
from waterclock.sql.ast.relations import (
    Check,
    ColumnDefinition,
    Constraint,
    CreateTable,
    CreateTableAs,
    ForeignKey,
    PrimaryKey,
    Unique,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.keywords import words
from waterclock.sql.parser.options import with_options
from waterclock.sql.parser.scanning import (
    expression,
    in_brackets,
    query_without_time,
)
from waterclock.sql.parser.sources import table_from_source
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind
from waterclock.sql.types import SERIAL_TYPES, type_name

_TABLE_CONSTRAINTS = ("constraint", "primary", "unique", "check", "foreign", "exclude")
_AFTER_DEFAULT = words(
    """not null primary unique check references constraint collate generated deferrable initially
    default"""
)


def if_not_exists(stream: TokenStream) -> bool:
    return stream.accept("if", "not", "exists")


def create_table(stream: TokenStream, *, temporary: bool) -> Statement:
    """What follows CREATE [TEMPORARY] TABLE."""
    exists = if_not_exists(stream)
    name = stream.object_name()
    if stream.at("of") or stream.at("partition"):
        stream.unsupported(f"CREATE TABLE {stream.token.value.upper()}")
    names: tuple[Identifier, ...] | None = None
    elements = Elements()
    if stream.at_mark("("):
        names = _names_only(stream)
        if names is None:
            elements = _elements(stream)
    if stream.at("from", "source"):
        return table_from_source(
            stream, name, exists, names, elements.columns, elements.constraints
        )
    if names is not None or not elements.given:
        return _table_as(stream, name, exists, temporary, names)
    _refuse_clauses(stream, "inherits", "partition", "using", "tablespace")
    options = with_options(stream)
    if not options and stream.accept("without"):
        stream.expect("oids")
    _on_commit(stream)
    return CreateTable(name, elements.columns, elements.constraints, exists, temporary, options)


def _refuse_clauses(stream: TokenStream, *words: str) -> None:
    if stream.at_any(*words):
        stream.unsupported(f"{stream.token.value.upper()} in CREATE TABLE")


def _on_commit(stream: TokenStream) -> None:
    if not stream.accept("on"):
        return
    stream.expect("commit")
    position = stream.token.position
    word = stream.expect_any("preserve", "delete", "drop")
    if word != "drop":
        stream.expect("rows")
    if word != "preserve":
        stream.unsupported(f"ON COMMIT {word.upper()}", position)


def _names_only(stream: TokenStream) -> tuple[Identifier, ...] | None:
    """`(a, b)` without types, as in front of AS or FROM SOURCE; else the stream stays here."""
    first = stream.index
    try:
        names: tuple[Identifier, ...] | None = stream.identifiers()
    except SyntaxFault:
        names = None
    if names is not None and stream.at_any("as", "with", "from", "on", "using", "tablespace"):
        return names
    stream.note_failure(stream.index)
    stream.back_to(first)
    return None


@dataclass(frozen=True, slots=True)
class Elements:
    """What stands between the brackets of CREATE TABLE."""

    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    given: bool = False


def _elements(stream: TokenStream) -> Elements:
    stream.expect_mark("(")
    columns: list[ColumnDefinition] = []
    constraints: list[Constraint] = []
    while not (stream.at_mark(")") and not columns and not constraints):
        if stream.at_any(*_TABLE_CONSTRAINTS):
            constraints.append(table_constraint(stream))
        elif stream.at("like"):
            stream.unsupported("LIKE in CREATE TABLE")
        else:
            columns.append(column_definition(stream))
        if not stream.accept_mark(","):
            break
    stream.expect_mark(")")
    return Elements(tuple(columns), tuple(constraints), given=True)


def _table_as(
    stream: TokenStream,
    name: ObjectName,
    exists: bool,
    temporary: bool,
    columns: tuple[Identifier, ...] | None,
) -> CreateTableAs:
    _refuse_clauses(stream, "using", "tablespace")
    options = with_options(stream)
    _on_commit(stream)
    stream.expect("as")
    if stream.at("execute"):
        stream.unsupported("CREATE TABLE AS EXECUTE")
    query = query_without_time(stream, "CREATE TABLE AS", frozenset({"with"}), at_data_clause)
    with_data = data_clause(stream)
    return CreateTableAs(name, query, columns, exists, temporary, with_data, options)


def at_data_clause(stream: TokenStream) -> bool:
    """Whether `WITH [NO] DATA` ends the statement here."""
    ahead = 2 if stream.at("with", "data") else 3 if stream.at("with", "no", "data") else 0
    following = stream.peek(ahead)
    ends = following.kind is Kind.END or (
        following.kind is Kind.OPERATOR and following.value == ";"
    )
    return ahead > 0 and ends


def data_clause(stream: TokenStream) -> bool:
    """False for WITH NO DATA."""
    if not stream.accept("with"):
        return True
    with_data = not stream.accept("no")
    stream.expect("data")
    return with_data


class _Column:
    """What is found out of a column, constraint by constraint."""

    def __init__(self, name: Identifier) -> None:
        self.name = name
        self.null: bool | None = None
        self.default: ExpressionText | None = None
        self.constraints: list[Constraint] = []

    def set_null(self, null: bool, position: int) -> None:
        if self.null is not None and self.null != null:
            message = f'conflicting NULL/NOT NULL declarations for column "{self.name.name}"'
            raise SyntaxFault(message, position)
        self.null = null

    def set_default(self, default: ExpressionText, position: int) -> None:
        if self.default is not None:
            message = f'multiple default values specified for column "{self.name.name}"'
            raise SyntaxFault(message, position)
        self.default = default


def column_definition(stream: TokenStream) -> ColumnDefinition:
    """`name type [constraint ...]`."""
    column = _Column(stream.identifier())
    if stream.at_any(*SERIAL_TYPES):
        stream.unsupported(f"{stream.token.value.upper()} of a column")
    found_type = type_name(stream)
    while not (stream.at_end() or stream.at_mark(",") or stream.at_mark(")")):
        _column_constraint(stream, column)
    return ColumnDefinition(
        column.name, found_type, column.null is False, column.default, tuple(column.constraints)
    )


def _column_constraint(stream: TokenStream, column: _Column) -> None:
    name = stream.identifier().name if stream.accept("constraint") else None
    only = (column.name,)
    position = stream.token.position
    if stream.accept("not"):
        stream.expect("null")
        column.set_null(False, position)
    elif stream.accept("null"):
        column.set_null(True, position)
    elif stream.accept("default"):
        column.set_default(default_expression(stream), position)
    elif stream.accept("primary"):
        stream.expect("key")
        column.constraints.append(PrimaryKey(only, name))
    elif stream.accept("unique"):
        column.constraints.append(Unique(only, name))
    elif stream.accept("check"):
        column.constraints.append(Check(in_brackets(stream), name))
    elif stream.at("references"):
        column.constraints.append(_references(stream, only, name))
    elif stream.at("generated", "always", "as", "identity"):
        stream.unsupported("GENERATED ALWAYS AS IDENTITY of a column")
    elif stream.at("generated", "by", "default", "as", "identity"):
        stream.unsupported("GENERATED BY DEFAULT AS IDENTITY of a column")
    elif stream.at("collate") or stream.at("generated"):
        stream.unsupported(f"{stream.token.value.upper()} of a column")
    else:
        stream.fail()
    _constraint_attributes(stream)


def default_expression(stream: TokenStream) -> ExpressionText:
    """What follows DEFAULT, up to the next constraint of the column."""
    first = stream.index

    def ends(stream: TokenStream) -> bool:
        """A word that starts a constraint does so only behind a value."""
        before = stream.last
        negated = before.kind is Kind.WORD and before.value == "is"
        return stream.index > first and not negated

    return expression(stream, _AFTER_DEFAULT, ends)


def _constraint_attributes(stream: TokenStream) -> None:
    """When a constraint is checked: nothing depends on that here."""
    while True:
        if stream.accept("deferrable") or stream.accept("not", "deferrable"):
            continue
        if not stream.accept("initially"):
            return
        stream.expect_any("deferred", "immediate")


def table_constraint(stream: TokenStream) -> Constraint:
    """`[CONSTRAINT name] PRIMARY KEY | UNIQUE | CHECK | FOREIGN KEY ...`."""
    name = stream.identifier().name if stream.accept("constraint") else None
    found: Constraint
    if stream.accept("primary"):
        stream.expect("key")
        found = PrimaryKey(stream.identifiers(), name)
    elif stream.accept("unique"):
        found = Unique(stream.identifiers(), name)
    elif stream.accept("check"):
        found = Check(in_brackets(stream), name)
    elif stream.accept("foreign"):
        stream.expect("key")
        found = _references(stream, stream.identifiers(), name)
    elif stream.at("exclude"):
        stream.unsupported("EXCLUDE")
    else:
        stream.fail()
    _constraint_attributes(stream)
    return found


def _references(
    stream: TokenStream, columns: tuple[Identifier, ...], name: str | None
) -> ForeignKey:
    stream.expect("references")
    table = stream.object_name()
    referenced = stream.identifiers() if stream.at_mark("(") else ()
    if stream.accept("match"):
        stream.expect_any("full", "partial", "simple")
    while stream.accept("on"):
        stream.expect_any("delete", "update")
        if stream.accept("set"):
            stream.expect_any("null", "default")
        elif stream.accept("no"):
            stream.expect("action")
        else:
            stream.expect_any("cascade", "restrict")
    return ForeignKey(columns, table, referenced, name)
