"""Which λ on your problem? Fixed and learned λs side by side on any Gymnasium environment, with intervals.

| file | what it holds |
|---|---|
| `comparing` | `compare`: rounds of seeds through `chunked_td.sweep`, within the time |
| `settings`, `arms`, `running` | what is compared, and one run of it |
| `facts` | what the problem is like, from random actions |
| `ranking`, `results` | paired intervals that hold together; arms judged by them |
| `answer`, `recipe` | sentences; Python and a shell line for the recommended learner |
| `picture`, `page`, `screen` | SVG and PNG, one HTML file, the text for a terminal |
"""

from chunked_td.comparison.comparing import compare
from chunked_td.comparison.results import Comparison

__all__ = ["Comparison", "compare"]
