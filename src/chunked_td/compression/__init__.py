"""History compression: predictors stacked in levels, each of which reads only what the one below failed to predict.

This is the architecture that Chunked-TD comes from (Sec. 2.2 and Figure 1; Schmidhuber 1991, 1992): a lower
recurrent network predicts the next symbol, and only the symbols that it failed to predict go up, with their time, to
a higher one. What is predictable no longer lies between a cause and its effect.

    predictor   one level: a recurrent network that predicts its next item
    criteria    which items go up, and with what time
    training    gradients within windows, updates, many runs side by side
    compressor  `HistoryCompressor`: fit, compress, decompress

The paper's claim is put to the test in `chunked_td.lab.studies.compression`, which also draws Figure 1 from a trained
compressor. `chunked_td.deep.memory` uses the same idea as the memory of an agent whose percepts hide the state.

Names load when they are first used, because JAX takes long to import.
"""

from chunked_td._loading import lazy_names, stub_names

_NAMES = stub_names(__file__)

__all__ = [*_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
