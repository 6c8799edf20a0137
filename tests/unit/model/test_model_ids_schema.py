"""Ids and schemas, by example."""

import pytest

from waterclock.model.errors import (
    DuplicateColumn,
    InvalidName,
    InvalidType,
    MalformedId,
    ReservedName,
    UnknownColumn,
)
from waterclock.model.ids import GlobalId, IdKind
from waterclock.model.schema import (
    Array,
    Bool,
    Column,
    Decimal,
    Field,
    Float,
    Int,
    Schema,
    Struct,
    Text,
    Timestamp,
)

PEOPLE = Schema((Column("id", Int(64), nullable=False), Column("name", Text())))


@pytest.mark.parametrize("text", ["u1", "u12", "s3", "u9223372036854775807"])
def test_id_text_round_trip(text: str) -> None:
    assert str(GlobalId.parse(text)) == text


def test_ids_are_ordered_values() -> None:
    assert GlobalId.parse("u12") == GlobalId.user(12) == GlobalId(IdKind.USER, 12)
    assert len({GlobalId.user(1), GlobalId.user(1), GlobalId.system(1)}) == 2
    ids = [GlobalId.user(10), GlobalId.user(9), GlobalId.system(11)]
    assert [str(i) for i in sorted(ids)] == ["s11", "u9", "u10"]


@pytest.mark.parametrize(
    "text",
    ["", "u", "12", "u0", "u01", "x1", "U1", "u-1", "u1 ", "u1\n", "u٣", "u9223372036854775808"],
)
def test_malformed_id(text: str) -> None:
    with pytest.raises(MalformedId) as caught:
        GlobalId.parse(text)
    assert caught.value.sqlstate == "22P02"


@pytest.mark.parametrize("number", [0, -1, True, 2**63])
def test_malformed_id_number(number: int) -> None:
    with pytest.raises(MalformedId):
        GlobalId.user(number)


def test_schema_columns() -> None:
    assert PEOPLE.names == ("id", "name")
    assert PEOPLE.column("name") == Column("name", Text(), nullable=True)
    assert PEOPLE.project(["name"]) == Schema((Column("name", Text()),))
    assert PEOPLE.project(["name", "id"]).names == ("name", "id")
    assert Schema(()).names == ()


def test_unknown_column() -> None:
    for use in (PEOPLE.column, lambda name: PEOPLE.project([name])):
        with pytest.raises(UnknownColumn) as caught:
            use("age")
        assert caught.value.sqlstate == "42703"


def test_names_are_unique() -> None:
    with pytest.raises(DuplicateColumn) as caught:
        Schema((Column("a", Bool()), Column("a", Text())))
    assert caught.value.sqlstate == "42701"
    with pytest.raises(DuplicateColumn):
        PEOPLE.project(["id", "id"])
    with pytest.raises(DuplicateColumn):
        Struct((Field("a", Bool()), Field("a", Text())))


def test_names_are_not_empty() -> None:
    with pytest.raises(InvalidName) as caught:
        Schema((Column("", Bool()),))
    assert caught.value.sqlstate == "42602"
    with pytest.raises(InvalidName):
        Struct((Field("", Bool()),))


@pytest.mark.parametrize("name", ["mz_timestamp", "mz_diff"])
def test_reserved_names(name: str) -> None:
    with pytest.raises(ReservedName) as caught:
        Schema((Column(name, Int(64)),))
    assert caught.value.sqlstate == "42939"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Int(8),  # type: ignore[arg-type]
        lambda: Float(16),  # type: ignore[arg-type]
        lambda: Decimal(0, 0),
        lambda: Decimal(39, 0),
        lambda: Decimal(10, 11),
        lambda: Decimal(10, -1),
    ],
)
def test_invalid_types(make) -> None:
    with pytest.raises(InvalidType) as caught:
        make()
    assert caught.value.sqlstate == "22023"


def test_types_are_values() -> None:
    nested = Array(Struct((Field("at", Timestamp(zoned=True)), Field("n", Decimal(38, 38)))))
    again = Array(Struct((Field("at", Timestamp(zoned=True)), Field("n", Decimal(38, 38)))))
    assert nested == again
    assert hash(nested) == hash(again)
    assert Int(16) != Int(32)
    assert Int(32) != Float(32)
    assert Timestamp(zoned=True) != Timestamp(zoned=False)
