"""Analysis: exact values (`exact`), fixed points of λ methods (`fixed_points`), credit in one episode (`credit`)."""

from chunked_td._loading import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
