"""λ sources for function approximation, one file each.

| name            | λ                                            | depends on       | learns               |
|-----------------|----------------------------------------------|------------------|----------------------|
| constant        | one number                                   | nothing          | nothing              |
| value-kernel    | (1 + 2v/τ²)^(−1/2), v variance of γV(x')     | the state        | one linear head      |
| expected        | expected probability of the next percept     | the state        | a network            |
| realised        | probability of the percept that came         | what came        | a network            |
| recurrent       | expected, given the whole history            | the history      | a recurrent network  |
| recurrent-realised | realised, given the whole history         | history and what came | a recurrent network |
| lambda-greedy   | e²/(e² + Var)                                | the state        | two linear heads     |
| meta-gradient   | one number, moved by a gradient              | nothing          | one number           |

"The state" holds in the limit: what learns does so from a transition before it says λ of it (see `base`).
"""

from __future__ import annotations

from chunked_td._checks import did_you_mean
from chunked_td.deep.lambdas.base import DeepLambda, NextDraws, SourceSizes, StreamCredit, Transitions
from chunked_td.deep.lambdas.constant import DeepConstant
from chunked_td.deep.lambdas.lambda_greedy import DeepLambdaGreedy
from chunked_td.deep.lambdas.meta_gradient import DeepMetaGradient
from chunked_td.deep.lambdas.percepts import DeepPercepts
from chunked_td.deep.lambdas.recurrent import DeepRecurrent, RecurrentPercepts
from chunked_td.deep.lambdas.switch import DeepSwitch
from chunked_td.deep.lambdas.true_model import DeepTrueModel
from chunked_td.deep.lambdas.value_kernel import DeepValueKernel

SOURCES: dict[str, DeepLambda] = {
    "value-kernel": DeepValueKernel(),
    "expected": DeepPercepts("expected"),
    "realised": DeepPercepts("realised"),
    "recurrent": DeepRecurrent("expected"),
    "recurrent-realised": DeepRecurrent("realised"),
    "lambda-greedy": DeepLambdaGreedy(),
    "meta-gradient": DeepMetaGradient(),
    "true-kernel": DeepTrueModel("kernel"),
    "true-expected": DeepTrueModel("expected"),
    "true-per-action": DeepTrueModel("per-action"),
    "true-realised": DeepTrueModel("realised"),
}


def read_source(text: str) -> DeepLambda:
    """A source by its name, or a fixed λ from a number."""
    try:
        number = float(text)
    except ValueError:
        names = ", ".join(map(repr, SOURCES))
        if text not in SOURCES:
            hint = did_you_mean(text, SOURCES)
            raise ValueError(f"lambda must be a number in [0, 1] or one of {names}, got {text!r}{hint}") from None
        return SOURCES[text]
    return DeepConstant(number)


__all__ = [
    "SOURCES",
    "DeepConstant",
    "DeepLambda",
    "DeepLambdaGreedy",
    "DeepMetaGradient",
    "DeepPercepts",
    "DeepRecurrent",
    "DeepSwitch",
    "DeepTrueModel",
    "DeepValueKernel",
    "NextDraws",
    "RecurrentPercepts",
    "SourceSizes",
    "StreamCredit",
    "Transitions",
    "read_source",
]
