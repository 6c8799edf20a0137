"""Files as a source: lines or rows that are appended, and files that appear."""
