"""Putting the layers together, for a server and for a program that has the database inside.

    <data>/LOCK, log.db, blobs/, scratch/    durable data (see `persist.directory`)
    <data>/views/, sources/                  the state of views and of sources (see `state`)
    <data>/queries/, spark/                  scratch of queries and of Spark
    <data>/secrets.key                       the key of the secrets; not in the log
    <data>/tls/                              a certificate that the server made for itself

Opening is recovery, closing is a courtesy: everything that was acknowledged is durable before.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from waterclock.adapter.budgets import Budgets
from waterclock.adapter.coordinator import SOURCES, Coordinator, Pace
from waterclock.adapter.front import SqlFront
from waterclock.adapter.secrets import SecretBox
from waterclock.compute.engine import engine_on
from waterclock.compute.live_session import LiveSession
from waterclock.compute.planners import Planners
from waterclock.compute.rehearsal import Rehearsal
from waterclock.model.manner import IntervalStyle, Manner
from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.errors import UnsupportedValue
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named, zone_of
from waterclock.server.data import Data
from waterclock.server.state import claim_state

SECRETS_KEY = "secrets.key"


class Database:
    """The database over its data and an engine, ready for sessions. Owns the data."""

    def __init__(
        self,
        data: Data,
        live: LiveSession,
        pace: Pace | None = None,
        ticked: Callable[[float], None] | None = None,
        budgets: Budgets | None = None,
        planners: Planners | None = None,
    ) -> None:
        claim_state(data.store, data.path / "views")
        claim_state(data.store, data.path / SOURCES)
        self.data = data
        self.live = live
        budgets = budgets or Budgets()
        self._planners = planners = planners or Planners()
        self.core = Coordinator(
            data.storage,
            data.store,
            live,
            data.path,
            pace or Pace(),
            secrets=SecretBox.open(data.path / SECRETS_KEY),
            ticked=ticked,
            budgets=budgets,
            engine=engine_on(live, data.path, budgets.result_bytes, budgets.step, planners),
        )
        self.front = SqlFront(self.core, read_text, write_text)
        self._rehearsals: list[Rehearsal] = []

    def rehearse(self) -> None:
        """Begin to get the engine ready for its first view, and return at once."""
        incarnation = self.live.try_current()
        if incarnation is None:
            return
        rehearsal = Rehearsal(incarnation, self.core.evaluator, self.data.path / "queries")
        self._rehearsals.append(rehearsal)
        rehearsal.start()

    def close(self) -> None:
        """Stop ticking, then close the data. The Spark session stays as it is, with no job."""
        for rehearsal in self._rehearsals:
            rehearsal.stop()
        self.core.close()
        self.front.offload.close()
        self.front.webhooks.close()
        self._planners.close()
        self.front.answerer.close()
        self.data.close()


def write_text(column: pa.Array, declared: PgType, manner: Manner) -> pa.Array:
    """Values as the protocol shows them."""
    return encode_text(column, declared, zone_of(manner))


def read_text(text: str, declared: PgType, manner: Manner) -> pa.Scalar:
    """A constant as the protocol reads a parameter's text.

    SQL is kept, in views and defaults, and must mean the same to everybody: what a session's style
    of intervals would give another meaning is refused.
    """
    texts = pa.array([text], pa.string())
    found = decode_text(texts, declared, zone_named(manner.zone))[0]
    if manner.intervals is IntervalStyle.SQL_STANDARD:
        own = decode_text(texts, declared, zone_of(manner))[0]
        if not own.equals(found):
            raise UnsupportedValue(
                f'the interval "{text}" with one sign for all of its fields is not supported',
                hint="Give every field a sign, or set IntervalStyle to another style.",
            )
    return found
