"""Which views advance together, when, and in which thread.

Groups of views advance in threads of their own, so that one that takes long does not hold others
back; those that have nothing to compute move on together, in one write, and those that compute
their first contents have threads for that alone. Groups that read the same
and are equally far are put together, because one job for all costs little more than a job for one;
planning the job takes a moment, in which they stand still. A view and what it reads are never in
one group: it would wait for itself. A group whose step fails, or takes long, is taken apart, and
its views stay alone for a while: whoever is to blame then only keeps itself waiting. A step that
failed is tried again after a rest. If it failed because state was lost while the server runs, the
view is opened anew, and so is its state.

The engine may die. Then groups that have nothing to compute still move on, and all others wait.
When there is a new engine, each is planned anew, in a step of its own, and goes on with the state
and the inputs that it has.

A view that goes away waits for the step it is in, which is short, but not for its first contents or
for lost state: these are given up.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from waterclock.compute.maintained import Group, View
from waterclock.errors import EngineDown
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.errors import Damaged
from waterclock.runtime import SYSTEM, Runtime

_LOG = logging.getLogger(__name__)
_THREADS = 4
_BEGINNINGS = 2
"""Groups that hydrate, or rebuild lost state, at the same time."""
_RETRY_S = 1.0
"""Retry interval after a failed step."""
REGROUP_S = 2.0
"""Interval between regrouping passes."""
_ALONE_S = 60.0
"""Time that a view split off from its group stays alone."""
_SLOW_S = 5.0
"""A group whose step takes longer than this is taken apart, unless it had much to take in."""
_LARGEST_GROUP = 16
_HANGS = 2
"""Hung steps of one group before the engine is blamed and replaced."""


_GIVE_UP_S = 0.2
"""Retry interval for cancellation."""


class Grouping(Protocol):
    """Makes a group: plans the job for some views that are all at `upper`.

    Their arrangements are open already, and are taken over.
    """

    def __call__(
        self, views: Sequence[View], upper: int, opened: Mapping[str, Arrangement]
    ) -> Group: ...


class Engine(Protocol):
    """What the schedule has to know of the engine, which may die and come back as another one."""

    @property
    def has_engine(self) -> bool:
        """Whether something can be computed now."""

    def is_current(self, group: Group) -> bool:
        """Whether the group was planned in the engine that there is."""

    def renewed(self, group: Group) -> Group:
        """The group planned anew; `Damaged` if its state does not belong to the plan."""

    def guarded(self, group: Group) -> AbstractContextManager[object]:
        """Around a step: an error that comes of the engine's end is `EngineDown`."""


class _Immortal:
    """Implements `Engine` by one that is always there."""

    has_engine = True

    def is_current(self, group: Group) -> bool:
        del group
        return True

    def renewed(self, group: Group) -> Group:
        return group

    def guarded(self, group: Group) -> AbstractContextManager[object]:
        del group
        return nullcontext()


class Running:
    """A group of views, and what is known of how it is doing."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.step: Future[bool] | None = None
        self.problem: str | None = None
        self.rest_until = 0.0
        self.released = -math.inf
        self.is_computing = False
        self.progress: object = None
        """What was seen of the step that is going on, last."""
        self.moved_at = 0.0
        """When it was seen to get on, or began."""
        self.hangs = 0
        """How often a step was cancelled because it got nowhere, since one has succeeded."""
        self.alone_until = 0.0
        """Not to be put together with others before this time."""

    @property
    def is_idle(self) -> bool:
        return self.step is None or self.step.done()


class Schedule:
    """All groups of one server. Thread-safe."""

    def __init__(
        self,
        grouping: Grouping,
        move_on: Callable[[Sequence[Group]], list[bool]],
        retire: Callable[[View], None],
        reopen: Callable[[View], Group],
        *,
        release_s: float,
        runtime: Runtime = SYSTEM,
        engine: Engine | None = None,
    ) -> None:
        """`move_on` lets groups advance that have only to move, and tells which of them did.

        `retire` is told of a view that will never change again; `reopen` opens one anew.
        """
        self._grouping = grouping
        self._move_on = move_on
        self._retire = retire
        self._reopen = reopen
        self._release_s = release_s
        self._runtime = runtime
        self._engine: Engine = engine or _Immortal()
        self._threads = runtime.pool(_THREADS, "waterclock-view")
        self._beginnings = runtime.pool(_BEGINNINGS, "waterclock-new-view")
        self._lock = runtime.lock()
        self._removing = runtime.lock()
        self._paused: set[GlobalId] = set()
        """Views that are not to be stepped; nor are those that are grouped with them."""
        self._is_closing = False
        self.hung_steps = 0
        """How many steps were cancelled because they got nowhere."""
        self._running: dict[GlobalId, Running] = {}
        self._looked = runtime.monotonic_s()

    def add(self, name: GlobalId, group: Group) -> None:
        """Let a view advance from now on, at first alone."""
        with self._lock:
            self._running[name] = Running(group)

    def remove(self, name: GlobalId) -> View | None:
        """Step the view no more; those it was grouped with go on without it. None if unknown."""
        with self._removing:
            running = self._at_rest(name)
            if running is None:
                return None
            [view] = [each for each in running.group.views if each.name == name]
            rest = [each for each in running.group.views if each is not view]
            is_kept = bool(rest) and self._go_on_without(running, view, rest)
            with self._lock:
                del self._running[name]
                self._paused.discard(name)
            if not is_kept:
                running.group.dataflow.close()
            return view

    def _go_on_without(self, running: Running, view: View, rest: Sequence[View]) -> bool:
        """Let the others of a group go on; True if they keep its dataflow for the moment."""
        if self._engine.is_current(running.group):
            try:
                self._replace_or_reopen(running, rest)
            except EngineDown:
                pass  # they are planned when there is an engine again
            else:
                return False
        self._put(rest, running.group.without(view.name))
        return True

    def _replace_or_reopen(self, running: Running, rest: Sequence[View]) -> None:
        """Put the rest of a group into a new one, or open each anew if its state does not fit."""
        try:
            self._replace([running], rest)
        except Damaged as error:
            names = ", ".join(str(view.name) for view in rest)
            _LOG.warning("%s: opened anew, since %s", names, error)
            for view in rest:
                self._put([view], self._reopen(view))

    def pause(self, name: GlobalId) -> None:
        """Wait for the view's step, if there is one, and begin no other before `resume`.

        The computation of first contents, or of lost state, is given up.
        """
        self._at_rest(name)

    def leave(self, name: GlobalId) -> None:
        """Begin no other step of the view before `resume`, without waiting for the present one.

        That may fail, and nobody is told.
        """
        with self._lock:
            if name in self._running:
                self._paused.add(name)

    def resume(self, name: GlobalId) -> None:
        """Step a view again that was paused."""
        with self._lock:
            self._paused.discard(name)
            running = self._running.get(name)
        if running is not None:
            running.group.go_on()

    def of(self, name: GlobalId) -> Running:
        """The group that the view is in, and how it is doing."""
        return self._running[name]

    @property
    def groups(self) -> list[set[GlobalId]]:
        """Which views are maintained together."""
        with self._lock:
            return [{v.name for v in each.group.views} for each in self._distinct()]

    @property
    def is_settled(self) -> bool:
        """Whether no view is being stepped, or moved to another group."""
        with self._lock:
            return all(running.is_idle for running in self._running.values())

    def tick(self, patience_s: float | None) -> bool:
        """Let every group that is not busy go on; see `Compute.tick`."""
        now = self._runtime.monotonic_s()
        quiet: list[tuple[Running, Future[bool]]] = []
        begun: list[Future[bool]] = []
        has_engine = self._engine.has_engine
        with self._lock:
            for running in self._distinct():
                if self._may_step(running) and running.rest_until <= now:
                    step: Future[bool] = Future()
                    running.step = step
                    begun.append(step)
                    if has_engine and not self._engine.is_current(running.group):
                        self._threads.submit(self._take_step, running, step, self._renew)
                    elif running.group.is_quiet or not has_engine:
                        quiet.append((running, step))
                    elif running.group.dataflow.has_begun:
                        self._threads.submit(self._take_step, running, step)
                    else:
                        self._beginnings.submit(self._take_step, running, step)
            if quiet:
                self._threads.submit(self._take_quiet_steps, quiet)
        self._runtime.wait(begun, patience_s)
        self._consider_grouping()
        return any(step.result() for step in begun if step.done() and not step.cancelled())

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Do something that takes long beside the steps."""
        return self._beginnings.submit(work)

    def close(self) -> None:
        """Finish the steps that are going on, and begin no more.

        First contents and lost state are not waited for: they are computed after the next start.
        """
        with self._lock:
            self._is_closing = True
            rest = self._distinct()
        for running in rest:
            self._await_step(running)
        self._threads.shutdown()
        self._beginnings.shutdown()
        for running in self._distinct():
            running.group.dataflow.close()

    def _distinct(self) -> list[Running]:
        return list(dict.fromkeys(self._running.values()))

    # Steps

    def _take_step(
        self,
        running: Running,
        step: Future[bool],
        work: Callable[[Running], bool] | None = None,
    ) -> None:
        """Let the group advance, unless that is no longer wanted, and tell what came of it."""
        if not step.set_running_or_notify_cancel():
            return
        try:
            step.set_result((work or self._advance)(running))
        except BaseException as error:
            step.set_exception(error)

    def _take_quiet_steps(self, quiet: Sequence[tuple[Running, Future[bool]]]) -> None:
        """Let groups advance that had nothing to compute last time, all together.

        That takes a moment. In threads of their own they would only take turns with one another,
        and keep the one waiting that has something to do. Those that have something to do now get a
        thread nevertheless, and so do all if something is wrong, to see to it themselves.
        """
        still = []
        for running, step in quiet:
            if self._is_still(running):
                still.append((running, step))
            elif not self._engine.has_engine:
                step.set_result(False)
            else:
                self._threads.submit(self._take_step, running, step)
        try:
            moved = self._move_on([running.group for running, _ in still])
            for (running, step), got_on in zip(still, moved, strict=True):
                if got_on:
                    self._release(running)
                running.problem = None
                step.set_result(got_on)
        except Exception:  # one of them is to blame: its own step will meet it, and see to it
            for running, step in still:
                if not step.done():
                    self._threads.submit(self._take_step, running, step)

    def _is_still(self, running: Running) -> bool:
        try:
            running.group.receive()
            return running.group.has_only_to_move()
        except Exception:  # the step will meet it too, and see to it
            return False

    def _release(self, running: Running) -> None:
        """Let the inputs be compacted, if that is due."""
        now = self._runtime.monotonic_s()
        if now - running.released >= self._release_s:
            running.released = now
            running.group.release_inputs()

    def _advance(self, running: Running) -> bool:
        group = running.group
        began = self._runtime.monotonic_s()
        try:
            with self._engine.guarded(group):
                group.receive()
                if group.must_part():
                    self._part(running)
                    return True
                got_on = self._computed(running)
            now = self._runtime.monotonic_s()
            if got_on:
                self._release(running)
            if group.is_finished and got_on:
                [view] = group.views
                self._retire(view)
        except EngineDown as error:  # what was computed is computed again
            running.problem = str(error)
            return False
        except Exception as error:
            if self._is_leaving(running):
                return False
            _LOG.exception("a step of %s failed", _names(group))
            running.problem = str(error)
            running.rest_until = self._runtime.monotonic_s() + _RETRY_S
            if len(group.views) > 1:
                self._try_part(running)
            else:
                self._recover(running)
            return False
        running.problem = None
        if len(group.views) > 1 and now - began > _SLOW_S and not group.is_loaded:
            self._try_part(running)
        return got_on

    def _computed(self, running: Running) -> bool:
        """Let the group advance, under the eyes of `end_hung_steps`."""
        running.progress, running.moved_at = None, self._runtime.monotonic_s()
        running.is_computing = True
        try:
            got_on = running.group.advance()
        finally:
            running.is_computing = False
        running.hangs = 0
        return got_on

    def end_hung_steps(self, timeout_s: float) -> str | None:
        """Cancel steps that have got nowhere for so long; they are tried again.

        Asks the engine, so it may hang if that does. Says why the engine is to be replaced, if
        steps hang again and again.
        """
        with self._lock:
            computing = [each for each in self._distinct() if each.is_computing]
        now = self._runtime.monotonic_s()
        for running in computing:
            progress = running.group.dataflow.progress()
            if progress != running.progress:
                running.progress, running.moved_at = progress, now
            elif now - running.moved_at >= timeout_s:
                running.moved_at = now
                running.hangs += 1
                self.hung_steps += 1
                names = _names(running.group)
                if running.hangs > _HANGS:
                    return f"a step of {names} hangs whenever it is tried"
                _LOG.error("a step of %s has got nowhere for %.0f s: cancelling", names, timeout_s)
                running.group.dataflow.cancel()
        return None

    def _renew(self, running: Running) -> bool:
        """Plan a group anew, for there is another engine than the one that it was planned in."""
        group = running.group
        try:
            fresh = self._engine.renewed(group)
        except EngineDown as error:
            running.problem = str(error)
            return False
        except Damaged as damage:
            _LOG.warning("views are opened anew: %s", damage)
            self._open_again(running)
            return True
        except Exception as error:
            _LOG.exception("%s could not be planned anew", _names(group))
            running.problem = str(error)
            running.rest_until = self._runtime.monotonic_s() + _RETRY_S
            return False
        running.problem = None
        running.group = fresh
        group.dataflow.close()
        return True

    def _open_again(self, running: Running) -> None:
        """Open each view of a group as after a restart."""
        for view in running.group.views:
            self._put([view], self._reopen(view))
        running.group.dataflow.close()

    def _recover(self, running: Running) -> None:
        """Open a view anew, if that its state is gone may be why its step has failed."""
        group = running.group
        try:
            group.dataflow.check_state()
        except Damaged:
            pass
        else:
            return
        try:
            fresh = self._reopen(group.views[0])
        except Exception:
            _LOG.exception("view %s could not be opened anew", group.views[0].name)
            return
        with self._lock:
            for name, other in self._running.items():
                if other is running:
                    self._running[name] = Running(fresh)
        group.dataflow.close()

    # Groups

    def _is_leaving(self, running: Running) -> bool:
        """Whether the group is to come to rest."""
        return self._is_closing or any(v.name in self._paused for v in running.group.views)

    def _may_step(self, running: Running) -> bool:
        return running.is_idle and not self._is_leaving(running)

    def _at_rest(self, name: GlobalId) -> Running | None:
        """The view's group once nobody steps it, and so that nobody will any more."""
        while True:
            with self._lock:
                self._paused.add(name)
                running = self._running.get(name)
                if running is None:
                    self._paused.discard(name)
                    return None
                if running.is_idle:
                    return running
            self._await_step(running)

    def _await_step(self, running: Running) -> None:
        """Wait until the step is over that is going on, if there is one."""
        step = running.step
        while step is not None and not step.done():
            if running.group.dataflow.has_begun:
                self._runtime.wait([step])
            elif not step.cancel():  # it has come to its turn
                # Again and again, since a job that is not there yet can not be stopped.
                running.group.stop()
                self._runtime.wait([step], _GIVE_UP_S)

    def _replace(self, old: Sequence[Running], views: Sequence[View]) -> Running:
        """Put views of some groups, all equally far and at rest, into a new group of their own."""
        return self._put(views, self._grouped(old, views))

    def _grouped(self, old: Sequence[Running], views: Sequence[View]) -> Group:
        """A group of views of some groups that are all equally far and at rest."""
        upper = old[0].group.upper
        opened = {n: a for each in old for n, a in each.group.dataflow.arrangements.items()}
        group = self._grouping(views, upper, opened)
        group.since = min(each.group.since for each in old)
        return group

    def _put(self, views: Sequence[View], group: Group) -> Running:
        """Let views go on in a group."""
        running = Running(group)
        with self._lock:
            for view in views:
                self._running[view.name] = running
        return running

    def _part(self, running: Running) -> None:
        """Let each view of the group go on alone for a while. All of them are planned first."""
        views = running.group.views
        groups = [self._grouped([running], [view]) for view in views]
        for view, group in zip(views, groups, strict=True):
            alone = self._put([view], group)
            alone.alone_until = self._runtime.monotonic_s() + _ALONE_S
        running.group.dataflow.close()

    def _try_part(self, running: Running) -> None:
        """Part, unless the engine is gone: then the group stays as it is."""
        try:
            self._part(running)
        except EngineDown as error:
            running.problem = str(error)

    def _consider_grouping(self) -> None:
        """Put groups together that read the same and are equally far, if there are such."""
        now = self._runtime.monotonic_s()
        if now - self._looked < REGROUP_S:
            return
        self._looked = now
        step: Future[bool] = Future()
        with self._lock:
            groups = self._distinct()
            able = [
                each
                for each in groups
                if self._may_step(each) and self._engine.is_current(each.group)
            ]
            levels = _levels(groups)
            chosen = _matching([each for each in able if _may_join(each, now)], levels)
            if not chosen:
                return
            for each in chosen:
                each.step = step
        self._threads.submit(self._join, chosen, step)

    def _join(self, groups: Sequence[Running], step: Future[bool]) -> None:
        try:
            self._replace(groups, [view for each in groups for view in each.group.views])
            for each in groups:
                each.group.dataflow.close()
        except EngineDown:
            _LOG.info("views could not be put together: the engine is not running")
        except Exception:
            _LOG.exception("views could not be put together")
            for each in groups:
                each.alone_until = self._runtime.monotonic_s() + _ALONE_S
        finally:
            step.set_result(False)


def _names(group: Group) -> str:
    return ", ".join(str(view.name) for view in group.views)


def _may_join(running: Running, now: float) -> bool:
    return (
        running.problem is None
        and running.alone_until <= now
        and running.group.dataflow.has_begun
        and not running.group.is_finished
        and not running.group.is_owing
    )


def _levels(groups: Sequence[Running]) -> dict[Running, int]:
    """How many views are between a group and what is not a view, on the longest way.

    A group goes on when all that its views read is complete. Together with a view that it reads, or
    in two groups of which each has something to read for the other, a view would wait for ever.
    Only groups of one level are put together, so that whatever is read is of a lower one.
    """
    makers = {made: each for each in groups for made in each.group.writes}
    levels: dict[Running, int] = {}

    def level(running: Running) -> int:
        if running not in levels:
            read = [makers[each] for each in running.group.reads if each in makers]
            levels[running] = 1 + max(map(level, read), default=0)
        return levels[running]

    for each in groups:
        level(each)
    return levels


def _matching(candidates: Sequence[Running], levels: Mapping[Running, int]) -> list[Running]:
    """Groups that a common job would serve better: as many as fit, or none."""
    for place, one in enumerate(candidates):
        chosen, reads, views = [one], one.group.reads, len(one.group.views)
        for other in candidates[place + 1 :]:
            more = len(other.group.views)
            if (
                one.group.upper == other.group.upper
                and levels[one] == levels[other]
                and not reads.isdisjoint(other.group.reads)
                and views + more <= _LARGEST_GROUP
            ):
                chosen.append(other)
                reads, views = reads | other.group.reads, views + more
        if len(chosen) > 1:
            return chosen
    return []
