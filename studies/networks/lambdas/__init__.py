"""λ sources for function approximation, one file each, by the name of their arm.

| arm | λ | depends on | learns |
|---|---|---|---|
| a number | λ | nothing | nothing |
| value-kernel | (1 + 2v/τ²)^(−1/2), v the variance of γV(x') | the state | one linear head |
| expected | expected probability of the next percept | the state | a network |
| realised | probability of the sampled next percept | that percept | a network |
| recurrent | expected, given the whole history | the history | the memory's network |
| recurrent-realised | realised, given the whole history | history and percept | the memory's network |
| lambda-greedy | e²/(e² + Var) | the state | two linear heads |
| meta-gradient | one number, moved by a gradient | nothing | one number |
| true-FORM | from draws of the task itself | as FORM | nothing |
| NAME-mature | 1 − (1 − λ)(1 − I), λ of any of these | as NAME | one linear head |
"""

from __future__ import annotations

from studies.networks.lambdas.base import DeepConstant, DeepLambda
from studies.networks.lambdas.lambda_greedy import DeepLambdaGreedy
from studies.networks.lambdas.maturity import DeepMature
from studies.networks.lambdas.meta_gradient import DeepMetaGradient
from studies.networks.lambdas.percepts import DeepPercepts, DeepRecurrent
from studies.networks.lambdas.true_model import TRUE_FORMS, DeepTrueModel
from studies.networks.lambdas.value_kernel import DeepValueKernel

SOURCES: dict[str, DeepLambda] = {
    "value-kernel": DeepValueKernel(),
    "value-kernel-1": DeepValueKernel(c=1.0),
    "expected": DeepPercepts("expected"),
    "realised": DeepPercepts("realised"),
    "recurrent": DeepRecurrent("expected"),
    "recurrent-realised": DeepRecurrent("realised"),
    "lambda-greedy": DeepLambdaGreedy(),
    "meta-gradient": DeepMetaGradient(),
    **{f"true-{form}": DeepTrueModel(form) for form in TRUE_FORMS},
    "true-kernel-1": DeepTrueModel("kernel", c=1.0),
}
"""Every source by its arm's name."""


def make_source(name: str) -> DeepLambda:
    """The source of an arm: a name of `SOURCES` ("value": "value-kernel"), a number, or either with "-mature"."""
    if name.endswith("-mature"):
        return DeepMature(make_source(name.removesuffix("-mature")))
    try:
        return DeepConstant(float(name))
    except ValueError:
        return SOURCES[{"value": "value-kernel"}.get(name, name)]
