"""Storage in a world where everything fails, in one process, without real time, from one seed.

`python -m waterclock.testing.simulation SEED` replays one history and tells it step by step; see
`history`.
"""
