"""The one place where things are decided: a log with compare-and-append; see `api.Consensus`."""
