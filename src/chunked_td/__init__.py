"""Chunked-TD: credit assignment when rewards come late and noisy.

TD(λ) with a different λ at every step. A learned transition model sets it: near 1 if the next state was predictable, so
a late reward crosses predictable steps in one update, and near 0 if it was random, so the learner bootstraps.

The public names are listed in `__init__.pyi` and load on first use. Importing the package registers its environments
with Gymnasium, now or as soon as Gymnasium is imported.
"""

import chunked_td._interrupt  # noqa: F401 (first: it handles Ctrl-C while the rest loads)

# isort: split
from chunked_td._loading import lazy_names, stub_names
from chunked_td.registration import register_with_gymnasium

__version__ = "0.3.0"

_NAMES = stub_names(__file__)

LEARNERS = tuple(
    name for name, home in _NAMES.items() if home in ("chunked_td.learners.named", "chunked_td.learners.sutton_singh")
)

__all__ = ["LEARNERS", "__version__", *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


__getattr__, __dir__ = lazy_names(__name__)


register_with_gymnasium()
