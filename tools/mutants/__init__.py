"""Planted mistakes: small wrong edits, each of which a test has to catch. Run by `make mutants`."""
