"""Which λ on my problem? Bootstraps × λ sources side by side on any Gymnasium environment.

`arms` says what is compared, as a protocol of the lab; `running` plays a batch of it, compiled or in worker processes;
`sweep` runs all of it through the lab's plan, engines and store; `ranking` judges; `recipe`, `answer` and `page` tell.
"""

from chunked_td.lab.comparison.arms import ComparisonSettings
from chunked_td.lab.comparison.sweep import Comparison, compare

__all__ = ["Comparison", "ComparisonSettings", "compare"]
