"""CREATE SOURCE, SINK and CONNECTION, and CREATE TABLE ... FROM SOURCE, as text."""

from __future__ import annotations

from typing import assert_never

from waterclock.sql.ast.common import Identifier, NameValue, ObjectName, Option
from waterclock.sql.ast.relations import ColumnDefinition, Constraint
from waterclock.sql.ast.sources import (
    AllTables,
    AvroFormat,
    Connector,
    CreateConnection,
    CreateSink,
    CreateSource,
    CreateTableFromSource,
    CsvFormat,
    Envelope,
    ExternalConnector,
    FileConnector,
    Format,
    Formats,
    Include,
    LoadGenerator,
    OnDecodeError,
    PlainFormat,
    Subsources,
    TablesOfSchemas,
    TheseTables,
    UpstreamTable,
    WebhookConnector,
)
from waterclock.sql.printing.pieces import (
    column_names,
    exists_words,
    in_cluster,
    joined,
    name_text,
    names_in_brackets,
    option_list,
    with_list,
)
from waterclock.sql.printing.tables import elements_text
from waterclock.sql.quoting import quote_ident, quote_literal


def source_text(statement: CreateSource) -> str:
    progress, errors = statement.progress, statement.errors
    return joined(
        "CREATE SOURCE",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        _columns(statement.columns),
        in_cluster(statement.cluster),
        "FROM",
        _connector(statement.connector),
        _formats(statement.formats),
        _include(statement.include),
        _envelope(statement.envelope),
        _on_error(statement.on_error),
        _subsources(statement.subsources),
        f"EXPOSE PROGRESS AS {name_text(progress)}" if progress is not None else "",
        f"EXPOSE ERRORS AS {name_text(errors)}" if errors is not None else "",
        with_list(statement.options),
    )


def table_from_source_text(statement: CreateTableFromSource) -> str:
    reference: tuple[Option, ...] = ()
    if statement.reference is not None:
        reference = (Option("reference", NameValue(statement.reference)),)
    return joined(
        "CREATE TABLE",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        _columns(statement.columns, statement.constraints),
        "FROM SOURCE",
        name_text(statement.source),
        option_list(reference + statement.source_options),
        _formats(statement.formats),
        _include(statement.include),
        _envelope(statement.envelope),
        with_list(statement.options),
    )


def _columns(
    columns: tuple[Identifier, ...] | tuple[ColumnDefinition, ...] | None,
    constraints: tuple[Constraint, ...] = (),
) -> str:
    """Names alone, or with what else is said of the columns."""
    definitions: list[ColumnDefinition] = []
    names = []
    for column in columns or ():
        if isinstance(column, ColumnDefinition):
            definitions.append(column)
        else:
            names.append(column)
    if definitions or constraints:
        return elements_text(tuple(definitions), constraints)
    return names_in_brackets(names) if names else ""


def sink_text(statement: CreateSink) -> str:
    key = ""
    if statement.key is not None:
        enforced = "NOT ENFORCED" if statement.key_not_enforced else ""
        key = joined("KEY", names_in_brackets(statement.key), enforced)
    return joined(
        "CREATE SINK",
        exists_words(statement.if_not_exists),
        name_text(statement.name) if statement.name is not None else "",
        in_cluster(statement.cluster),
        "FROM",
        name_text(statement.relation),
        "INTO",
        _connector(statement.connector),
        key,
        _formats(statement.formats),
        _envelope(statement.envelope),
        with_list(statement.options),
    )


def connection_text(statement: CreateConnection) -> str:
    return joined(
        "CREATE",
        "OR REPLACE" if statement.or_replace else "",
        "CONNECTION",
        exists_words(statement.if_not_exists),
        name_text(statement.name),
        "TO",
        statement.kind.upper(),
        option_list(statement.connection_options),
        with_list(statement.options),
    )


def _connector(connector: Connector) -> str:
    match connector:
        case LoadGenerator(kind, options):
            return joined("LOAD GENERATOR", kind.upper(), option_list(options))
        case FileConnector(location, options):
            return joined("FILE", quote_literal(location), option_list(options))
        case ExternalConnector(kind, connection, options):
            over = f"CONNECTION {name_text(connection)}" if connection is not None else ""
            return joined(kind.upper(), over, option_list(options))
        case WebhookConnector():
            check = f"CHECK {option_list(connector.check)}" if connector.check else ""
            array = "ARRAY" if connector.is_array else ""
            body = f"WEBHOOK BODY FORMAT {_format(connector.format)}"
            return joined(body, array, _include(connector.include), check)
        case _:
            assert_never(connector)


def _formats(formats: Formats | None) -> str:
    if formats is None:
        return ""
    if formats.key is None:
        return f"FORMAT {_format(formats.value)}"
    return f"KEY FORMAT {_format(formats.key)} VALUE FORMAT {_format(formats.value)}"


def _format(chosen: Format) -> str:
    match chosen:
        case PlainFormat(kind):
            return kind.value
        case CsvFormat():
            return _csv(chosen)
        case AvroFormat(ObjectName() as registry, options):
            using = "AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION"
            return joined(using, name_text(registry), option_list(options))
        case AvroFormat(str() as schema, options):
            return joined("AVRO USING SCHEMA", quote_literal(schema), option_list(options))
        case _:
            raise AssertionError(f"not a format: {chosen!r}")


def _csv(chosen: CsvFormat) -> str:
    if isinstance(chosen.columns, int):
        columns = f"{chosen.columns} COLUMNS"
    else:
        columns = joined("HEADER", column_names(chosen.columns))
    delimiter = chosen.delimiter
    by = f"DELIMITED BY {quote_literal(delimiter)}" if delimiter is not None else ""
    return joined("CSV WITH", columns, by)


def _include(included: tuple[Include, ...]) -> str:
    parts = (
        joined(
            each.what.value,
            quote_literal(each.header) if each.header is not None else "",
            f"AS {quote_ident(each.alias.name)}" if each.alias is not None else "",
        )
        for each in included
    )
    return f"INCLUDE {', '.join(parts)}" if included else ""


def _envelope(envelope: Envelope | None) -> str:
    if envelope is None:
        return ""
    return joined("ENVELOPE", envelope.kind.value, option_list(envelope.options))


def _on_error(chosen: OnDecodeError | None) -> str:
    if chosen is None:
        return ""
    column = f"AS {quote_ident(chosen.column.name)}" if chosen.column is not None else ""
    return joined("ON DECODE ERROR", chosen.policy.value, column, option_list(chosen.options))


def _subsources(subsources: Subsources | None) -> str:
    match subsources:
        case None:
            return ""
        case AllTables():
            return "FOR ALL TABLES"
        case TheseTables(tables):
            return f"FOR TABLES ({', '.join(map(_upstream, tables))})"
        case TablesOfSchemas(schemas):
            return f"FOR SCHEMAS {names_in_brackets(schemas)}"
        case _:
            assert_never(subsources)


def _upstream(table: UpstreamTable) -> str:
    local = f"AS {name_text(table.local)}" if table.local is not None else ""
    return joined(name_text(table.upstream), local, _columns(table.columns or None))
