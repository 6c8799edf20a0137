"""Spark's classes, loaded once and kept, so that its JVM comes up in a third of the time.

Most of what a starting Spark does is to load and verify some twenty thousand classes. Java can keep
the result in a file (class data sharing). The file is made by running Spark once over a little work
of every kind, and lies in the Python environment beside Spark itself. It is only an accelerator:
Java checks that it fits the runtime and the jars, and does without it where it does not.

`python -m waterclock.server.classes` makes it, if it is not there yet.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from waterclock.errors import WaterclockError
from waterclock.server.java import JavaRuntime, find_java

_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_SECONDS = 600


def class_options(java: JavaRuntime) -> str:
    """What to tell Java so that it uses the file; nothing if there is none."""
    path = archive_of(java)
    return f"-XX:SharedArchiveFile={path} {_SILENT}" if path.is_file() else ""


def archive_of(java: JavaRuntime) -> Path:
    """Where the file for that runtime and the installed Spark is, or would be."""
    spec = find_spec("pyspark")
    assert spec is not None, "PySpark is installed"
    assert spec.origin is not None, "PySpark is a package with files"
    spark = Path(spec.origin).parent
    jars = sorted(path.name for path in (spark / "jars").glob("*.jar"))
    facts = "\n".join([str(java.home.resolve()), str(spark), *jars])
    name = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "waterclock" / f"spark-{java.version}-{name}.jsa"


def make_archive(java: JavaRuntime) -> Path | None:
    """Make the file, unless it is there; None if this Java can not, or it can not be written."""
    path = archive_of(java)
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            command = [sys.executable, "-m", "waterclock.server.classes", str(made)]
            environ = {**os.environ, "JAVA_HOME": str(java.home)}
            subprocess.run(
                command, env=environ, capture_output=True, timeout=_SECONDS, check=False, cwd=folder
            )
            if made.is_file():
                made.replace(path)
    except (OSError, subprocess.SubprocessError):
        return None
    return path if path.is_file() else None


def _record(made: Path) -> None:
    """Run Spark over a little work, and have its JVM write the file as it ends."""
    from waterclock.compute.spark import open_session

    options = f"-XX:ArchiveClassesAtExit={made} {_SILENT}"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = open_session("local[1]", {"spark.driver.extraJavaOptions": options})
    with contextlib.suppress(Exception):  # what could not be tried is loaded later
        rows = session.range(10).selectExpr("id", "cast(id AS string) AS t", "id % 2 AS k")
        rows.createOrReplaceTempView("rows")
        rows.mapInArrow(_unchanged, rows.schema).toArrow()
        session.sql(
            "SELECT a.k, count(*) AS n, sum(a.id) AS s, max(b.t) AS m, avg(b.id) AS v"
            " FROM rows AS a LEFT JOIN rows AS b ON a.id = b.id AND b.t > '3'"
            " WHERE a.id NOT IN (SELECT id + 100 FROM rows) GROUP BY a.k ORDER BY 2 LIMIT 5"
        ).toArrow()
    gateway = session.sparkContext._gateway
    assert gateway is not None, "a session has a gateway"
    session.stop()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    process.wait(_SECONDS)


def _unchanged(batches: Iterator[object]) -> Iterator[object]:
    yield from batches


def main(arguments: list[str]) -> int:
    """Make the file and say so, or, with a path, record it there."""
    if arguments:
        _record(Path(arguments[0]))
        return 0
    try:
        made = make_archive(find_java(os.environ))
    except WaterclockError as error:
        print(error, file=sys.stderr)
        return 1
    print("no class archive could be made; Spark starts more slowly" if made is None else made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
