"""The collections that views read, as relations that Catalyst can plan over.

A relation is a leaf without data: a schema over an empty RDD, which the optimizer can not look into
and so can not fold away. A leaf in a plan is recognised by its RDD, whatever copies and new ids
Catalyst has made of it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from waterclock.compute.catalyst.trees import Logical
from waterclock.model.ids import GlobalId


class Relations:
    """Names collections by their id in a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._by_rdd: dict[int, GlobalId] = {}
        self._known: dict[GlobalId, tuple[StructType, DataFrame]] = {}

    def add(self, collection: GlobalId, schema: StructType) -> None:
        """Make the collection known under its id, such as `u12`."""
        known = self._known.get(collection)
        if known is None or known[0] != schema:
            known = self._known[collection] = schema, self._leaf(collection, schema)
        known[1].createOrReplaceTempView(str(collection))

    def _leaf(self, collection: GlobalId, schema: StructType) -> DataFrame:
        frame = self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), schema)
        [leaf] = Logical(frame._jdf.queryExecution().analyzed()).walk()
        self._by_rdd[leaf.java.rdd().id()] = collection
        return frame

    def collection_of(self, leaf: Logical) -> GlobalId:
        """The collection that a leaf stands for."""
        return self._by_rdd[leaf.java.rdd().id()]
