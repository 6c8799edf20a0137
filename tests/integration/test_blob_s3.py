"""Objects in a bucket, against a real server."""

from __future__ import annotations

import uuid

import pyarrow.fs as pafs
import pytest

from waterclock.persist.blob.s3 import BadAddress, S3Blob, connect
from waterclock.persist.errors import Unavailable
from waterclock.testing.conformance.blob import BlobConformance, OpenBlob, read_all
from waterclock.testing.services import S3Server, free_port

pytestmark = pytest.mark.service


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    s3_server.make_bucket(name)
    return name


class TestS3Blob(BlobConformance):
    reader_survives_deletion = False

    @pytest.fixture
    def open_blob(self, s3_server: S3Server, bucket: str) -> OpenBlob:
        return lambda: S3Blob(s3_server.filesystem(), f"{bucket}/some/prefix")


class TestS3BlobInTheRootOfABucket(BlobConformance):
    reader_survives_deletion = False

    @pytest.fixture
    def open_blob(self, s3_server: S3Server, bucket: str) -> OpenBlob:
        return lambda: S3Blob(s3_server.filesystem(), bucket)


def test_an_object_of_many_parts(s3_server: S3Server, bucket: str) -> None:
    blob = S3Blob(s3_server.filesystem(), bucket)
    data = bytes(range(251)) * 100_000
    blob.put("a", data)
    assert read_all(blob, "a") == data


def test_neighbours_in_the_bucket_are_not_seen(s3_server: S3Server, bucket: str) -> None:
    one = S3Blob(s3_server.filesystem(), f"{bucket}/one")
    other = S3Blob(s3_server.filesystem(), f"{bucket}/one-more")
    other.put("a", b"x")
    assert list(one.list("")) == []
    one.put("b", b"y")
    assert list(one.list("")) == ["b"]
    assert list(other.list("")) == ["a"]


def test_from_url(s3_server: S3Server, bucket: str) -> None:
    url = f"s3://{bucket}/deep/prefix/?endpoint={s3_server.endpoint}&region=us-east-1"
    blob = S3Blob.from_url(url, access_key="test", secret_key="test")
    blob.put("a/b", b"x")
    info = s3_server.filesystem().get_file_info(f"{bucket}/deep/prefix/a/b")
    assert info.type == pafs.FileType.File
    assert list(blob.list("")) == ["a/b"]


@pytest.mark.parametrize(
    "url",
    [
        "bucket/prefix",
        "s3:///prefix",
        "file:///a",
        "s3://key:secret@bucket",
        "s3://bucket?regoin=x",
    ],
)
def test_addresses_that_can_not_be_understood(url: str) -> None:
    with pytest.raises(BadAddress) as caught:
        S3Blob.from_url(url)
    assert caught.value.hint is not None
    assert "secret" not in str(caught.value)


def test_a_missing_bucket(s3_server: S3Server) -> None:
    with pytest.raises(Unavailable, match='bucket "nowhere" does not exist'):
        S3Blob.from_url(
            f"s3://nowhere/a?endpoint={s3_server.endpoint}&region=us-east-1",
            access_key="test",
            secret_key="test",
        )
    with pytest.raises(Unavailable, match='"a"'):
        S3Blob(s3_server.filesystem(), "nowhere").put("a", b"x")


def test_a_server_that_does_not_answer() -> None:
    filesystem = connect(
        endpoint=f"http://127.0.0.1:{free_port()}",
        region="us-east-1",
        access_key="test",
        secret_key="test",
    )
    blob = S3Blob(filesystem, "bucket")
    with pytest.raises(Unavailable, match='could not write object "a"'):
        blob.put("a", b"x")
    with pytest.raises(Unavailable, match='could not open object "a"'):
        blob.open("a")
    with pytest.raises(Unavailable, match='could not delete object "a"'):
        blob.delete("a")
    with pytest.raises(Unavailable, match="could not list objects"):
        blob.list("")
