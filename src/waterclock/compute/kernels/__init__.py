"""One pure function for each operator: from the changes of its inputs to those of its output.

A step covers a window of times. A kernel gets every change of its inputs in the window and the
state from before it, and gives every change of the output, each at its own time: at each time of
the window the output is the operator applied to the inputs at that same time, as if each time had
been a step of its own. It also gives the rows to add to each arrangement, and the errors that hold.

Kernels know nothing of Spark, files or clocks. They work on whole columns; the loops in them run
over columns, aggregates or rounds, not over rows.
"""
