"""A directory remembers where its log and blobs are, and refuses to be mixed with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.persist.blob.s3 import BadAddress
from waterclock.persist.places import BadPlace, OtherPlace, Places, remembered

THERE = Places("postgresql://ada:secret@db/wc", "s3://bucket/wc")


def test_nothing_is_written_for_data_that_are_here(tmp_path: Path) -> None:
    Places().claim(tmp_path)
    assert remembered(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_places_are_remembered_without_the_password(tmp_path: Path) -> None:
    THERE.claim(tmp_path)
    assert remembered(tmp_path) == Places("user=ada dbname=wc host=db", "s3://bucket/wc")
    assert "secret" not in "".join(file.read_text() for file in tmp_path.iterdir())
    THERE.claim(tmp_path)
    Places("postgresql://ada:changed@db/wc", "s3://bucket/wc").claim(tmp_path)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (Places(), "the log of"),
        (Places(None, "s3://bucket/wc"), "the log of"),
        (Places("postgresql://ada@elsewhere/wc", "s3://bucket/wc"), "host=elsewhere"),
        (Places("postgresql://ada@db/wc"), "the blobs of"),
        (Places("postgresql://ada@db/wc", "s3://other/wc"), "s3://other/wc"),
    ],
)
def test_another_place_is_refused(tmp_path: Path, given: Places, named: str) -> None:
    THERE.claim(tmp_path)
    with pytest.raises(OtherPlace) as caught:
        given.claim(tmp_path)
    assert named in caught.value.message
    assert "PLACES" in (caught.value.hint or "")


def test_a_directory_with_a_log_of_its_own_takes_no_other(tmp_path: Path) -> None:
    Places().open_log(tmp_path).close()
    with pytest.raises(OtherPlace, match="the directory itself"):
        THERE.claim(tmp_path)


def test_addresses_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(BadPlace):
        Places("somewhere").claim(tmp_path)
    with pytest.raises(BadAddress):
        Places(blobs="ftp://x").open_blobs(tmp_path)
