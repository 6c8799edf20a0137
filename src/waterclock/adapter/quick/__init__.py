"""Prepared statements that come again and again, answered at once.

A statement that only looks keys up in an index, or only inserts its parameters, is compiled when it
is run, an INSERT when that is for the second time. Running what was compiled waits for nothing, so
it needs no task, no clock and nobody who could cancel it. Whenever it takes more than that (an
index that is behind, a null, a parameter that has to be converted, a transaction that has begun) it
says None, and the statement takes the ordinary way through the sequencer: both give the same
answer, the errors included.
"""
