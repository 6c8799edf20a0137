"""For all tests: the score of proven statements, and pytest's own tools for testing plugins."""

from __future__ import annotations

import pytest

from waterclock.testing.semantics_report import REPORT_PATH, SemanticsReport

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.collectonly:
        config.pluginmanager.register(SemanticsReport(config.rootpath / REPORT_PATH))
