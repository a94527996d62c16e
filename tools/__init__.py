"""Tools of the repository: benchmarks, planted mistakes, the standing attack."""
