"""Whole runs, compiled: environment × policy × λ × learner, many runs side by side.

| file | content |
|---|---|
| `simulate` | `simulate`: results of many runs from their settings |
| `run` | one run: its tables, its random numbers and its progress |
| `play` | episodes, as compiled kernels |
| `lockstep` | many runs an episode at a time, for λ that a network computes for all of them |
| `networks` | lockstep runs with networks on a CPU or a GPU |
| `readers` | models for λ sources from the outputs of networks |
"""

from chunked_td.simulation.run import Run
from chunked_td.simulation.simulate import Runs, simulate

__all__ = ["Run", "Runs", "simulate"]
