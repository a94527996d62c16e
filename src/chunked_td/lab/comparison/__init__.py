"""Which λ on my problem? Bootstraps × λ sources side by side on any Gymnasium environment.

| file | what it holds |
|---|---|
| `arms` | what is compared, and how a run is set up |
| `running` | where runs execute: compiled where the environment's dynamics are known, else in worker processes |
| `sweep` | `compare`: every arm, step size and seed; grids that extend themselves |
| `ranking` | who is best, and who cannot be told apart from the best |
| `recipe` | how to train an arm: as Python, and for the shell |
| `answer` | what to use and why, in plain words |
| `page` | the web page |
"""

from chunked_td.lab.comparison.arms import ComparisonSettings
from chunked_td.lab.comparison.sweep import Comparison, compare

__all__ = ["Comparison", "ComparisonSettings", "compare"]
