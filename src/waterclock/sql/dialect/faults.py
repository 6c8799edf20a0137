"""Errors that an expression raises while it is computed.

The message begins with the SQLSTATE and a blank, which whoever runs the expression takes off.
"""

from __future__ import annotations

from waterclock.sql.dialect.literals import quoted


def raised(sqlstate: str, message: str) -> str:
    """An expression that has no value, only this error."""
    return f"RAISE_ERROR({quoted(f'{sqlstate} {message}')})"


def raised_with(sqlstate: str, before: str, value: str, after: str) -> str:
    """The same with a text value in the message."""
    start = quoted(f"{sqlstate} {before}")
    return f"RAISE_ERROR(CONCAT({start}, {value}, {quoted(after)}))"


def invalid_input(sql_name: str, value: str, sqlstate: str = "22P02") -> str:
    """What a text that is not one of the type's gives."""
    return raised_with(sqlstate, f'invalid input syntax for type {sql_name}: "', value, '"')
