"""Print which numbered statements the last test run proved, and which not. Runs no test.

The statements are in docs/semantics.toml, the results in .reports/semantics.json, where the test
runs leave them. A statement is proven when a test that names it passed and none failed; a test that
was skipped or expected to fail does not count. Standard library only.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
STATEMENTS = ROOT / "docs" / "semantics.toml"
REPORT = ROOT / ".reports" / "semantics.json"
# The full text of the statements, where it lies beside the project.
FULL_TEXT = ROOT.parent / "shared" / "SEMANTICS.md"

Sections = dict[str, dict[int, str]]


def main() -> None:
    sections = read_sections()
    numbers = {number for statements in sections.values() for number in statements}
    check_against_full_text(numbers)
    results = read_results()
    if unknown := sorted(results.keys() - numbers):
        fail(f"tests name statements that do not exist: {', '.join(map(str, unknown))}")
    for title, statements in sections.items():
        print_section(title, statements, results)
    proven = sum(1 for number in numbers if is_proven(results[number]))
    print(f"{proven} of {len(numbers)} statements are proven by the last run")


def read_sections() -> Sections:
    with STATEMENTS.open("rb") as file:
        tables = tomllib.load(file)
    sections = {
        title: {int(number): text for number, text in table.items()}
        for title, table in tables.items()
    }
    listed = Counter(number for statements in sections.values() for number in statements)
    if repeated := sorted(number for number, times in listed.items() if times > 1):
        fail(f"docs/semantics.toml lists more than once: {', '.join(map(str, repeated))}")
    return sections


def check_against_full_text(numbers: set[int]) -> None:
    if not FULL_TEXT.exists():
        return
    text = FULL_TEXT.read_text(encoding="utf-8")
    full = {int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)}
    if different := sorted(full ^ numbers):
        fail(f"docs/semantics.toml and the full text differ in: {', '.join(map(str, different))}")


def read_results() -> defaultdict[int, Counter[str]]:
    """By statement, how many of its tests had which outcome."""
    if not REPORT.exists():
        fail("there is no report of a test run yet", remedy="make test (or, for a part: make fast)")
    results: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for test in json.loads(REPORT.read_text(encoding="utf-8"))["tests"].values():
        for number in test["numbers"]:
            results[number][test["outcome"]] += 1
    return results


def is_proven(outcomes: Counter[str]) -> bool:
    return outcomes["passed"] > 0 and outcomes["failed"] == 0


def print_section(
    title: str, statements: dict[int, str], results: defaultdict[int, Counter[str]]
) -> None:
    proven = sum(1 for number in statements if is_proven(results[number]))
    print(f"{title}: {proven} of {len(statements)}")
    for number, text in statements.items():
        print(f"  {number:>3}  {verdict(results[number]):<18} {text}")
    print()


def verdict(outcomes: Counter[str]) -> str:
    passed, failed = outcomes["passed"], outcomes["failed"]
    if failed:
        return f"BROKEN ({failed} failed)"
    if passed:
        return f"proven ({passed} test{'s' if passed > 1 else ''})"
    if outcomes:
        return f"- ({outcomes.total()} not run)"
    return "-"


def fail(problem: str, remedy: str | None = None) -> NoReturn:
    print(f"semantics: {problem}", file=sys.stderr)
    if remedy is not None:
        print(f"  remedy: {remedy}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
