"""The plan of a view: a small tree of frozen nodes made from Catalyst's optimized plan."""
