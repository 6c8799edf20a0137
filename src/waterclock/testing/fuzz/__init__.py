"""A differential fuzzer of maintained views: random queries over random histories.

At every time, what was maintained must be what the same SQL gives over the contents of that time.
A run is a function of its seed.
"""
