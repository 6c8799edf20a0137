"""What a collection is made from, and what must be empty for it to have a value."""

import pytest

from waterclock.compute.lineage import Lineage
from waterclock.model.ids import GlobalId


def u(number: int) -> GlobalId:
    return GlobalId.user(number)


def test_errors_of_all_that_a_collection_is_made_from() -> None:
    lineage = Lineage()
    lineage.add(u(10), [u(1)], [u(10), u(11)], u(12))
    lineage.add(u(20), [u(1), u(11)], [u(20)], u(21))
    lineage.add(u(30), [u(20), u(10)], [u(30)], u(31))
    assert lineage.errors_of(u(1)) == ()
    assert lineage.errors_of(u(11)) == (u(12),)
    assert lineage.errors_of(u(30)) == (u(31), u(21), u(12)), "each once"
    assert lineage.view_of(u(11)) == u(10)
    assert u(10) in lineage
    assert u(11) not in lineage, "an output that does not name the view"


def test_a_view_that_goes() -> None:
    lineage = Lineage()
    lineage.add(u(10), [u(1)], [u(10), u(11)], u(12))
    lineage.add(u(20), [u(11)], [u(20)], u(21))
    lineage.remove(u(10))
    lineage.remove(u(10))
    assert lineage.errors_of(u(20)) == (u(21),)
    with pytest.raises(KeyError):
        lineage.view_of(u(11))


def test_many_ways_to_one_view_are_gone_once() -> None:
    lineage = Lineage()
    lineage.add(u(1000), [u(1)], [u(1000)], u(2000))
    lineage.add(u(1001), [u(1), u(1000)], [u(1001)], u(2001))
    for n in range(1002, 1060):  # each has as many ways to the first as the two before together
        lineage.add(u(n), [u(n - 1), u(n - 2)], [u(n)], u(n + 1000))
    assert set(lineage.errors_of(u(1059))) == {u(n) for n in range(2000, 2060)}
