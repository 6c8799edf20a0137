"""What every `Blob` must do, as tests.

A class of tests inherits from `BlobConformance` and overrides the fixture `open_blob`: a function
that opens one more handle on one store, new and empty for each test. The suite closes the handles
it opens.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.persist.blob.api import Blob
from waterclock.persist.errors import BlobMissing

OpenBlob = Callable[[], Blob]

BAD_KEYS = (
    *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b"),
    *("a b", "a\\b", "a\n", "a:b", "a~", "tmp~/a", "\u00e4", "a\0", "*", "a?b"),
)


def read_all(blob: Blob, key: str) -> bytes:
    with blob.open(key) as file:
        data = file.read()
    assert isinstance(data, bytes)
    return data


class BlobConformance:
    """Inherit and override `open_blob`."""

    reader_survives_deletion = True
    """Whether a reader that is open keeps its object after `delete`."""

    @pytest.fixture
    def open_blob(self) -> OpenBlob:
        raise NotImplementedError

    @pytest.fixture
    def blob(self, open_blob: OpenBlob) -> Iterator[Blob]:
        blob = open_blob()
        yield blob
        blob.close()

    @pytest.mark.parametrize("size", [0, 1, 4096, 5_000_001])
    @pytest.mark.parametrize("kind", ["bytes", "buffer"])
    def test_gives_back_what_was_put(self, blob: Blob, size: int, kind: str) -> None:
        data = bytes(range(251)) * (size // 251 + 1)
        data = data[:size]
        blob.put("shard/batch", data if kind == "bytes" else pa.py_buffer(data))
        assert read_all(blob, "shard/batch") == data
        with blob.open("shard/batch") as file:
            assert file.size() == size

    def test_takes_a_slice_of_a_buffer(self, blob: Blob) -> None:
        blob.put("a", pa.py_buffer(b"0123456789").slice(3, 4))
        assert read_all(blob, "a") == b"3456"

    def test_keeps_nothing_of_the_memory_it_was_given(self, blob: Blob) -> None:
        memory = bytearray(b"before")
        blob.put("a", pa.py_buffer(memory))
        memory[:] = b"after!"
        assert read_all(blob, "a") == b"before"

    @pytest.mark.parametrize("key", ["a", "A.b_c-9", "a/b/c/d/e", "...", ".a", "-", "_/.b/c.."])
    def test_takes_every_key_of_the_rule(self, blob: Blob, key: str) -> None:
        blob.put(key, b"x")
        assert read_all(blob, key) == b"x"
        assert list(blob.list("")) == [key]

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_refuses_other_keys(self, blob: Blob, key: str) -> None:
        with pytest.raises(AssertionError):
            blob.put(key, b"x")
        with pytest.raises(AssertionError):
            blob.open(key)
        with pytest.raises(AssertionError):
            blob.delete(key)
        assert list(blob.list("")) == []

    def test_replaces_an_object_as_a_whole(self, blob: Blob) -> None:
        blob.put("a", b"a longer object")
        blob.put("a", b"short")
        assert read_all(blob, "a") == b"short"
        assert list(blob.list("")) == ["a"]

    def test_put_may_be_repeated(self, blob: Blob) -> None:
        for _ in range(3):
            blob.put("a/b", b"same")
        assert read_all(blob, "a/b") == b"same"

    def test_open_of_a_missing_object(self, blob: Blob) -> None:
        with pytest.raises(BlobMissing, match='"a/b"'):
            blob.open("a/b")
        blob.put("a/b", b"x")
        for key in ("a", "a/b/c", "a/bb"):
            with pytest.raises(BlobMissing):
                blob.open(key)

    def test_delete_removes_one_object(self, blob: Blob) -> None:
        blob.put("a/b", b"x")
        blob.put("a/c", b"y")
        blob.delete("a/b")
        with pytest.raises(BlobMissing):
            blob.open("a/b")
        assert list(blob.list("")) == ["a/c"]
        assert read_all(blob, "a/c") == b"y"

    def test_delete_of_an_absent_object_is_nothing(self, blob: Blob) -> None:
        blob.put("a/b", b"x")
        for key in ("c", "a", "a/b/c", "a/bb"):
            blob.delete(key)
        blob.put("d", b"y")
        blob.delete("d")
        blob.delete("d")
        assert list(blob.list("")) == ["a/b"]

    def test_a_deleted_key_may_be_put_again(self, blob: Blob) -> None:
        blob.put("a/b", b"x")
        blob.delete("a/b")
        blob.put("a/b", b"y")
        assert read_all(blob, "a/b") == b"y"

    def test_list_is_by_plain_prefix_in_ascending_order(self, blob: Blob) -> None:
        keys = ["b/x", "a/z", "a-b", "a.b", "a/b/c", "ab", "B", "a0", "_", "a/b-c", "10", "9"]
        for key in keys:
            blob.put(key, b"x")
        for prefix in ("", "a", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "b", "b/x/", "c", "c/d/e"):
            expected = sorted(key for key in keys if key.startswith(prefix))
            assert list(blob.list(prefix)) == expected, prefix

    @pytest.mark.parametrize("prefix", ["..", "../", "/", "a//", "~", "tmp~/", "a b", "."])
    def test_list_of_what_no_key_starts_with(self, blob: Blob, prefix: str) -> None:
        blob.put("a/b", b"x")
        assert list(blob.list(prefix)) == []

    def test_list_of_an_empty_store(self, blob: Blob) -> None:
        assert list(blob.list("")) == []
        assert list(blob.list("a/")) == []

    def test_a_reader_has_random_access(self, blob: Blob) -> None:
        data = bytes(range(256)) * 1000
        blob.put("a", data)
        with blob.open("a") as file:
            assert file.seekable()
            assert file.read_at(10, 70_000) == data[70_000:70_010]
            file.seek(255_990)
            assert file.read(100) == data[-10:]
            file.seek(-5, io.SEEK_END)
            assert file.read() == data[-5:]
            file.seek(3)
            assert file.tell() == 3
            assert file.read_buffer(4).to_pybytes() == data[3:7]

    def test_a_reader_serves_parquet(self, blob: Blob) -> None:
        table = pa.table({"a": range(10_000), "b": [str(n % 7) for n in range(10_000)]})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=1_000)
        blob.put("batch.parquet", sink.getvalue())
        with blob.open("batch.parquet") as file, pq.ParquetFile(file) as parquet:
            assert parquet.metadata.num_row_groups == 10
            assert parquet.read_row_group(3, columns=["a"])["a"][0].as_py() == 3_000
            assert parquet.read().equals(table)

    def test_two_readers_do_not_disturb_each_other(self, blob: Blob) -> None:
        blob.put("a", b"0123456789")
        with blob.open("a") as one, blob.open("a") as two:
            assert one.read(4) == b"0123"
            assert two.read(2) == b"01"
            assert one.read(4) == b"4567"

    def test_a_reader_survives_the_deletion_of_its_object(self, blob: Blob) -> None:
        if not self.reader_survives_deletion:
            pytest.skip("not promised by this store")
        data = bytes(range(256)) * 10_000
        blob.put("a", data)
        with blob.open("a") as file:
            blob.delete("a")
            blob.put("a", b"another")
            assert file.read() == data
        assert read_all(blob, "a") == b"another"

    def test_handles_see_each_other(self, open_blob: OpenBlob) -> None:
        one, two = open_blob(), open_blob()
        one.put("a/b", b"x")
        assert read_all(two, "a/b") == b"x"
        two.delete("a/b")
        assert list(one.list("")) == []
        one.close()
        two.close()

    def test_a_new_handle_sees_everything(self, open_blob: OpenBlob) -> None:
        blob = open_blob()
        blob.put("a/b", b"x")
        blob.close()
        blob = open_blob()
        assert list(blob.list("")) == ["a/b"]
        assert read_all(blob, "a/b") == b"x"
        blob.close()

    def test_close_may_be_repeated(self, open_blob: OpenBlob) -> None:
        blob = open_blob()
        blob.close()
        blob.close()

    def test_threads_put_side_by_side(self, blob: Blob) -> None:
        keys = [f"shard-{n % 5}/{n % 3}/{n}" for n in range(60)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: blob.put(key, key.encode() * 100), keys))
            found = list(pool.map(lambda key: read_all(blob, key), keys))
        assert found == [key.encode() * 100 for key in keys]
        assert list(blob.list("")) == sorted(keys)

    def test_a_reader_never_sees_part_of_an_object(self, blob: Blob) -> None:
        versions = [bytes([n]) * (50_000 + n) for n in range(6)]
        blob.put("a", versions[0])

        def put(version: bytes) -> None:
            for _ in range(5):
                blob.put("a", version)

        with ThreadPoolExecutor(4) as pool:
            puts = [pool.submit(put, version) for version in versions]
            while not all(done.done() for done in puts):
                assert len(list(blob.list(""))) == 1
                if self.reader_survives_deletion:
                    assert read_all(blob, "a") in versions
            for done in puts:
                done.result()
        assert read_all(blob, "a") in versions
