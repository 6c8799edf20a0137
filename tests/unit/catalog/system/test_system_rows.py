"""Rows name columns that their relations have, all of them."""

from waterclock.catalog.system.binding.live import LIVE
from waterclock.catalog.system.facts import load_facts
from waterclock.catalog.system.rows.information import InformationRows
from waterclock.catalog.system.rows.information_system import system_information
from waterclock.catalog.system.rows.mz import MzRows
from waterclock.catalog.system.rows.objects import ObjectRows
from waterclock.catalog.system.rows.pg import PgRows
from waterclock.catalog.system.rows.picture import picture_of
from waterclock.catalog.system.types import Types
from waterclock.testing.system_world import IMAGE


def test_no_row_names_a_column_that_there_is_not() -> None:
    facts = load_facts()
    types = Types(facts)
    picture = picture_of(IMAGE, IMAGE.databases[0])
    information = InformationRows(picture, types)
    tables = [
        *(("pg_catalog", *item) for item in ObjectRows(picture, facts, types).tables().items()),
        *(("pg_catalog", *item) for item in PgRows(picture).tables().items()),
        *(("information_schema", *item) for item in information.tables().items()),
        *(("information_schema", *item) for item in system_information(information, facts).items()),
    ]
    mz = {name: schema for schema, name in facts.columns if schema.startswith("mz_")}
    tables += [
        (mz[name], name, rows) for name, rows in MzRows(IMAGE, facts, types).tables().items()
    ]
    for schema, name, rows in tables:
        columns = {column.name for column in facts.columns[schema, name].columns}
        for row in rows:
            assert set(row) <= columns, name
    assert len(tables) > 60


def test_every_mz_relation_has_a_source_of_rows() -> None:
    facts = load_facts()
    mz = {name for schema, name in facts.columns if schema.startswith("mz_")}
    live = {name for schema, name in LIVE if schema.startswith("mz_")}
    assert set(MzRows(IMAGE, facts, Types(facts)).tables()) | live == mz
