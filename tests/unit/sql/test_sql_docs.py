"""The pages of docs/sql say what the table of functions says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from waterclock.sql.functions import FUNCTIONS, OPERATORS

ROOT = Path(__file__).parents[3]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sql_docs", ROOT / "scripts" / "sql_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_up_to_date() -> None:
    pages = script().pages()
    found = {path.name: path.read_text() for path in (ROOT / "docs" / "sql").glob("*.md")}
    assert found.keys() == pages.keys()
    stale = [name for name, text in pages.items() if found[name] != text]
    assert stale == [], "remedy: make docs-sql"


def test_every_entry_is_in_one_family() -> None:
    listed = [entry for _, _, entries in script().FAMILIES.values() for entry in entries]
    table = [e for names in (FUNCTIONS, OPERATORS) for entries in names.values() for e in entries]
    assert len(listed) == len(table)
    assert {id(entry) for entry in listed} == {id(entry) for entry in table}
