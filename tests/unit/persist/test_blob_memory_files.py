"""The stores of objects that need no server, and what files alone promise."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pytest

from waterclock.persist.blob.files import FileBlob
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.errors import BlobMissing, Unavailable
from waterclock.testing.conformance.blob import BlobConformance, OpenBlob, read_all


class TestMemoryBlob(BlobConformance):
    @pytest.fixture
    def open_blob(self) -> OpenBlob:
        blob = MemoryBlob()
        return lambda: blob


class TestFileBlob(BlobConformance):
    @pytest.fixture
    def open_blob(self, tmp_path: Path) -> OpenBlob:
        return lambda: FileBlob(tmp_path / "not" / "there" / "yet")

    def test_the_key_is_the_path(self, tmp_path: Path) -> None:
        FileBlob(tmp_path).put("shard/a.parquet", b"x")
        assert (tmp_path / "shard" / "a.parquet").read_bytes() == b"x"

    def test_a_relative_root_stays_where_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        blob = FileBlob(Path("data"))
        monkeypatch.chdir("/")
        blob.put("a", b"x")
        assert (tmp_path / "data" / "a").read_bytes() == b"x"

    def test_a_key_can_not_be_a_folder_too(self, tmp_path: Path) -> None:
        blob = FileBlob(tmp_path)
        blob.put("a/b", b"x")
        for key in ("a", "a/b/c", "a/b/c/d"):
            with pytest.raises(AssertionError, match="folder"):
                blob.put(key, b"y")
        assert list(blob.list("")) == ["a/b"]
        assert list((tmp_path / "tmp~").iterdir()) == []

    def test_leftovers_are_not_listed_and_can_be_removed(self, tmp_path: Path) -> None:
        blob = FileBlob(tmp_path)
        blob.put("a", b"x")
        (tmp_path / "tmp~" / "leftover").write_bytes(b"half an obj")
        assert list(FileBlob(tmp_path).list("")) == ["a"]
        assert (tmp_path / "tmp~" / "leftover").exists(), "opening alone must not remove it"
        blob.clear_temporary()
        assert list((tmp_path / "tmp~").iterdir()) == []
        assert read_all(blob, "a") == b"x"

    @pytest.mark.parametrize("failing", ["fsync", "replace"])
    def test_a_failing_disk_is_unavailable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        blob = FileBlob(tmp_path)
        blob.put("shard/a", b"x")

        def fail(*_: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, failing, fail)
            with pytest.raises(Unavailable, match='"shard/b"') as caught:
                blob.put("shard/b", b"y")
        assert "Input/output error" in caught.value.message
        assert list(blob.list("")) == ["shard/a"]
        assert list((tmp_path / "tmp~").iterdir()) == []
        blob.put("shard/b", b"y")
        assert read_all(blob, "shard/b") == b"y"

    def test_a_folder_that_was_removed_is_made_again(self, tmp_path: Path) -> None:
        blob = FileBlob(tmp_path)
        blob.put("shard/a", b"x")
        blob.delete("shard/a")
        (tmp_path / "shard").rmdir()
        with pytest.raises(Unavailable):
            blob.put("shard/a", b"y")
        blob.put("shard/a", b"y")
        assert read_all(blob, "shard/a") == b"y"

    def test_every_name_is_synced_before_put_returns(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blob = FileBlob(tmp_path)
        synced: list[Path] = []
        sync = os.fsync

        def record(descriptor: int) -> None:
            synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", record)
        blob.put("a/b/c", b"x")
        root = tmp_path.resolve()
        assert synced[0].parent == root / "tmp~"
        assert synced[1:] == [root, root / "a", root / "a" / "b"]
        synced.clear()
        blob.put("a/b/d", b"x")
        assert synced[0].parent == root / "tmp~"
        assert synced[1:] == [root / "a" / "b"]
        # Another handle can not know that the folders are durable.
        synced.clear()
        FileBlob(tmp_path).put("a/b/e", b"x")
        assert {root, root / "a", root / "a" / "b"} <= set(synced)


PUT_FOR_EVER = """
    import itertools, sys
    from pathlib import Path
    from waterclock.persist.blob.files import FileBlob

    blob = FileBlob(Path(sys.argv[1]))
    for n in itertools.count():
        blob.put(f"shard-{n % 3}/{n}", n.to_bytes(4, "big") * 100_000)
        print(n, flush=True)
"""

EXIT_INSIDE_PUT = """
    import os, sys
    from pathlib import Path
    from waterclock.persist.blob.files import FileBlob

    blob = FileBlob(Path(sys.argv[1]))
    name, countdown = sys.argv[2], int(sys.argv[3])
    original = getattr(os, name)

    def dying(*arguments):
        global countdown
        countdown -= 1
        if countdown == 0:
            os._exit(7)
        return original(*arguments)

    setattr(os, name, dying)
    blob.put("shard/new", b"whole" * 1000)
"""


def script(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(source), *arguments]


def test_a_killed_writer_leaves_only_whole_objects(tmp_path: Path) -> None:
    with subprocess.Popen(script(PUT_FOR_EVER, str(tmp_path)), stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(20)]
        time.sleep(0.003)
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout]
    blob = FileBlob(tmp_path)
    keys = list(blob.list(""))
    assert {f"shard-{n % 3}/{n}" for n in acknowledged} <= set(keys)
    assert len(keys) <= len(acknowledged) + 1
    for key in keys:
        assert read_all(blob, key) == int(key.split("/")[1]).to_bytes(4, "big") * 100_000
    blob.clear_temporary()
    assert list((tmp_path / "tmp~").iterdir()) == []
    assert list(blob.list("")) == keys


@pytest.mark.parametrize(
    ("name", "call", "visible"),
    [("fsync", 1, False), ("fsync", 2, False), ("replace", 1, False), ("fsync", 3, True)],
)
def test_a_crash_inside_put_leaves_all_or_nothing(
    tmp_path: Path, name: str, call: int, visible: bool
) -> None:
    """The syncs are, in order, those of the data, of the new folder's name, and of the object's."""
    FileBlob(tmp_path).put("other", b"x")
    command = script(EXIT_INSIDE_PUT, str(tmp_path), name, str(call))
    assert subprocess.run(command, timeout=240, check=False).returncode == 7
    blob = FileBlob(tmp_path)
    assert list(blob.list("")) == (["other", "shard/new"] if visible else ["other"])
    if visible:
        assert read_all(blob, "shard/new") == b"whole" * 1000
    else:
        with pytest.raises(BlobMissing):
            blob.open("shard/new")
    blob.put("shard/new", pa.py_buffer(b"again"))
    assert read_all(blob, "shard/new") == b"again"
