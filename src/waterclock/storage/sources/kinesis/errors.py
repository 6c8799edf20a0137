"""The errors of streams that end a source, or keep one from being created."""

from __future__ import annotations

from waterclock.storage.sources.errors import InvalidSource, SourceFault

_AGAIN = "Drop the source and create it again to read what is upstream now."


def unknown_stream(stream: str) -> InvalidSource:
    """For one who is about to create a source."""
    return InvalidSource(
        f'stream "{stream}" does not exist',
        hint="Check its name, and the region and the account of the connection.",
    )


def deleted(stream: str) -> SourceFault:
    return SourceFault(f'stream "{stream}" was deleted upstream', hint=_AGAIN)


def recreated(stream: str) -> SourceFault:
    return SourceFault(f'stream "{stream}" was deleted and created again upstream', hint=_AGAIN)


def expired(stream: str, shard: str, last: int | None, first: int | None) -> SourceFault:
    """Records may have expired between the last one that is known and the first one that is there;
    None where there is no such record.
    """
    if last is None:
        detail = f"Nothing was read of shard {shard} yet, and nobody can tell what has expired."
    else:
        behind = "nothing follows it" if first is None else f"the next one is {first}"
        detail = (
            f"Shard {shard} was to be read on from sequence number {last}, which is not there any"
            f" more; {behind}."
        )
    return SourceFault(
        f'records of stream "{stream}" have expired upstream before they were read',
        detail=detail,
        hint=f"Raise the retention period of the stream. {_AGAIN}",
    )


def shard_expired(stream: str, shard: str) -> SourceFault:
    return SourceFault(
        f'records of stream "{stream}" have expired upstream before they were read',
        detail=f"Shard {shard} is not there any more, and was not read to its end.",
        hint=f"Raise the retention period of the stream. {_AGAIN}",
    )


def lost(stream: str, shard: str, bound: int, found: int | None) -> SourceFault:
    """A record that was bound is not there. `found` is the last one before it."""
    ends = "nothing is there" if found is None else f"the last one before it is {found}"
    return SourceFault(
        f'records of stream "{stream}" are lost upstream',
        detail=f"Shard {shard} had a record with sequence number {bound}; now {ends}.",
        hint=_AGAIN,
    )
