"""What EXPLAIN TIMESTAMP says about a selection: labels and values, in the order to show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waterclock.model.ids import GlobalId
from waterclock.oracle.selection import Selection


def explained(
    selection: Selection,
    name_of: Callable[[GlobalId], str],
    recent: Sequence[tuple[str, str]] = (),
) -> list[tuple[str, str]]:
    """The lines, of which the last ones are about the inputs, three for each. `recent` are those
    about what a recent read has asked sources for.
    """
    lines = [
        ("query timestamp", str(selection.time)),
        ("determined by", selection.reason.value),
        ("isolation", selection.isolation.value),
        ("timeline", selection.timeline or "none"),
        ("oracle read timestamp", _shown(selection.oracle_read)),
        ("real-time recency", _shown(selection.recency)),
        *recent,
        ("since", str(selection.since)),
        ("upper", str(selection.upper)),
        ("last complete timestamp", _shown(selection.freshest if selection.inputs else None)),
        ("can respond immediately", "false" if selection.waits else "true"),
    ]
    for each in selection.inputs:
        name = name_of(each.id)
        lines += [
            (name, str(each.id)),
            (f"{name} since", str(each.since)),
            (f"{name} upper", str(each.upper)),
        ]
    return lines


def _shown(time: int | None) -> str:
    return "none" if time is None else str(time)
