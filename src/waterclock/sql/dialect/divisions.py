"""Quotients, remainders and roots of `numeric` values that have scales of their own.

They are computed with numbers of Java's (`model.exact`), exactly, and rounded as PostgreSQL does.
How many digits behind the point a quotient or a root has depends on the values, by PostgreSQL's
rules.
"""

from __future__ import annotations

from waterclock.model.exact import Exact
from waterclock.model.pg_types import PgType
from waterclock.sql.dialect.scaled import combined, held, number_of


def quotient_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The quotient with as many digits as PostgreSQL gives it."""
    return combined(Exact.QUOTIENT, left, left_type, right, right_type)


def remainder_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The remainder, with the longer scale."""
    return combined(Exact.REMAINDER, left, left_type, right, right_type)


def whole_quotient_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The quotient cut to a whole number, as a decimal."""
    return f"{combined(Exact.WHOLE_QUOTIENT, left, left_type, right, right_type)}.v.w"


def root_sql(value: str, declared: PgType) -> str:
    """The square root, with PostgreSQL's digits."""
    return held(f"{Exact.ROOT}({number_of(value, declared)})")
