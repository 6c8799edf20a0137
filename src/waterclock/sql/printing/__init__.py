"""CREATE statements as text, in one form for all the ways there are to write them.

`create_text` gives a statement that, parsed, is the same value again; queries and expressions
appear as they were written. Names are printed as the node has them: who wants them complete puts
complete names in first. Passwords and the values of secrets are never printed.
"""

from __future__ import annotations

from typing import assert_never

from waterclock.sql.ast import CreateStatement
from waterclock.sql.ast.relations import (
    CreateDatabase,
    CreateIndex,
    CreateMaterializedView,
    CreateSchema,
    CreateTable,
    CreateTableAs,
    CreateView,
)
from waterclock.sql.ast.roles import CreateRole
from waterclock.sql.ast.sources import (
    CreateCluster,
    CreateConnection,
    CreateSecret,
    CreateSink,
    CreateSource,
    CreateTableFromSource,
)
from waterclock.sql.printing.external import (
    connection_text,
    sink_text,
    source_text,
    table_from_source_text,
)
from waterclock.sql.printing.pieces import (
    column_names,
    exists_words,
    in_cluster,
    joined,
    name_text,
    option_list,
    sort_key_text,
    with_list,
)
from waterclock.sql.printing.roles import role_text
from waterclock.sql.printing.tables import table_text
from waterclock.sql.quoting import quote_ident


def create_text(statement: CreateStatement) -> str:
    """The statement as text, on one line but for what queries and expressions hold."""
    match statement:
        case CreateDatabase():
            return _database(statement)
        case CreateSchema():
            owner = f"AUTHORIZATION {quote_ident(statement.owner)}" if statement.owner else ""
            exists = exists_words(statement.if_not_exists)
            return joined("CREATE SCHEMA", exists, name_text(statement.name), owner)
        case CreateTable():
            return table_text(statement)
        case CreateTableAs():
            return _table_as(statement)
        case CreateTableFromSource():
            return table_from_source_text(statement)
        case CreateView():
            return _view(statement)
        case CreateMaterializedView():
            return _materialized_view(statement)
        case CreateIndex():
            return _index(statement)
        case CreateSource():
            return source_text(statement)
        case CreateSink():
            return sink_text(statement)
        case CreateConnection():
            return connection_text(statement)
        case CreateSecret():
            exists = exists_words(statement.if_not_exists)
            return joined("CREATE SECRET", exists, name_text(statement.name), "AS '********'")
        case CreateCluster():
            return _cluster(statement)
        case CreateRole():
            return role_text(statement)
        case _:
            assert_never(statement)


def _database(statement: CreateDatabase) -> str:
    options = (option_list((option,))[1:-1] for option in statement.options)
    exists = exists_words(statement.if_not_exists)
    return joined("CREATE DATABASE", exists, name_text(statement.name), *options)


def _cluster(statement: CreateCluster) -> str:
    exists = exists_words(statement.if_not_exists)
    options = option_list(statement.options)
    return joined("CREATE CLUSTER", exists, quote_ident(statement.name.name), options)


def _table_as(statement: CreateTableAs) -> str:
    return joined(
        "CREATE",
        "TEMPORARY" if statement.temporary else "",
        "TABLE",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        column_names(statement.columns),
        with_list(statement.options),
        "AS",
        statement.query.text,
        "" if statement.with_data else "WITH NO DATA",
    )


def _view(statement: CreateView) -> str:
    return joined(
        "CREATE",
        "OR REPLACE" if statement.or_replace else "",
        "TEMPORARY" if statement.temporary else "",
        "VIEW",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        column_names(statement.columns),
        "AS",
        statement.query.text,
    )


def _materialized_view(statement: CreateMaterializedView) -> str:
    return joined(
        "CREATE",
        "OR REPLACE" if statement.or_replace else "",
        "MATERIALIZED VIEW",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        column_names(statement.columns),
        in_cluster(statement.cluster),
        with_list(statement.options),
        "AS",
        statement.query.text,
        "" if statement.with_data else "WITH NO DATA",
    )


def _index(statement: CreateIndex) -> str:
    keys = ""
    if statement.keys is not None:
        keys = "(" + ", ".join(map(sort_key_text, statement.keys)) + ")"
    return joined(
        "CREATE",
        "DEFAULT" if statement.keys is None else "",
        "INDEX",
        exists_words(statement.if_not_exists),
        quote_ident(statement.name.name) if statement.name is not None else "",
        in_cluster(statement.cluster),
        "ON",
        name_text(statement.relation),
        f"USING {quote_ident(statement.method)}" if statement.method is not None else "",
        keys,
        with_list(statement.options),
    )
