"""The SQL tests in `tests/golden`, each in a world of its own.

With `WATERCLOCK_REWRITE=1` in the environment the files are rewritten with what happened instead.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.testing.adapter_world import adapter_world
from waterclock.testing.slt import compared, rewritten
from waterclock.testing.slt_sessions import Sessions

FOLDER = Path(__file__).parent.parent / "golden"
REWRITE = bool(os.environ.get("WATERCLOCK_REWRITE"))


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.slt")), ids=lambda file: file.stem)
def test_golden(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    asyncio.run(_run(file, spark, tmp_path))


async def _run(file: Path, spark: SparkSession, folder: Path) -> None:
    text = file.read_text()
    async with adapter_world(folder, spark) as world:
        sessions = Sessions(world.connect)
        try:
            if REWRITE:
                file.write_text(await rewritten(text, sessions))
                return
            found = await compared(text, sessions)
        finally:
            await sessions.close()
    assert not found, "\n\n".join(map(str, found))
