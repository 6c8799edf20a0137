"""Which numbered statements of the formalism the tests prove: a pytest plugin that keeps the score.

A test names the statements it proves with `@pytest.mark.semantics(7, 8)`. At the end of a run the
outcomes are merged into one JSON file, so that several runs add up: a newer result of a test
replaces its older one. A test passes here only if its setup, call and teardown all passed; one that
was skipped or was expected to fail proves nothing.

What the numbers mean, and the printed summary, are the business of `make semantics`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

REPORT_PATH = Path(".reports") / "semantics.json"
_MARK = "semantics"
_PHASES = frozenset({"setup", "call", "teardown"})


class SemanticsReport:
    """Collects the outcomes of one run's marked tests and merges them into the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._phases: dict[str, list[pytest.TestReport]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if numbers := marked_numbers(item):
                # Travels with the test's reports, also from another process.
                item.user_properties.append((_MARK, numbers))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._phases.setdefault(report.nodeid, []).append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return  # a worker of a distributed run: its controller sees all the reports
        write_report(self._path, merge(read_report(self._path), self._phases))


def marked_numbers(item: pytest.Item) -> list[int]:
    """The numbers a test is marked with, on itself, its class or its module."""
    numbers: set[int] = set()
    for mark in item.iter_markers(_MARK):
        if not mark.args or not all(type(number) is int for number in mark.args):
            raise pytest.UsageError(f"{item.nodeid}: the semantics mark takes one or more numbers")
        numbers.update(mark.args)
    return sorted(numbers)


def outcome(phases: Iterable[pytest.TestReport]) -> str:
    """One word for all phases of a test: passed, failed, skipped, xfailed, xpassed, incomplete."""
    reports = list(phases)
    if any(report.failed for report in reports):
        return "failed"
    expected_to_fail = any(hasattr(report, "wasxfail") for report in reports)
    if any(report.skipped for report in reports):
        return "xfailed" if expected_to_fail else "skipped"
    if expected_to_fail:
        return "xpassed"
    return "passed" if {report.when for report in reports} == _PHASES else "incomplete"


def merge(
    older: Mapping[str, dict[str, Any]], phases: Mapping[str, list[pytest.TestReport]]
) -> dict[str, dict[str, Any]]:
    """The older results, with those of the tests that ran now replaced, also by nothing."""
    merged = {nodeid: entry for nodeid, entry in older.items() if nodeid not in phases}
    for nodeid, reports in phases.items():
        if numbers := dict(reports[0].user_properties).get(_MARK):
            merged[nodeid] = {"numbers": numbers, "outcome": outcome(reports)}
    return merged


def read_report(path: Path) -> dict[str, dict[str, Any]]:
    """The results in the file, by test; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    tests: dict[str, dict[str, Any]] = json.loads(text)["tests"]
    return tests


def write_report(path: Path, tests: Mapping[str, dict[str, Any]]) -> None:
    """Replace the file as a whole, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps({"tests": dict(sorted(tests.items()))}, indent=1)
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(path)
