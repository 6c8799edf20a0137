"""Views kept up to date: plans, arrangements, and the kernels that turn deltas into deltas."""
