"""Chunked-TD: credit assignment when rewards come late and noisy.

TD(λ) needs a λ. Chunked-TD takes it, step by step, from a learned model of the world: near 1 where the world is
predictable, so that credit jumps across, and near 0 where it is not, so that values are bootstrapped.

The public names are listed in `__init__.pyi` and load when they are first used. Importing the package registers its
environments with Gymnasium, now or as soon as Gymnasium is imported.
"""

import chunked_td._interrupt  # noqa: F401 (first: it sees to Ctrl-C while the rest loads)

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
