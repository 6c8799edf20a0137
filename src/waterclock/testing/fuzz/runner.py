"""Runs cases and keeps the tally: what was maintained, compared, refused, and wrong.

A query ends in one of these ways, none of which is silent:

- *rejected*: Spark itself does not take it; the grammar knows no better;
- *refused*: it can not be maintained, for a reason that is counted;
- *in error*: its data has no value at some time, and the step raised instead of telling so as data;
- *compared* at every time of its history, and right or wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from waterclock.compute.errors import NotMaintainable
from waterclock.testing.from_scratch import Answer, Wrong
from waterclock.testing.fuzz.case import Case
from waterclock.testing.fuzz.comparing import mismatch
from waterclock.testing.fuzz.maintained import Changes, Maintainer, Raised
from waterclock.testing.fuzz.oracle import Oracle


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that was not maintained as it should, alone in its case, and what was wrong."""

    case: Case
    complaint: str


@dataclass(slots=True)
class Tally:
    """What came of the queries of some runs."""

    cases: int = 0
    queries: int = 0
    maintained: int = 0
    compared_times: int = 0
    error_times: int = 0
    """Times at which a query had no value, and that was told as data."""
    raised: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    """What the maintained queries were made of."""
    failures: list[Failure] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The tally for reading."""
        found = [
            f"{self.cases} cases with {self.queries} queries: {self.maintained} maintained,"
            f" {self.compared_times} times compared ({self.error_times} of them in error),"
            f" {len(self.failures)} wrong",
        ]
        for title, counts in (
            ("not taken by Spark", self.rejected),
            ("refused", self.refused),
            ("in error, raised instead of told", self.raised),
            ("made of", self.features),
        ):
            found.append(f"{title}: {sum(counts.values())}")
            found += [f"{count:>8}  {name}" for name, count in counts.most_common()]
        return found


class Runner:
    """Checks cases in a Spark session; state goes to a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._maintainer = Maintainer(spark, folder)
        self._oracle = Oracle(spark)

    def check(self, case: Case, tally: Tally) -> None:
        """Run a case, all of its queries together if they can be."""
        tally.cases += 1
        tally.queries += len(case.queries)
        case = self._without(case, self._oracle.rejected(case), tally.rejected)
        case = self._without(case, self._maintainer.refused(case), tally.refused)
        if case.queries:
            self._checked(case, tally)

    def complaint(self, case: Case) -> str | None:
        """What is wrong with a case of one query, if anything is.

        A case that has no meaning, or that is refused, is not wrong.
        """
        if self._oracle.rejected(case) or self._maintainer.refused(case):
            return None
        tally = Tally()
        self._checked(case, tally)
        return tally.failures[0].complaint if tally.failures else None

    def _without(self, case: Case, reasons: dict[int, str], counts: Counter[str]) -> Case:
        counts.update(_general(reason) for reason in reasons.values())
        kept = [q for number, q in enumerate(case.queries) if number not in reasons]
        return case.asking(kept)

    def _checked(self, case: Case, tally: Tally) -> None:
        self._group(case, self._oracle.answers(case, case.times), tally)

    def _group(self, case: Case, answers: Sequence[dict[int, Answer]], tally: Tally) -> None:
        """Maintain queries together; if that goes wrong, each alone, to know which."""
        try:
            told = self._maintainer.maintain(case)
        except (NotMaintainable, Raised) as error:
            if len(case.queries) > 1:
                for number, answer in enumerate(answers):
                    self._group(case.alone(number), [answer], tally)
            else:
                self._stopped(case, answers[0], error, tally)
            return
        for number, changes in enumerate(told):
            self._compare(case.alone(number), changes, answers[number], tally)

    def _stopped(
        self, case: Case, answers: dict[int, Answer], error: Exception, tally: Tally
    ) -> None:
        if isinstance(error, NotMaintainable):
            tally.refused[_general(str(error))] += 1
        elif _has_errors(answers):
            reasons = {answer.reason for answer in answers.values() if isinstance(answer, Wrong)}
            tally.raised[", ".join(sorted(reasons))] += 1
        else:
            tally.failures.append(Failure(case, str(error)))

    def _compare(
        self, case: Case, changes: Changes, answers: dict[int, Answer], tally: Tally
    ) -> None:
        [asked] = case.queries
        tally.maintained += 1
        tally.compared_times += len(answers)
        tally.error_times += sum(isinstance(answer, Wrong) for answer in answers.values())
        tally.features.update(asked.features)
        wrong = mismatch(changes, answers, is_loose=asked.is_loose)
        if wrong is not None:
            tally.failures.append(Failure(case, wrong))


def _has_errors(answers: dict[int, Answer]) -> bool:
    return any(isinstance(answer, Wrong) for answer in answers.values())


def _general(reason: str) -> str:
    """The reason without the names of one query."""
    reason = re.sub(r"\b[a-z]\d*\.(\w+)\b", "x", reason)
    reason = re.sub(r"\b[a-z]{1,3}\d+\b|#\d+L?", "x", reason)
    return re.sub(r"\((?:[^()]|\([^()]*\))*\)", "(...)", reason)[:120]
