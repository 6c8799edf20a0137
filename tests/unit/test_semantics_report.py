"""What counts as proof, and how the results of several runs add up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waterclock.testing.semantics_report import SemanticsReport, read_report, write_report

Report = dict[str, dict[str, Any]]


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> Report:
    """Run a test file under the plugin; the report afterwards, by the name of the test."""
    pytester.makeini("[pytest]\nmarkers = semantics(*numbers): what is proven\n")
    pytester.makepyfile(test_sample="import pytest\nproves = pytest.mark.semantics\n" + source)
    path = pytester.path / ".reports" / "semantics.json"
    pytester.inline_run("-p", "no:cacheprovider", *arguments, plugins=[SemanticsReport(path)])
    return {nodeid.partition("::")[2]: entry for nodeid, entry in read_report(path).items()}


def outcomes(report: Report) -> dict[str, str]:
    return {name: entry["outcome"] for name, entry in report.items()}


def test_a_test_passes_only_if_all_its_phases_passed_and_it_really_ran(
    pytester: pytest.Pytester,
) -> None:
    report = run(
        pytester,
        """
@pytest.fixture
def breaks_before(): raise ValueError
@pytest.fixture
def breaks_after():
    yield
    raise ValueError

@proves(1)
def test_good(): pass
@proves(1)
def test_bad(): assert False
@proves(1)
def test_setup(breaks_before): pass
@proves(1)
def test_teardown(breaks_after): pass
@proves(1)
def test_skipped(): pytest.skip("not here")
@proves(1)
@pytest.mark.skip
def test_never(): pass
@proves(1)
@pytest.mark.xfail(reason="a known gap")
def test_gap(): assert False
@proves(1)
@pytest.mark.xfail(reason="not a gap any more", strict=False)
def test_closed_gap(): pass
@proves(1)
@pytest.mark.xfail(reason="not a gap any more", strict=True)
def test_strict_gap(): pass
def test_unmarked(): pass
""",
    )
    assert outcomes(report) == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_setup": "failed",
        "test_teardown": "failed",
        "test_skipped": "skipped",
        "test_never": "skipped",
        "test_gap": "xfailed",
        "test_closed_gap": "xpassed",
        "test_strict_gap": "failed",
    }


def test_numbers_come_from_the_test_its_class_and_its_module(pytester: pytest.Pytester) -> None:
    report = run(
        pytester,
        """
pytestmark = proves(3)

@proves(2)
class TestThem:
    @proves(9, 1)
    @pytest.mark.parametrize("x", [0, 1])
    def test_one(self, x): pass
""",
    )
    assert {name: entry["numbers"] for name, entry in report.items()} == {
        "TestThem::test_one[0]": [1, 2, 3, 9],
        "TestThem::test_one[1]": [1, 2, 3, 9],
    }


def test_a_newer_result_replaces_the_older_and_the_rest_stays(pytester: pytest.Pytester) -> None:
    both = "@proves(1)\ndef test_a(): assert {}\n@proves(2)\ndef test_b(): pass\n"
    run(pytester, both.format("False"))
    report = run(pytester, both.format("True"), "-k", "test_a")
    assert outcomes(report) == {"test_a": "passed", "test_b": "passed"}


def test_a_test_that_lost_its_mark_leaves_the_report(pytester: pytest.Pytester) -> None:
    run(pytester, "@proves(1)\ndef test_a(): pass\n")
    assert run(pytester, "def test_a(): pass\n") == {}


@pytest.mark.parametrize("mark", ["proves()", "proves('7')", "proves(True)"])
def test_a_mark_without_numbers_stops_the_run(pytester: pytest.Pytester, mark: str) -> None:
    assert run(pytester, f"@{mark}\ndef test_a(): pass\n") == {}


def test_a_written_report_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "semantics.json"
    assert read_report(path) == {}
    tests = {"t.py::test_a": {"numbers": [1], "outcome": "passed"}}
    write_report(path, tests)
    assert read_report(path) == tests
    assert list(path.parent.iterdir()) == [path]
