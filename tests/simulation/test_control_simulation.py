"""The control plane keeps its promises in simulations of everything that can befall a server.

What a simulation consists of is told in `waterclock.testing.control`. That it would notice is shown
in `test_control_simulation_finds`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from waterclock.testing.control.run import simulate

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("WATERCLOCK_CONTROL_SEEDS", "200"))
FIRST = int(os.environ.get("WATERCLOCK_SIM_FIRST", "0"))
GROUP = 10


@pytest.mark.semantics(76, 80, 81, 99, 100, 101)
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, GROUP))
def test_histories(first: int) -> None:
    for seed in range(first, min(first + GROUP, FIRST + SEEDS)):
        simulate(seed)


def test_the_histories_are_worth_it() -> None:
    """Together a few of them meet everything that can happen."""
    counts: Counter[str] = Counter()
    for seed in range(5000, 5015):
        counts += simulate(seed).counts
    rare = ["cancelled", "killed", "died", "opened", "40001", "42P01", "57014", "58030"]
    assert not [name for name in rare if not counts[name]], counts


def test_the_same_seed_is_the_same_history() -> None:
    here = simulate(7).log
    assert here == simulate(7).log
    script = "from waterclock.testing.control.run import simulate\n"
    script += "print('\\n'.join(simulate(7).log))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.splitlines() == "\n".join(here).splitlines()
