"""Whole runs, compiled: environment × policy × λ × learner, many runs side by side.

| file | what it holds |
|---|---|
| `simulate` | `simulate`, from settings to the results of many runs |
| `run` | one run: its tables, its random numbers, how far it has come |
| `kernels` | an episode and a block of episodes, compiled |
| `plain` | one run whose λ source is plain Python |
| `lockstep` | many runs an episode at a time, for λ that a network computes for all of them |
| `networks` | lockstep runs with networks on a CPU or a GPU |
"""

from chunked_td.simulation.run import Run
from chunked_td.simulation.simulate import Runs, simulate

__all__ = ["Run", "Runs", "simulate"]
