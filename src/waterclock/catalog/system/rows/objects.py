"""What stands in pg_catalog's tables about relations, their columns, indexes and constraints.

Each function yields rows as mappings from column to value. Objects that PostgreSQL numbers but
nobody refers to by number (column defaults, rules) get numbers above all others, which may change
from one version of the catalog to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.catalog.system.facts import FactColumn, FactRelation, Facts
from waterclock.catalog.system.image import (
    Column,
    Constraint,
    ConstraintKind,
    Index,
    IndexKey,
    Relation,
    RelationKind,
)
from waterclock.catalog.system.rows.picture import (
    PG_CLASS,
    PG_REWRITE,
    RELKINDS,
    Picture,
    acl_items,
    has_foreign_key,
)
from waterclock.catalog.system.types import Types

Values = Mapping[str, Any]

HEAP, BTREE = 2, 403
FIRST_UNSTABLE_OID = 0xF000_0000
_RECORD_FUNCTIONS = {"typinput": 2290, "typoutput": 2291, "typreceive": 2402, "typsend": 2403}
_ARRAY_FUNCTIONS = {"typinput": 750, "typoutput": 751, "typreceive": 2400, "typsend": 2401}
_ARRAY_EXTRAS = {"typanalyze": 3816, "typsubscript": 6179}
_SYSTEM_COLUMNS = (
    ("ctid", 27, -1),
    ("xmin", 28, -2),
    ("cmin", 29, -3),
    ("xmax", 28, -4),
    ("cmax", 29, -5),
    ("tableoid", 26, -6),
)
_OPERATOR_CLASSES = {
    **{16: 424, 17: 428, 18: 429, 19: 10028, 20: 3124, 21: 1979, 23: 1978, 25: 3126, 26: 1981},
    **{700: 10020, 701: 3123, 1042: 426, 1043: 3126, 1082: 3122, 1083: 10038, 1114: 3128},
    **{1184: 3127, 1186: 10024, 1700: 3125, 2950: 10065, 3802: 10093},
}
_ARRAY_CLASS = 10006


class ObjectRows:
    """The tables about the objects of one database at one version."""

    def __init__(self, picture: Picture, facts: Facts, types: Types) -> None:
        self._picture = picture
        self._image = picture.image
        self._types = types
        self._facts = facts
        self._role_names = {oid: role.name for oid, role in picture.roles.items()}

    def tables(self) -> Mapping[str, Iterator[Values]]:
        """The rows, by the table's name."""
        return {
            "pg_namespace": self._namespaces(),
            "pg_class": self._classes(),
            "pg_attribute": self._attributes(),
            "pg_type": self._row_types(),
            "pg_index": self._indexes(),
            "pg_constraint": self._constraints(),
            "pg_attrdef": self._defaults(),
            "pg_rewrite": self._rules(),
            "pg_depend": self._dependencies(),
        }

    # --- of one database ------------------------------------------------------------------------

    def _namespaces(self) -> Iterator[Values]:
        for schema in self._picture.schemas.values():
            yield {
                "oid": schema.oid,
                "nspname": schema.name,
                "nspowner": schema.owner,
                "nspacl": acl_items(schema.grants, self._role_names),
            }

    def _classes(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            yield self._relation_class(relation)
        for index in self._picture.indexes.values():
            yield {
                "oid": index.oid,
                "relname": index.name,
                "relnamespace": index.schema,
                "relowner": index.owner,
                "relam": BTREE,
                "relkind": "i",
                "relnatts": len(index.keys),
                "relpersistence": "p",
                "relreplident": "n",
                "relispopulated": True,
            }

    def _relation_class(self, relation: Relation) -> Values:
        constraints = self._picture.constraints_on.get(relation.oid, ())
        stored = relation.kind is not RelationKind.VIEW
        return {
            "oid": relation.oid,
            "relname": relation.name,
            "relnamespace": relation.schema,
            "reltype": relation.row_type,
            "relowner": relation.owner,
            "relam": HEAP if stored else 0,
            "reltuples": -1.0,
            "relkind": RELKINDS[relation.kind],
            "relnatts": len(relation.columns),
            "relchecks": sum(found.kind is ConstraintKind.CHECK for found in constraints),
            "relhasindex": relation.oid in self._picture.indexes_on,
            "relhasrules": relation.definition is not None,
            "relhastriggers": has_foreign_key(self._picture, relation),
            "relpersistence": "t" if relation.temporary else "p",
            "relreplident": "d" if stored else "n",
            "relispopulated": True,
            "relacl": acl_items(relation.grants, self._role_names),
        }

    def _attributes(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            for number, column in enumerate(relation.columns, start=1):
                yield self._attribute(relation.oid, number, column)
            if relation.kind is not RelationKind.VIEW:
                yield from system_attributes(relation.oid, self._types)
        for index in self._picture.indexes.values():
            for number, key in enumerate(index.keys, start=1):
                column = self._key_column(index, key, number)
                yield self._attribute(index.oid, number, column)

    def _key_column(self, index: Index, key: IndexKey, number: int) -> Column:
        if key.column:
            column = self._picture.relations[index.relation].columns[key.column - 1]
            return Column(column.name, column.type)
        assert key.type is not None, "an expression in an index has a type"
        return Column(key.name or f"expr{number}", key.type)

    def _attribute(self, relation: int, number: int, column: Column) -> Values:
        fact = FactColumn(column.name, column.type.oid, column.type.modifier, not column.nullable)
        return attribute(
            relation, number, fact, self._types, has_default=column.default is not None
        )

    def _row_types(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            if not relation.row_type:
                continue
            shared = {
                "typnamespace": relation.schema,
                "typowner": relation.owner,
                "typlen": -1,
                "typisdefined": True,
                "typdelim": ",",
                "typalign": "d",
                "typstorage": "x",
                "typtypmod": -1,
            }
            yield {
                **shared,
                **_RECORD_FUNCTIONS,
                "oid": relation.row_type,
                "typname": relation.name,
                "typtype": "c",
                "typcategory": "C",
                "typrelid": relation.oid,
                "typarray": relation.row_array_type,
            }
            if relation.row_array_type:
                yield {
                    **shared,
                    **_ARRAY_FUNCTIONS,
                    **_ARRAY_EXTRAS,
                    "oid": relation.row_array_type,
                    "typname": f"_{relation.name}"[:63],
                    "typtype": "b",
                    "typcategory": "A",
                    "typelem": relation.row_type,
                }

    def _indexes(self) -> Iterator[Values]:
        for index in self._picture.indexes.values():
            columns = [
                self._key_column(index, key, number)
                for number, key in enumerate(index.keys, start=1)
            ]
            expressions = [key.expression for key in index.keys if key.expression]
            yield {
                "indexrelid": index.oid,
                "indrelid": index.relation,
                "indnatts": len(index.keys),
                "indnkeyatts": len(index.keys),
                "indisunique": index.unique,
                "indisprimary": index.primary,
                "indimmediate": True,
                "indisvalid": True,
                "indisready": True,
                "indislive": True,
                "indkey": [key.column for key in index.keys],
                "indcollation": [self._collation(column) for column in columns],
                "indclass": [self._operator_class(column) for column in columns],
                "indoption": [0] * len(index.keys),
                "indexprs": ", ".join(expressions) or None,
            }

    def _collation(self, column: Column) -> int:
        found = self._types.find(column.type.oid)
        return found.collation if found is not None else 0

    def _operator_class(self, column: Column) -> int:
        if self._types.element_of(column.type.oid) is not None:
            return _ARRAY_CLASS
        return _OPERATOR_CLASSES.get(column.type.oid, 0)

    def _constraints(self) -> Iterator[Values]:
        for found in self._picture.constraints.values():
            foreign = found.kind is ConstraintKind.FOREIGN_KEY
            action = "a" if foreign else " "
            yield {
                "oid": found.oid,
                "conname": found.name,
                "connamespace": found.schema,
                "contype": found.kind.value,
                "convalidated": True,
                "conrelid": found.relation,
                "conindid": found.index,
                "confrelid": found.foreign_relation,
                "confupdtype": action,
                "confdeltype": action,
                "confmatchtype": "s" if foreign else " ",
                "conislocal": True,
                "connoinherit": found.kind is not ConstraintKind.CHECK,
                "conkey": list(found.columns) or None,
                "confkey": list(found.foreign_columns) or None,
                **self._key_operators(found),
                "conbin": found.check,
            }

    def _key_operators(self, found: Constraint) -> Values:
        """The operators by which a foreign key compares: equality of the column's type."""
        if found.kind is not ConstraintKind.FOREIGN_KEY:
            return {}
        columns = self._picture.relations[found.relation].columns
        equal = [self._equality(columns[number - 1].type.oid) for number in found.columns]
        return {"conpfeqop": equal, "conppeqop": equal, "conffeqop": equal}

    def _equality(self, type_: int) -> int:
        for row in self._facts.rows["pg_operator"]:
            if row[1] == "=" and row[7] == row[8] == type_:
                return int(row[0])
        return 0

    def _defaults(self) -> Iterator[Values]:
        oid = FIRST_UNSTABLE_OID
        for relation in self._picture.relations.values():
            for number, column in enumerate(relation.columns, start=1):
                if column.default is not None:
                    yield {
                        "oid": oid,
                        "adrelid": relation.oid,
                        "adnum": number,
                        "adbin": column.default,
                    }
                    oid += 1

    def _views_with_rules(self) -> Iterator[tuple[int, Relation]]:
        """Each relation that has a query, with the number of the rule that stands for it."""
        views = [found for found in self._picture.relations.values() if found.definition]
        yield from ((FIRST_UNSTABLE_OID + 0x100_0000 + n, found) for n, found in enumerate(views))

    def _rules(self) -> Iterator[Values]:
        for oid, relation in self._views_with_rules():
            yield {
                "oid": oid,
                "rulename": "_RETURN",
                "ev_class": relation.oid,
                "ev_type": "1",
                "ev_enabled": "O",
                "is_instead": True,
                "ev_qual": "<>",
                "ev_action": "<>",
            }

    def _dependencies(self) -> Iterator[Values]:
        oids = {found.id: found.oid for found in self._picture.relations.values()}
        reads: dict[str, list[int]] = {}
        for dependency in self._image.dependencies:
            if dependency.referenced in oids:
                reads.setdefault(dependency.id, []).append(oids[dependency.referenced])
        for rule, relation in self._views_with_rules():
            yield _depends(rule, relation.oid, "i")
            for referenced in (relation.oid, *reads.get(relation.id, ())):
                yield _depends(rule, referenced, "n")


def attribute(
    relation: int, number: int, column: FactColumn, types: Types, *, has_default: bool = False
) -> Values:
    """A row of pg_attribute."""
    found = types.find(column.type)
    assert found is not None, f"type {column.type} is unknown"
    return {
        "attrelid": relation,
        "attname": column.name,
        "atttypid": column.type,
        "attstattarget": -1 if number > 0 else 0,
        "attlen": found.length,
        "attnum": number,
        "attndims": column.dimensions or int(types.element_of(column.type) is not None),
        "attcacheoff": -1,
        "atttypmod": column.modifier,
        "attbyval": found.by_value,
        "attalign": found.align,
        "attstorage": column.storage or found.storage,
        "attnotnull": column.not_null,
        "atthasdef": has_default,
        "attislocal": True,
        "attcollation": column.collation or found.collation,
    }


def system_attributes(relation: int, types: Types) -> Iterator[Values]:
    """The columns that every stored relation has besides its own."""
    for name, type_, number in _SYSTEM_COLUMNS:
        yield attribute(relation, number, FactColumn(name, type_, not_null=True), types)


def fact_attributes(relation: FactRelation, types: Types) -> Iterator[Values]:
    """The rows of pg_attribute for a relation of the system."""
    for number, column in enumerate(relation.columns, start=1):
        values = dict(attribute(relation.oid, number, column, types))
        values["attcollation"] = column.collation
        values["attndims"] = column.dimensions
        yield values
    if relation.kind in "rtm":
        yield from system_attributes(relation.oid, types)


def _depends(rule: int, relation: int, kind: str) -> Values:
    return {
        "classid": PG_REWRITE,
        "objid": rule,
        "refclassid": PG_CLASS,
        "refobjid": relation,
        "deptype": kind,
    }
