"""Waiting for an engine, by statements that can not do without.

A statement that finds no engine waits for the next one, for a bounded time. One whose engine goes
while it is at work gets the error at once: whether it was to blame is not known, and it is not
tried again without being asked for.
"""

from __future__ import annotations

import asyncio

from waterclock.compute.live_session import Availability


async def until_up(engine: Availability, patience_s: float) -> None:
    """Return when there is an engine; `EngineDown` if there is none for so long."""
    if engine.is_up:
        return
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(changed.set)

    forget = engine.watch(tell)
    try:
        async with asyncio.timeout(patience_s):
            while not engine.is_up:
                await changed.wait()
                changed.clear()
    except TimeoutError:
        raise engine.down() from None
    finally:
        forget()
