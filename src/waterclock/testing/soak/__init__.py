"""Everything at once against a real server, for as long as asked, with every answer judged.

`python -m waterclock.testing.soak --minutes 30 --seed 1` runs it; see `run`.
"""
