"""First contents that the tasks read where they are stored, and that do not pass through here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from test_compute import ORDERS, PEOPLE, Server
from test_compute_loss import Shop, restarted

from waterclock.compute import inputs
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.job import Ticked
from waterclock.model.ids import GlobalId
from waterclock.persist import inline, parts
from waterclock.persist.portions import Listing

pytestmark = pytest.mark.slow


class Seen:
    """What a step was given to compute from, step by step."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.listed: list[set[GlobalId]] = []
        compute = Dataflow.compute

        def watched(
            dataflow: Dataflow,
            upper: int,
            deltas: Mapping[GlobalId, pa.Table],
            contents: Mapping[GlobalId, Listing] | None = None,
            *,
            spread: int = 1,
        ) -> Ticked:
            self.listed.append(set(contents or {}))
            return compute(dataflow, upper, deltas, contents, spread=spread)

        patch.setattr(Dataflow, "compute", watched)


@pytest.mark.semantics(41, 44)
@pytest.mark.parametrize("wide_rows", [0, 10**9], ids=["wide", "narrow"])
def test_contents_are_read_where_they_are(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, wide_rows: int
) -> None:
    """Also when lost state is computed again, from contents of which some cancel."""
    monkeypatch.setattr(inputs, "LARGE_ROWS", 1)
    monkeypatch.setattr(inline, "INLINE_ROWS", 0)
    monkeypatch.setattr(parts, "PART_ROWS", 2)
    monkeypatch.setitem(parts.PARQUET_WRITE, "row_group_size", 1)
    monkeypatch.setitem(Dataflow.__init__.__kwdefaults__, "wide_rows", wide_rows)
    seen = Seen(monkeypatch)
    shop = Shop(Server(tmp_path, spark))
    try:
        shop.settle()
        assert {ORDERS, PEOPLE} in seen.listed
        shop.step()
        shop.settle()
        shop.check()
        seen.listed.clear()
        state = tmp_path / "views" / "state"
        restarted(shop, lambda: state.rename(tmp_path / "lost"))
        assert {ORDERS, PEOPLE} in seen.listed
        shop.check()
        store = shop.server.store
        with store._lock:
            assert not store._live_pins(), "nothing is kept for reading that is over"
    finally:
        shop.server.stop()
