"""Keeps an engine running: watches it, says when it is gone, and starts another one.

One thread waits for the end of the process and acts; another asks the engine, again and again,
whether it still answers, and may be left hanging by one that does not. What to do is decided by
`engine_life`. In between the rest of the server goes on; who needs the engine learns of its state
from the `LiveSession`.

With no way to start another one, as for a session that belongs to somebody else, the death is told
and that is all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from waterclock.compute.live_session import LiveSession
from waterclock.errors import WaterclockError
from waterclock.runtime import SYSTEM, Runtime, Thread
from waterclock.server.engine_life import EngineLife, GiveUp, Policy
from waterclock.server.engine_process import EngineProcess

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0
_ASK_S = 1.0
_LAST_ANSWER_S = 2.0
"""Time limit for a pending health check when the engine is shut down."""

Launch = Callable[[], EngineProcess]
"""Starts an engine, which takes seconds. Raises what keeps it from starting."""


class EngineKeeper:
    """The engines of one server, one at a time. Thread-safe."""

    def __init__(
        self,
        live: LiveSession,
        first: EngineProcess,
        launch: Launch | None,
        policy: Policy | None = None,
        *,
        given_up: Callable[[str], None] = lambda _why: None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """`first` is running. `given_up` is told, once, when no other will be started."""
        self.live = live
        self._launch = launch
        self._is_own = launch is not None
        """Whether the engine may be ended here."""
        self._life = EngineLife(policy or Policy())
        self._given_up = given_up
        self._runtime = runtime
        self._process: EngineProcess | None = None
        self._verdict: str | None = None
        self._is_closing = False
        self.examine: Callable[[], str | None] = lambda: None
        """Asked about once a second: why the engine is of no use any more, if that is so. It may
        hang if the engine does."""
        self._woken = runtime.event()
        self._watching: Thread | None = None
        self._asking: Thread | None = None
        self.starts = 0
        """How many engines there have been."""
        self._adopt(first)

    def begin(self) -> None:
        """Watch from now on."""
        self._watching = self._runtime.start_thread(self._watch, "waterclock-engine")
        self._asking = self._runtime.start_thread(self._ask, "waterclock-engine-asking")

    @property
    def deaths(self) -> int:
        """How many engines have died."""
        return self._life.died

    @property
    def problem(self) -> str | None:
        """Why the engine can not be used at this moment; None if it can. Answers at once."""
        problem = self.live.problem
        if problem is None and self._watching is not None:
            unanswered_s = self._life.unanswered_s(self._runtime.monotonic_s())
            if unanswered_s is not None:
                return f"The engine has not answered for {unanswered_s:.0f} s."
        return problem

    def condemn(self, why: str) -> None:
        """The engine is of no use any more, for the reason given: have it replaced."""
        self._verdict = self._verdict or why

    def stop_restarting(self) -> None:
        """Start no other engine; one that hangs is still ended."""
        self._launch = None

    def close(self, *, ends_engine: bool = True) -> None:
        """Watch no more, and end the engine, unless it belongs to somebody else."""
        self._is_closing = True
        self._woken.set()
        if self._watching is not None:
            self._watching.join()
        if self._asking is not None:
            self._asking.join(_LAST_ANSWER_S)  # it may hang, if the engine does
        process, self._process = self._process, None
        self.live.lost("The server is stopping.")
        if process is not None and ends_engine:
            process.stop()

    def _adopt(self, process: EngineProcess) -> None:
        self.starts += 1
        self._verdict = None
        self._life.started(self._runtime.monotonic_s())
        self._process = process
        self.live.restarted(process.spark, process.has_ended)

    def _ask(self) -> None:
        while not self._is_closing:
            process = self._process
            with suppress(Exception):  # it has gone, which the other thread notices
                if process is not None:
                    if not process.is_serving():
                        self._condemn(process, "Spark has stopped after an error of its own")
                    elif process is self._process:
                        self._life.answered(self._runtime.monotonic_s())
                        why = self.examine()
                        if why is not None:
                            self._condemn(process, why)
            self._woken.wait(_ASK_S)

    def _condemn(self, process: EngineProcess, why: str) -> None:
        if process is self._process:
            self.condemn(why)

    def _watch(self) -> None:
        while not self._is_closing:
            process = self._process
            if process is None:
                return
            has_ended = process.wait(_LOOK_S) or process.has_ended()
            why = self._verdict
            if has_ended:
                why = "its process has ended"
            elif (silent_s := self._life.silent_s(self._runtime.monotonic_s())) is not None:
                why = f"it has not answered for {silent_s:.0f} s"
            if why is not None and not self._is_closing:
                self._replace(process, why)

    def _replace(self, process: EngineProcess, why: str) -> None:
        """Say that the engine is gone, and go on with another one when there is one."""
        self.live.lost(f"The engine is gone: {why}.")
        _LOG.error("the engine is gone: %s", why)
        self._process = None
        if self._is_own:
            process.kill()
        decision = self._life.lost(self._runtime.monotonic_s())
        while self._launch is not None and not self._is_closing:
            if isinstance(decision, GiveUp):
                _LOG.critical("%s; giving up", decision.why)
                self._given_up(decision.why)
                return
            rest_s = decision.at - self._runtime.monotonic_s()
            if rest_s > 0:
                self._woken.wait(rest_s)
                continue
            began = self._runtime.monotonic_s()
            try:
                started = self._launch()
            except Exception as error:
                _say_why(error)
                decision = self._life.lost(self._runtime.monotonic_s())
            else:
                self._adopt(started)
                taken_s = self._runtime.monotonic_s() - began
                _LOG.warning("a new engine was started in %.1f s", taken_s)
                return


def _say_why(error: Exception) -> None:
    """Log why an engine could not be started: nothing in that comes from a statement."""
    detail = error.detail if isinstance(error, WaterclockError) else None
    _LOG.error("no new engine could be started: %s (%s)", error, detail)
