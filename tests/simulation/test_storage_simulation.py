"""Storage keeps its promises in histories of failures, and the simulation notices when it does not.

What a history consists of is told in `waterclock.testing.simulation.history`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from waterclock.persist import store
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import PositionTaken
from waterclock.persist.records import Appended, decode_entry, encode_entry
from waterclock.testing.simulation.history import SimulationFailed, simulate

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("WATERCLOCK_SIM_SEEDS", "50"))
FIRST = int(os.environ.get("WATERCLOCK_SIM_FIRST", "0"))
GROUP = 10
ENOUGH = 40
"""So many seeds find a planted bug."""


@pytest.mark.slow
@pytest.mark.semantics(14, 28, 33, 34, 38, 43, 46, 49, 50, 55, 57, 61, 69)
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, GROUP))
def test_histories(first: int) -> None:
    for seed in range(first, min(first + GROUP, FIRST + SEEDS)):
        simulate(seed)


def test_the_histories_are_worth_it() -> None:
    """Together a few of them meet everything that can happen."""
    counts: Counter[str] = Counter()
    for seed in range(1000, 1012):
        counts += simulate(seed).counts
    rare = [
        "expired",
        "failed to open",
        "followed on",
        "found out by acquiring",
        "maintenance failed",
        "read at a stale server",
        "taken over",
        "unknown, did not happen",
        "unknown, happened",
    ]
    assert not [name for name in rare if not counts[name]], counts


def test_the_same_seed_is_the_same_history() -> None:
    here = simulate(7).history
    assert here == simulate(7).history
    script = "from waterclock.testing.simulation.history import simulate\n"
    script += "print('\\n'.join(simulate(7).history))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.splitlines() == here


def test_a_failure_tells_its_seed() -> None:
    with pytest.raises(SimulationFailed, match=r"python -m waterclock.testing.simulation \d+"):
        _until_found(MemoryBlob, _ForgetfulConsensus)


def test_a_lost_entry_is_noticed() -> None:
    with pytest.raises(SimulationFailed, match="Violation"):
        _until_found(MemoryBlob, _ForgetfulConsensus)


def test_a_lost_object_is_noticed() -> None:
    with pytest.raises(SimulationFailed, match="BlobMissing"):
        _until_found(_ForgetfulBlob, MemoryConsensus)


def test_a_missing_fence_is_noticed() -> None:
    with pytest.raises(SimulationFailed, match="Violation"):
        _until_found(MemoryBlob, _Unfenced)


def test_a_sweep_of_what_a_successor_needs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "epoch_of", lambda _: 0)
    with pytest.raises(SimulationFailed, match=r"BlobMissing|checkpoint|Violation"):
        _until_found(MemoryBlob, MemoryConsensus)


def _until_found(blob: Callable[[], MemoryBlob], consensus: Callable[[], MemoryConsensus]) -> None:
    for seed in range(ENOUGH):
        simulate(seed, blob=blob(), consensus=consensus())


@dataclass
class _Every:
    """True at each so-manyth call."""

    period: int
    calls: int = field(default=0)

    def __call__(self) -> bool:
        self.calls += 1
        return self.calls % self.period == 0


class _ForgetfulConsensus(MemoryConsensus):
    """Acknowledges some appends and keeps nothing of what they say."""

    def __init__(self) -> None:
        super().__init__()
        self._forgets = _Every(25)

    def append(self, position: int, entry: bytes) -> None:
        appends = any(isinstance(event, Appended) for event in decode_entry(entry))
        super().append(position, encode_entry([]) if appends and self._forgets() else entry)


class _ForgetfulBlob(MemoryBlob):
    """Acknowledges some objects and keeps nothing of them."""

    def __init__(self) -> None:
        super().__init__()
        self._forgets = _Every(6)

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        if not (key.endswith(".parquet") and self._forgets()):
            super().put(key, data)


class _Unfenced(MemoryConsensus):
    """Tells a writer that comes too late that all is well."""

    def append(self, position: int, entry: bytes) -> None:
        with contextlib.suppress(PositionTaken):
            super().append(position, entry)
