"""Which λ on your problem? Fixed and learned λs side by side on any Gymnasium environment, with intervals.

| file | contents |
|---|---|
| `comparing` | `compare`: rounds of seeds through `chunked_td.sweep`, within the time |
| `settings`, `arms`, `running` | the configurations, and one run of one |
| `facts` | facts of the problem, from random actions |
| `ranking`, `results` | simultaneous paired intervals; arms judged by them |
| `answer`, `recipe` | sentences; Python and a shell line for the recommended learner |
| `picture`, `page` | the figures; one HTML file, the text for a terminal |
"""

from chunked_td.comparison.comparing import compare
from chunked_td.comparison.results import Comparison

__all__ = ["Comparison", "compare"]
