"""A bucket, as far as a source needs it: a listing, what an object is, and bytes of it.

Bytes are asked for with the ETag of the object that was listed. An answer with another ETag is not
taken, also from servers that do not know the condition. So all that is ever read of an object is of
the one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from waterclock.storage.sources.aws.clients import AwsAccess
from waterclock.storage.sources.aws.errors import as_faults, code_of
from waterclock.storage.sources.errors import SourceFault, TransientFault

_PAGE = 1000
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_OTHER = frozenset({"412", "416", "PreconditionFailed", "InvalidRange"})
DELETED = "was deleted"
OVERWRITTEN = "was overwritten"
_ARCHIVED = "is archived and has to be restored before it can be read"


class ObjectLost(Exception):
    """An object can not be read as it was listed, and never will be. Its text says why."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One version of an object."""

    key: str
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing, in the order of keys; `token` asks for the next one, if there is one."""

    objects: Sequence[Listed]
    token: str | None


@dataclass
class Bucket:
    """One bucket. It can be used by several threads, and be pickled: then it connects again."""

    access: AwsAccess
    name: str
    _client: Any = field(default=None, repr=False)

    def __reduce__(self) -> tuple[type[Bucket], tuple[AwsAccess, str]]:
        return Bucket, (self.access, self.name)

    def page(self, prefix: str, token: str | None = None) -> Page:
        """A page of the listing. Raises `TransientFault`."""
        asked = {"Bucket": self.name, "Prefix": prefix, "MaxKeys": _PAGE}
        if token is not None:
            asked["ContinuationToken"] = token
        with as_faults(self.access.name, f'list bucket "{self.name}"'):
            answer = self._opened().list_objects_v2(**asked)
        found = [Listed(o["Key"], o["ETag"], o["Size"]) for o in answer.get("Contents", ())]
        if any(a.key >= b.key for a, b in pairwise(found)):
            raise SourceFault(
                f'bucket "{self.name}" is not listed in the order of keys',
                detail="A source reads buckets whose listings are ordered and consistent.",
                hint="Directory buckets are not; use a general purpose bucket.",
            )
        return Page(found, answer.get("NextContinuationToken"))

    def look(self, key: str) -> Listed | None:
        """The object as it is now. Raises `TransientFault`."""
        from botocore.exceptions import ClientError

        with as_faults(self.access.name, f'look at object "{key}" of bucket "{self.name}"'):
            try:
                answer = self._opened().head_object(Bucket=self.name, Key=key)
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise
        return Listed(key, answer["ETag"], answer["ContentLength"])

    def bytes_of(self, listed: Listed, start: int, end: int) -> bytes:
        """Bytes of that version. Raises `ObjectLost` and `TransientFault`."""
        from botocore.exceptions import ClientError

        with as_faults(self.access.name, f'read object "{listed.key}" of bucket "{self.name}"'):
            try:
                answer = self._opened().get_object(
                    Bucket=self.name,
                    Key=listed.key,
                    IfMatch=listed.etag,
                    Range=f"bytes={start}-{end - 1}",
                )
                with answer["Body"] as body:
                    data: bytes = body.read()
            except ClientError as error:
                code = code_of(error)
                if code in _ABSENT:
                    raise ObjectLost(DELETED) from None
                if code in _OTHER:
                    raise ObjectLost(OVERWRITTEN) from None
                if code == "InvalidObjectState":
                    raise ObjectLost(_ARCHIVED) from None
                raise
            except OSError as error:  # the answer broke off
                raise TransientFault(f'could not read object "{listed.key}": {error}') from error
        if answer["ETag"].strip('"') != listed.etag.strip('"'):
            raise ObjectLost(OVERWRITTEN)
        if len(data) != end - start:
            raise TransientFault(f'object "{listed.key}" was not read to the end')
        return data

    def open(self) -> None:
        """Connect, before several threads use it. Raises as `AwsAccess.open` does."""
        self._opened()

    def _opened(self) -> Any:
        if self._client is None:
            self._client = self.access.open("s3")
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()
