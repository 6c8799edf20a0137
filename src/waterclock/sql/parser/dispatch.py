"""Which statement it is: by its first words."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.sql.ast import Statement
from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.parser.changes import delete, insert, truncate, update
from waterclock.sql.parser.common_tables import with_in_front
from waterclock.sql.parser.connections import (
    create_cluster,
    create_connection,
    create_database,
    create_schema,
    create_secret,
    validate_connection,
)
from waterclock.sql.parser.copy import copy
from waterclock.sql.parser.grants import grant, revoke
from waterclock.sql.parser.objects import alter, comment, drop
from waterclock.sql.parser.queries import explain, select, subscribe
from waterclock.sql.parser.read_holds import (
    READ_HOLD,
    alter_read_hold,
    create_read_hold,
    drop_read_hold,
)
from waterclock.sql.parser.roles import create_role
from waterclock.sql.parser.sessions import (
    close,
    deallocate,
    declare,
    execute,
    fetch,
    listen,
    notify,
    prepare,
    unlisten,
)
from waterclock.sql.parser.settings import discard, reset, set_, show
from waterclock.sql.parser.sources import create_sink, create_source
from waterclock.sql.parser.tables import create_table
from waterclock.sql.parser.transactions import begin, commit, release, rollback, savepoint, start
from waterclock.sql.parser.unsupported import skip_statement, unsupported
from waterclock.sql.parser.views import (
    create_index,
    create_materialized_view,
    create_view,
    refresh,
)
from waterclock.sql.stream import TokenStream, UnsupportedSyntax
from waterclock.sql.tokens import Kind


def statement(stream: TokenStream) -> Statement:
    """The statement that starts here, up to its end.

    What is recognised and not supported becomes an `Unsupported`, and the rest of it is not looked
    into. Raises a `SqlFault`.
    """
    first = stream.index
    try:
        found = _statement(stream)
    except UnsupportedSyntax as refused:
        stream.back_to(first)
        skip_statement(stream)
        return Unsupported(refused.what, refused.position)
    stream.expect_end()
    return found


def _statement(stream: TokenStream) -> Statement:
    token = stream.token
    if token.kind is Kind.WORD:
        parse = _BY_FIRST_WORD.get(token.value)
        if parse is not None:
            return parse(stream)
        _refuse_by_name(stream)
    elif stream.at_mark("("):
        return select(stream)
    raise stream.fault()


def _refuse_by_name(stream: TokenStream) -> None:
    found = unsupported(stream)
    if found is not None:
        stream.unsupported(found.what, found.position)


def _explain(stream: TokenStream) -> Statement:
    return explain(stream, _statement)


def _prepare(stream: TokenStream) -> Statement:
    return prepare(stream, _statement)


def _alter(stream: TokenStream) -> Statement:
    _refuse_by_name(stream)
    if stream.at("alter", *READ_HOLD):
        return alter_read_hold(stream)
    return alter(stream)


def _drop(stream: TokenStream) -> Statement:
    _refuse_by_name(stream)
    if stream.at("drop", *READ_HOLD):
        return drop_read_hold(stream)
    return drop(stream)


def _create(stream: TokenStream) -> Statement:
    _refuse_by_name(stream)
    stream.expect("create")
    or_replace = stream.accept("or", "replace")
    temporary = stream.accept_any("temporary", "temp") is not None
    if not temporary and stream.at_any("local", "global"):
        following = stream.peek()
        if following.kind is Kind.WORD and following.value in ("temporary", "temp"):
            stream.advance()
            temporary = stream.accept_any("temporary", "temp") is not None
    if stream.at("recursive", "view"):
        stream.unsupported("CREATE RECURSIVE VIEW")
    if stream.accept("view"):
        return create_view(stream, or_replace=or_replace, temporary=temporary)
    if not temporary:
        if stream.accept("materialized", "view"):
            return create_materialized_view(stream, or_replace=or_replace)
        if stream.accept("connection"):
            return create_connection(stream, or_replace=or_replace)
    if or_replace:
        stream.fail()
    if stream.accept("table"):
        return create_table(stream, temporary=temporary)
    if temporary:
        stream.fail()
    return _create_other(stream)


def _create_other(stream: TokenStream) -> Statement:
    """What CREATE makes without OR REPLACE or TEMPORARY."""
    if stream.at("unlogged"):
        stream.unsupported("CREATE UNLOGGED TABLE")
    if stream.accept("default"):
        stream.expect("index")
        return create_index(stream, default=True)
    if stream.accept("index"):
        return create_index(stream, default=False)
    if stream.accept(*READ_HOLD):
        return create_read_hold(stream)
    if word := stream.accept_any("role", "user", "group"):
        return create_role(stream, login=word == "user")
    word = stream.accept_any(*_BY_CREATED_KIND)
    if word is None:
        stream.fail()
    return _BY_CREATED_KIND[word](stream)


_BY_CREATED_KIND: dict[str, Callable[[TokenStream], Statement]] = {
    "source": create_source,
    "sink": create_sink,
    "secret": create_secret,
    "cluster": create_cluster,
    "database": create_database,
    "schema": create_schema,
}

_BY_FIRST_WORD: dict[str, Callable[[TokenStream], Statement]] = {
    "select": select,
    "values": select,
    "table": select,
    "with": with_in_front,
    "subscribe": subscribe,
    "tail": subscribe,
    "explain": _explain,
    "insert": insert,
    "update": update,
    "delete": delete,
    "truncate": truncate,
    "copy": copy,
    "set": set_,
    "reset": reset,
    "show": show,
    "discard": discard,
    "begin": begin,
    "start": start,
    "commit": commit,
    "end": commit,
    "rollback": rollback,
    "abort": rollback,
    "savepoint": savepoint,
    "release": release,
    "prepare": _prepare,
    "execute": execute,
    "deallocate": deallocate,
    "declare": declare,
    "fetch": fetch,
    "move": fetch,
    "close": close,
    "listen": listen,
    "unlisten": unlisten,
    "notify": notify,
    "create": _create,
    "refresh": refresh,
    "validate": validate_connection,
    "alter": _alter,
    "drop": _drop,
    "comment": comment,
    "grant": grant,
    "revoke": revoke,
}
