"""What can be computed rather than estimated: exact values (`exact`), and where λ methods settle (`fixed_points`)."""

from chunked_td._loading import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
