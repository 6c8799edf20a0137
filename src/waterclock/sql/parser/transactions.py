"""BEGIN, COMMIT, ROLLBACK, savepoints, and the modes of transactions."""

from __future__ import annotations

from waterclock.sql.ast import Statement
from waterclock.sql.ast.session import (
    Begin,
    Commit,
    Isolation,
    ReleaseSavepoint,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    TransactionModes,
)
from waterclock.sql.stream import TokenStream


def modes(stream: TokenStream, *, required: bool = False) -> TransactionModes:
    """Modes with or without commas between; the last of a kind counts."""
    isolation: Isolation | None = None
    read_only: bool | None = None
    deferrable: bool | None = None
    while required or not (stream.at_end() or stream.at_mark(")")):
        required = False
        if stream.accept("isolation"):
            stream.expect("level")
            isolation = _isolation(stream)
        elif stream.accept("read"):
            read_only = stream.expect_any("only", "write") == "only"
        elif stream.accept("not"):
            stream.expect("deferrable")
            deferrable = False
        else:
            stream.expect("deferrable")
            deferrable = True
        required = stream.accept_mark(",")
    return TransactionModes(isolation, read_only, deferrable)


def _isolation(stream: TokenStream) -> Isolation:
    if stream.accept("strict"):
        stream.expect("serializable")
        return Isolation.STRICT_SERIALIZABLE
    if stream.accept("repeatable"):
        stream.expect("read")
        return Isolation.REPEATABLE_READ
    if stream.accept("read"):
        word = stream.expect_any("committed", "uncommitted")
        return Isolation(f"read {word}")
    stream.expect("serializable")
    return Isolation.SERIALIZABLE


def begin(stream: TokenStream) -> Begin:
    stream.expect("begin")
    stream.accept_any("work", "transaction")
    return Begin(modes(stream))


def start(stream: TokenStream) -> Begin:
    stream.expect("start", "transaction")
    return Begin(modes(stream), is_start=True)


def commit(stream: TokenStream) -> Commit:
    """COMMIT or END."""
    word = stream.expect_any("commit", "end")
    if word == "commit" and stream.at("prepared"):
        stream.unsupported("COMMIT PREPARED")
    stream.accept_any("work", "transaction")
    return Commit(_chain(stream))


def rollback(stream: TokenStream) -> Statement:
    """ROLLBACK or ABORT."""
    word = stream.expect_any("rollback", "abort")
    if word == "rollback" and stream.at("prepared"):
        stream.unsupported("ROLLBACK PREPARED")
    stream.accept_any("work", "transaction")
    if word == "rollback" and stream.accept("to"):
        return RollbackToSavepoint(_savepoint_name(stream))
    return Rollback(_chain(stream))


def _chain(stream: TokenStream) -> bool:
    if not stream.accept("and"):
        return False
    chain = not stream.accept("no")
    stream.expect("chain")
    return chain


def savepoint(stream: TokenStream) -> Savepoint:
    stream.expect("savepoint")
    return Savepoint(stream.identifier().name)


def release(stream: TokenStream) -> ReleaseSavepoint:
    stream.expect("release")
    return ReleaseSavepoint(_savepoint_name(stream))


def _savepoint_name(stream: TokenStream) -> str:
    """`[SAVEPOINT] name`; a savepoint may itself be called `savepoint`."""
    if stream.at("savepoint"):
        stream.advance()
        if stream.at_end():
            return "savepoint"
    return stream.identifier().name
