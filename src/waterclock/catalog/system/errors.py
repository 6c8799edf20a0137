"""How a catalog query fails, in PostgreSQL's words.

Clients match on the SQLSTATE and now and then on the text, so both are PostgreSQL's. The position
counts characters from 1 in the text that was sent; None if no place in it is to blame.
"""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class CatalogQueryError(WaterclockError):
    """Base of the errors of catalog queries. This class itself: something of ours went wrong."""

    sqlstate: ClassVar[str] = "XX000"

    def __init__(
        self,
        message: str,
        position: int | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.position = position


class SyntaxFault(CatalogQueryError):
    sqlstate: ClassVar[str] = "42601"


class UndefinedTable(CatalogQueryError):
    sqlstate: ClassVar[str] = "42P01"


class UndefinedColumn(CatalogQueryError):
    sqlstate: ClassVar[str] = "42703"


class UndefinedFunction(CatalogQueryError):
    """No function, or no operator, takes these arguments."""

    sqlstate: ClassVar[str] = "42883"


class UndefinedObject(CatalogQueryError):
    """No type, role, collation or setting has that name."""

    sqlstate: ClassVar[str] = "42704"


class UndefinedSchema(CatalogQueryError):
    sqlstate: ClassVar[str] = "3F000"


class UndefinedDatabase(CatalogQueryError):
    sqlstate: ClassVar[str] = "3D000"


class UndefinedParameter(CatalogQueryError):
    sqlstate: ClassVar[str] = "42P02"


class AmbiguousColumn(CatalogQueryError):
    sqlstate: ClassVar[str] = "42702"


class DuplicateAlias(CatalogQueryError):
    sqlstate: ClassVar[str] = "42712"


class GroupingFault(CatalogQueryError):
    sqlstate: ClassVar[str] = "42803"


class DatatypeMismatch(CatalogQueryError):
    sqlstate: ClassVar[str] = "42804"


class IndeterminateType(CatalogQueryError):
    sqlstate: ClassVar[str] = "42P18"


class CannotCoerce(CatalogQueryError):
    sqlstate: ClassVar[str] = "42846"


class InvalidColumnReference(CatalogQueryError):
    """ORDER BY or GROUP BY names a position that there is not."""

    sqlstate: ClassVar[str] = "42P10"


class FeatureNotSupported(CatalogQueryError):
    sqlstate: ClassVar[str] = "0A000"


class ProgramLimitExceeded(CatalogQueryError):
    sqlstate: ClassVar[str] = "54000"


class OutOfMemory(CatalogQueryError):
    """A query, or its result, needs more memory than there is for such queries."""

    sqlstate: ClassVar[str] = "53200"

    @classmethod
    def of(cls, message: str) -> OutOfMemory:
        return cls(
            message,
            hint="Ask for less at a time, or start the server with a larger max_catalog_memory.",
        )


class InvalidText(CatalogQueryError):
    """A text is not a value of the type."""

    sqlstate: ClassVar[str] = "22P02"


class InvalidValue(CatalogQueryError):
    """An argument is out of what it may be."""

    sqlstate: ClassVar[str] = "22023"


class InvalidRegularExpression(CatalogQueryError):
    sqlstate: ClassVar[str] = "2201B"


class NumberOutOfRange(CatalogQueryError):
    sqlstate: ClassVar[str] = "22003"


class InvalidPower(CatalogQueryError):
    sqlstate: ClassVar[str] = "2201F"


class DivisionByZero(CatalogQueryError):
    sqlstate: ClassVar[str] = "22012"


class TooManyRows(CatalogQueryError):
    """A subquery that stands for a value gave several rows."""

    sqlstate: ClassVar[str] = "21000"


class QueryCancelled(CatalogQueryError):
    sqlstate: ClassVar[str] = "57014"
