"""The control plane asks its runtime for the clock and for threads, so that it can be simulated."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import waterclock

SOURCE = Path(waterclock.__file__).parent
SIMULATED = (
    "adapter",
    "oracle",
    "catalog/durable.py",
    "compute/controller.py",
    "compute/inputs.py",
    "compute/maintained.py",
    "compute/opening.py",
    "compute/schedule.py",
    "persist/committer.py",
    "persist/store.py",
    "storage/background.py",
    "storage/controller.py",
    "storage/subscription.py",
    "storage/sources/farewells.py",
    "storage/sources/loop.py",
)
OF_THE_SYSTEM = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"},
    "threading": {"Thread", "Timer", "Event", "Condition", "Semaphore", "RLock"},
    "datetime": {"now", "utcnow", "today"},
    "futures": {"ThreadPoolExecutor", "wait"},
    "random": {"random", "choice", "randint", "uniform"},
}
"""A `threading.Lock` may stay if it is never held while its holder waits."""


def modules() -> Iterator[Path]:
    for each in SIMULATED:
        path = SOURCE / each
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def asked(tree: ast.AST) -> Iterator[str]:
    """What a module takes from the system."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(module) | ast.Attribute(_, module), name):
                if name in OF_THE_SYSTEM.get(module, ()):
                    yield f"{module}.{name} in line {node.lineno}"
            case ast.ImportFrom(module=str(module), names=names):
                known = OF_THE_SYSTEM.get(module.rpartition(".")[2], ())
                yield from (f"{module}.{n.name}" for n in names if n.name in known)


@pytest.mark.parametrize("module", list(modules()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_clock_and_threads_are_arguments(module: Path) -> None:
    assert not list(asked(ast.parse(module.read_text())))


def test_what_is_looked_for_is_found() -> None:
    text = "import time\nfrom threading import Event\ntime.monotonic()\ndatetime.datetime.now()\n"
    assert len(list(asked(ast.parse(text)))) == 3
