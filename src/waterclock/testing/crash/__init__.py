"""Storage on real files, killed again and again in the middle of its work, and checked each time.

`python -m waterclock.testing.crash DIRECTORY --rounds 100 --seed 1` runs it; see `rounds`.
"""
