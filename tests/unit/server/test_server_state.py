"""State of views and sources belongs to the data, and a server does not use any other."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from waterclock.persist.notes import Notes
from waterclock.server.data import Data
from waterclock.server.state import PREFIX, claim_state


def opened(path: Path) -> None:
    data = Data(path)
    try:
        for folder in ("views", "sources"):
            claim_state(data.store, path / folder)
    finally:
        data.close()


def with_state(path: Path) -> Path:
    """A directory that was started, with something in the state of its views and sources."""
    opened(path)
    (path / "sources" / "state" / "u7").mkdir(parents=True, exist_ok=True)
    state = path / "views" / "state" / "u3_op0_0"
    state.mkdir(parents=True)
    return state


def test_state_stays_from_start_to_start(tmp_path: Path) -> None:
    state = with_state(tmp_path / "a")
    names = set()
    for _ in range(3):
        opened(tmp_path / "a")
        names.add((tmp_path / "a" / "views" / "IDENTITY").read_bytes())
    assert state.exists()
    assert len(names) == 3, "a new name for every start"


@pytest.mark.parametrize("whose", ["views", "sources"])
def test_state_of_other_data_is_thrown_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, whose: str
) -> None:
    with_state(tmp_path / "a")
    with_state(tmp_path / "b")
    shutil.rmtree(tmp_path / "a" / whose)
    shutil.copytree(tmp_path / "b" / whose, tmp_path / "a" / whose)
    with caplog.at_level(logging.WARNING):
        opened(tmp_path / "a")
    kept = {each for each in ("views", "sources") if (tmp_path / "a" / each / "state").exists()}
    assert kept == {"views", "sources"} - {whose}
    assert "does not belong to this data" in caplog.text


def test_state_of_a_copy_that_went_its_own_way_is_thrown_away(tmp_path: Path) -> None:
    with_state(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    opened(tmp_path / "b")
    opened(tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "views")
    shutil.copytree(tmp_path / "b" / "views", tmp_path / "a" / "views")
    opened(tmp_path / "a")
    assert not (tmp_path / "a" / "views" / "state").exists()


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    with_state(tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "views")
    opened(tmp_path / "a")
    state = with_state(tmp_path / "a")
    assert state.exists()


def test_a_crash_between_the_folder_and_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = with_state(tmp_path / "a")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Notes, "put", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path / "a")
    opened(tmp_path / "a")
    assert state.exists()
    data = Data(tmp_path / "a")
    assert Notes(data.store, PREFIX).all().keys() == {"views", "sources"}
    data.close()
