"""CREATE VIEW, CREATE MATERIALIZED VIEW, CREATE INDEX, REFRESH MATERIALIZED VIEW."""

from __future__ import annotations

from waterclock.sql.ast.common import Identifier, SortKey
from waterclock.sql.ast.relations import (
    CreateIndex,
    CreateMaterializedView,
    CreateView,
    RefreshMaterializedView,
)
from waterclock.sql.parser.options import with_options
from waterclock.sql.parser.scanning import column_list, query_without_time, sort_keys
from waterclock.sql.parser.tables import at_data_clause, data_clause, if_not_exists
from waterclock.sql.stream import TokenStream

_WITH = frozenset({"with"})


def create_view(stream: TokenStream, *, or_replace: bool, temporary: bool) -> CreateView:
    """What follows CREATE [OR REPLACE] [TEMPORARY] VIEW."""
    exists = not or_replace and if_not_exists(stream)
    name = stream.object_name()
    columns = column_list(stream)
    if stream.at("with"):
        stream.unsupported("WITH in CREATE VIEW")
    stream.expect("as")
    query = query_without_time(stream, "a view", _WITH, _at_check_option)
    if stream.at("with"):
        stream.unsupported("WITH CHECK OPTION")
    return CreateView(name, query, columns, or_replace, exists, temporary)


def _at_check_option(stream: TokenStream) -> bool:
    return (
        stream.at("with", "check", "option")
        or stream.at("with", "local", "check")
        or stream.at("with", "cascaded", "check")
    )


def in_cluster(stream: TokenStream) -> Identifier | None:
    """`IN CLUSTER name`, if it follows."""
    if not stream.accept("in"):
        return None
    stream.expect("cluster")
    return stream.identifier()


def create_materialized_view(stream: TokenStream, *, or_replace: bool) -> CreateMaterializedView:
    """What follows CREATE [OR REPLACE] MATERIALIZED VIEW."""
    exists = not or_replace and if_not_exists(stream)
    name = stream.object_name()
    columns = column_list(stream)
    cluster = in_cluster(stream)
    if stream.at_any("using", "tablespace"):
        stream.unsupported(f"{stream.token.value.upper()} in CREATE MATERIALIZED VIEW")
    options = with_options(stream)
    stream.expect("as")
    query = query_without_time(stream, "a materialized view", _WITH, at_data_clause)
    with_data = data_clause(stream)
    return CreateMaterializedView(
        name, query, columns, or_replace, exists, cluster, options, with_data
    )


def refresh(stream: TokenStream) -> RefreshMaterializedView:
    stream.expect("refresh", "materialized", "view")
    concurrently = stream.accept("concurrently")
    name = stream.object_name()
    return RefreshMaterializedView(name, concurrently, data_clause(stream))


def create_index(stream: TokenStream, *, default: bool) -> CreateIndex:
    """What follows CREATE [DEFAULT] INDEX; a default index has no keys of its own."""
    stream.accept("concurrently")
    exists = if_not_exists(stream)
    name = None if not exists and stream.at_any("on", "in") else stream.identifier()
    cluster = in_cluster(stream)
    stream.expect("on")
    stream.accept("only")
    relation = stream.object_name()
    method = stream.identifier().name if stream.accept("using") else None
    keys: tuple[SortKey, ...] | None = None
    if not default:
        keys = _keys(stream)
    if stream.at_any("include", "nulls"):
        stream.unsupported(f"{stream.token.value.upper()} in CREATE INDEX")
    options = with_options(stream)
    if stream.at_any("tablespace", "where"):
        stream.unsupported(f"{stream.token.value.upper()} in CREATE INDEX")
    return CreateIndex(relation, keys, name, exists, cluster, method, options)


def _keys(stream: TokenStream) -> tuple[SortKey, ...]:
    stream.expect_mark("(")
    keys = sort_keys(stream)
    stream.expect_mark(")")
    return keys
