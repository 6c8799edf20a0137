"""Catalyst's types as PySpark and Arrow have them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    DataType,
    LongType,
    StructField,
    StructType,
    _parse_datatype_json_value,
)

from waterclock.compute.plan.nodes import Attribute
from waterclock.persist.rows import DIFF, TIME


def spark_type(type_json: str) -> DataType:
    """The type that Catalyst writes as this JSON."""
    return _parse_datatype_json_value(json.loads(type_json))


def column_name(place: int) -> str:
    """The name of a row's column inside a dataflow: by position, since its own may repeat."""
    return f"c{place}"


def update_struct(attributes: Iterable[Attribute]) -> StructType:
    """The struct that an update travels as: columns by position, then time and diff."""
    fields = [
        StructField(column_name(place), spark_type(attribute.type), nullable=True)
        for place, attribute in enumerate(attributes)
    ]
    stamp = [StructField(TIME, LongType()), StructField(DIFF, LongType())]
    return StructType([*fields, *stamp])


def arrow_type(type_json: str) -> pa.DataType:
    """The Arrow type of values of a Catalyst type."""
    return to_arrow_type(spark_type(type_json), timezone="UTC")


def arrow_schema(struct: StructType) -> pa.Schema:
    """The same columns in Arrow."""
    return pa.schema(
        [pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in struct]
    )
