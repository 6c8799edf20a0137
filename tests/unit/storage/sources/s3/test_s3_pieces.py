"""What a source of objects decides by itself: patterns, what it remembers, what messages say."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.s3.bucket import Listed
from waterclock.storage.sources.s3.discovery import Event, news
from waterclock.storage.sources.s3.manifest import Manifest, fingerprint
from waterclock.storage.sources.s3.notifications import Notification, keys_for, parsed
from waterclock.storage.sources.s3.patterns import KeyPattern
from waterclock.testing.s3_source import notification


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a/**/*.json", ["a/x.json", "a/b/x.json", "a/b/c/x.json"], ["a/x.csv", "b/a/x.json"]),
        ("**", ["a", "a/b/c"], ["a/", "_a", "a/.b/c"]),
        ("a*", ["a", "ab"], ["a/b", "ba"]),
        ("a/?[0-9][!x]", ["a/x1y"], ["a/x1x", "a/xxy", "a//1y"]),
        ("logs-{1,2*}/x{.gz,}", ["logs-1/x", "logs-22/x.gz"], ["logs-3/x", "logs-1/x.gzip"]),
        ("a+b.(c)", ["a+b.(c)"], ["aab.(c)", "a+bx(c)"]),
        ("dt=*/**", ["dt=1/x", "dt=1/a/b"], ["dt=1", "d/dt=1/x"]),
        ("a**z", ["a/b/z", "az"], ["a/b"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    made = KeyPattern.of(pattern)
    assert [key for key in matching + others if made.matches(key)] == matching
    assert all(key.startswith(made.prefix) for key in matching)


def test_patterns_that_are_none() -> None:
    for pattern in ("[a", "{a,b", "[z-a]"):
        with pytest.raises(InvalidSource):
            KeyPattern.of(pattern)
    assert KeyPattern.of(None).matches("anything/at all")


KEYS = st.text(st.sampled_from("ab/é\U0001f600"), min_size=1, max_size=6)


@given(
    st.lists(
        st.tuples(st.booleans(), st.dictionaries(KEYS, st.binary(min_size=8, max_size=8))),
        max_size=12,
    ),
    KEYS,
    KEYS,
)
def test_a_manifest_is_a_sorted_dictionary(
    steps: list[tuple[bool, dict[str, bytes]]], after: str, to: str
) -> None:
    """Also when it is made again from what was noted, at any moment."""
    manifest, expected = Manifest(), dict[str, bytes]()
    notes: dict[str, bytes] = {}
    manifest_size = "waterclock.storage.sources.s3.manifest._MANY"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest_size, 4)
        for adds, entries in steps:
            if adds:
                manifest.add(entries)
                expected |= entries
            else:
                manifest.remove(entries)
                expected = {k: v for k, v in expected.items() if k not in entries}
            for name, blob in manifest.changes().items():
                if blob is None:
                    notes.pop(name)
                else:
                    notes[name] = blob
            again = Manifest(notes)
            for each in (manifest, again):
                assert each.between(None, None) == expected
                inside = {k: v for k, v in expected.items() if after < k <= to}
                assert each.between(after, to) == inside
                assert each.find([after, to]) == {
                    k: v for k, v in expected.items() if k in (after, to)
                }
            assert not again.changes()


def test_a_manifest_is_small() -> None:
    manifest = Manifest()
    keys = [f"events/day=2024-01-{i % 28:02}/part-{i:06}.json.gz" for i in range(50_000)]
    for batch in pairwise(range(0, 50_001, 1000)):
        manifest.add({key: fingerprint(key) for key in keys[slice(*batch)]})
    assert manifest.nbytes < 25 * len(keys)


def test_what_a_listing_says() -> None:
    listed = [Listed(key, f"e{key}", 1) for key in "abcde"] + [Listed("f", "ef", 0)]
    known = {key: fingerprint(f"e{key}") for key in "bcghi"} | {"d": b"otherone"}
    broken = {"c": True, "h": True, "i": False}
    new, events = news(listed, known, broken, unfinished={"e"})
    assert [each.key for each in new] == ["a"]
    assert events == [
        Event("c", "restored"),
        Event("d", "overwritten"),
        Event("g", "deleted"),
    ]


def test_messages_of_a_queue() -> None:
    plain = notification("b", ["x/a+b%2F.json"])
    assert parsed(plain) == (Notification("b", "x/a b/.json", True),)
    by_sns = json.dumps({"Type": "Notification", "Message": plain})
    assert parsed(by_sns) == parsed(plain)
    bridge = {
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": "b"}, "object": {"key": "x y+z"}},
    }
    assert parsed(json.dumps(bridge)) == (Notification("b", "x y+z", True),)
    assert parsed(notification("b", ["k"], "s3:ObjectRemoved:Delete")) == (
        Notification("b", "k", False),
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["Records", "s3", "detail", "bucket", "name", "object", "key"])
                | st.text(max_size=3),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_messages_that_are_none_of_ours_are_left_alone(message: object) -> None:
    keys, is_ours = keys_for(json.dumps(message), "bucket", KeyPattern.of(None).matches)
    assert (keys, is_ours) == ((), False)


def test_messages_for_several_readers() -> None:
    is_wanted = KeyPattern.of("in/*").matches
    assert keys_for(notification("b", ["in/x", "in/x", "in/y"]), "b", is_wanted) == (
        ("in/x", "in/y"),
        True,
    )
    assert keys_for(notification("b", ["in/x", "out/y"]), "b", is_wanted) == (("in/x",), False)
    assert keys_for(notification("other", ["in/x"]), "b", is_wanted) == ((), False)
    assert keys_for("nonsense", "b", is_wanted) == ((), False)
