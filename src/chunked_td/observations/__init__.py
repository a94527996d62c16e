"""Observations: from an environment's observation to the row of a table, or to features.

| file | what it holds |
|---|---|
| `spaces` | the indexer for a Gymnasium space |
| `indexers` | ids by arithmetic, and ids on first sight |
| `discretise` | bins for real-valued observations |
| `codebook` | learned codes for real-valued observations |
| `canonical` | observations as bytes, for ids on first sight |
| `features` | features of real-valued observations: tile coding, or a function of the user's |

Features are passed to a learner as `indexer=`. A learner with features is a table learner whose table is written anew
whenever an observation comes in: the row of x_{t+1} is filled with Q(x_{t+1}, ·) before anything reads it. So policies,
λ sources, models, saving, comparisons and explanations are those of tables. The state ids that models count and λ
sources look up are *codes*: cells of a grid over the observations. Values and traces: `learners.linear_values`.
"""

from chunked_td.observations.codebook import Codebook
from chunked_td.observations.discretise import Discretise
from chunked_td.observations.features import Features, OwnFeatures, TileCoding
from chunked_td.observations.indexers import DiscreteIndexer, GridIndexer, HashedIndexer, Indexer, ProductIndexer
from chunked_td.observations.spaces import LIMIT, indexer_from_state, make_indexer

__all__ = [
    "LIMIT",
    "Codebook",
    "DiscreteIndexer",
    "Discretise",
    "Features",
    "GridIndexer",
    "HashedIndexer",
    "Indexer",
    "OwnFeatures",
    "ProductIndexer",
    "TileCoding",
    "indexer_from_state",
    "make_indexer",
]
