"""The composition root: configuration, wiring, the life of the process and the command line.

This is the only package that knows all the others. It holds no logic of its own about data or time.
"""
