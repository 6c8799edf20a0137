"""The shards of a stream, and which of them may be read: plain functions over values.

A split closes a shard and puts two in its place, a merge closes two and puts one. Records with one
partition key are in the parent before they are in a child. So a child is read only when its parents
are complete, and the end of a parent is bound before the first record of a child.

A shard that is complete stands at `END`, and stays in the frontier: the service forgets closed
shards when their records have expired, and only by this is one that was read told from one that was
lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from waterclock.storage.reclock.shape import END


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that the service knows. Partition keys whose hashes are in the range go into it."""

    id: str
    parents: tuple[str, ...] = ()
    first_hash: int = 0
    last_hash: int = 2**128 - 1

    def takes(self, key_hash: int) -> bool:
        return self.first_hash <= key_hash <= self.last_hash


def readable(listed: Collection[Shard], uppers: Mapping[str, int]) -> list[Shard]:
    """The shards that are not complete and whose parents are, by their ids.

    A parent that nobody knows any more had expired before the source was created.
    """
    known = {shard.id for shard in listed} | uppers.keys()

    def is_over(parent: str) -> bool:
        return uppers.get(parent) == END if parent in known else True

    return sorted(
        (
            shard
            for shard in listed
            if uppers.get(shard.id) != END and all(map(is_over, shard.parents))
        ),
        key=lambda shard: shard.id,
    )


def find_lost(
    listed: Collection[Shard], uppers: Mapping[str, int], initial: Collection[str]
) -> str | None:
    """A shard that the service has forgotten before it was read to its end; None if there is none.

    It was in the frontier, or it is the parent of one that appeared after the source was created.
    """
    ids = {shard.id for shard in listed}
    for shard, upper in sorted(uppers.items()):
        if upper != END and shard not in ids:
            return shard
    for each in sorted(listed, key=lambda shard: shard.id):
        if each.id in initial or each.id in uppers:
            continue
        for parent in each.parents:
            if parent not in ids and parent not in uppers and parent not in initial:
                return parent
    return None
