"""How much a step takes after it has run out of memory, and after it has not."""

from __future__ import annotations

import pytest

from waterclock.compute.faults import is_out_of_memory
from waterclock.compute.stepsize import GROW_AFTER, MOST_HALVINGS, StepSize
from waterclock.persist.cutting import Limit


def test_a_step_that_failed_is_halved_and_spread_wider() -> None:
    size = StepSize(Limit(1000, 1 << 20))
    assert (size.limit, size.spread) == (Limit(1000, 1 << 20), 1)
    assert size.failed()
    assert (size.limit, size.spread) == (Limit(500, 1 << 19), 2)


def test_it_grows_again_slowly() -> None:
    size = StepSize(Limit(1000, 1000))
    assert size.failed()
    assert size.failed()
    for _ in range(GROW_AFTER - 1):
        size.succeeded()
    assert size.limit.rows == 250
    size.succeeded()
    assert (size.limit.rows, size.spread) == (500, 2)
    for _ in range(10 * GROW_AFTER):
        size.succeeded()
    assert (size.limit.rows, size.spread) == (1000, 1)


def test_a_failure_in_between_begins_the_count_anew() -> None:
    size = StepSize(Limit(1000, 1000))
    for _ in range(3):
        assert size.failed()
        for _ in range(GROW_AFTER - 1):
            size.succeeded()
    assert size.limit.rows == 125


def test_there_is_a_least_size() -> None:
    size = StepSize(Limit(4, 4))
    assert [size.failed() for _ in range(MOST_HALVINGS + 1)] == [True] * MOST_HALVINGS + [False]
    assert size.limit == Limit(1, 1), "a step takes something"


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted ... java.lang.OutOfMemoryError: Java heap space",
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB",
        "pyarrow.lib.ArrowMemoryError: malloc of size 64 failed",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "Total size of serialized results is bigger than spark.driver.maxResultSize (1024.0 MiB)",
        "pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays",
    ],
)
def test_what_less_data_might_mend(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))


def test_other_failures_are_not_mended_by_less_data() -> None:
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("state of an operator is inconsistent"))
    assert not is_out_of_memory(ConnectionRefusedError("Connection refused"))
