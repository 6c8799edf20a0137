"""Random relations."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pyspark.sql.types import StructType

from waterclock.testing.fuzz.values import KINDS


@dataclass(frozen=True, slots=True)
class Field:
    """A column of an input."""

    name: str
    kind: str
    nullable: bool = True

    @property
    def sql(self) -> str:
        return f"{self.name} {KINDS[self.kind].sql}{'' if self.nullable else ' NOT NULL'}"


Fields = tuple[Field, ...]
Relations = dict[str, Fields]


def relations(pick: random.Random) -> Relations:
    """Three inputs, u1 to u3, whose first columns have the same types, so that they join."""
    shared = [pick.choice(("int", "bigint")), pick.choice(("string", "string", "date", "int"))]
    return {f"u{number}": _fields(pick, shared, "abcdefgh") for number in (1, 2, 3)}


def _fields(pick: random.Random, shared: list[str], names: str) -> Fields:
    width = pick.randrange(2, 5)
    kinds = [*shared, *(pick.choice(list(KINDS)) for _ in range(width - len(shared)))]
    return tuple(
        Field(name, kind, pick.random() < 0.75) for name, kind in zip(names, kinds, strict=False)
    )


def struct_of(fields: Fields) -> StructType:
    """The columns as Spark has them."""
    struct = StructType.fromDDL(", ".join(field.sql for field in fields))
    assert isinstance(struct, StructType)
    return struct
