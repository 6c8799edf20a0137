"""The image of the catalog that the system relations are made of."""

from __future__ import annotations

import pytest

from waterclock.catalog import items, roles
from waterclock.catalog.builtins import DEFAULT_CLUSTER, SYSTEM_ROLE
from waterclock.catalog.draft import Draft
from waterclock.catalog.grants import grant
from waterclock.catalog.image import image_of
from waterclock.catalog.objects import Column, IndexKey, Privilege
from waterclock.catalog.sources import SourceDefinition, create_source
from waterclock.catalog.system import image as shown
from waterclock.catalog.system.answerer import DuckDbAnswerer
from waterclock.catalog.system.session import SessionFacts
from waterclock.model.pg_types import INT4, INT8, MZ_TIMESTAMP, numeric
from waterclock.testing.catalog_world import COLUMNS, fresh_draft, here, query

PROGRESS = (Column("mz_timestamp", MZ_TIMESTAMP), Column("offset", INT8))


@pytest.fixture
def draft() -> Draft:
    draft = fresh_draft()
    ann = roles.create_role(draft, "ann", login=True, verifier="SCRAM-SHA-256$hidden")
    bob = roles.create_role(draft, "bob")
    roles.grant_role(draft, ann, bob, by=SYSTEM_ROLE)
    columns = [*COLUMNS, Column("Price", numeric(10, 2), default="1.5")]
    table = items.create_table(draft, here("t"), columns)
    grant(draft, table, [Privilege.SELECT], [bob.oid], by=SYSTEM_ROLE, grant_option=True)
    draft.comment(table.oid, "about t")
    draft.comment(table.oid, "about b", column=2)
    items.create_view(draft, here("v"), COLUMNS, query(table))
    items.create_materialized_view(draft, here("m"), COLUMNS, query(table), DEFAULT_CLUSTER)
    keys = [IndexKey("b", INT4, 2), IndexKey("a + 1", INT4)]
    items.create_index(draft, here("i"), table.id, keys, DEFAULT_CLUSTER)
    secret = items.create_secret(draft, here("s"), b"hidden")
    connection = items.create_connection(draft, here("c"), "kafka", "C", secrets=[secret.id])
    defined = SourceDefinition("kafka", "S", COLUMNS, connections=(connection.id,))
    create_source(draft, here("k"), defined, DEFAULT_CLUSTER, progress_columns=PROGRESS)
    return draft


def test_the_image_shows_all_there_is_and_hides_secrets(draft: Draft) -> None:
    image = image_of(draft.catalog)
    assert image == image_of(draft.catalog), "a function of the catalog"
    kinds = {relation.name: relation.kind for relation in image.relations}
    assert kinds == {
        "t": shown.RelationKind.TABLE,
        "v": shown.RelationKind.VIEW,
        "m": shown.RelationKind.MATERIALIZED_VIEW,
        "k": shown.RelationKind.SOURCE,
        "k_progress": shown.RelationKind.SOURCE_PROGRESS,
    }
    table = next(relation for relation in image.relations if relation.name == "t")
    assert table.create_sql == (
        'CREATE TABLE public.t (a integer NOT NULL, b text, "Price" numeric(10,2) DEFAULT 1.5)'
    )
    assert (table.comment, table.columns[1].comment) == ("about t", "about b")
    assert [sorted(g.privileges) for g in table.grants] == [["a", "d", "r", "w"], ["r"]]
    assert [schema.name for schema in image.schemas] == ["public"]
    [index] = image.indexes
    assert index.definition == "CREATE INDEX i ON public.t USING btree (b, a + 1)"
    assert [(key.column, key.expression) for key in index.keys] == [(2, None), (0, "a + 1")]
    [source] = image.sources
    progress = next(relation for relation in image.relations if relation.name == "k_progress")
    assert (source.connection, source.progress) == (image.connections[0].id, progress.oid)
    assert "hidden" not in repr(image)


def test_the_system_relations_are_made_of_it(draft: Draft) -> None:
    answerer = DuckDbAnswerer(lambda: image_of(draft.catalog))
    session = SessionFacts("waterclock", "waterclock", "waterclock")

    def rows(sql: str) -> list[tuple[object, ...]]:
        found = answerer.execute(sql, [], session).rows
        return [tuple(row.values()) for row in found.to_pylist()]

    try:
        assert rows(
            "SELECT c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = 'public' ORDER BY 1"
        ) == [("i", "i"), ("k", "r"), ("k_progress", "r"), ("m", "m"), ("t", "r"), ("v", "v")]
        assert rows("SELECT rolname, rolsuper FROM pg_roles WHERE oid >= 20000 ORDER BY 1") == [
            ("ann", False),
            ("bob", False),
        ]
    finally:
        answerer.close()
