"""Whether records may have expired, as plain values tell it."""

from __future__ import annotations

import pytest

from waterclock.storage.formats.api import LONG_RECORDS
from waterclock.storage.sources.api import Messages
from waterclock.storage.sources.kinesis.errors import expired
from waterclock.storage.sources.kinesis.records import no_records
from waterclock.storage.sources.kinesis.retention import (
    Anchor,
    Anchors,
    Recollection,
    is_safe,
    with_anchor,
)

DAY = 24 * 3_600_000


def test_what_follows_an_anchor_is_safe_for_almost_the_retention_period() -> None:
    assert is_safe(0, DAY // 24 * 22, DAY)
    assert not is_safe(0, DAY // 24 * 23, DAY)  # clocks may differ
    assert not is_safe(None, 0, DAY)


def test_what_is_recalled() -> None:
    notes = {"tip": Anchor(5, True), "behind": Anchor(6, False)}
    found = Recollection.of({shard: note.encoded() for shard, note in notes.items()}, 100)
    assert found.of_bound("tip") == 100  # nothing has come until then
    assert found.of_bound("behind") == 6
    assert found.of_bound("empty") == 100
    assert found.of_parents(("tip", "behind")) == 6
    assert found.of_parents(("tip", "unknown")) == 5
    assert found.of_parents(()) is None
    assert found.with_note("tip", Anchor(9, False)).of_bound("tip") == 9
    assert Recollection({}).of_bound("any") is None


def test_anchors_are_noted_and_taken_off_the_messages() -> None:
    anchor = Anchor(7, True)
    noted = no_records().replace_schema_metadata(with_anchor(anchor))
    grouping = Anchors()
    grouping.resume({})
    given, notes = grouping.released(
        [Messages("records", "a", no_records()), Messages("records", "b", noted)]
    )
    assert notes == {"b": anchor.encoded()}
    assert [each.batch.schema.metadata for each in given] == [None, None]
    assert all(each.batch.schema.equals(LONG_RECORDS) for each in given)


@pytest.mark.parametrize(
    ("last", "first", "told"),
    [
        (None, 7, "Nothing was read of shard a yet, and nobody can tell what has expired."),
        (5, 7, "which is not there any more; the next one is 7."),
        (5, None, "which is not there any more; nothing follows it."),
    ],
)
def test_what_has_expired_is_told(last: int | None, first: int | None, told: str) -> None:
    assert told in (expired("s", "a", last, first).detail or "")
