"""How much of the server one statement may take. Each has a setting of the server's."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.compute.collecting import RESULT_BYTES


@dataclass(frozen=True, slots=True)
class Budgets:
    """What is beyond one of these is refused with 54000, and the session goes on."""

    result_bytes: int = RESULT_BYTES
    """The rows of one result (`max_result_bytes`)."""
    connections: int = 1000
    """Sessions at the same time, of all protocols (`max_connections`)."""
