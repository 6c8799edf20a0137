"""What a listing says that was not known: objects that are new, and those that are not as before.

A bucket is looked through in *passes*, page by page, in the order of keys. What is found behind the
place that a pass has got to is found by this one, everything else by the next one: so a late key is
found wherever it is. A pass that began after some moment has found, at its end, everything that was
acknowledged before that moment, because listings are strongly consistent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.s3.bucket import DELETED, OVERWRITTEN, Bucket, Listed
from waterclock.storage.sources.s3.manifest import Manifest, fingerprint
from waterclock.storage.sources.s3.patterns import KeyPattern

Change = Literal["deleted", "overwritten", "restored"]
REASONS: Mapping[Change, str] = {"deleted": DELETED, "overwritten": OVERWRITTEN}


@dataclass(frozen=True, slots=True)
class Event:
    """Something has become of an object that had been read."""

    key: str
    change: Change


def news(
    listed: Collection[Listed],
    known: Mapping[str, bytes],
    broken: Mapping[str, bool],
    unfinished: Collection[str],
) -> tuple[list[Listed], list[Event]]:
    """What part of a listing says, given what was known of the same part.

    `broken` are the objects that are known to be not as they were, and whether they can be again
    what they were. `unfinished` are being read. Empty objects have nothing to be read.
    """
    new: list[Listed] = []
    events: list[Event] = []
    for each in listed:
        version = known.get(each.key)
        if each.key in unfinished:
            continue
        if version is None:
            if each.size:
                new.append(each)
        elif version == fingerprint(each.etag):
            if broken.get(each.key, False):
                events.append(Event(each.key, "restored"))
        elif each.key not in broken:
            events.append(Event(each.key, "overwritten"))
    there = {each.key for each in listed}
    events += [Event(key, "deleted") for key in known if key not in there and key not in broken]
    return new, events


class Pass:
    """One look through the listing."""

    def __init__(self, bucket: Bucket, pattern: KeyPattern, listed_at: int) -> None:
        """`listed_at` is when it begins."""
        self.listed_at = listed_at
        self.is_over = False
        self._bucket = bucket
        self._pattern = pattern
        self._token: str | None = None
        self._after: str | None = None

    def next(
        self, manifest: Manifest, broken: Mapping[str, bool], unfinished: Collection[str]
    ) -> tuple[list[Listed], list[Event]]:
        """What the next page says. Raises `TransientFault`."""
        page = self._bucket.page(self._pattern.prefix, self._token)
        after, to = self._after, None
        if page.objects:
            first, last = page.objects[0].key, page.objects[-1].key
            if after is not None and first <= after:
                raise SourceFault(
                    f'bucket "{self._bucket.name}" is not listed in the order of keys',
                    detail="A source reads buckets whose listings are ordered and consistent.",
                )
            self._after = last
        if page.token is not None:
            to = self._after
        self._token, self.is_over = page.token, page.token is None
        wanted = [each for each in page.objects if self._pattern.matches(each.key)]
        if page.token is not None and to is None:  # a page without any object
            return [], []
        return news(wanted, manifest.between(after, to), broken, unfinished)


def first_objects(bucket: Bucket, pattern: KeyPattern) -> Iterator[Listed]:
    """The objects that are there, as long as somebody asks for more. Raises `TransientFault`."""
    token: str | None = None
    while True:
        page = bucket.page(pattern.prefix, token)
        for each in page.objects:
            if each.size and pattern.matches(each.key):
                yield each
        token = page.token
        if token is None:
            return
