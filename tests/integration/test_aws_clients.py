"""Clients of Amazon's services, as connections make them, against a server that speaks for all."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.aws.clients import AwsAccess, Role, access_of
from waterclock.storage.sources.aws.errors import AwsMissing, as_faults
from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.storage.sources.validation import ConnectionUnusable, validate
from waterclock.testing.services import S3Server

ROLE = "arn:aws:iam::123456789012:role/reader"


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No identity comes from the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.service
def test_one_endpoint_for_all_services(s3_server: S3Server) -> None:
    options = {"access key id": "a", "secret access key": "b", "endpoint": s3_server.endpoint}
    access = access_of(ConnectionSettings("c", "aws", options))
    s3, sqs = access.open("s3"), access.open("sqs")
    s3.create_bucket(Bucket="clients")
    s3.put_object(Bucket="clients", Key="k", Body=b"abc")
    s3.close()
    url = sqs.create_queue(QueueName="clients")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "hello"
    sqs.close()
    elsewhere = pickle.loads(pickle.dumps(access.with_keys_of_now()))
    again = elsewhere.open("s3")
    assert again.get_object(Bucket="clients", Key="k")["Body"].read() == b"abc"
    again.close()
    validate(ConnectionSettings("c", "aws", options))


@pytest.mark.service
def test_an_assumed_role(s3_server: S3Server) -> None:
    role = Role(ROLE, "session", "outside")
    access = AwsAccess("c", None, s3_server.endpoint, "a", "b", role=role)
    keys = access.with_keys_of_now()
    assert keys.role is None
    assert keys.key_id is not None
    assert keys.key_id.startswith("ASIA")
    assert keys.session_token
    sts = keys.open("sts")
    assert sts.get_caller_identity()["Arn"].endswith("assumed-role/reader/session")
    sts.close()


def test_a_profile(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile p]\nregion = eu-west-3\n")
    (tmp_path / "credentials").write_text(
        "[p]\naws_access_key_id = id\naws_secret_access_key = hush\n"
    )
    keys = AwsAccess("c", profile="p").with_keys_of_now()
    assert (keys.region, keys.key_id, keys.secret_key) == ("eu-west-3", "id", "hush")
    assert "hush" not in repr(keys)
    with pytest.raises(InvalidSource, match='connection "c"'):
        AwsAccess("c", profile="other").open("s3")


def test_nobody_calls() -> None:
    with pytest.raises(TransientFault, match="credentials"):
        AwsAccess("c", "eu-west-1").with_keys_of_now()
    with pytest.raises(InvalidSource, match='connection "c"') as told:
        AwsAccess("c", "eu-west-1", role=Role(ROLE)).open("s3")
    assert told.value.detail == f'Nothing says who assumes role "{ROLE}".'


def test_no_region() -> None:
    with pytest.raises(InvalidSource) as told:
        AwsAccess("c", key_id="a", secret_key="b").open("s3")
    assert told.value.hint == "Give REGION."


def test_a_connection_to_somewhere_else() -> None:
    with pytest.raises(InvalidSource, match="not one to AWS"):
        access_of(ConnectionSettings("k", "kafka", {}))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(AwsMissing) as told:
        AwsAccess("c", "eu-west-1", key_id="a", secret_key="b").open("s3")
    assert told.value.hint == "Install it: pip install 'waterclock[aws]'."


@pytest.mark.service
def test_what_goes_wrong_is_told(s3_server: S3Server) -> None:
    s3 = AwsAccess("c", None, s3_server.endpoint, "a", "b").open("s3")
    with pytest.raises(TransientFault, match="list it") as told, as_faults("c", "list it"):
        s3.list_objects_v2(Bucket="there-is-none")
    assert told.value.detail == "NoSuchBucket: The specified bucket does not exist."
    s3.close()
    gone = AwsAccess("c", None, "http://127.0.0.1:1", "a", "b").open("s3")
    with pytest.raises(TransientFault, match="list it") as told, as_faults("c", "list it"):
        gone.list_objects_v2(Bucket="b")
    assert told.value.detail is not None
    assert "127.0.0.1:1" in told.value.detail
    gone.close()


def test_a_connection_to_nobody_is_not_valid() -> None:
    options = {"access key id": "a", "secret access key": "b", "endpoint": "http://127.0.0.1:1"}
    with pytest.raises(ConnectionUnusable) as caught:
        validate(ConnectionSettings("c", "aws", options))
    assert caught.value.message == 'connection "c" can not be used'
    assert "127.0.0.1:1" in (caught.value.detail or "")
