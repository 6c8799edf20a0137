"""How much of the server one client, or all of them, may take."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.pgwire.codec import DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class Limits:
    """None for a time means no limit."""

    connections: int = 1000
    """Sessions at the same time."""
    connections_of_address: int = 900
    """Those of them that come from one address."""
    connecting: int = 200
    """Further connections that have not become sessions yet."""
    connecting_of_address: int = 100
    """Those of them that come from one address."""
    authentication_s: float = 10.0
    """From accepting a connection to its session."""
    idle_s: float | None = None
    """Silence outside a transaction block."""
    idle_in_transaction_s: float | None = None
    closing_s: float = 5.0
    """How long the server waits for its clients when it stops."""
    frame_bytes: int = DEFAULT_LIMIT
    """One message of a client that is known."""
