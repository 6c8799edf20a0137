"""CREATE CONNECTION, SECRET, CLUSTER, DATABASE, SCHEMA; ALTER SECRET."""

from __future__ import annotations

from waterclock.sql.ast.common import ObjectName, Option
from waterclock.sql.ast.relations import CreateDatabase, CreateSchema
from waterclock.sql.ast.sources import (
    AlterSecret,
    CreateCluster,
    CreateConnection,
    CreateSecret,
    ValidateConnection,
)
from waterclock.sql.parser.options import option, options, with_options
from waterclock.sql.parser.scanning import condition
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_CONNECTION_KINDS = (
    ("confluent", "schema", "registry"),
    ("aws", "privatelink"),
    ("ssh", "tunnel"),
    ("sql", "server"),
    ("kafka",),
    ("postgres",),
    ("mysql",),
    ("aws",),
)


def create_connection(stream: TokenStream, *, or_replace: bool) -> CreateConnection:
    """What follows CREATE [OR REPLACE] CONNECTION."""
    exists = not or_replace and stream.accept("if", "not", "exists")
    name = stream.object_name()
    if not stream.accept("to"):
        stream.expect("for")
    for words in _CONNECTION_KINDS:
        if stream.accept(*words):
            kind = " ".join(words)
            break
    else:
        stream.fail()
    settings = options(stream)
    return CreateConnection(name, kind, settings, exists, or_replace, with_options(stream))


def create_secret(stream: TokenStream) -> CreateSecret:
    """What follows CREATE SECRET."""
    exists = stream.accept("if", "not", "exists")
    name = stream.object_name()
    stream.expect("as")
    return CreateSecret(name, condition(stream), exists)


def validate_connection(stream: TokenStream) -> ValidateConnection:
    stream.expect("validate", "connection")
    return ValidateConnection(stream.object_name())


def alter_secret_value(stream: TokenStream, name: ObjectName, if_exists: bool) -> AlterSecret:
    """What follows ALTER SECRET name: AS value."""
    stream.expect("as")
    return AlterSecret(name, condition(stream), if_exists)


def create_cluster(stream: TokenStream) -> CreateCluster:
    """What follows CREATE CLUSTER; options may stand without brackets."""
    if stream.at("replica"):
        stream.unsupported("CREATE CLUSTER REPLICA")
    exists = stream.accept("if", "not", "exists")
    name = stream.identifier()
    if stream.at_end():
        return CreateCluster(name, exists)
    if stream.at_mark("("):
        return CreateCluster(name, exists, options(stream))
    found = [option(stream)]
    while stream.accept_mark(","):
        found.append(option(stream))
    return CreateCluster(name, exists, tuple(found))


def create_database(stream: TokenStream) -> CreateDatabase:
    """What follows CREATE DATABASE."""
    exists = stream.accept("if", "not", "exists")
    name = stream.identifier()
    stream.accept("with")
    found: list[Option] = []
    while not stream.at_end():
        found.append(_database_option(stream))
    return CreateDatabase(ObjectName((name.name,), name.position), exists, tuple(found))


def _database_option(stream: TokenStream) -> Option:
    """`name [=] value`, without commas between."""
    if stream.token.kind is not Kind.WORD:
        stream.fail()
    first = stream.index
    words = 2 if stream.at("connection", "limit") else 1
    stream.back_to(first + words)
    stream.accept_mark("=")
    if stream.at_mark("-") or stream.at_mark("+"):
        stream.advance()
    if stream.token.kind in (Kind.OPERATOR, Kind.END):
        stream.fail()
    stream.advance()
    end = stream.index
    single = TokenStream(stream.text, [*stream.tokens[first:end], stream.tokens[-1]])
    return option(single)


def create_schema(stream: TokenStream) -> CreateSchema:
    """What follows CREATE SCHEMA."""
    exists = stream.accept("if", "not", "exists")
    if stream.accept("authorization"):
        role = stream.non_reserved_word()
        return CreateSchema(ObjectName((role.name,), role.position), exists, role.name)
    name = stream.object_name()
    owner = stream.non_reserved_word().name if stream.accept("authorization") else None
    if stream.at_any("create", "grant"):
        stream.unsupported("CREATE SCHEMA with other statements inside")
    return CreateSchema(name, exists, owner)
