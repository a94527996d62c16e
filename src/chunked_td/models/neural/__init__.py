"""Networks as models: their predictions (`networks`), training data (`replay`) and training. Requires JAX.

`online` trains the network of one learner, a transition at a time. `world` trains the networks of many runs together,
an episode at a time, on a CPU or a GPU, and records `diagnostics`.
"""

from typing import TYPE_CHECKING

from chunked_td._loading import lazy_names

if TYPE_CHECKING:
    from chunked_td.models.neural.online import NeuralModel

__all__ = ["NeuralModel"]
__getattr__, __dir__ = lazy_names(__name__)
