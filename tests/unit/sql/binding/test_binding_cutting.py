"""Equalities with the query around stay inside a query that keeps only some of its rows."""

from __future__ import annotations

import pytest

from waterclock.testing.relations import KnownRelations, bound

RELATIONS = KnownRelations(
    {
        "t": {"id": "int not null", "big": "bigint", "b": "text"},
        "u": {"id": "int", "big": "bigint", "name": "text"},
    }
)


def _held(query: str) -> bool:
    return "COALESCE(" in bound(query, RELATIONS).sql


@pytest.mark.parametrize(
    "query",
    [
        "select (select name from u where u.id = t.id + 1 limit 1) from t",
        "select (select name from u where t.id + 1 = u.id offset 1) from t",
        "select (select name from u where u.big = t.id order by name limit 1) from t",
        "select (select name from u where u.id is not distinct from t.id + 1 limit 1) from t",
        "select (select name from u where (u.id, u.name) = (t.id + 1, 'x') limit 1) from t",
        "select q.name from t, lateral (select name from u where u.id = t.id + 1 limit 1) q",
        "select (select name from (select name from u where u.id = t.id + 1) q limit 1) from t",
        "select (with q as (select name from u where u.id = t.id + 1) select name from q limit 1)"
        " from t",
        "select (select max(n) from (select row_number() over (order by name) n from u"
        " where u.id = t.id + 1) q) from t",
        "select (select count(*) from (select distinct on (name) id from u"
        " where u.id = t.id + 1) q) from t",
        "select (select max(name) from u group by id having max(id) = t.id + 1 limit 1) from t",
        "select (select v.name from u v join u w on v.id = t.id + 1 limit 1) from t",
    ],
)
def test_a_query_that_cuts(query: str) -> None:
    assert _held(query)


@pytest.mark.parametrize(
    "query",
    [
        # Nothing is cut.
        "select (select max(name) from u where u.id = t.id + 1) from t",
        "select id from t where exists (select 1 from u where u.id = t.id + 1) limit 3",
        "select q.name from t, lateral (select name from u where u.id = t.id + 1) q limit 3",
        # Two columns of one type.
        "select (select name from u where u.id = t.id limit 1) from t",
        # Nothing of the query around.
        "select (select name from u where u.id = 5 limit 1) from t",
        "select name from u where id = 5 + 1 limit 1",
    ],
)
def test_other_queries_are_left_as_they_are(query: str) -> None:
    assert not _held(query)
