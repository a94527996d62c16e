"""State ids: table entries of observations.

| file | content |
|---|---|
| `spaces` | the indexer of a Gymnasium space |
| `indexers` | ids by arithmetic, and ids on first sight |
| `discretise` | bins for real-valued observations |
| `codebook` | learned codes for real-valued observations |
| `canonical` | observations as bytes, for ids on first sight |
"""

from chunked_td.indexing.codebook import Codebook
from chunked_td.indexing.discretise import Discretise
from chunked_td.indexing.indexers import LIMIT, DiscreteIndexer, GridIndexer, HashedIndexer, Indexer, ProductIndexer
from chunked_td.indexing.spaces import indexer_from_state, make_indexer

__all__ = [
    "LIMIT",
    "Codebook",
    "DiscreteIndexer",
    "Discretise",
    "GridIndexer",
    "HashedIndexer",
    "Indexer",
    "ProductIndexer",
    "indexer_from_state",
    "make_indexer",
]
