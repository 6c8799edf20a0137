"""How the server is doing, as Prometheus reads it.

Statements are counted as they end. Everything else is looked up when somebody asks, through the
port `Facts`, so that a server nobody watches pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True)
class ViewFacts:
    """How a maintained view or an index is doing."""

    name: str
    health: str
    lag_ms: int | None
    """How far it is behind the clock; 0 for one that will never change again, None for one whose
    times are not those of the clock."""
    state_rows: int
    backlog_rows: int = 0
    """How many updates it has yet to take in, about."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """How a source is doing, and what it has done since the server started."""

    name: str
    health: str
    lag_ms: int | None
    """How long ago its contents were complete; None if that is not known or will not change."""
    messages: int
    undecodable: int
    """How many messages could not be read."""
    skipped: int
    """How many of them are skipped now."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is true at one moment."""

    is_ready: bool
    connections: int
    views: tuple[ViewFacts, ...] = ()
    table_commits: int = 0
    oracle_read_ms: int = 0
    log_position: int = 0
    pressure: float = 0.0
    """How far the view that is farthest behind is, as a multiple of what it may be."""
    delayed_writes: int = 0
    delayed_s: float = 0.0
    """How long writes have waited because views are behind, all together."""
    engine_starts: int = 0
    engine_deaths: int = 0
    hung_steps: int = 0
    sources: tuple[SourceFacts, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    """The name and the kind of each source, view and index that can not be read because of an
    error."""


class Facts(Protocol):
    """Where the numbers come from. Asked in the event loop, so the answer must be quick."""

    def __call__(self) -> ServerFacts: ...


class Metrics:
    """All that is measured of one server."""

    def __init__(self, facts: Facts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Gauges(facts))
        self._statements = Counter(
            "waterclock_statements",
            "Statements that ended, by the kind of statement and how it ended.",
            ("kind", "outcome"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "waterclock_statement_duration_seconds",
            "From the request for a statement to the last of its rows.",
            ("kind",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._ticks = Histogram(
            "waterclock_tick_duration_seconds",
            "One look after tables and views, with the work that was found.",
            buckets=_SECONDS,
            registry=self._registry,
        )

    def statement(self, kind: str, outcome: str, seconds: float | None) -> None:
        """A statement has ended; None for the time if that means nothing."""
        self._statements.labels(kind, outcome).inc()
        if seconds is not None:
            self._durations.labels(kind).observe(seconds)

    def tick(self, seconds: float) -> None:
        """A tick has ended. Any thread."""
        self._ticks.observe(seconds)

    def exposition(self) -> tuple[bytes, str]:
        """Everything as text, and the type of that text."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


class _Gauges(Collector):
    """What is looked up when somebody asks."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def describe(self) -> Iterable[Metric]:
        return ()  # without asking: there may be nothing to ask yet

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield _gauge("ready", "Whether queries are answered.", int(facts.is_ready))
        yield _gauge("connections", "Sessions that are open.", facts.connections)
        yield _gauge(
            "oracle_read_timestamp_milliseconds", "The time of reads now.", facts.oracle_read_ms
        )
        yield CounterMetricFamily(
            "waterclock_table_commits", "Commits that changed tables.", value=facts.table_commits
        )
        yield _gauge(
            "view_pressure",
            "How far the worst view is behind, as a multiple of what it may be.",
            facts.pressure,
        )
        yield CounterMetricFamily(
            "waterclock_delayed_writes",
            "Writes that waited because views are behind.",
            value=facts.delayed_writes,
        )
        yield CounterMetricFamily(
            "waterclock_write_delay_seconds",
            "How long writes waited for that, all together.",
            value=facts.delayed_s,
        )
        yield CounterMetricFamily(
            "waterclock_log_entries", "Entries of the log so far.", value=facts.log_position
        )
        yield CounterMetricFamily(
            "waterclock_engine_starts", "Engines that were started.", value=facts.engine_starts
        )
        yield CounterMetricFamily(
            "waterclock_engine_deaths", "Engines that have died.", value=facts.engine_deaths
        )
        yield CounterMetricFamily(
            "waterclock_hung_steps",
            "Steps of views that were cancelled because they got nowhere.",
            value=facts.hung_steps,
        )
        yield from _of_views(facts.views)
        yield from _of_sources(facts.sources)
        errors = GaugeMetricFamily(
            "waterclock_object_in_error",
            "Sources, views and indexes that can not be read because of an error.",
            labels=("object", "type"),
        )
        for name, kind in facts.errors:
            errors.add_metric((name, kind), 1)
        yield errors


def _of_views(views: tuple[ViewFacts, ...]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "waterclock_view_lag_milliseconds", "How far a view is behind the clock.", labels=("view",)
    )
    rows = GaugeMetricFamily(
        "waterclock_view_state_rows", "Updates in the state of a view.", labels=("view",)
    )
    backlog = GaugeMetricFamily(
        "waterclock_view_backlog_rows", "Updates that a view has yet to take in.", labels=("view",)
    )
    health = GaugeMetricFamily(
        "waterclock_view_health", "How a view is doing.", labels=("view", "health")
    )
    for view in views:
        if view.lag_ms is not None:
            lag.add_metric((view.name,), view.lag_ms)
        rows.add_metric((view.name,), view.state_rows)
        backlog.add_metric((view.name,), view.backlog_rows)
        health.add_metric((view.name, view.health), 1)
    yield from (lag, rows, backlog, health)


def _of_sources(sources: tuple[SourceFacts, ...]) -> Iterator[Metric]:
    labels = ("source",)
    health = GaugeMetricFamily(
        "waterclock_source_health", "How a source is doing.", labels=("source", "health")
    )
    lag = GaugeMetricFamily(
        "waterclock_source_lag_milliseconds",
        "How long ago the contents of a source were complete.",
        labels=labels,
    )
    messages = CounterMetricFamily(
        "waterclock_source_messages", "Messages that a source has read.", labels=labels
    )
    undecodable = CounterMetricFamily(
        "waterclock_source_undecodable_messages",
        "Messages that could not be read.",
        labels=labels,
    )
    skipped = GaugeMetricFamily(
        "waterclock_source_skipped_messages",
        "Messages that are skipped now because they can not be read.",
        labels=labels,
    )
    for source in sources:
        health.add_metric((source.name, source.health), 1)
        if source.lag_ms is not None:
            lag.add_metric((source.name,), source.lag_ms)
        messages.add_metric((source.name,), source.messages)
        undecodable.add_metric((source.name,), source.undecodable)
        skipped.add_metric((source.name,), source.skipped)
    yield from (health, lag, messages, undecodable, skipped)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"waterclock_{name}", text, value=value)
