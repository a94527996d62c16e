"""λ sources for function approximation, one file each.

| name            | λ                                            | depends on       | learns               |
|-----------------|----------------------------------------------|------------------|----------------------|
| constant        | one number                                   | nothing          | nothing              |
| value           | (1 + 2v/τ²)^(−1/2), v variance of γV(x')     | the state        | one linear head      |
| expected        | expected probability of the next percept     | the state        | a network            |
| forward         | probability of the percept that came         | what came        | a network            |
| recurrent       | expected, given the whole history            | the history      | a recurrent network  |
| recurrent-realised | realised, given the whole history         | history and what came | a recurrent network |
| backward        | probability of the percept before            | state and the one before | a network    |
| greedy          | e²/(e² + Var)                                | the state        | two linear heads     |
| meta-gradient   | one number, moved by a gradient              | nothing          | one number           |
| NAME+mature     | 1 − (1 − λ)(1 − I), λ of any of these        | as NAME          | one linear head      |

"The state" holds in the limit: what learns does so from a transition before it says λ of it (see `base`).
"""

# ruff: noqa: F401 (names are imported from here)
from __future__ import annotations

import warnings
from typing import Any

from chunked_td._checks import did_you_mean
from chunked_td.deep.lambdas.backward import DeepBackward
from chunked_td.deep.lambdas.base import DeepLambda, NextDraws, SourceSizes, StreamCredit, Transitions
from chunked_td.deep.lambdas.constant import DeepConstant
from chunked_td.deep.lambdas.lambda_greedy import DeepLambdaGreedy
from chunked_td.deep.lambdas.maturity import DeepMature
from chunked_td.deep.lambdas.meta_gradient import DeepMetaGradient
from chunked_td.deep.lambdas.percepts import DeepPercepts
from chunked_td.deep.lambdas.recurrent import DeepRecurrent, RecurrentPercepts
from chunked_td.deep.lambdas.switch import DeepSwitch
from chunked_td.deep.lambdas.true_model import DeepTrueModel
from chunked_td.deep.lambdas.value_kernel import DeepValueKernel
from chunked_td.lambdas.names import classes_in, current_id, group_order
from chunked_td.lambdas.reading import MATURE

_FOUND: list[Any] = sorted(classes_in(__name__, __path__, DeepLambda), key=group_order)
SOURCES: dict[str, DeepLambda] = {
    source.id: source
    for cls in _FOUND
    for source in ([cls()] if cls.forms is None else [cls(form) for form in cls.forms])
}
"""Every λ source for function approximation by id; one with the idea of a tabular source has that source's id."""


def read_source(text: str) -> DeepLambda:
    """A source by its id, or a fixed λ from a number; with "+mature", `DeepMature` of it."""
    if text.endswith(MATURE):
        return DeepMature(read_source(text.removesuffix(MATURE)))
    try:
        number = float(text)
    except ValueError:
        found = SOURCES.get(text) or SOURCES.get(current_id(text))
        if found is None:
            hint = did_you_mean(text, SOURCES)
            raise ValueError(
                f"lambda must be a number in [0, 1] or one of {', '.join(SOURCES)}, got {text!r}{hint}"
            ) from None
        if found.id != text:
            warnings.warn(f"lambda: {text} is now called {found.id}", DeprecationWarning, stacklevel=2)
        return found
    return DeepConstant(number)
