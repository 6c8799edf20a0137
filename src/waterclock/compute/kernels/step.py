"""What one step of an operator covers, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Window:
    """The times of a step: from `lower` on, and before `upper`."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class Step:
    """The output's changes, consolidated; the rows to add to the operator's arrangement; the
    changes of its errors, as `errors` describes them.
    """

    output: pa.Table
    arranged: pa.Table
    errors: pa.Table
