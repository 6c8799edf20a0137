"""How many examples a property gets."""

from __future__ import annotations

import pytest

from waterclock.testing.examples import VARIABLE, examples, few


@pytest.mark.parametrize(
    ("percent", "count", "expected"),
    [("100", 60, 60), ("25", 60, 15), ("25", 15, 5), ("25", 3, 3), ("1", 300, 5), ("1000", 8, 80)],
)
def test_scaled_but_never_to_nothing(percent: str, count: int, expected: int) -> None:
    assert few(count, {VARIABLE: percent}) == expected


def test_as_many_as_the_test_says() -> None:
    assert few(60, {}) == 60


def test_the_settings_of_a_property(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "50")
    assert (examples(40).max_examples, examples(40).deadline) == (20, None)


def test_the_whole_run_takes_the_same_examples_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert examples(40).derandomize


@pytest.mark.parametrize("percent", ["0", "-5"])
def test_no_examples_are_refused(percent: str) -> None:
    with pytest.raises(AssertionError, match="percentage"):
        few(60, {VARIABLE: percent})
