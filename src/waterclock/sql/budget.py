"""How much one statement may ask of the parser and the planner, and who counts it.

A `Budget` holds the limits of a server. A `Meter` belongs to one statement: whatever walks over
its text or its tree counts its steps there. The meter is also how that work is given up: `stop`
may be called from any thread, and the next step that is counted raises `Abandoned`.

Small statements are read on the event loop. Such work gets a meter with a small allowance, and
`TooMuchHere` says that it has to be begun again where it delays nobody.

Errors are those of PostgreSQL: 54000 for what is too large, 54001 for what is nested too deeply.
Each names the setting in its hint. The meter measures steps, not seconds: a statement is refused
or not whatever else the machine does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from waterclock.errors import WaterclockError

_LEVELS_OF_QUERY = 11
"""Spark's analyzer gives up beyond a hundred queries inside one another."""


_DEPTH_OF_ALLOWANCE = 60
"""So deep at most where the stack is small."""
_LEVELS_OF_VIEW = 4
"""A view inside another is bound inside it, but need not be inside it for the engine."""


class LimitExceeded(WaterclockError):
    """A statement is larger than the server takes."""

    sqlstate: ClassVar[str] = "54000"


class TooComplex(WaterclockError):
    """A statement is nested more deeply than the server takes."""

    sqlstate: ClassVar[str] = "54001"


class TooManyColumns(WaterclockError):
    """A relation or a row has more columns than the server takes."""

    sqlstate: ClassVar[str] = "54011"


class Abandoned(Exception):
    """Whoever asked for the work does not want it any more."""


class TooMuchHere(Exception):
    """The work is more than its meter allows in this place; it has had no effect yet."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a server. Fields are named as the settings are, without `max_`."""

    statement_bytes: int = 16 << 20
    """Of the text of what a client sends at once, as UTF-8; also of a translated query."""
    literal_bytes: int = 8 << 20
    """Of one constant in a text."""
    statement_tokens: int = 1_000_000
    statement_steps: int = 20_000_000
    """Steps of reading and planning one statement."""
    nesting_depth: int = 1000
    plan_nodes: int = 2000
    """Relations that a query reads, with those inside the views that it names."""
    columns: int = 1664

    def check_text(self, text: str) -> None:
        """Raise unless the server reads texts of this size."""
        most = self.statement_bytes
        if len(text) > most or (len(text) * 4 > most and len(text.encode()) > most):
            raise LimitExceeded(
                "statement is too large",
                detail=f"It has {len(text)} characters; {most} bytes are allowed.",
                hint="Send the values as parameters or with COPY, or start the server with a"
                " larger max_statement_bytes.",
            )

    def too_deep(self) -> TooComplex:
        """The error of a statement that is nested too deeply."""
        return TooComplex(
            "stack depth limit exceeded",
            detail=f"The statement is nested more than {self.nesting_depth} levels deep.",
            hint="Nest it less deeply, or start the server with a larger max_nesting_depth.",
        )

    def literal_too_large(self, size: int) -> LimitExceeded:
        """The error of a constant of so many bytes."""
        return LimitExceeded(
            "constant is too large",
            detail=f"It has {size} characters; {self.literal_bytes} bytes are allowed.",
            hint="Send it as a parameter, or start the server with a larger max_literal_bytes.",
        )

    def too_many_tokens(self) -> LimitExceeded:
        """The error of a text with too many words, constants and marks."""
        return LimitExceeded(
            "statement has too many tokens",
            detail=f"At most {self.statement_tokens} are allowed.",
            hint="Load the rows with COPY, or start the server with a larger max_statement_tokens.",
        )

    def check_columns(self, count: int) -> None:
        """Raise unless a relation or a select list may have so many columns."""
        if count > self.columns:
            raise TooManyColumns(
                f"target lists can have at most {self.columns} entries",
                hint="Ask for fewer columns, or start the server with a larger max_columns.",
            )


DEFAULT_BUDGET = Budget()


class Meter:
    """Counts the work that one statement causes. `stop` is the only method for other threads."""

    __slots__ = (
        "_depth",
        "_is_partial",
        "_is_stopped",
        "_limit",
        "_views",
        "budget",
        "deepest",
        "nodes",
        "steps",
    )

    def __init__(self, budget: Budget = DEFAULT_BUDGET, allowance: int | None = None) -> None:
        """With an `allowance`, more steps than that, or deep nesting, raise `TooMuchHere`."""
        self.budget = budget
        self.steps = 0
        self.nodes = 0
        """The relations that the plan reads so far."""
        self._depth = 0
        self._views = 0
        self._is_stopped = False
        self._limit = budget.statement_steps if allowance is None else allowance
        self._is_partial = allowance is not None
        self.deepest = budget.nesting_depth
        if self._is_partial:
            self.deepest = min(_DEPTH_OF_ALLOWANCE, self.deepest)

    def stop(self) -> None:
        """Give the work up."""
        self._is_stopped = True
        self._limit = -1

    def count(self, steps: int = 1) -> None:
        """So many further steps; raises if they are too many, or not wanted any more."""
        self.steps += steps
        if self.steps > self._limit:
            self._refuse()

    def enter(self) -> None:
        """One level deeper; `leave` is to follow, whatever happens."""
        self.steps += 1
        self._depth += 1
        if self.steps > self._limit:
            self._refuse()
        if self._depth > self.deepest:
            self.refuse_depth()

    def leave(self) -> None:
        self._depth -= 1

    @contextmanager
    def level(self) -> Iterator[None]:
        """A level of nesting."""
        self.enter()
        try:
            yield
        finally:
            self._depth -= 1

    def check_chain(self, length: int) -> None:
        """Raise if so many operators in a row are too many: `a + b + c` is `(a + b) + c`."""
        if self._depth + length > self.deepest:
            self.refuse_depth()

    @contextmanager
    def query(self) -> Iterator[None]:
        """A query inside another: as deep as several expressions."""
        self._depth += _LEVELS_OF_QUERY - 1
        try:
            self.enter()
            yield
        finally:
            self._depth -= _LEVELS_OF_QUERY

    @contextmanager
    def view(self) -> Iterator[None]:
        """The text of a view, whose depth does not depend on where the view is named."""
        before = self._depth
        self._views += 1
        self._depth = self._views * _LEVELS_OF_VIEW
        try:
            self.check_chain(0)
            yield
        finally:
            self._views -= 1
            self._depth = before

    def read(self, nodes: int = 1) -> None:
        """The plan reads so many further relations."""
        self.nodes += nodes
        self.count(nodes)
        if self.nodes > self.budget.plan_nodes:
            raise LimitExceeded(
                "query is too complex",
                detail=f"With the views that it names, it reads more than {self.budget.plan_nodes}"
                " relations.",
                hint="Materialize the views that are read often, or start the server with a larger"
                " max_plan_nodes.",
            )

    def check_translation(self, size: int) -> None:
        """Raise if the translation of an expression has grown out of bounds."""
        if size > 2 * self.budget.statement_bytes:
            raise LimitExceeded(
                "query is too large after its translation for the engine",
                hint="Use fewer expressions inside one another, or start the server with a larger"
                " max_statement_bytes.",
            )

    def refuse_depth(self) -> None:
        """Raise what is said of a statement that is nested too deeply."""
        raise TooMuchHere if self._is_partial else self.budget.too_deep()

    def _refuse(self) -> None:
        if self._is_stopped:
            raise Abandoned
        if self._is_partial:
            raise TooMuchHere
        raise LimitExceeded(
            "statement is too complex",
            detail=f"It takes more than {self.budget.statement_steps} steps to read and to plan.",
            hint="Split it, or start the server with a larger max_statement_steps.",
        )
