"""Linear values: features of real-valued observations, and the traces that learn their weights.

| file | content |
|---|---|
| `maps` | features of an observation: tile coding, user-defined functions |
| `linear` | the value function Q(x, a) = Σ_f w(f, a) φ_f(x), and its traces |

Pass features to a learner as `indexer=`. A learner with features is a tabular learner that writes Q(x_{t+1}, ·) into
the row of x_{t+1} before any kernel reads it. So policies, λ sources, models, saving, comparisons and explanations are
those of tables. State ids, which models count and λ sources read, are *codes*: cells of a grid over the observations.
"""

from chunked_td.features.maps import Features, OwnFeatures, TileCoding

__all__ = ["Features", "OwnFeatures", "TileCoding"]
