"""For all tests: the score of proven statements, and pytest's own tools for testing plugins.

What has been imported is there to stay, and not searched for garbage again and again.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

from waterclock.testing.examples import examples
from waterclock.testing.semantics_report import REPORT_PATH, SemanticsReport

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("waterclock", examples(100))
    settings.load_profile("waterclock")
    if not config.option.collectonly:
        config.pluginmanager.register(SemanticsReport(config.rootpath / REPORT_PATH))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, and the quick ones last: they fill what time is left."""
    items.sort(key=_haste)


def _haste(item: pytest.Item) -> list[bool]:
    return [item.get_closest_marker(name) is None for name in ("long", "slow")]
