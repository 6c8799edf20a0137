"""Importable test support: Hypothesis strategies, fakes, conformance suites, the simulator.

Nothing outside this package and the tests imports it.
"""
