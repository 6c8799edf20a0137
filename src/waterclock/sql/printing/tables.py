"""CREATE TABLE as text."""

from __future__ import annotations

from typing import assert_never

from waterclock.model.pg_types import NO_MODIFIER, PgType, element_of, format_type, type_named
from waterclock.sql.ast.common import ExpressionText
from waterclock.sql.ast.relations import (
    Check,
    ColumnDefinition,
    Constraint,
    CreateTable,
    ForeignKey,
    PrimaryKey,
    Unique,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.lexer import lex
from waterclock.sql.parser.tables import default_expression
from waterclock.sql.printing.pieces import (
    exists_words,
    joined,
    name_text,
    names_in_brackets,
    with_list,
)
from waterclock.sql.quoting import quote_ident
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind


def table_text(statement: CreateTable) -> str:
    return joined(
        "CREATE",
        "TEMPORARY" if statement.temporary else "",
        "TABLE",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        elements_text(statement.columns, statement.constraints),
        with_list(statement.options),
    )


def elements_text(
    columns: tuple[ColumnDefinition, ...], constraints: tuple[Constraint, ...]
) -> str:
    """What stands between the brackets of CREATE TABLE, with them."""
    parts = [*map(_column, columns), *(_constraint(each, alone=True) for each in constraints)]
    return "(" + ", ".join(parts) + ")"


def type_text(declared: PgType) -> str:
    """The type's name, in a form that is read as the same type."""
    element = element_of(declared.oid)
    if element is not None:
        return type_text(PgType(element.oid, declared.modifier)) + "[]"
    if declared == PgType(type_named("bpchar").oid, NO_MODIFIER):
        return "bpchar"  # `character` would be one character long
    return format_type(declared)


def _column(column: ColumnDefinition) -> str:
    return joined(
        quote_ident(column.name.name),
        type_text(column.type),
        "NOT NULL" if column.not_null else "",
        f"DEFAULT {_default(column.default)}" if column.default is not None else "",
        *(_constraint(each, alone=False) for each in column.constraints),
    )


def _default(default: ExpressionText) -> str:
    """The expression, in brackets if it would else end too early."""
    stream = TokenStream(default.text, lex(default.text))
    try:
        default_expression(stream)
    except SyntaxFault:
        return f"({default.text})"
    return default.text if stream.token.kind is Kind.END else f"({default.text})"


def _constraint(constraint: Constraint, *, alone: bool) -> str:
    """A constraint of the table, or if not `alone` of the one column it stands behind."""
    name = f"CONSTRAINT {quote_ident(constraint.name)}" if constraint.name is not None else ""
    match constraint:
        case PrimaryKey(columns):
            return joined(name, "PRIMARY KEY", names_in_brackets(columns) if alone else "")
        case Unique(columns):
            return joined(name, "UNIQUE", names_in_brackets(columns) if alone else "")
        case Check(condition):
            return joined(name, f"CHECK ({condition.text})")
        case ForeignKey(columns, table, referenced):
            return joined(
                name,
                f"FOREIGN KEY {names_in_brackets(columns)}" if alone else "",
                "REFERENCES",
                name_text(table),
                names_in_brackets(referenced) if referenced else "",
            )
        case _:
            assert_never(constraint)
