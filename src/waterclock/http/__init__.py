"""The server's HTTP side: is it alive, is it ready, how is it doing, and SQL as JSON."""
