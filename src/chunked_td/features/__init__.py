"""Linear values: features of real-valued observations, and the traces that learn their weights.

| file | what it holds |
|---|---|
| `maps` | from an observation to features: tile coding, a function of the user's |
| `linear` | the value function Q(x, a) = Σ_f w(f, a) φ_f(x), and its traces |

Features are passed to a learner as `indexer=`. A learner with features is a table learner whose table is written anew
whenever an observation comes in: the row of x_{t+1} is filled with Q(x_{t+1}, ·) before anything reads it. So policies,
λ sources, models, saving, comparisons and explanations are those of tables. The state ids that models count and λ
sources look up are *codes*: cells of a grid over the observations.
"""

from chunked_td.features.maps import Features, OwnFeatures, TileCoding

__all__ = ["Features", "OwnFeatures", "TileCoding"]
