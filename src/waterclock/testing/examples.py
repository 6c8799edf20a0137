"""How many examples a property is tried with: what the test says, times what the run asks for.

A test names the number that suits the law it states and what an example costs. The environment
variable WATERCLOCK_EXAMPLES scales all of them, in percent: `make fast` takes a quarter, the whole
run takes them as they are, and whoever hunts a rare fault takes ten times as many. Nothing else
changes: the same laws, over the same kind of data. The whole run, in which the variable is not set,
takes the same examples each time: it does not fail by chance.

Example:
    >>> few(60, {"WATERCLOCK_EXAMPLES": "25"}), few(60, {})
    (15, 60)
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hypothesis import HealthCheck, settings

VARIABLE = "WATERCLOCK_EXAMPLES"
_LEAST = 5
"""Below that, a law has hardly been tried."""


def examples(count: int) -> settings:
    """The settings of a property that is worth `count` examples, however long one takes."""
    made = settings(
        max_examples=few(count, os.environ),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    return made if VARIABLE in os.environ else settings(made, derandomize=True)


def few(count: int, environment: Mapping[str, str]) -> int:
    """The count as the run asks for it; a handful always, if there are so many."""
    percent = int(environment.get(VARIABLE, "100"))
    assert percent > 0, f"{VARIABLE} is a percentage"
    return max(min(count, _LEAST), count * percent // 100)
