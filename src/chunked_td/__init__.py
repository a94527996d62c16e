"""Chunked-TD: credit assignment when rewards come late and noisy.

TD(λ) needs a λ. Chunked-TD takes it, step by step, from a learned model of the world: near 1 where the world is
predictable, so that credit jumps across, and near 0 where it is not, so that values are bootstrapped.

Names load when they are first used; importing the package registers the environments with Gymnasium, if that is
installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "chunked_td.learners.named": (
        "TDLambda SarsaLambda ExpectedSarsaLambda ChunkedTD ChunkedSarsa ChunkedExpectedSarsa "
        "FactoredChunkedExpectedSarsa NStepChunkedTD NStepChunkedSarsa"
    ),
    "chunked_td.learners.sutton_singh": "NaiveTD0 TDOneOverN TDNOverN CorrectedTD",
    "chunked_td.learners.base": "Learner",
    "chunked_td.learners.training": "History",
    "chunked_td.learners.schedule": "Schedule linear",
    "chunked_td.learners.saving": "load",
    "chunked_td.lambdas": (
        "ConstantLambda ForwardLambda ExpectedLambda BackwardLambda FactoredLambda VisitLambda WatkinsLambda"
    ),
    "chunked_td.models": "Model TableModel",
    "chunked_td.models.neural": "NeuralModel",
    "chunked_td.returns": (
        "lambda_returns td_lambda n_step_bootstrapped_returns truncated_generalized_advantage_estimation "
        "discounted_returns sample_keep chunked_targets gae retrace vtrace"
    ),
    "chunked_td.indexing": "Discretise make_indexer indexer_from_state",
    "chunked_td.compression.compressor": "HistoryCompressor",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}

LEARNERS = tuple(name for home in ("named", "sutton_singh") for name in _HOMES[f"chunked_td.learners.{home}"].split())
"""Names of all learners."""

__all__ = ["LEARNERS", "__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'chunked_td' has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


if importlib.util.find_spec("gymnasium") is not None:
    from chunked_td.envs import register

    register()
