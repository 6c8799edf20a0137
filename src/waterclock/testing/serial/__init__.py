"""Is a history serializable? A checker that infers from what was read which operation came before
which, and looks for cycles, as Elle does.

    python -m waterclock.testing.serial HISTORY.jsonl
"""
