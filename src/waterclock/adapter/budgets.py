"""How much of the server one statement may take. Each has a setting of the server's.

Whoever adds one enters it in the table "Limits" of docs/operations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.adapter.backpressure import DEFAULT_BOUNDS, Bounds
from waterclock.catalog.system.store import CATALOG_MEMORY_MB
from waterclock.compute.collecting import RESULT_BYTES
from waterclock.compute.inputs import STEP_LIMIT
from waterclock.persist.cutting import Limit
from waterclock.sql.budget import DEFAULT_BUDGET, Budget


@dataclass(frozen=True, slots=True)
class Budgets:
    """What is beyond one of these is refused with 54000, and the session goes on."""

    result_bytes: int = RESULT_BYTES
    """The rows of one result (`max_result_bytes`)."""
    connections: int = 1000
    """Sessions at the same time, of all protocols (`max_connections`)."""
    statement: Budget = DEFAULT_BUDGET
    """What a statement may ask of the parser and the planner."""
    step: Limit = STEP_LIMIT
    """What a step of views takes at once (`max_step_rows`, `max_step_bytes`). More is not refused:
    it waits for the next step."""
    backlog: Bounds = DEFAULT_BOUNDS
    """How far views may be behind before writes wait (`max_backlog_rows` and others)."""
    webhook_body_bytes: int = 5 << 20
    """The body of one request to a webhook source (`max_webhook_body_bytes`)."""
    webhook_requests: int = 100
    """Such requests at the same time (`max_webhook_requests`)."""
    catalog_memory_mb: int = CATALOG_MEMORY_MB
    """Queries over the system's relations, all together (`max_catalog_memory`)."""
