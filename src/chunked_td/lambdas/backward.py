"""λ from a backward model (§3.2)."""

from dataclasses import dataclass

from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.step import came_from


@dataclass(frozen=True)
class BackwardLambda(LambdaSource):
    """The probability, given where we are, of where we came from (§3.2).

        state values, Expected-SARSA:  λ_t = P̂^π(x_{t−1}|x_t)
        SARSA:                         λ_t = P̂^π(x_{t−1},a_{t−1}|x_t,a_t)

    It depends on the policy.
    """

    id, label, group, color = "backward", "Backward chunking", CHUNKED, "#56B4E9"
    means = "λ is high where the state tells which one came before it"

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """The probability of where we came from."""
        return ("came_from",)

    @kernel
    def lambda_t(source, step, i):
        """The probability of the predecessor."""
        return came_from(step)
