"""What can go wrong with a stream, told in our words."""

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


def expired(stream: str, shard: str, after: str, found: str) -> SourceFault:
    """Retention was quicker than we were, or nobody can tell that it was not."""
    return SourceFault(
        f'records of stream "{stream}" have expired upstream before they were read',
        detail=f"Shard {shard} was read up to {after}, which is not there any more; {found}.",
        hint=f"Raise the retention period of the stream. {_AGAIN}",
    )


def shard_expired(stream: str, shard: str) -> SourceFault:
    return SourceFault(
        f'records of stream "{stream}" have expired upstream before they were read',
        detail=f"Shard {shard} is not there any more, and was not read to its end.",
        hint=f"Raise the retention period of the stream. {_AGAIN}",
    )


def lost(stream: str, shard: str, bound: str, found: str) -> SourceFault:
    """What was promised to be there is not."""
    return SourceFault(
        f'records of stream "{stream}" are lost upstream',
        detail=f"Shard {shard} was known up to {bound}, and {found}.",
        hint=_AGAIN,
    )
