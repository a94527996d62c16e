"""Very long memory: published T-mazes."""
