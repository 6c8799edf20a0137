"""The eight tables of TPC-H: their columns, their keys and how many rows they have."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.model.schema import Column, ColumnType, Date, Decimal, Int, Schema, Text

_TYPES: dict[str, ColumnType] = {
    "key": Int(64),
    "int": Int(32),
    "money": Decimal(15, 2),
    "text": Text(),
    "date": Date(),
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the benchmark. `per_scale` is its number of rows at scale factor 1, unless that
    does not depend on the scale, or depends on another table.
    """

    schema: Schema
    key: tuple[str, ...]
    per_scale: int | None = None


def _schema(columns: str) -> Schema:
    found = (column.partition(":") for column in columns.split())
    return Schema(tuple(Column(name, _TYPES[kind], nullable=False) for name, _, kind in found))


TABLES: dict[str, Table] = {
    "region": Table(_schema("r_regionkey:key r_name:text r_comment:text"), ("r_regionkey",)),
    "nation": Table(
        _schema("n_nationkey:key n_name:text n_regionkey:key n_comment:text"), ("n_nationkey",)
    ),
    "supplier": Table(
        _schema(
            "s_suppkey:key s_name:text s_address:text s_nationkey:key s_phone:text"
            " s_acctbal:money s_comment:text"
        ),
        ("s_suppkey",),
        10_000,
    ),
    "part": Table(
        _schema(
            "p_partkey:key p_name:text p_mfgr:text p_brand:text p_type:text p_size:int"
            " p_container:text p_retailprice:money p_comment:text"
        ),
        ("p_partkey",),
        200_000,
    ),
    "partsupp": Table(
        _schema(
            "ps_partkey:key ps_suppkey:key ps_availqty:int ps_supplycost:money ps_comment:text"
        ),
        ("ps_partkey", "ps_suppkey"),
    ),
    "customer": Table(
        _schema(
            "c_custkey:key c_name:text c_address:text c_nationkey:key c_phone:text"
            " c_acctbal:money c_mktsegment:text c_comment:text"
        ),
        ("c_custkey",),
        150_000,
    ),
    "orders": Table(
        _schema(
            "o_orderkey:key o_custkey:key o_orderstatus:text o_totalprice:money"
            " o_orderdate:date o_orderpriority:text o_clerk:text o_shippriority:int"
            " o_comment:text"
        ),
        ("o_orderkey",),
        1_500_000,
    ),
    "lineitem": Table(
        _schema(
            "l_orderkey:key l_partkey:key l_suppkey:key l_linenumber:int l_quantity:money"
            " l_extendedprice:money l_discount:money l_tax:money l_returnflag:text"
            " l_linestatus:text l_shipdate:date l_commitdate:date l_receiptdate:date"
            " l_shipinstruct:text l_shipmode:text l_comment:text"
        ),
        ("l_orderkey", "l_linenumber"),
    ),
}


def rows_at(scale: float, table: str) -> int:
    """How many rows a table has at a scale factor."""
    per_scale = TABLES[table].per_scale
    assert per_scale is not None, f"{table} has no size of its own"
    return max(1, round(per_scale * scale))
