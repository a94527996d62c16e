"""Studies: what was found with the library. `python -m studies list`; the README says how to add one."""
