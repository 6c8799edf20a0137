"""Sources: data from outside, brought onto the shared timeline."""
