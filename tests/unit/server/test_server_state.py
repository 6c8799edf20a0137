"""The state of views belongs to the data, and a server notices if it does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from waterclock.server.data import Data
from waterclock.server.state import StateMissing, require_state


def opened(path: Path) -> None:
    data = Data(path)
    try:
        require_state(data.store, path / "views")
    finally:
        data.close()


def test_the_folder_is_named_once(tmp_path: Path) -> None:
    opened(tmp_path / "a")
    name = (tmp_path / "a" / "views" / "IDENTITY").read_bytes()
    opened(tmp_path / "a")
    assert (tmp_path / "a" / "views" / "IDENTITY").read_bytes() == name


def test_a_folder_that_is_gone_or_another_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "a")
    opened(tmp_path / "b")
    shutil.rmtree(tmp_path / "a" / "views")
    with pytest.raises(StateMissing, match="is missing"):
        opened(tmp_path / "a")
    shutil.copytree(tmp_path / "b" / "views", tmp_path / "a" / "views")
    with pytest.raises(StateMissing, match="does not belong"):
        opened(tmp_path / "a")


def test_a_crash_after_naming_the_folder(tmp_path: Path) -> None:
    fresh = tmp_path / "b"
    (fresh / "views").mkdir(parents=True)
    (fresh / "views" / "IDENTITY").write_bytes(b"left by a start that was killed")
    opened(fresh)
    opened(fresh)
