"""A view whose inputs will never change again: it ends, and is right for ever."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from test_compute import ORDER, ORDERS, TOTALS, Server, contents
from test_compute_loss import BY_NAME, Shop

from waterclock.compute import installed
from waterclock.compute.api import Health, Result
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.storage import riders
from waterclock.storage.api import Write

pytestmark = pytest.mark.slow

SHARES, SHARE_ERRORS = GlobalId.user(7), GlobalId.user(8)
SHARE = Schema((Column("share", Int(64)),))
ALL = (TOTALS, BY_NAME, SHARES)
FAR = 10**15
"""A time long after everything has happened."""


def finished_shop(path: Path, spark: SparkSession) -> Shop:
    """A shop that has closed for good, with a view over it that divides by zero."""
    shop = Shop(Server(path, spark))
    sql = "SELECT 10 DIV (amount - 7) FROM u1"
    shop.install(SHARES, {ORDERS: ORDER}, Result(sql, SHARE), 3)
    shop.settle()
    end = EPOCH_MILLIS.empty()
    shop.server.storage.append(Write(shop.orders, None, end), Write(shop.people, None, end))
    await_end(shop)
    return shop


def await_end(shop: Shop, patience_s: float = 600) -> None:
    deadline = time.monotonic() + patience_s
    while any(health is not Health.FINISHED for health in healths(shop)):
        assert time.monotonic() < deadline, healths(shop)
        if not shop.server.compute.tick():
            time.sleep(0.05)


def healths(shop: Shop) -> list[Health]:
    return [shop.server.compute.status(view).health for view in ALL]


def check(shop: Shop) -> None:
    storage, compute = shop.server.storage, shop.server.compute
    read, _ = storage.acquire_capabilities(TOTALS, write=False)
    index = compute.index(BY_NAME)
    for moment in (*range(3, 60), FAR):
        expected = shop.expected(moment)
        assert contents(storage, read, moment) == expected, f"at {moment}"
        rows = index.at(moment).to_pylist()
        assert Counter(tuple(row.values()) for row in rows) == expected, f"index at {moment}"
    assert compute.errors_of(SHARES) == (SHARE_ERRORS,)
    wrong, _ = storage.acquire_capabilities(SHARE_ERRORS, write=False)
    assert {message for _, message in contents(storage, wrong, FAR)} == {"22012 division by zero"}
    assert not compute.tick()
    assert healths(shop) == [Health.FINISHED] * 3


@pytest.mark.semantics(45, 75)
def test_what_has_ended_stays_as_it_is(tmp_path: Path, spark: SparkSession) -> None:
    """Whether the server is started again, and whether state is lost."""
    shop = finished_shop(tmp_path, spark)
    try:
        check(shop)
        for loses in (False, True, False):
            shop.server.stop()
            state = tmp_path / "views" / "state"
            if loses:
                shutil.rmtree(state)
            shop.server.start()
            assert (shop.server.compute.status(BY_NAME).rebuilt is not None) is loses
            await_end(shop)
            check(shop)
            if state.exists():
                assert {each.name.partition("_op")[0] for each in state.iterdir()} == {"u5"}
        for view in ALL:
            shop.server.compute.drop_view(view)
        assert shop.server.notes.all() == {}
        assert not list((tmp_path / "views" / "state").glob("*"))
        assert shop.server.compute.errors_of(SHARES) == ()
    finally:
        shop.server.stop()


def test_a_finished_view_holds_nothing(tmp_path: Path, spark: SparkSession) -> None:
    """Except what an index may have to be made from again."""
    shop = finished_shop(tmp_path, spark)
    try:
        for _ in range(2):
            rights = {
                name: {token for token in note.tokens if riders.held(shop.server.store, token)}
                for name, note in installed.all_views(shop.server.notes)
            }
            assert {name: len(tokens) for name, tokens in rights.items()} == {
                **{TOTALS: 0, SHARES: 0},
                BY_NAME: 1,
            }
            shop.server.restart()
    finally:
        shop.server.stop()
