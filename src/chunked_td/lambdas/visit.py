"""λ from visits (App. C.2)."""

from dataclasses import dataclass

from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import OTHER
from chunked_td.lambdas.step import visits


@dataclass(frozen=True)
class VisitLambda(LambdaSource):
    """Inverse of the number of visits (App. C.2).

        λ(x) = 1/n(x)

    A state with more visits is bootstrapped from more.
    """

    id, label, group, color = "visit", "1/visits", OTHER, "#B03060"
    by_default = False

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """Number of visits of x."""
        return ("visits",)

    @kernel
    def lambda_t(source, step, i):
        """1/n(x_t)."""
        return 1.0 / max(visits(step), 1)  # a model may not have counted this visit
