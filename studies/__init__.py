"""Studies: results with the library. List them with `python -m studies list`; add one as in README.md."""
