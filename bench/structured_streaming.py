"""Spark Structured Streaming reads a topic of JSON into Parquet; told to `kafka.py` as JSON.

    python structured_streaming.py VERSION BROKERS TOPIC FOLDER

It runs in the environment of another Spark and knows nothing of the project.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    version, brokers, topic, folder = sys.argv[1:]
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.range(10).count()  # what takes time once is not what is measured
    began = time.monotonic()
    row = F.from_json(
        F.col("value").cast("string"), "id bigint, name string, amount double, at timestamp"
    )
    query = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(row.alias("row"))
        .select("row.*")
        .writeStream.format("parquet")
        .option("path", f"{folder}/streamed")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - began
    rows = session.read.parquet(f"{folder}/streamed").count()
    session.stop()
    print(json.dumps({"rows": rows, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
