"""A Spark standalone cluster on this machine: a master and workers, each a process of its own.

They are started from the installed PySpark, on loopback, with one core each. An executor is a child
of its worker and in the same process group, so a worker can be lost with all it has, as if its
machine had gone.

    python -m waterclock.testing.cluster --only 1 3 --batches 4

maintains queries of TPC-H there, compares them at every time as `waterclock.testing.tpch` does, and
kills a worker in the middle of a step.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from pyspark.sql import SparkSession

from waterclock.server.java import find_java
from waterclock.testing.brief_spark import brief_options, brief_session
from waterclock.testing.services import free_port
from waterclock.testing.tpch.check import Check, Disagreement

_HOST = "127.0.0.1"
_START_S = 300.0
_SETTINGS = {
    "spark.driver.host": _HOST,
    "spark.driver.bindAddress": _HOST,
    "spark.executor.memory": "768m",
    "spark.executor.cores": "1",
}


class Cluster:
    """A master and some workers, with their logs and scratch files in a folder."""

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g") -> None:
        self._folder = folder
        self._port = free_port()
        self._memory = memory
        self._wanted = workers
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://{_HOST}:{self._port}"

    def lose_worker(self) -> None:
        """Kill a worker and its executors; nothing of it ends in order."""
        _kill(self.workers.pop())

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        kind = "org.apache.spark.deploy.master.Master"
        try:
            self._master = self._start("master", kind, "--port", str(self._port))
            self._await("I have been elected leader", 1)
            for number in range(self._wanted):
                self.workers.append(self._start_worker(number))
            self._await("Registering worker", self._wanted)
        except BaseException:
            self.close()
            raise
        return self

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        work = self._folder / f"work-{number}"
        kind = "org.apache.spark.deploy.worker.Worker"
        limits = ("--cores", "1", "--memory", self._memory, "--work-dir", str(work))
        return self._start(f"worker-{number}", kind, *limits, self.url)

    def _start(self, name: str, kind: str, *options: str) -> subprocess.Popen[bytes]:
        command = Path(pyspark.__file__).parent / "bin" / "spark-class"
        common = ["--host", _HOST, "--webui-port", "0"]
        environment = os.environ | {
            "SPARK_DAEMON_JAVA_OPTS": brief_options(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(command), kind, *common, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._folder,
                start_new_session=True,
            )

    def _await(self, words: str, count: int) -> None:
        """Wait until the master has said that so often."""
        log = self._folder / "master.log"
        deadline = time.monotonic() + _START_S
        while log.read_text(errors="replace").count(words) < count:
            running = [self._master, *self.workers]
            if time.monotonic() > deadline or any(p and p.poll() is not None for p in running):
                raise RuntimeError(f"the cluster did not start:\n{log.read_text()}")
            time.sleep(0.1)

    def close(self) -> None:
        for process in [*self.workers, *([self._master] if self._master else [])]:
            _kill(process)
        self.workers.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def lose_worker_in_a_step(spark: SparkSession, cluster: Cluster) -> threading.Thread:
    """Kill a worker as soon as a job is under way, and some of its tasks are done."""
    tracker = spark.sparkContext.statusTracker()

    def is_under_way() -> bool:
        for job in tracker.getActiveJobsIds():
            info = tracker.getJobInfo(job)
            for number in info.stageIds if info is not None else ():
                stage = tracker.getStageInfo(number)
                if stage is not None and stage.numCompletedTasks:
                    return True
        return False

    def watch() -> None:
        deadline = time.monotonic() + _START_S
        while not is_under_way() and time.monotonic() < deadline:
            time.sleep(0.005)
        cluster.lose_worker()

    watching = threading.Thread(target=watch)
    watching.start()
    return watching


def maintain(
    folder: Path, scale: float, only: list[int], batches: int, times: int, *, spark_too: bool
) -> Check:
    """Maintain queries in a cluster that loses a worker half-way. Raises `Disagreement`.

    With `spark_too` the last time is also compared with what Spark gives there from scratch.
    """
    with Cluster(folder / "cluster") as cluster:
        spark = brief_session(
            cluster.url, {**_SETTINGS, "spark.executor.extraJavaOptions": brief_options()}
        )
        try:
            # Every step is spread over the tasks of both workers, with shuffles between them.
            check = Check(spark, folder / "state", scale, [only], wide_rows=0)
            print(f"planned in {check.report.planning_s:.1f} s,", flush=True)
            print(f"loaded in {check.report.loading_s:.1f} s", flush=True)
            for number in range(batches):
                losing = None
                if number == batches // 2:
                    losing = lose_worker_in_a_step(spark, cluster)
                check.batch(times, spark=spark_too and number == batches - 1)
                if losing is not None:
                    losing.join()
                    print(f"lost a worker, {len(cluster.workers)} left", flush=True)
                print(f"batch {number}: {check.report.steps_s[-1]:.2f} s", flush=True)
            check.close()
        finally:
            spark.stop()
    return check


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.cluster")
    parser.add_argument("--scale", type=float, default=0.001)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--times", type=int, default=2, help="times in each batch")
    parser.add_argument("--only", type=int, nargs="*", help="these queries, not all")
    parser.add_argument("--spark", action="store_true", help="compare with Spark too, at the end")
    asked = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    only = asked.only or list(range(1, 23))
    with tempfile.TemporaryDirectory() as folder:
        try:
            check = maintain(
                Path(folder),
                asked.scale,
                only,
                asked.batches,
                asked.times,
                spark_too=asked.spark,
            )
        except Disagreement as wrong:
            print(f"wrong: {wrong}")
            return 1
    print("\n".join(check.report.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
