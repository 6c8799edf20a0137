"""What can be wrong with a query, in the words and with the SQLSTATEs of PostgreSQL."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.sql.errors import SqlFault

_CASTS_HINT = "You might need to add explicit type casts."
NO_FUNCTION_HINT = f"No function matches the given name and argument types. {_CASTS_HINT}"
NO_OPERATOR_HINT = f"No operator matches the given name and argument types. {_CASTS_HINT}"
NO_SEQUENCES_HINT = "There are no sequences. Give the numbers yourself, or use gen_random_uuid()."
AMBIGUOUS_FUNCTION_HINT = f"Could not choose a best candidate function. {_CASTS_HINT}"
AMBIGUOUS_OPERATOR_HINT = f"Could not choose a best candidate operator. {_CASTS_HINT}"


class UndefinedColumn(SqlFault):
    """No column has that name."""

    sqlstate: ClassVar[str] = "42703"


class AmbiguousColumn(SqlFault):
    """Several columns have that name."""

    sqlstate: ClassVar[str] = "42702"


class UndefinedRelation(SqlFault):
    """No relation in FROM has that name."""

    sqlstate: ClassVar[str] = "42P01"


class DuplicateAlias(SqlFault):
    """Two relations in FROM have the same name."""

    sqlstate: ClassVar[str] = "42712"


class DuplicateColumnName(SqlFault):
    """A column is named twice where that makes no sense."""

    sqlstate: ClassVar[str] = "42701"


class UndefinedFunction(SqlFault):
    """No function or operator takes these arguments."""

    sqlstate: ClassVar[str] = "42883"


class UndefinedOperator(UndefinedFunction):
    """No operator of the name takes these operands."""


class AmbiguousFunction(SqlFault):
    """Several functions or operators take these arguments equally well."""

    sqlstate: ClassVar[str] = "42725"


class GroupingFault(SqlFault):
    """A column is neither grouped by nor in an aggregate, or an aggregate stands where none may."""

    sqlstate: ClassVar[str] = "42803"


class WindowFault(SqlFault):
    """A window function stands where none may, or its window is wrong."""

    sqlstate: ClassVar[str] = "42P20"


class UndefinedObject(SqlFault):
    """No window, or collation, has that name."""

    sqlstate: ClassVar[str] = "42704"


class DatatypeMismatch(SqlFault):
    """Types do not go together."""

    sqlstate: ClassVar[str] = "42804"


class IndeterminateType(SqlFault):
    """Nothing tells what type something has."""

    sqlstate: ClassVar[str] = "42P18"


class CannotCoerce(SqlFault):
    """There is no cast from the one type to the other."""

    sqlstate: ClassVar[str] = "42846"


class WrongObjectKind(SqlFault):
    """Something is used as what it is not, such as a function as an aggregate."""

    sqlstate: ClassVar[str] = "42809"


class InvalidColumnReference(SqlFault):
    """A position or expression refers to no output column."""

    sqlstate: ClassVar[str] = "42P10"


class UndefinedParameter(SqlFault):
    """There is no such parameter."""

    sqlstate: ClassVar[str] = "42P02"


class AmbiguousParameter(SqlFault):
    """A parameter would need two types."""

    sqlstate: ClassVar[str] = "42P08"


class InvalidRecursion(SqlFault):
    """A query of WITH refers to itself where it may not."""

    sqlstate: ClassVar[str] = "42P19"


class Located(SqlFault):
    """Any error of another part, with the place in the text that it is about."""

    def __init__(self, cause: WaterclockError, position: int) -> None:
        super().__init__(cause.message, position, detail=cause.detail, hint=cause.hint)
        self.__dict__["sqlstate"] = cause.sqlstate


class Rejected(SqlFault):
    """A constant that is wrong whatever the data, with a SQLSTATE of its own."""

    def __init__(self, sqlstate: str, message: str, position: int) -> None:
        super().__init__(message, position)
        self.__dict__["sqlstate"] = sqlstate


def located(error: WaterclockError, position: int) -> SqlFault:
    """The error, with a position if it has none."""
    if isinstance(error, SqlFault):
        if error.position is None:
            error.position = position
        return error
    return Located(error, position)
