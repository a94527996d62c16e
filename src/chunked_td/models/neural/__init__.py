"""Networks as models: what they predict (`networks`), what they are trained on (`replay`), and how.

`online` trains the network of one learner, a transition at a time. `world` trains the networks of many runs together,
an episode at a time, on a CPU or a GPU; `diagnostics` is what it records. Everything here needs JAX.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "NeuralModel":
        from chunked_td.models.neural.online import NeuralModel

        return NeuralModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
