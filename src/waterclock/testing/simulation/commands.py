"""Commands as a history tells them."""

from __future__ import annotations

from waterclock.testing.reference import Acquire, Append, Clone, Command, Create, Downgrade


def brief(command: Command) -> str:
    """The command in one line."""
    match command:
        case Append(writes):
            return "append " + ", ".join(
                f"{len(w.triples)} updates to {w.shard} ({w.token[:4]}) {w.before}..{w.after}"
                for w in writes
            )
        case Downgrade(shard, token, before, after):
            return f"downgrade {shard} ({token[:4]}) {before}..{after}"
        case Clone(shard, source):
            return f"clone {shard} ({source.id[:4]}) {source.right.name} {source.frontier}"
        case Acquire(shard, lease_ms):
            return f"acquire {shard} for {lease_ms} ms"
        case Create(shard, start, lease_ms):
            return f"create {shard} at {start} for {lease_ms} ms"


def tokens_of(command: Command) -> list[str]:
    """The capabilities that the command exercises."""
    match command:
        case Append(writes):
            return [write.token for write in writes]
        case Downgrade(_, token, _, _):
            return [token]
        case Clone(_, source):
            return [source.id]
        case _:
            return []
