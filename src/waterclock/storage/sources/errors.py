"""How reading from outside can go wrong: for a while, or for good."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class TransientFault(WaterclockError):
    """The system upstream can not be reached or does not answer. Trying again may help."""

    sqlstate: ClassVar[str] = "08000"


class SourceFault(WaterclockError):
    """The source can not go on: what is upstream is not what it was. Trying again does not help."""

    sqlstate: ClassVar[str] = "55000"


class InvalidSource(WaterclockError):
    """What the source was asked to read does not make sense."""

    sqlstate: ClassVar[str] = "22023"


class UnknownKind(WaterclockError):
    """Nobody knows how to read from such a source."""

    sqlstate: ClassVar[str] = "0A000"
