"""State on disk that is found by key: updates in immutable files, sorted by the hash of their key.

Read in this order: `layout` (which columns), `cover` (what a file holds, and its name), `run` (one
file), `trace` (all files of a moment, which is what an operator reads), `writing`, `merging`, and
`arrangement` (the owner of a folder of runs).
"""
