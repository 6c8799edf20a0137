"""Who waits at the door, and who has to go when it is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.doors import Door


def test_when_it_is_full_the_oldest_goes() -> None:
    door: Door[int] = Door(3, 3)
    assert [door.enter(number, "a") for number in range(5)] == [None, None, None, 0, 1]
    assert len(door) == 3


def test_one_address_can_not_push_the_others_out() -> None:
    door: Door[int] = Door(10, 8)
    assert door.enter(0, "quiet") is None
    gone = [door.enter(number, "loud") for number in range(1, 100)]
    assert 0 not in gone
    assert 0 in door


def test_many_addresses_take_from_the_one_that_has_most() -> None:
    door: Door[int] = Door(10, 8)
    for number in range(8):
        door.enter(number, "loud")
    door.enter(8, "b")
    door.enter(9, "c")
    assert door.enter(10, "d") == 0
    assert door.enter(11, None) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.sampled_from("abc"))))
def test_bounds_hold_whoever_comes_and_goes(steps: list[tuple[bool, int, str]]) -> None:
    door: Door[int] = Door(5, 3)
    there: dict[int, str] = {}
    for comes, key, address in steps:
        if comes and key not in there:
            gone = door.enter(key, address)
            there[key] = address
            if gone is not None:
                assert gone != key
                del there[gone]
        elif not comes:
            door.leave(key)
            there.pop(key, None)
        assert len(door) == len(there) <= 5
        assert all(key in door for key in there)
        assert all(list(there.values()).count(each) <= 3 for each in "abc")
