"""Speed, memory and overhead, measured: `python -m benchmarks`."""
