"""λ from a backward model (§3.2)."""

from dataclasses import dataclass

from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.step import came_from


@dataclass(frozen=True)
class BackwardLambda(LambdaSource):
    """Probability of the previous state, given the present one (§3.2).

        state values, Expected-SARSA:  λ_t = P̂^π(x_{t−1}|x_t)
        SARSA:                         λ_t = P̂^π(x_{t−1},a_{t−1}|x_t,a_t)

    It depends on the policy.
    """

    id, label, group, color = "backward", "Backward chunking", CHUNKED, "#56B4E9"
    means = "λ is high if the state determines its predecessor"

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """Probability of the predecessor."""
        return ("came_from",)

    @kernel
    def lambda_t(source, step, i):
        """P̂ of the predecessor."""
        return came_from(step)
