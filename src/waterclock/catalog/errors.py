"""How the catalog refuses, told apart by SQLSTATE as PostgreSQL's clients expect."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class CatalogChanged(WaterclockError):
    """Somebody else's change came first: what was decided before it has to be decided anew."""

    sqlstate: ClassVar[str] = "40001"


class DuplicateObject(WaterclockError):
    """A role, cluster, connection or secret of that name exists."""

    sqlstate: ClassVar[str] = "42710"


class DuplicateRelation(WaterclockError):
    """Something with columns, or an index, has that name in the schema."""

    sqlstate: ClassVar[str] = "42P07"


class DuplicateSchema(WaterclockError):
    sqlstate: ClassVar[str] = "42P06"


class DuplicateDatabase(WaterclockError):
    sqlstate: ClassVar[str] = "42P04"


class UnknownObject(WaterclockError):
    """No role, cluster, index, connection or secret has that name."""

    sqlstate: ClassVar[str] = "42704"


class UnknownRelation(WaterclockError):
    sqlstate: ClassVar[str] = "42P01"


class UnknownSchema(WaterclockError):
    """No schema has that name, or none of the search path exists."""

    sqlstate: ClassVar[str] = "3F000"


class UnknownDatabase(WaterclockError):
    sqlstate: ClassVar[str] = "3D000"


class WrongKind(WaterclockError):
    """The name is that of something else than the statement is for."""

    sqlstate: ClassVar[str] = "42809"


class NameReserved(WaterclockError):
    """The name, or what it begins with, is kept for the database itself."""

    sqlstate: ClassVar[str] = "42939"


class NameEmpty(WaterclockError):
    sqlstate: ClassVar[str] = "42602"


class DependentsExist(WaterclockError):
    """Something else needs what was to be dropped."""

    sqlstate: ClassVar[str] = "2BP01"


class PermissionDenied(WaterclockError):
    sqlstate: ClassVar[str] = "42501"


class InvalidGrant(WaterclockError):
    """The privilege does not exist for that kind of object, or a membership would be circular."""

    sqlstate: ClassVar[str] = "0LP01"


class OutOfNumbers(WaterclockError):
    """Every object number has been used."""

    sqlstate: ClassVar[str] = "54000"
