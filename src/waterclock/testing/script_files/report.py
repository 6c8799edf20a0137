"""What a run has found, as text in Markdown."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from waterclock.testing.script_files.replay import Finding, Record
from waterclock.testing.script_files.verdicts import RULES, Outcome

_FORMS = ("query", "statement", "table", "view", "maintained view")
_LISTED = tuple(outcome for outcome in reversed(Outcome) if outcome is not Outcome.SAME)
_SQL_CHARACTERS = 1500
_TEXT_CHARACTERS = 700
_QUOTED = re.compile(r'"[^"]*"')


def counts(records: Sequence[Record]) -> Iterator[str]:
    """A table with a line for each script and form."""
    shown = [o for o in Outcome if any(o == each for r in records for _, each in r.outcomes)]
    yield "| script | form | " + " | ".join(outcome.value for outcome in shown) + " |"
    yield "|---|---|" + "---|" * len(shown)
    total: Counter[tuple[str, Outcome]] = Counter()
    for record in records:
        total += record.outcomes
        yield from _lines(record.file, record.outcomes, shown)
    yield from _lines("all", total, shown)


def _lines(
    name: str, outcomes: Counter[tuple[str, Outcome]], shown: Sequence[Outcome]
) -> Iterator[str]:
    for form in _FORMS:
        row = [outcomes[form, outcome] for outcome in shown]
        if any(row):
            yield f"| {name} | {form} | " + " | ".join(str(n or "") for n in row) + " |"


def summary(records: Sequence[Record]) -> Iterator[str]:
    """What is not in the table of counts."""
    errors = sum(record.errors for record in records)
    skipped: Counter[str] = Counter()
    for record in records:
        skipped += record.skipped
    yield f"Both refused {errors} statements with the same SQLSTATE."
    yield "Skipped: " + ", ".join(f"{name} {count}" for name, count in skipped.most_common())
    for record in records:
        yield f"{record.file}: {record.errors} errors of both, {record.seconds:.0f} s"


def full(records: Sequence[Record], notes: Sequence[str]) -> Iterator[str]:
    """The whole report."""
    findings = [finding for record in records for finding in record.findings]
    yield "# Scripts beside PostgreSQL"
    yield ""
    yield from counts(records)
    yield ""
    yield from (f"- {line}" for line in (*summary(records), *notes))
    yield from _refusals(findings)
    yield from _rules(findings)
    for outcome in _LISTED:
        if outcome in (Outcome.REFUSED, Outcome.EXPLAINED):
            continue
        listed = [finding for finding in findings if finding.verdict.outcome is outcome]
        if listed:
            yield from ("", f"## {outcome.value}: {len(listed)}")
            for finding in listed:
                yield from _entry(finding)
    for outcome in (Outcome.EXPLAINED, Outcome.REFUSED):
        listed = [finding for finding in findings if finding.verdict.outcome is outcome]
        if listed:
            yield from ("", f"## Each statement: {outcome.value}: {len(listed)}")
            for finding in listed:
                yield from _entry(finding)


def _refusals(findings: Sequence[Finding]) -> Iterator[str]:
    groups: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.verdict.outcome is Outcome.REFUSED:
            message = _QUOTED.sub('"…"', finding.verdict.text)
            groups[finding.verdict.sqlstate, message].append(finding)
    if groups:
        yield from ("", "## Refusals by message", "")
        yield "| count | SQLSTATE | message | forms | first |"
        yield "|---|---|---|---|---|"
    for (state, message), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        forms = Counter(finding.form for finding in group)
        told = ", ".join(f"{form} {count}" for form, count in forms.items())
        first = f"{group[0].file}:{group[0].line}"
        text = " ".join(message.split()).replace("|", "\\|")[:200]
        yield f"| {len(group)} | {state} | {text} | {told} | {first} |"


def _rules(findings: Sequence[Finding]) -> Iterator[str]:
    uses = Counter(finding.verdict.rule for finding in findings if finding.verdict.rule)
    if uses:
        yield from ("", "## Rules that explained a difference", "")
    for name, count in uses.most_common():
        yield f"- {name}: {count}. {RULES.get(name, 'A rule of the judge.')}"


def _entry(finding: Finding) -> Iterator[str]:
    verdict = finding.verdict
    rule = f" [{verdict.rule}]" if verdict.rule else ""
    state = f" {verdict.sqlstate}" if verdict.outcome is Outcome.REFUSED else ""
    yield ""
    yield (
        f"{finding.file}:{finding.line} ({finding.form}){rule}{state}: "
        + " ".join(verdict.text.split())[:_TEXT_CHARACTERS]
    )
    yield "```sql"
    yield finding.sql[:_SQL_CHARACTERS] + ";"
    yield "```"
