"""Studies: what was found with the library. `python -m studies list`; add one by the README."""
