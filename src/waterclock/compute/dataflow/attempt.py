"""One run of a job: its inbox, how far it is, and how to stop it.

A run goes by a name of its own, which is the job group that Spark knows it by and the folder of its
inbox. When it has failed or was stopped, its tasks may go on for a moment; so that none of them
writes into a folder that is being removed, or under the feet of the next run, they are waited for.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark import SparkContext, SparkStageInfo

from waterclock.compute.dataflow.tick import ATTEMPT, Inbox, Tick
from waterclock.persist.portions import Listing

T = TypeVar("T")
_PATIENCE_S = 10.0
_LOOK_S = 0.05


class Attempt:
    """A run of a job that has `parts` tasks in each of its stages."""

    def __init__(self, context: SparkContext, folder: Path, parts: int) -> None:
        self.name = f"waterclock-{uuid.uuid4().hex}"
        self._context = context
        self._inbox = Inbox(folder / self.name)
        self._parts = parts

    @property
    def folder(self) -> Path:
        """Its inbox, which is removed when it is over."""
        return self._inbox.folder

    def run(
        self,
        tick: Tick,
        deltas: Mapping[str, pa.Table],
        contents: Mapping[str, Listing],
        job: Callable[[], T],
    ) -> T:
        """What the job gives, with this in its inbox."""
        self._inbox.put(tick, deltas, contents, self._parts)
        self._context.setJobGroup(self.name, "step of views", interruptOnCancel=True)
        try:
            return job()
        except BaseException:
            self._await_tasks()
            raise
        finally:
            self._context.setLocalProperty(ATTEMPT, None)  # type: ignore[arg-type]
            self._inbox.remove()

    def cancel(self) -> None:
        """Stop the job, if it is running."""
        self._context.cancelJobGroup(self.name)

    def tasks(self) -> tuple[int, int]:
        """How many tasks are done, and of how many; none as far as is known if Spark has gone."""
        try:
            stages = list(self._stages())
        except Exception:  # whatever PySpark stumbles over without its JVM
            return 0, 0
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return done, sum(self._parts if stage is None else stage.numTasks for stage in stages)

    def _stages(self) -> Iterator[SparkStageInfo | None]:
        """The stages of the job; None for one that has not begun."""
        tracker = self._context.statusTracker()
        for number in tracker.getJobIdsForGroup(self.name):
            job = tracker.getJobInfo(number)
            for stage in job.stageIds if job is not None else ():
                yield tracker.getStageInfo(stage)

    def _await_tasks(self) -> None:
        """Wait until no task is running any more, but not for ever: one may hang.

        Nobody can be asked if it is Spark itself that has failed.
        """
        with suppress(Exception):
            self._poll_tasks()

    def _poll_tasks(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if not any(stage.numActiveTasks for stage in self._stages() if stage is not None):
                return
            time.sleep(_LOOK_S)
