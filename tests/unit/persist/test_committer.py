"""Who commits: leaders, groups, and what happens when the world makes them wait."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from waterclock.persist.committer import Committer, Group, Waiting

PATIENCE_S = 120


def quick() -> bool:
    return True


class Recorder:
    """Commits by writing down what was asked, in which thread, and in which groups."""

    def __init__(self) -> None:
        self.groups: list[list[Any]] = []
        self.threads: list[str] = []
        self.impatience = 0
        """How often an impatient leader is told to leave the group to others."""
        self.hold = threading.Event()
        self.hold.set()

    def commit(self, group: Group, patient: bool) -> bool:
        if not patient and self.impatience:
            self.impatience -= 1
            return False
        assert self.hold.wait(PATIENCE_S)
        self.threads.append(threading.current_thread().name)
        self.groups.append([waiting.work() for waiting in group])
        for waiting, answer in zip(group, self.groups[-1], strict=True):
            waiting.answer = answer
        return True


def submitted(committer: Committer, value: object) -> object:
    waiting: Waiting[object] = Waiting(lambda: value)
    committer.submit(waiting)
    return waiting.wait()


async def awaited(committer: Committer, value: object) -> object:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    committer.submit_from(loop, Waiting(lambda: value, future), quick)
    return await future


def test_a_lone_caller_commits_in_its_own_thread() -> None:
    recorder = Recorder()
    committer = Committer(recorder.commit)
    assert submitted(committer, 1) == 1
    assert recorder.threads == [threading.current_thread().name]
    committer.close()


def test_a_turn_of_an_event_loop_is_one_group() -> None:
    recorder = Recorder()
    committer = Committer(recorder.commit)

    async def many() -> list[object]:
        return await asyncio.gather(*(awaited(committer, n) for n in range(20)))

    assert asyncio.run(many()) == list(range(20))
    assert recorder.groups == [list(range(20))]
    assert recorder.threads == [threading.current_thread().name]
    committer.close()


def test_those_who_come_meanwhile_make_the_next_group() -> None:
    recorder = Recorder()
    committer = Committer(recorder.commit)
    recorder.hold.clear()
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(submitted, committer, 0)
        while committer._queue or not committer._leading.locked():
            time.sleep(0.001)
        others = [pool.submit(submitted, committer, n) for n in range(1, 6)]
        while len(committer._queue) < 5:
            time.sleep(0.001)
        recorder.hold.set()
        assert first.result(PATIENCE_S) == 0
        assert [other.result(PATIENCE_S) for other in others] == [1, 2, 3, 4, 5]
    assert [sorted(group) for group in recorder.groups] == [[0], [1, 2, 3, 4, 5]]
    committer.close()


def test_what_takes_patience_is_left_to_the_thread_and_comes_first() -> None:
    recorder = Recorder()
    recorder.impatience = 1
    committer = Committer(recorder.commit)
    recorder.hold.clear()

    async def main() -> tuple[list[object], int]:
        first = asyncio.ensure_future(awaited(committer, "first"))
        turns = 0
        for _ in range(50):  # the loop goes on although the commit does not
            await asyncio.sleep(0.001)
            turns += 1
        second = asyncio.ensure_future(awaited(committer, "second"))
        await asyncio.sleep(0.01)
        assert not first.done()
        recorder.hold.set()
        return [await first, await second], turns

    assert asyncio.run(main()) == (["first", "second"], 50)
    assert [value for group in recorder.groups for value in group] == ["first", "second"]
    assert recorder.threads[0] == "committer"
    committer.close()


@pytest.mark.parametrize("impatience", [0, 40])
def test_threads_and_loops_together_lose_nothing(impatience: int) -> None:
    recorder = Recorder()
    recorder.impatience = impatience
    committer = Committer(recorder.commit)

    def thread(number: int) -> list[object]:
        return [submitted(committer, (number, n)) for n in range(200)]

    async def task(number: int) -> list[object]:
        return [await awaited(committer, (number, n)) for n in range(50)]

    async def tasks(number: int) -> list[list[object]]:
        return list(await asyncio.gather(*(task(10 * number + n) for n in range(4))))

    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(thread, number) for number in range(4)]
        loops = [pool.submit(asyncio.run, tasks(number)) for number in range(1, 4)]
        for number, done in enumerate(threads):
            assert done.result(PATIENCE_S) == [(number, n) for n in range(200)]
        for number, done in enumerate(loops, start=1):
            expected = [[(10 * number + k, n) for n in range(50)] for k in range(4)]
            assert done.result(PATIENCE_S) == expected
    committer.close()
    done_once = [value for group in recorder.groups for value in group]
    assert len(done_once) == len(set(done_once)) == 4 * 200 + 3 * 4 * 50


def test_closing_commits_what_waits_and_refusing_answers_the_rest() -> None:
    recorder = Recorder()
    committer = Committer(recorder.commit)
    assert submitted(committer, 1) == 1
    committer.close()
    late: Waiting[object] = Waiting(lambda: 2)
    committer._queue.append(late)
    committer.refuse(ValueError("over"))
    with pytest.raises(ValueError, match="over"):
        late.wait()
