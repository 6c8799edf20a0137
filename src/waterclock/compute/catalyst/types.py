"""Catalyst's types as PySpark and Arrow have them.

What is never null in Catalyst may be null in Arrow, also inside structs, arrays and maps: a field
that is never null is null all the same where the struct around it is, and Arrow tells types apart
by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StructField,
    StructType,
    _parse_datatype_json_value,
)

from waterclock.compute.plan.nodes import Attribute
from waterclock.persist.rows import DIFF, TIME


def spark_type(type_json: str) -> DataType:
    """The type that Catalyst writes as this JSON, any part of which may be null."""
    return _nullable(_parse_datatype_json_value(json.loads(type_json)))


def loosened(frame: DataFrame) -> DataFrame:
    """The same rows in types any part of which may be null: only so can all of them be in Arrow."""
    kinds = [_nullable(field.dataType) for field in frame.schema]
    if all(kind == field.dataType for kind, field in zip(kinds, frame.schema, strict=True)):
        return frame
    placed = frame.toDF(*map(column_name, range(len(kinds))))  # names may repeat
    return placed.select(*(placed[column_name(n)].cast(kind) for n, kind in enumerate(kinds))).toDF(
        *frame.columns
    )


def _nullable(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([StructField(f.name, _nullable(f.dataType)) for f in kind])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
        case _:
            return kind


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
